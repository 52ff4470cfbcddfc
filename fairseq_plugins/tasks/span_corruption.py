"""Task ``span_corruption``: pre-training an encoder-decoder on monolingual text and translation pairs (DeltaLM, mT5, mT6)."""

import logging
import os
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
from fairseq.data import Dictionary, LanguagePairDataset
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.tasks import register_task
from omegaconf import II, MISSING

from ..data.data_bins import load_dictionary, load_monolingual, load_pair_side
from ..data.sentinels import Demand, check_sentinels, find_sentinels
from ..data.span_corruption_dataset import SpanCorruption, SpanCorruptionDataset
from ..data.stream_sampling import sampling_probabilities
from ..data.text_streams import SentenceBlocks, SentencePairs, TextStream
from ..ops.spans import check_span_options
from .own_run import OwnRun

logger = logging.getLogger(__name__)

BreakMode: Any = ChoiceEnum(["none", "complete", "complete_doc", "eos"])
SHORTEST_SAMPLE = 4
"""Tokens of the shortest pair that can be corrupted: a </s> b </s>."""


@dataclass
class CorruptionOptions(FairseqDataclass):
    """Options of corrupting monolingual text, shared by the tasks that do so."""

    mask_prob: float = field(
        default=0.15, metadata={"help": "share of tokens corrupted in monolingual text, in (0, 1)"}
    )
    mean_span: float = field(default=3.0, metadata={"help": "mean length of a corrupted span in tokens, at least 1"})
    tokens_per_sample: int = field(
        default=512, metadata={"help": "longest uncorrupted input in tokens, </s> counted; longer ones are left out"}
    )
    sample_break_mode: BreakMode = field(
        default="complete",
        metadata={
            "help": "how monolingual sentences fill an input: complete = whole sentences; complete_doc = and none beyond an empty "
            "line; eos = one sentence; none = equal pieces"
        },
    )
    sentinels: str = field(
        default="<extra_id_{}>",
        metadata={"help": "symbols that stand for spans; {} counts from 0 while the dictionary has them"},
    )
    add_sentinels: int = field(
        default=0,
        metadata={"help": "add so many sentinels at the end of the dictionary; give the same number when decoding"},
    )
    sampling_temperature: float = field(
        default=1.0,
        metadata={"help": "T, at least 1: languages and pairs are drawn with p ~ n^(1/T), n = inputs; 1 = natural"},
    )
    seed: int = II("common.seed")
    train_subset: str = II("dataset.train_subset")


@dataclass
class SpanCorruptionConfig(CorruptionOptions):
    """Options of span-corruption pre-training."""

    data: str = field(default=MISSING, metadata={"help": "folder made by fairseq-preprocess, with dict.<lang>.txt"})
    pairs: str = field(default="", metadata={"help": "pairs for translation span corruption, for example en-de,en-fr"})
    monolingual: str = field(
        default="",
        metadata={
            "help": "languages for span corruption, for example en,de: the files of fairseq-preprocess --only-source, or that side "
            "of one of --pairs"
        },
    )
    pair_mask_prob: float = field(default=0.5, metadata={"help": "share of tokens corrupted in a pair, in (0, 1)"})
    pair_share: Optional[float] = field(
        default=None,
        metadata={"help": "share of an epoch's inputs that are pairs, in [0, 1] (default: as the data have it)"},
    )
    no_target_sentinels: bool = field(default=False, metadata={"help": "leave the sentinels out of the targets"})


def split_names(text: str) -> List[str]:
    """``en,de`` -> [en, de]."""
    return [name for name in text.split(",") if name]


def check_corruption(cfg: CorruptionOptions) -> None:
    """Check the options of corrupting and sampling.

    Raises:
        ValueError: naming option, value and valid range.
    """
    check_span_options(cfg.mask_prob, cfg.mean_span)
    if cfg.tokens_per_sample < SHORTEST_SAMPLE:
        raise ValueError(f"--tokens-per-sample must be at least {SHORTEST_SAMPLE} tokens; got {cfg.tokens_per_sample}")
    if not 1.0 <= cfg.sampling_temperature < float("inf"):
        raise ValueError(f"--sampling-temperature must be at least 1; got {cfg.sampling_temperature}")


def check_streams(pairs: Sequence[str], languages: Sequence[str], pair_share: Optional[float]) -> None:
    """Check which pairs and languages are to be read, and the share of the pairs.

    Raises:
        ValueError: none at all, a malformed pair, one twice, or a share of what is not there.
    """
    if not pairs and not languages:
        raise ValueError("--pairs and --monolingual are both empty; give at least one pair (en-de) or language (en)")
    for pair in pairs:
        if len(pair.split("-")) != 2 or not all(pair.split("-")):
            raise ValueError(f"--pairs must look like en-de,en-fr; got {pair!r}")
    check_once("--pairs", pairs)
    check_once("--monolingual", languages)
    if pair_share is None:
        return
    if not 0.0 <= pair_share <= 1.0:
        raise ValueError(f"--pair-share must lie in [0, 1]; got {pair_share}")
    for option, names, valid in (("--pairs", pairs, 0.0), ("--monolingual", languages, 1.0)):
        if not names and pair_share != valid:
            raise ValueError(f"--pair-share must be {valid:.0f} where {option} is empty; got {pair_share}")


def check_once(option: str, names: Sequence[str]) -> None:
    """Refuse a name that is given twice: its text would count twice."""
    if len(set(names)) < len(names):
        raise ValueError(f"{option} must name each once; got {','.join(names)}")


def monolingual_demand(cfg: CorruptionOptions) -> Demand:
    """How many sentinels monolingual text can need; an input of one sentence has no ``</s>`` inside."""
    separators = 0 if str(cfg.sample_break_mode) == "eos" else cfg.tokens_per_sample
    return Demand("--mask-prob", cfg.mask_prob, cfg.tokens_per_sample, separators)


def monolingual_blocks(
    cfg: CorruptionOptions, dictionary: Dictionary, prefix: str, language: str, pairs: Sequence[str], option: str
) -> SentenceBlocks:
    """A language's text, packed as the options say; for the other arguments see ``load_monolingual``."""
    text = load_monolingual(prefix, language, pairs, dictionary, option)
    packing = (cfg.tokens_per_sample, str(cfg.sample_break_mode))
    return SentenceBlocks(text, text.sizes, *packing, dictionary.pad(), dictionary.eos(), cfg.mask_prob)


def corrupted_texts(
    streams: Dict[str, TextStream],
    dictionary: Dictionary,
    corruption: SpanCorruption,
    split: str,
    temperature: Optional[float],
    pair_share: Optional[float] = None,
) -> SpanCorruptionDataset:
    """The dataset of some languages and pairs; logs a line for each.

    Args:
        streams: name -> texts.
        dictionary: of all languages.
        corruption: see :class:`SpanCorruption`.
        split: for messages.
        temperature: of the sampling, see ``sampling_probabilities``; None = every text once.
        pair_share: share of the pairs, in [0, 1]; None = as the sizes have it.

    Raises:
        ValueError: a stream without any text that can be corrupted.
    """
    for name, stream in streams.items():
        if len(stream) == 0:
            raise ValueError(
                f"{split} {name}: none of {stream.left_out} inputs has 2 tokens beside </s> to corrupt one"
            )
    sizes = [len(stream) for stream in streams.values()]
    probabilities = None
    if temperature is not None:
        is_pair = [isinstance(stream, SentencePairs) for stream in streams.values()]
        probabilities = sampling_probabilities(sizes, temperature, is_pair, pair_share)
    shares = np.array(sizes) / sum(sizes) if probabilities is None else probabilities
    for (name, stream), share in zip(streams.items(), shares):
        tokens = int((stream.tokens + stream.separators + 1).sum())
        counts = f"{len(stream)} inputs ({stream.left_out} more are too short), {tokens} tokens"
        logger.info(f"{split} {name}: {counts}, {share:.4f} of the inputs of an epoch")
    return SpanCorruptionDataset(list(streams.values()), dictionary, corruption, probabilities)


def is_training(cfg: CorruptionOptions, split: str, load_options: Dict[str, Any]) -> bool:
    """True for the set that is trained on; decoding and validation commands hand over a ``task_cfg``."""
    return split == cfg.train_subset and load_options.get("task_cfg") is None


@register_task("span_corruption", dataclass=SpanCorruptionConfig)
class SpanCorruptionTask(OwnRun):
    """Span corruption of blocks of monolingual text, translation span corruption of pairs, one shared dictionary.

    The data-bin is what ``fairseq-preprocess`` makes for each pair, in one folder (``train.en-de.en.bin`` and so on), and what it
    makes of one language with ``--only-source`` (``train.en-None.en.bin``).

    Source: DeltaLM section 2.3. The sampling of languages and pairs is ours.
    """

    criterions = ("cross_entropy", "label_smoothed_cross_entropy", "adaptive_loss")

    def __init__(self, cfg: SpanCorruptionConfig, dictionary: Dictionary, sentinels: Sequence[int]):
        super().__init__(cfg)
        self.dictionary, self.sentinels = dictionary, list(sentinels)
        self.pairs, self.languages = split_names(cfg.pairs), split_names(cfg.monolingual)

    @classmethod
    def setup_task(cls, cfg: SpanCorruptionConfig, **kwargs: Any) -> "SpanCorruptionTask":
        """Check the options, read the dictionary and find the sentinels.

        Raises:
            ValueError: naming option, value and valid range.
        """
        pairs, languages = split_names(cfg.pairs), split_names(cfg.monolingual)
        check_corruption(cfg)
        check_span_options(cfg.pair_mask_prob, cfg.mean_span, "--pair-mask-prob")
        check_streams(pairs, languages, cfg.pair_share)
        known = [language for pair in pairs for language in pair.split("-")] + languages
        dictionary = load_dictionary(cfg.data, list(dict.fromkeys(known)))
        sentinels = find_sentinels(dictionary, cfg.sentinels, cfg.add_sentinels)
        logger.info(f"dictionary: {len(dictionary)} types, {len(sentinels)} of them sentinels")
        demands = [monolingual_demand(cfg)] if languages else []
        if pairs:
            demands.append(Demand("--pair-mask-prob", cfg.pair_mask_prob, cfg.tokens_per_sample, separators=1))
        check_sentinels(sentinels, cfg.sentinels, cfg.mean_span, demands)
        return cls(cfg, dictionary, sentinels)

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """Build the split: each language and pair a stream; sampled for training, every text once otherwise.

        Raises:
            ValueError: a language or pair without data.
        """
        prefix = os.path.join(self.cfg.data, split)
        streams: Dict[str, TextStream] = {pair: self._pair(prefix, pair) for pair in self.pairs}
        cfg, pairs = self.cfg, self.pairs
        for language in self.languages:
            streams[language] = monolingual_blocks(cfg, self.dictionary, prefix, language, pairs, "--monolingual")
        corruption = SpanCorruption(cfg.mean_span, self.sentinels, cfg.seed, not cfg.no_target_sentinels)
        temperature = cfg.sampling_temperature if is_training(cfg, split, kwargs) else None
        self.datasets[split] = corrupted_texts(streams, self.dictionary, corruption, split, temperature, cfg.pair_share)

    def _pair(self, prefix: str, pair: str) -> SentencePairs:
        sides = [load_pair_side(prefix, pair, side, self.dictionary, "--pairs") for side in pair.split("-")]
        return SentencePairs(sides, [side.sizes for side in sides], self.cfg.pair_mask_prob)

    def build_dataset_for_inference(
        self, src_tokens: List[Any], src_lengths: List[int], constraints: Optional[Any] = None
    ) -> LanguagePairDataset:
        """Dataset of raw sentences that hold sentinels, for ``fairseq-interactive``."""
        symbols = self.dictionary
        return LanguagePairDataset(
            src_tokens, src_lengths, symbols, tgt_dict=symbols, left_pad_source=False, constraints=constraints
        )

    def max_positions(self) -> Tuple[int, int]:
        """Longest uncorrupted input, and longest target of such an input, in tokens."""
        return self.cfg.tokens_per_sample, self.cfg.tokens_per_sample + 1

    @property
    def source_dictionary(self) -> Dictionary:
        """The shared dictionary, with the sentinels."""
        return self.dictionary

    @property
    def target_dictionary(self) -> Dictionary:
        """The shared dictionary, with the sentinels."""
        return self.dictionary
