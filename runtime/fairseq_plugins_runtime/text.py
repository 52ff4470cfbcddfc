"""Convert text to ids and back, as fairseq does with a dictionary and a sentencepiece model."""

from pathlib import Path
from typing import Iterable, List, Optional, Sequence, Tuple

import sentencepiece

from .model_json import ModelError
from .places import SPACE, Span, pieces_of


def read_vocabulary(path: Path) -> List[str]:
    """Read a vocabulary: a symbol per line, whose id is the number of the line, from 0.

    Raises:
        ModelError: the file is empty or not UTF-8.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ModelError(f"{path}: line {line} is not UTF-8") from None
    if not text:
        raise ModelError(f"{path}: empty; valid: one symbol a line")
    return text[:-1].split("\n") if text.endswith("\n") else text.split("\n")


class Text:
    """Vocabularies of source and target, and the sentencepiece model.

    Args:
        source, target: symbols by id.
        pieces: a sentencepiece model; None = words between spaces are the pieces.
        unknown: id in ``source`` for symbols that it lacks.
        ignored: ids of ``target`` that are no text.
    """

    def __init__(
        self,
        source: Sequence[str],
        target: Sequence[str],
        pieces: Optional[Path],
        unknown: int,
        ignored: Iterable[int],
    ) -> None:
        self.source, self.target = source, target
        self.unknown, self.ignored = unknown, frozenset(ignored)
        self._ids = {symbol: number for number, symbol in enumerate(source)}
        self._pieces = None if pieces is None else _read_pieces(pieces)

    def ids(self, line: str) -> List[int]:
        """Convert a line to ids without special symbols. Raises ModelError if it is not Unicode."""
        line = line.strip()
        _check(line)
        if self._pieces is not None:
            # Joined and split again, as fairseq does: a piece may hold white space of another kind.
            line = " ".join(self._pieces.Encode(line, out_type=str))
        return [self._ids.get(symbol, self.unknown) for symbol in line.split()]

    def pieces(self, text: str) -> Tuple[List[int], List[Span]]:
        """Convert a text to ids and the characters that each covers.

        Raises:
            ModelError: the text is not Unicode.
        """
        _check(text)
        pieces, spans = pieces_of(text, self._pieces)
        return [self._ids.get(piece, self.unknown) for piece in pieces], spans

    def text(self, ids: Iterable[int]) -> str:
        """Convert ids of ``target`` to text."""
        words = " ".join(self.symbol(number) for number in ids if number not in self.ignored)
        return words if self._pieces is None else words.replace(" ", "").replace(SPACE, " ").strip()

    def symbol(self, number: int) -> str:
        """Return the symbol of an id of ``target``. Raises ModelError if there is none."""
        if not 0 <= number < len(self.target):
            raise ModelError(
                f"the graphs give id {number}, the vocabulary has {len(self.target)} symbols; "
                "valid: the vocabulary that the model was exported with"
            )
        return self.target[number]


def _check(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ModelError("the text has half of a surrogate pair; valid: Unicode text") from None


def _read_pieces(path: Path) -> sentencepiece.SentencePieceProcessor:
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.Load(str(path))
    except (OSError, RuntimeError) as error:
        raise ModelError(f"{path}: no sentencepiece model: {error}") from None
    return processor
