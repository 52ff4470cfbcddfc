"""Translate lines of text."""

import logging
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .beam import BeamDecoder
from .folder import Folder, Pair
from .model_json import ModelError
from .slots import SlotDecoder

logger = logging.getLogger(__name__)

BATCH_TOKENS = 4000
"""Source tokens of a batch, padding counted."""
LISTED = 5
"""Line numbers written out in a warning."""


class Translation(NamedTuple):
    """Translation of a line; fields as in :class:`Hypothesis`, score 0 for an empty line."""

    text: str
    score: float
    tokens: List[int]
    passes: int


class Translator:
    """Model that translates. Several threads may use it at once."""

    def __init__(self, folder: Folder) -> None:
        self._folder, self._decoder = folder, _decoder(folder)
        self.kind, self.architecture = folder.kind, folder.architecture
        self.precision, self.limits = folder.precision, folder.limits
        self.pairs: List[Tuple[str, str]] = [(pair.source, pair.target) for pair in folder.pairs]

    def translate(
        self,
        lines: Sequence[str],
        source: Optional[str] = None,
        target: Optional[str] = None,
        batch_tokens: int = BATCH_TOKENS,
        first_line: int = 1,
    ) -> List[str]:
        """Translate lines, in order; an empty line gives an empty line.

        Args:
            lines: texts.
            source, target: languages, for a model of several pairs.
            batch_tokens: source tokens of a batch, padding counted; no translation depends on it.
            first_line: number of the first line, for messages.

        Raises:
            ModelError: the model does not have the pair, or a line is not Unicode.
        """
        pair = self._pair(source, target)
        rows = self._rows(lines, pair, first_line)
        return [translation.text for translation in self._decode(rows, pair, batch_tokens)]

    def translations(
        self,
        lines: Sequence[str],
        source: Optional[str] = None,
        target: Optional[str] = None,
        batch_tokens: int = BATCH_TOKENS,
    ) -> List[Translation]:
        """Translate lines as :meth:`translate`, and return scores, ids and passes too."""
        pair = self._pair(source, target)
        return self._decode(self._rows(lines, pair), pair, batch_tokens)

    def count_tokens(self, line: str, source: Optional[str] = None) -> int:
        """Count the tokens of a line with its special symbols.

        More than ``limits["source_tokens"]`` are cut.
        """
        pair = self._pair(source, None, any_target=True)
        return len(pair.source_prefix) + len(self._folder.text.ids(line)) + len(pair.source_suffix)

    def trace(
        self, line: str, source: Optional[str] = None, target: Optional[str] = None
    ) -> List[List[str]]:
        """Return the slots of a line after the alignment and each denoising pass, as pieces.

        "" stands for the blank. An empty line gives an empty list.

        Raises:
            ModelError: the model has no slots.
        """
        pair = self._pair(source, target)
        if not isinstance(self._decoder, SlotDecoder):
            raise ModelError(f"a model of kind {self.kind} has no slots")
        rows = self._rows([line], pair)
        return self._decoder.trace(np.array(rows, np.int64)) if rows[0] else []

    def _pair(self, source: Optional[str], target: Optional[str], any_target: bool = False) -> Pair:
        """Return the pair of these languages; None stands for any language.

        Raises:
            ModelError: there is none or, unless ``any_target``, several.
        """
        pairs = [
            pair
            for pair in self._folder.pairs
            if source in (None, pair.source) and target in (None, pair.target)
        ]
        if len(pairs) == 1 or (pairs and any_target):
            return pairs[0]
        request = f"{source or 'any'}-{target or 'any'}"
        count = "several" if pairs else "none"
        valid = ", ".join(f"{pair.source}-{pair.target}" for pair in self._folder.pairs)
        raise ModelError(f"pair {request}: the model has {count} such; valid: {valid}")

    def _rows(self, lines: Sequence[str], pair: Pair, first: int = 1) -> List[List[int]]:
        """Convert each line to ids, [] for an empty line; cut lines that are too long."""
        prefix, suffix = pair.source_prefix, pair.source_suffix
        longest = self.limits["source_tokens"] - len(prefix) - len(suffix)
        rows, cut_lines = [], []
        for number, line in enumerate(lines, start=first):
            try:
                ids = self._folder.text.ids(line)
            except ModelError as error:
                raise ModelError(f"line {number}: {error}") from None
            if len(ids) > longest:
                cut_lines.append(number)
            rows.append([*prefix, *ids[:longest], *suffix] if ids else [])
        if cut_lines:
            numbers = ", ".join(map(str, cut_lines[:LISTED]))
            numbers += ", …" if len(cut_lines) > LISTED else ""
            noun = "lines" if len(cut_lines) > 1 else "line"
            logger.warning("longer than %d tokens and cut: %s %s", longest, noun, numbers)
        return rows

    def _decode(self, rows: List[List[int]], pair: Pair, batch_tokens: int) -> List[Translation]:
        text, pad = self._folder.text, self._folder.source_symbols.pad
        translations = [Translation("", 0.0, [], 0) for _ in rows]
        for numbers in batches([len(row) for row in rows], batch_tokens):
            source = pad_rows([rows[number] for number in numbers], pad)
            for number, best in zip(numbers, self._decoder.decode(source, pair)):
                line = text.text(best.tokens)
                translations[number] = Translation(line, best.score, best.tokens, best.passes)
        return translations


def batches(lengths: Sequence[int], batch_tokens: int) -> Iterator[List[int]]:
    """Yield batches of rows by their numbers, sorted by length, without empty rows.

    Args:
        lengths: tokens of each row.
        batch_tokens: most tokens of a batch, padding counted; a longer row is a batch by itself.
    """
    batch: List[int] = []
    numbers = [number for number, length in enumerate(lengths) if length]
    for number in sorted(numbers, key=lengths.__getitem__):
        if batch and lengths[number] * (len(batch) + 1) > batch_tokens:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def pad_rows(rows: Sequence[Sequence[int]], pad: int) -> np.ndarray:
    """Make an array (B, S) int64 of rows of ids, padded on the right."""
    array = np.full((len(rows), max(map(len, rows))), pad, np.int64)
    for number, row in enumerate(rows):
        array[number, : len(row)] = row
    return array


DECODERS: Dict[str, Any] = {"slots": SlotDecoder, "encoder_decoder": BeamDecoder}
"""Kind of a folder -> its decoder; ``decode(source, pair)`` returns a hypothesis per row."""


def _decoder(folder: Folder) -> Any:
    if folder.kind not in DECODERS:
        raise ModelError(
            f"{folder.path}: a model of kind {folder.kind} does not translate; "
            f"valid: {', '.join(DECODERS)}"
        )
    return DECODERS[folder.kind](folder)
