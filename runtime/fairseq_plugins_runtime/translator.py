"""The model as its users see it: lines of text in, lines of text out."""

import logging
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .beam import BeamDecoder
from .folder import Folder, Pair
from .model_json import ModelError
from .slots import SlotDecoder

logger = logging.getLogger(__name__)

BATCH_TOKENS = 4000
"""Of the sources of a batch, padding counted."""
LISTED = 5  # so many line numbers are written out


class Translation(NamedTuple):
    """What comes of one line."""

    text: str
    score: float  # nats: of slots their mean log-probability; 0 for an empty line
    tokens: List[int]
    passes: int  # denoising passes, or steps from left to right


class Translator:
    """A model that translates. Several threads may use it at once: nothing in it changes."""

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
        """One text per line, in order; an empty line gives an empty one.

        Args:
            source, target: languages, where the model has several pairs.
            batch_tokens: of the sources of a batch, padding counted; what a line gives does not depend on it.
            first_line: number of the first line, for messages.

        Raises ModelError: a pair that the model does not have, a line that is no Unicode text.
        """
        pair = self._pair(source, target)
        found = self._decode(self._rows(lines, pair, first_line), pair, batch_tokens)
        return [translation.text for translation in found]

    def translations(
        self,
        lines: Sequence[str],
        source: Optional[str] = None,
        target: Optional[str] = None,
        batch_tokens: int = BATCH_TOKENS,
    ) -> List[Translation]:
        """As :meth:`translate`, with scores, ids and passes."""
        pair = self._pair(source, target)
        return self._decode(self._rows(lines, pair), pair, batch_tokens)

    def count_tokens(self, line: str, source: Optional[str] = None) -> int:
        """How many tokens a line has, those around it included; compare with ``limits["source_tokens"]``."""
        pair = self._pair(source, None, any_target=True)
        return len(pair.source_prefix) + len(self._folder.text.ids(line)) + len(pair.source_suffix)

    def trace(self, line: str, source: Optional[str] = None, target: Optional[str] = None) -> List[List[str]]:
        """The slots of a line after the alignment and after each denoising pass, as pieces; "" for the blank, [] for no text.

        Raises ModelError: a model without slots.
        """
        pair = self._pair(source, target)
        if not isinstance(self._decoder, SlotDecoder):
            raise ModelError(f"a model of kind {self.kind} has no slots")
        rows = self._rows([line], pair)
        return self._decoder.trace(np.array(rows, np.int64)) if rows[0] else []

    def _pair(self, source: Optional[str], target: Optional[str], any_target: bool = False) -> Pair:
        found = [pair for pair in self._folder.pairs if source in (None, pair.source) and target in (None, pair.target)]
        if len(found) == 1 or (found and any_target):
            return found[0]
        asked = f"{source or 'any'}-{target or 'any'}"
        valid = ", ".join(f"{pair.source}-{pair.target}" for pair in self._folder.pairs)
        raise ModelError(f"pair {asked}: the model has {'several' if found else 'none'} such; valid: {valid}")

    def _rows(self, lines: Sequence[str], pair: Pair, first: int = 1) -> List[List[int]]:
        """The ids of each line, [] for no text; what is too long is cut."""
        prefix, suffix = pair.source_prefix, pair.source_suffix
        longest = self.limits["source_tokens"] - len(prefix) - len(suffix)
        rows, long = [], []
        for number, line in enumerate(lines, start=first):
            try:
                ids = self._folder.text.ids(line)
            except ModelError as error:
                raise ModelError(f"line {number}: {error}") from None
            if len(ids) > longest:
                long.append(number)
            rows.append([*prefix, *ids[:longest], *suffix] if ids else [])
        if long:
            numbers = ", ".join(map(str, long[:LISTED])) + ", …" * (len(long) > LISTED)
            logger.warning("longer than %d tokens and cut: line%s %s", longest, "s" * (len(long) > 1), numbers)
        return rows

    def _decode(self, rows: List[List[int]], pair: Pair, batch_tokens: int) -> List[Translation]:
        text, found = self._folder.text, [Translation("", 0.0, [], 0) for _ in rows]
        for numbers in batches([len(row) for row in rows], batch_tokens):
            source = np.full((len(numbers), len(rows[numbers[-1]])), self._folder.source_symbols.pad, np.int64)
            for place, number in enumerate(numbers):
                source[place, : len(rows[number])] = rows[number]
            for number, best in zip(numbers, self._decoder.decode(source, pair)):
                found[number] = Translation(text.text(best.tokens), best.score, best.tokens, best.passes)
        return found


def batches(lengths: Sequence[int], batch_tokens: int) -> Iterator[List[int]]:
    """Numbers of rows in batches of at most ``batch_tokens`` (a longer row is one alone), by length; without rows of length 0."""
    batch: List[int] = []
    for number in sorted((number for number, length in enumerate(lengths) if length), key=lengths.__getitem__):
        if batch and lengths[number] * (len(batch) + 1) > batch_tokens:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


DECODERS: Dict[str, Any] = {"slots": SlotDecoder, "encoder_decoder": BeamDecoder}
"""By ``kind``: made of a folder; ``decode(source, pair)`` gives a :class:`Hypothesis` for each row of ``source``."""


def _decoder(folder: Folder) -> Any:
    if folder.kind not in DECODERS:
        raise ModelError(
            f"{folder.path}: a model of kind {folder.kind} does not translate; valid: {', '.join(DECODERS)}"
        )
    return DECODERS[folder.kind](folder)
