"""Text to pieces for understanding: sentencepiece, BPE codes or WordPiece, with the characters that each piece covers."""

import re
from pathlib import Path
from typing import Any, Iterator, List, Sequence, Tuple

from ..io import InputError, PathLike, read_lines
from ..layout import SEGMENTER_FILES as KEPT
from ..pieces.codes import CONTINUED, load_codes
from ..pieces.codes import encode_lines as encode_codes
from ..pieces.models import WORD_START, encode_lines, load_model

Span = Tuple[int, int]
WORD = re.compile(r"\S+")
BYTE_PIECE = re.compile("<0x([0-9A-F]{2})>")
CONTINUATION_BYTES = range(0x80, 0xC0)
# BERT's symbols: fairseq's <s> <pad> </s> <unk> and <mask> stand for them.
CLASS, PADDING, SEPARATOR, UNKNOWN, MASK = "[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"
BERT_SYMBOLS = (CLASS, PADDING, SEPARATOR, UNKNOWN, MASK)


class SentencePieces:
    """A sentencepiece model.

    Args:
        path: the model.
    """

    option, kept = "--sentencepiece", KEPT["model"]

    def __init__(self, path: PathLike):
        self.path, self.model = Path(path), load_model(path, self.option)

    def encode(self, texts: Sequence[str]) -> List[List[str]]:
        """Return the pieces of each text."""
        return list(encode_lines(self.model, texts))

    def spans(self, text: str) -> Tuple[List[str], List[Span]]:
        """Return the pieces of a text and the characters of the text that each covers.

        White space belongs to no piece: a piece of it alone has an empty span. Pieces that share one character (½ as 1, ⁄ and 2)
        each cover it.

        Raises:
            InputError: the installed sentencepiece cannot say where normalised text comes from.
        """
        try:
            normal, origin = self.model.normalize(text, with_offsets=True)
        except AttributeError:
            raise InputError(f"{self.option}: offsets of pieces need sentencepiece 0.2.0 or newer") from None
        pieces = self.model.encode(text, out_type=str)
        return pieces, [_in_text(origin, *place, normal) for place in _in_normal(pieces, normal)]


def _in_normal(pieces: Sequence[str], normal: str) -> Iterator[Span]:
    """Where the pieces stand in the normalised text; all bytes of a character stand at the character."""
    at = 0
    for piece in pieces:
        byte = None if normal.startswith(piece, at) else BYTE_PIECE.fullmatch(piece)
        if byte is None:
            yield at, at + len(piece)
            at += len(piece)
            continue
        at += int(byte[1], 16) not in CONTINUATION_BYTES
        yield at - 1, at


def _in_text(origin: Sequence[int], begin: int, end: int, normal: str) -> Span:
    """Characters of the text behind normalised characters.

    Args:
        origin: of each normalised character, and of the end, its first character in the text.
        begin, end: in the normalised text.
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
    """White space between characters of the text; what one character became (ﷺ as four words) can hold some too."""
    return normal[place] == WORD_START and (place == 0 or origin[place] != origin[place - 1])


class CodesPieces:
    """BPE codes, applied by fastBPE; words are what white space separates.

    Args:
        path: the codes.
    """

    option, kept = "--codes", KEPT["codes"]

    def __init__(self, path: PathLike):
        self.path, self.processor = Path(path), load_codes(path, self.option)

    def encode(self, texts: Sequence[str]) -> List[List[str]]:
        """Return the pieces of each text."""
        return list(encode_codes(self.processor, texts))

    def spans(self, text: str) -> Tuple[List[str], List[Span]]:
        """Return the pieces of a text and the characters of the text that each covers."""
        words = list(WORD.finditer(text))
        pieces: List[str] = []
        spans: List[Span] = []
        for word, found in zip(words, self.encode([word[0] for word in words])):
            at = word.start()
            for index, piece in enumerate(found):
                width = len(piece) - (len(CONTINUED) if index + 1 < len(found) else 0)
                pieces.append(piece)
                spans.append((at, at + width))
                at += width
        return pieces, spans


class WordPieces:
    """BERT's WordPiece: its basic tokeniser, then the longest pieces of the vocabulary.

    Args:
        path: vocab.txt, a piece per line.
        lowercase: for uncased vocabularies; accents go too, as BERT has it.
    """

    option, kept = "--wordpiece", "vocab.txt"

    def __init__(self, path: PathLike, lowercase: bool = False):
        self.path = Path(path)
        self.vocabulary = read_vocabulary(path)
        self.tokenizer = _tokenizer(self.vocabulary, lowercase)

    def encode(self, texts: Sequence[str]) -> List[List[str]]:
        """Return the pieces of each text."""
        return [found.tokens for found in self.tokenizer.encode_batch(list(texts))]

    def spans(self, text: str) -> Tuple[List[str], List[Span]]:
        """Return the pieces of a text and the characters of the text that each covers."""
        found = self.tokenizer.encode(text)
        return found.tokens, [tuple(span) for span in found.offsets]

    def dictionary_lines(self) -> List[str]:
        """Return the lines of a fairseq dictionary: the vocabulary in its order without BERT's five symbols."""
        return [f"{piece} 1\n" for piece in self.vocabulary if piece not in BERT_SYMBOLS]


def read_vocabulary(path: PathLike) -> List[str]:
    """Return the pieces of a vocab.txt.

    Raises:
        InputError: bad text, as in :func:`io.read_lines`, a piece that is empty or listed twice, or BERT's symbols are missing.
    """
    option = WordPieces.option
    lines = {}
    for number, piece in enumerate(read_lines(path, option, strict=False), start=1):
        piece = piece.rstrip("\r")
        if not piece or piece in lines:
            raise InputError(f"{option} {path}, line {number}: {piece!r}; valid: a piece per line, every piece once")
        lines[piece] = number
    missing = [symbol for symbol in BERT_SYMBOLS if symbol not in lines]
    if missing:
        raise InputError(f"{option} {path}: lacks {', '.join(missing)}; valid: the vocab.txt of a BERT")
    return list(lines)


def _tokenizer(vocabulary: Sequence[str], lowercase: bool) -> Any:
    try:
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    except ImportError:
        raise InputError(
            f"{WordPieces.option}: the package tokenizers is missing; valid: pip install tokenizers (it comes with transformers)"
        ) from None
    numbers = {piece: number for number, piece in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer
