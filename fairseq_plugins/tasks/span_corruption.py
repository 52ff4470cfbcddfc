"""Task ``span_corruption``: pre-training an encoder-decoder on monolingual text and translation pairs (DeltaLM, mT5, mT6)."""

import logging
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
from fairseq.data import Dictionary, LanguagePairDataset
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.tasks import register_task
from omegaconf import II

from ..common.data_bins import check_names, is_training, load_monolingual, split_names
from ..common.options import check_range, option
from ..common.sampling import sampling_probabilities
from ..common.shared_dictionary import SharedDictionaryConfig, SharedDictionaryTask
from ..data.sentinels import Demand, check_sentinels, find_sentinels
from ..data.span_corruption_dataset import SpanCorruption, SpanCorruptionDataset
from ..data.text_streams import SentenceBlocks, SentencePairs, TextStream

logger = logging.getLogger(__name__)

BreakMode: Any = ChoiceEnum(["none", "complete", "complete_doc", "eos"])
SHORTEST_SAMPLE = 4
"""Tokens of the shortest pair that can be corrupted: a </s> b </s>."""


@dataclass
class CorruptionOptions(FairseqDataclass):
    """Options of corrupting monolingual text, shared by the tasks that do so."""

    mask_prob: float = option(0.15, "share of tokens corrupted in monolingual text, in (0, 1)")
    mean_span: float = option(3.0, "mean length of a corrupted span in tokens, at least 1")
    tokens_per_sample: int = option(512, "longest uncorrupted input in tokens, </s> counted; longer ones are left out")
    sample_break_mode: BreakMode = option(
        "complete",
        "how monolingual sentences fill an input: complete = whole sentences; complete_doc = and none beyond an empty "
        "line; eos = one sentence; none = equal pieces",
    )
    sentinels: str = option(
        "<extra_id_{}>", "symbols that stand for spans; {} counts from 0 while the dictionary has them"
    )
    add_sentinels: int = option(
        0, "add so many sentinels at the end of the dictionary; give the same number when decoding"
    )
    sampling_temperature: float = option(
        1.0, "T, at least 1: languages and pairs are drawn with p ~ n^(1/T), n = inputs; 1 = natural"
    )
    seed: int = II("common.seed")
    train_subset: str = II("dataset.train_subset")


@dataclass
class SpanCorruptionConfig(CorruptionOptions, SharedDictionaryConfig):
    pair_mask_prob: float = option(0.5, "share of tokens corrupted in a pair, in (0, 1)")
    pair_share: Optional[float] = option(
        None, "share of an epoch's inputs that are pairs, in [0, 1] (default: as the data have it)"
    )
    no_target_sentinels: bool = option(False, "leave the sentinels out of the targets")


def check_corruption(cfg: CorruptionOptions) -> None:
    check_range(cfg, "(0, 1)", "mask_prob")
    check_range(cfg, "[1, inf)", "mean_span", "sampling_temperature")
    check_range(cfg, f"[{SHORTEST_SAMPLE}, inf)", "tokens_per_sample")


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
    """The dataset of some languages and pairs by name; logs a line for each, refuses one without any text that can be corrupted.

    ``temperature``, ``pair_share``: see ``sampling_probabilities``; no temperature = every text once.
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


@register_task("span_corruption", dataclass=SpanCorruptionConfig)
class SpanCorruptionTask(SharedDictionaryTask):
    """Span corruption of blocks of monolingual text, translation span corruption of pairs, one shared dictionary.

    Source: DeltaLM section 2.3. The sampling of languages and pairs is ours.
    """

    criterions = ("cross_entropy", "label_smoothed_cross_entropy", "adaptive_loss")

    def __init__(self, cfg: SpanCorruptionConfig, dictionary: Dictionary, sentinels: Sequence[int]):
        super().__init__(cfg, dictionary)
        self.sentinels = list(sentinels)

    @classmethod
    def setup_task(cls, cfg: SpanCorruptionConfig, **kwargs: Any) -> "SpanCorruptionTask":
        pairs, languages = split_names(cfg.pairs), split_names(cfg.monolingual)
        check_corruption(cfg)
        check_range(cfg, "(0, 1)", "pair_mask_prob")
        check_names(pairs, languages, cfg.pair_share)
        dictionary = cls.read_dictionary(cfg)
        sentinels = find_sentinels(dictionary, cfg.sentinels, cfg.add_sentinels)
        logger.info(f"dictionary: {len(dictionary)} types, {len(sentinels)} of them sentinels")
        demands = [monolingual_demand(cfg)] if languages else []
        if pairs:
            demands.append(Demand("--pair-mask-prob", cfg.pair_mask_prob, cfg.tokens_per_sample, separators=1))
        check_sentinels(sentinels, cfg.sentinels, cfg.mean_span, demands)
        return cls(cfg, dictionary, sentinels)

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """Build the split: each language and pair a stream; sampled for training, every text once otherwise."""
        cfg = self.cfg
        streams: Dict[str, TextStream] = {}
        for pair in self.pairs:
            sides = self.sides(split, pair)
            streams[pair] = SentencePairs(sides, [side.sizes for side in sides], cfg.pair_mask_prob)
        for language in self.languages:
            where = (self.prefix(split), language, self.pairs)
            streams[language] = monolingual_blocks(cfg, self.dictionary, *where, "--monolingual")
        corruption = SpanCorruption(cfg.mean_span, self.sentinels, cfg.seed, not cfg.no_target_sentinels)
        temperature = cfg.sampling_temperature if is_training(split, cfg.train_subset, kwargs) else None
        self.datasets[split] = corrupted_texts(streams, self.dictionary, corruption, split, temperature, cfg.pair_share)

    def build_dataset_for_inference(
        self, src_tokens: List[Any], src_lengths: List[int], constraints: Optional[Any] = None
    ) -> LanguagePairDataset:
        """Dataset of raw sentences that hold sentinels, for ``fairseq-interactive``."""
        options = {"tgt_dict": self.dictionary, "left_pad_source": False, "constraints": constraints}
        return LanguagePairDataset(src_tokens, src_lengths, self.dictionary, **options)

    def max_positions(self) -> Tuple[int, int]:
        """Longest uncorrupted input, and longest target of such an input, in tokens."""
        return self.cfg.tokens_per_sample, self.cfg.tokens_per_sample + 1
