"""Task ``span_corruption``: pre-train an encoder-decoder on texts and translation pairs.

Text streams read the texts, the dataset corrupts them by ``spans.py``, the task reads options.

Source: DeltaLM section 2.3, Figure 3.
"""

import logging
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch
from fairseq.data import Dictionary, LanguagePairDataset, TokenBlockDataset, data_utils
from fairseq.data.language_pair_dataset import collate
from fairseq.tasks import register_task

from ..common.data_bins import check_names, is_training, split_names
from ..common.epoch_dataset import StreamDataset
from ..common.options import check_rules
from ..common.own_run import TRANSLATION_CRITERIONS
from ..common.sampling import sampling_probabilities
from ..common.shared_dictionary import SharedDictionaryTask
from .config import PRETRAINING_RULES, CorruptionOptions, SpanCorruptionConfig
from .spans import (
    Demand,
    check_sentinels,
    corrupt_spans,
    count_spans,
    draw_span_mask,
    find_sentinels,
)

logger = logging.getLogger(__name__)

SHORTEST = 2
"""Tokens, ``</s>`` not counted, that a text needs: one is corrupted, one stays."""


# ---- Texts: one row of tokens each, sentence after sentence, each sentence with its </s>. ----


class TextStream:
    """Texts of one language or pair, in the order of the files.

    A ``</s>`` is never corrupted: in a target it would tell the decoder to stop. Texts of fewer
    than :data:`SHORTEST` tokens are left out: they cannot lose a token and keep one.

    Attributes:
        ratio: share of the tokens that are corrupted, in (0, 1).
        tokens: (N,) int64, tokens of each text without the ``</s>`` of its sentences.
        separators: (N,) int64, ``</s>`` between two sentences of each text, without the last one.
        numbers: (N,) int64, number of each text in the files.
        left_out: number of texts that are too short.
    """

    def __init__(self, ratio: float, tokens: np.ndarray, separators: np.ndarray):
        self.ratio = ratio
        self.numbers = np.flatnonzero(tokens >= SHORTEST)
        self.tokens, self.separators = tokens[self.numbers], separators[self.numbers]
        self.left_out = len(tokens) - len(self.numbers)

    def __len__(self) -> int:
        return len(self.numbers)

    def read(self, index: int, rng: np.random.Generator) -> Tuple[np.ndarray, np.ndarray]:
        """Read a text.

        Returns:
            Its tokens, (S,) int64, and the places of its ``</s>`` in ascending order, the last of
            which is S − 1.
        """
        raise NotImplementedError


class SentenceBlocks(TextStream):
    """Monolingual sentences packed into blocks by fairseq's TokenBlockDataset.

    Args:
        sentences: indexable (S,) int64 tensors that end with ``</s>``.
        sizes: (M,) tokens of each, ``</s>`` counted.
        block_size: most tokens of a block; a sentence that is longer makes a block by itself.
        break_mode: ``--sample-break-mode``. With ``none`` a block may end inside a sentence; it
            then gets a ``</s>``, which counts in ``block_size``.
        pad, eos: ids.
        ratio: see :class:`TextStream`.
    """

    def __init__(
        self,
        sentences: Any,
        sizes: Any,
        block_size: int,
        break_mode: str,
        pad: int,
        eos: int,
        ratio: float,
    ):
        self.sizes, self.eos = np.asarray(sizes, dtype=np.int64), eos
        room = block_size - 1 if break_mode == "none" else block_size
        self.blocks = TokenBlockDataset(
            sentences, self.sizes, room, pad, eos, break_mode=break_mode
        )
        # Not blocks.sizes: they have 16 bits, too few for the longest sentences.
        start, end = self.blocks.slice_indices.astype(np.int64).T
        first, _, last = self.blocks.block_to_dataset_index.astype(np.int64).T
        ends_with_eos = np.cumsum(self.sizes)[last] == end  # else it ends inside a sentence
        separators = last - first
        super().__init__(ratio, end - start - separators - ends_with_eos, separators)

    def read(self, index: int, rng: np.random.Generator) -> Tuple[np.ndarray, np.ndarray]:
        """Return a block and the places of its ``</s>``."""
        number = int(self.numbers[index])
        tokens = self.blocks[number].numpy()
        first, offset, last = self.blocks.block_to_dataset_index[number].tolist()
        ends = np.cumsum(self.sizes[first : last + 1]) - offset - 1
        if ends[-1] >= len(tokens):  # the block ends inside a sentence
            ends[-1] = len(tokens)
            tokens = np.append(tokens, self.eos)
        return tokens, ends


class SentencePairs(TextStream):
    """Translation pairs ``x </s> y </s>``, or ``y </s> x </s>`` with probability 1/2.

    Args:
        sides: two sequences of (S,) int64 tensors that end with ``</s>``.
        sizes: (N,) tokens of each side, ``</s>`` counted.
        ratio: see :class:`TextStream`.

    Source: DeltaLM section 2.3, translation span corruption (mT6, Chi et al. 2021). The order of
    the sides is ours.
    """

    def __init__(self, sides: Sequence[Any], sizes: Sequence[Any], ratio: float):
        self.sides = list(sides)
        tokens = np.sum([np.asarray(size, dtype=np.int64) - 1 for size in sizes], axis=0)
        super().__init__(ratio, tokens, np.ones_like(tokens))

    def read(self, index: int, rng: np.random.Generator) -> Tuple[np.ndarray, np.ndarray]:
        """Return both sides in random order, and the places of their ``</s>``."""
        number = int(self.numbers[index])
        sides = self.sides[::-1] if rng.integers(2) else self.sides
        rows = [side[number].numpy() for side in sides]
        return np.concatenate(rows), np.cumsum([len(row) for row in rows]) - 1


# ---- Dataset. ----


class SpanCorruption(NamedTuple):
    """Options of the noise, which is a function of (seed, stream, epoch, index)."""

    mean_span: float  # mean length of a span in tokens, at least 1
    sentinels: Sequence[int]  # ids, in order of use
    seed: int
    target_sentinels: bool = True  # False leaves the sentinels out of the targets


class SpanCorruptionDataset(StreamDataset):
    """Texts of several streams, drawn anew in every epoch and corrupted on the fly.

    Source and target end with ``</s>``. A text that is drawn twice in an epoch is corrupted in two
    ways, because the noise depends on its place in the epoch.

    Args:
        streams, probabilities: see :class:`StreamDataset`.
        dictionary: of all languages.
        corruption: options of the noise.

    Attributes:
        sizes: (N, 2) int64, two lengths in tokens. The first is that of the uncorrupted text with
            all its ``</s>``; ``--tokens-per-sample`` limits it, and no source is longer. The second
            is the longest that the target can be, at most one more than the first.
    """

    def __init__(
        self,
        streams: Sequence[TextStream],
        dictionary: Dictionary,
        corruption: SpanCorruption,
        probabilities: Optional[np.ndarray] = None,
    ):
        self.corruption = corruption
        self.pad, self.eos = dictionary.pad(), dictionary.eos()
        sizes, lengths = zip(*(self._bounds(stream) for stream in streams))
        self._lengths = np.concatenate(lengths)
        super().__init__(streams, sizes, corruption.seed, probabilities)

    def _bounds(self, stream: TextStream) -> Tuple[np.ndarray, np.ndarray]:
        """Compute ``sizes`` (N, 2), and bounds of the longer of source and target (N,)."""
        noise, spans = count_spans(stream.tokens, stream.ratio, self.corruption.mean_span)
        spans = np.minimum(spans + stream.separators, noise)
        text = stream.tokens + stream.separators + 1
        target = noise + 1 + (spans if self.corruption.target_sentinels else 0)
        return np.stack([text, target], axis=1), np.maximum(text - noise + spans, target)

    def __getitem__(self, index: int) -> Dict[str, Any]:
        if not 0 <= index < len(self):
            raise IndexError(f"index {index} of {len(self)}")
        return self.repeated(index, 0)

    def repeated(self, index: int, times: int) -> Dict[str, Any]:
        """Return an item after ``times`` uses in this epoch: the same text with other noise."""
        number, text = self.place_of(index)
        stream, place = self.streams[number], int(index) + times * len(self)
        rng = np.random.default_rng((self.seed, number, self.epoch, place))
        tokens, ends = stream.read(text, rng)
        is_free = np.ones(len(tokens), dtype=bool)
        is_free[ends] = False
        mask = np.zeros(len(tokens), dtype=bool)
        # A span that meets a </s> goes on after it, and so becomes two spans.
        free = int(is_free.sum())
        mask[is_free] = draw_span_mask(free, stream.ratio, self.corruption.mean_span, rng)
        source, target = corrupt_spans(
            tokens, mask, self.corruption.sentinels, self.corruption.target_sentinels
        )
        return {
            "id": index,
            "source": torch.from_numpy(source),
            "target": torch.from_numpy(np.append(target, self.eos)),
        }

    def collater(self, samples: List[Dict[str, Any]]) -> Dict[str, Any]:
        """Make a translation batch, right-padded; the decoder's input begins with ``</s>``."""
        return collate(samples, self.pad, self.eos, left_pad_source=False, left_pad_target=False)

    def num_tokens_vec(self, indices: np.ndarray) -> np.ndarray:
        """Bound the longer of source and target. (N,) int64.

        A span that a ``</s>`` cuts in two adds a sentinel to both. The bound counts such a cut at
        every ``</s>`` between two sentences.
        """
        return self._lengths[self._drawn[indices]]

    def size(self, index: int) -> Tuple[int, int]:
        """Return the tokens of the uncorrupted text, and the longest that its target can be."""
        text, target = self.sizes[index].tolist()
        return text, target

    def filter_indices_by_size(
        self, indices: np.ndarray, max_sizes: Any
    ) -> Tuple[np.ndarray, List[int]]:
        """Split indices into texts within the limits (source, target; or one) and longer ones."""
        sizes = self.sizes[:, 0], self.sizes[:, 1]
        return data_utils.filter_paired_dataset_indices_by_size(*sizes, indices, max_sizes)


def corrupted_texts(
    streams: Dict[str, TextStream],
    dictionary: Dictionary,
    corruption: SpanCorruption,
    split: str,
    temperature: Optional[float],
    pair_share: Optional[float] = None,
) -> SpanCorruptionDataset:
    """Build the dataset of some languages and pairs, and log a line for each.

    Args:
        streams: name of the language or pair -> its texts.
        split: name of the split, for messages.
        temperature, pair_share: see ``sampling_probabilities``; no temperature = every text once.

    Raises:
        ValueError: a stream without any text that can be corrupted.
    """
    for name, stream in streams.items():
        if len(stream) == 0:
            raise ValueError(
                f"{split} {name}: none of {stream.left_out} inputs has 2 tokens beside </s> to "
                "corrupt one"
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


def monolingual_blocks(cfg: CorruptionOptions, text: Any, dictionary: Dictionary) -> SentenceBlocks:
    """Pack the sentences of ``load_monolingual`` as the options say."""
    break_mode, pad, eos = str(cfg.sample_break_mode), dictionary.pad(), dictionary.eos()
    return SentenceBlocks(
        text, text.sizes, cfg.tokens_per_sample, break_mode, pad, eos, cfg.mask_prob
    )


def monolingual_demand(cfg: CorruptionOptions) -> Demand:
    """Describe the monolingual texts that may need the most sentinels.

    With break mode ``eos`` a text is one sentence, which has no ``</s>`` inside.
    """
    separators = 0 if str(cfg.sample_break_mode) == "eos" else cfg.tokens_per_sample
    return Demand("--mask-prob", cfg.mask_prob, cfg.tokens_per_sample, separators)


# ---- Task. ----


@register_task("span_corruption", dataclass=SpanCorruptionConfig)
class SpanCorruptionTask(SharedDictionaryTask):
    """Span corruption of monolingual text, translation span corruption of pairs, one dictionary.

    Source: DeltaLM section 2.3. The sampling of languages and pairs is ours.
    """

    criterions = TRANSLATION_CRITERIONS

    def __init__(self, cfg: SpanCorruptionConfig, dictionary: Dictionary, sentinels: Sequence[int]):
        super().__init__(cfg, dictionary)
        self.sentinels = list(sentinels)

    @classmethod
    def setup_task(cls, cfg: SpanCorruptionConfig, **kwargs: Any) -> "SpanCorruptionTask":
        """Check the options, and find the sentinels in the dictionary of all languages.

        Raises:
            ValueError: a broken rule, or fewer sentinels than a text may need.
        """
        pairs, languages = split_names(cfg.pairs), split_names(cfg.monolingual)
        check_rules(cfg, PRETRAINING_RULES)
        check_names(pairs, languages, cfg.pair_share)
        dictionary = cls.read_dictionary(cfg)
        sentinels = find_sentinels(dictionary, cfg.sentinels, cfg.add_sentinels)
        logger.info(f"dictionary: {len(dictionary)} types, {len(sentinels)} of them sentinels")
        demands = [monolingual_demand(cfg)] if languages else []
        if pairs:
            longest = cfg.tokens_per_sample
            demands.append(Demand("--pair-mask-prob", cfg.pair_mask_prob, longest, separators=1))
        check_sentinels(sentinels, cfg.sentinels, cfg.mean_span, demands)
        return cls(cfg, dictionary, sentinels)

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any
    ) -> None:
        """Build the dataset of a split: sampled for training, else every text once."""
        cfg = self.cfg
        streams: Dict[str, TextStream] = {}
        for pair in self.pairs:
            sides = self.sides(split, pair, epoch)
            streams[pair] = SentencePairs(sides, [side.sizes for side in sides], cfg.pair_mask_prob)
        for language in self.languages:
            text = self.text(split, language, epoch)
            streams[language] = monolingual_blocks(cfg, text, self.dictionary)
        corruption = SpanCorruption(
            cfg.mean_span, self.sentinels, cfg.seed, not cfg.no_target_sentinels
        )
        temperature = None
        if is_training(split, cfg.train_subset, kwargs):
            temperature = cfg.sampling_temperature
        self.datasets[split] = corrupted_texts(
            streams, self.dictionary, corruption, split, temperature, cfg.pair_share
        )

    def build_dataset_for_inference(
        self, src_tokens: List[Any], src_lengths: List[int], constraints: Optional[Any] = None
    ) -> LanguagePairDataset:
        """Build the dataset of raw sentences with sentinels, for ``fairseq-interactive``."""
        return LanguagePairDataset(
            src_tokens,
            src_lengths,
            self.dictionary,
            tgt_dict=self.dictionary,
            left_pad_source=False,
            constraints=constraints,
        )

    def max_positions(self) -> Tuple[int, int]:
        """Return the longest uncorrupted input, and the longest target of such an input."""
        return self.cfg.tokens_per_sample, self.cfg.tokens_per_sample + 1
