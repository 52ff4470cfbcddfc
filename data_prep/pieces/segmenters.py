"""Text to pieces and back, by a sentencepiece model or by BPE codes."""

import re
from itertools import islice
from pathlib import Path
from typing import (
    Any,
    Callable,
    Collection,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
)

import sentencepiece

from .. import cli
from ..files import atomic_texts
from ..io import InputError, PathLike
from ..layout import SEGMENTER_FILES
from ..text.sentences import END_OF_SENTENCE
from .codes import CONTINUED, load_codes
from .dictionary import FAIRSEQ_SPECIAL, read_dictionary

WORD_START = "\u2581"
WORD = re.compile(r"\S+")
SENTENCE_END = re.compile(rf"(?<!\S){END_OF_SENTENCE}(?!\S)")
BYTE_PIECE = re.compile("<0x([0-9A-F]{2})>")
CONTINUATION_BYTES = range(0x80, 0xC0)
BATCH_LINES = 1000
Item = TypeVar("Item")
Span = Tuple[int, int]  # first character of a text, and the one after the last


class PieceSpans(NamedTuple):
    """Pieces of a text, and the characters of the text that each covers."""

    pieces: List[str]
    spans: List[Span]


def batches(items: Iterable[Item]) -> Iterator[List[Item]]:
    """Yield lists of ``BATCH_LINES`` items; the last one may be shorter."""
    stream = iter(items)
    batch = list(islice(stream, BATCH_LINES))
    while batch:
        yield batch
        batch = list(islice(stream, BATCH_LINES))


# ---- Documents: ``</s>`` between their sentences. ----


def encode_between_ends(
    encode: Callable[[Iterable[str]], Iterator[List[str]]], lines: Iterable[str]
) -> Iterator[List[str]]:
    """Yield the pieces of each line, in which a word ``</s>`` is a piece by itself.

    Args:
        encode: yields the pieces of each text.
    """
    for batch in batches(lines):
        sentences = [[part.strip() for part in SENTENCE_END.split(line)] for line in batch]
        pieces = encode([part for parts in sentences for part in parts])
        for parts in sentences:
            row = next(pieces)
            for _ in parts[1:]:
                row = [*row, END_OF_SENTENCE, *next(pieces)]
            yield row


def decode_between_ends(decode: Callable[[List[str]], str], pieces: Sequence[str]) -> str:
    """Return the text of pieces; ``</s>`` stays a word."""
    sentences: List[List[str]] = [[]]
    for piece in pieces:
        if piece == END_OF_SENTENCE:
            sentences.append([])
        else:
            sentences[-1].append(piece)
    return f" {END_OF_SENTENCE} ".join(map(decode, sentences)).strip()


# ---- Sentencepiece. ----


def load_model(path: PathLike, option: str = "--model") -> Any:
    """Read a sentencepiece model.

    Raises:
        InputError: no such file, or no sentencepiece model.
    """
    if not Path(path).is_file():
        valid = "a model made by python -m data_prep spm train"
        raise InputError(f"{option} {path}: no such file; valid: {valid}")
    try:
        # A model_proto could be empty without an error.
        return sentencepiece.SentencePieceProcessor(model_file=str(path))
    except (RuntimeError, OSError) as error:
        raise InputError(f"{option} {path}: not a sentencepiece model ({error})") from None


def model_pieces(model: Any) -> List[str]:
    """Return the pieces that get a row of the dictionary, in the order of the model, as XLM-R's.

    Special and control symbols are left out: fairseq brings its own four, tasks add ``<mask>``.

    Raises:
        InputError: a piece with a line break, which a dictionary file cannot hold.
    """
    pieces = []
    for index in range(model.get_piece_size()):
        piece = model.id_to_piece(index)
        if model.is_unknown(index) or model.is_control(index) or piece in FAIRSEQ_SPECIAL:
            continue
        if "\n" in piece or "\r" in piece:
            reason = "a dict.txt cannot hold line breaks"
            raise InputError(f"--model: piece {index} is {piece!r}: {reason}")
        pieces.append(piece)
    return pieces


def write_dictionary(model: Any, path: PathLike) -> int:
    """Write dict.txt of a model, ``PIECE 1`` per line; in fairseq, piece i then has id 4 + i.

    Returns:
        Number of pieces; fairseq's dictionary has four more rows, and one more with ``<mask>``.
    """
    pieces = model_pieces(model)
    spaced = [piece for piece in pieces if piece.split() != [piece]]
    if spaced:
        problem = "pieces contain white space and can never be matched in fairseq"
        cli.say(f"spm: warning: {len(spaced)} {problem}: {spaced[:5]}")
    with atomic_texts([path], "--dict") as (file,):
        file.writelines(f"{piece} 1\n" for piece in pieces)
    return len(pieces)


class SentencePiece:
    """Segmenter of a sentencepiece model.

    Args:
        path: the model.
        option: option that named it, for messages.
        keeps_ends: a word ``</s>`` of the text is the symbol, not text.
    """

    verb = "spm"
    kind = "model"
    file_name = SEGMENTER_FILES["model"]
    packages = ()

    def __init__(self, path: PathLike, option: str = "--model", keeps_ends: bool = False):
        self.path, self.option, self.keeps_ends = Path(path), option, keeps_ends
        self.model = load_model(path, option)

    def encode(self, lines: Iterable[str]) -> Iterator[List[str]]:
        """Yield the pieces of each line."""
        if self.keeps_ends:
            yield from encode_between_ends(self._encode, lines)
        else:
            yield from self._encode(lines)

    def _encode(self, lines: Iterable[str]) -> Iterator[List[str]]:
        for batch in batches(lines):
            yield from self.model.encode(batch, out_type=str)

    def decode(self, line: str) -> str:
        """Return the text of a line of pieces; ``</s>`` stays if ends are kept."""
        if not self.keeps_ends:
            return self._decode(line.split())
        return decode_between_ends(self._decode, line.split())

    def _decode(self, pieces: List[str]) -> str:
        return self.model.decode(pieces).replace(WORD_START, " ").strip()

    def vocabulary(self, dictionary: Optional[PathLike]) -> Optional[Collection[str]]:
        """Return the pieces of a dictionary; without one, the pieces of the model."""
        return set(model_pieces(self.model) if dictionary is None else read_dictionary(dictionary))

    def find_problem(self, line: str, pieces: Sequence[str]) -> Optional[str]:
        """Return why a line would not come back from its pieces: never."""
        return None

    def locate(self, text: str) -> PieceSpans:
        """Return the pieces of a text and the characters that each covers.

        White space belongs to no piece: a piece of it alone has an empty span. Pieces that share
        one character (½ as 1, ⁄ and 2) each cover it.

        Raises:
            InputError: the installed sentencepiece cannot tell where normalised text comes from.
        """
        try:
            normal, origin = self.model.normalize(text, with_offsets=True)
        except AttributeError:
            reason = "offsets of pieces need sentencepiece 0.2.0 or newer"
            raise InputError(f"{self.option}: {reason}") from None
        pieces = self.model.encode(text, out_type=str)
        places = _spans_in_normal(pieces, normal)
        return PieceSpans(pieces, [_span_in_text(origin, *place, normal) for place in places])


def _spans_in_normal(pieces: Sequence[str], normal: str) -> Iterator[Span]:
    """Yield the spans of pieces in normalised text; all bytes of a character share its span."""
    start = 0
    for piece in pieces:
        byte = None if normal.startswith(piece, start) else BYTE_PIECE.fullmatch(piece)
        if byte is None:
            yield start, start + len(piece)
            start += len(piece)
        else:
            start += int(byte[1], 16) not in CONTINUATION_BYTES
            yield start - 1, start


def _span_in_text(origin: Sequence[int], begin: int, end: int, normal: str) -> Span:
    """Return the span of the text behind a span of normalised characters.

    Args:
        origin: first character in the text of each normalised character, and of the end.
        begin: first normalised character.
        end: the one after the last.
        normal: the normalised text.
    """
    while begin < end and _is_space(origin, begin, normal):
        begin += 1
    while begin < end and _is_space(origin, end - 1, normal):
        end -= 1
    if begin == end:
        return origin[begin], origin[begin]
    after = end
    while after < len(origin) - 1 and origin[after] <= origin[end - 1]:
        after += 1
    return origin[begin], origin[after]


def _is_space(origin: Sequence[int], place: int, normal: str) -> bool:
    """Return True for white space between characters of the text, not inside of one (ﷺ)."""
    return normal[place] == WORD_START and (place == 0 or origin[place] != origin[place - 1])


# ---- BPE codes. ----


class Codes:
    """Segmenter of a file of BPE codes, applied by fastBPE; words end at white space.

    Args:
        path: the codes.
        option: option that named them, for messages.
        keeps_ends: a word ``</s>`` of the text is the symbol, not text.
    """

    verb = "bpe"
    kind = "codes"
    file_name = SEGMENTER_FILES["codes"]
    packages = ("fastBPE",)  # whose versions go into the records

    def __init__(self, path: PathLike, option: str = "--codes", keeps_ends: bool = False):
        self.path, self.option, self.keeps_ends = Path(path), option, keeps_ends
        self.processor = load_codes(path, option)

    def encode(self, lines: Iterable[str]) -> Iterator[List[str]]:
        """Yield the pieces of each line."""
        if self.keeps_ends:
            yield from encode_between_ends(self._encode, lines)
        else:
            yield from self._encode(lines)

    def _encode(self, lines: Iterable[str]) -> Iterator[List[str]]:
        for batch in batches(lines):
            plain = [" ".join(line.split()) for line in batch]
            yield from (pieces.split() for pieces in self.processor.apply(plain))

    def decode(self, line: str) -> str:
        """Return the text of a line of pieces, as fairseq's ``--remove-bpe`` gives it."""
        return (line + " ").replace(f"{CONTINUED} ", "").rstrip()

    def vocabulary(self, dictionary: Optional[PathLike]) -> Optional[Collection[str]]:
        """Return the pieces of a dictionary; without one None: codes do not list all pieces."""
        return None if dictionary is None else set(read_dictionary(dictionary))

    def find_problem(self, line: str, pieces: Sequence[str]) -> Optional[str]:
        """Return which word would not come back from its pieces, or None."""
        words, decoded = line.split(), self.decode(" ".join(pieces)).split()
        if words == decoded:
            return None
        differing = (word for word, back in zip(words, decoded) if word != back)
        word = next(differing, None) or words[min(len(decoded), len(words) - 1)]
        return (
            f"the word {word!r} would not come back from its pieces, because {CONTINUED} marks "
            f"where pieces are joined; valid: text without words that end in {CONTINUED}"
        )

    def locate(self, text: str) -> PieceSpans:
        """Return the pieces of a text and the characters that each covers."""
        words = list(WORD.finditer(text))
        located = PieceSpans([], [])
        for word, pieces in zip(words, self.encode([word[0] for word in words])):
            start = word.start()
            for index, piece in enumerate(pieces):
                is_last = index + 1 == len(pieces)
                end = start + len(piece) - (0 if is_last else len(CONTINUED))
                located.pieces.append(piece)
                located.spans.append((start, end))
                start = end
        return located
