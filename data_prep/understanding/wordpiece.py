"""Text to pieces by the WordPiece vocabulary of a BERT, with the characters that each covers."""

from pathlib import Path
from typing import Any, Iterable, Iterator, List, Sequence

from ..io import InputError, PathLike, read_lines
from ..pieces.segmenters import PieceSpans

OPTION = "--wordpiece"
# fairseq's <s> <pad> </s> <unk> and <mask> stand for these.
CLASS, PADDING, SEPARATOR, UNKNOWN, MASK = "[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"
BERT_SYMBOLS = (CLASS, PADDING, SEPARATOR, UNKNOWN, MASK)


class WordPiece:
    """Segmenter of BERT: its basic tokeniser, then the longest pieces of the vocabulary.

    Args:
        path: vocab.txt, a piece per line.
        lowercase: for uncased vocabularies; removes accents too, as BERT does.
    """

    file_name = "vocab.txt"

    def __init__(self, path: PathLike, lowercase: bool = False):
        self.path = Path(path)
        self.vocabulary = read_vocabulary(path)
        self.tokenizer = _build_tokenizer(self.vocabulary, lowercase)

    def encode(self, lines: Iterable[str]) -> Iterator[List[str]]:
        """Yield the pieces of each line."""
        for encoding in self.tokenizer.encode_batch(list(lines)):
            yield encoding.tokens

    def locate(self, text: str) -> PieceSpans:
        """Return the pieces of a text and the characters that each covers."""
        encoding = self.tokenizer.encode(text)
        return PieceSpans(encoding.tokens, [tuple(span) for span in encoding.offsets])

    def dictionary_lines(self) -> List[str]:
        """Return the lines of a fairseq dictionary: the vocabulary without BERT's symbols."""
        return [f"{piece} 1\n" for piece in self.vocabulary if piece not in BERT_SYMBOLS]


def read_vocabulary(path: PathLike) -> List[str]:
    """Return the pieces of a vocab.txt.

    Raises:
        InputError: bad text, as in :func:`read_lines`; a piece that is empty or listed twice;
            BERT's symbols are missing.
    """
    pieces = {}
    for number, line in enumerate(read_lines(path, OPTION, strict=False), start=1):
        piece = line.rstrip("\r")
        if not piece or piece in pieces:
            valid = "a piece per line, every piece once"
            raise InputError(f"{OPTION} {path}, line {number}: {piece!r}; valid: {valid}")
        pieces[piece] = number
    missing = [symbol for symbol in BERT_SYMBOLS if symbol not in pieces]
    if missing:
        listed = ", ".join(missing)
        raise InputError(f"{OPTION} {path}: lacks {listed}; valid: the vocab.txt of a BERT")
    return list(pieces)


def _build_tokenizer(vocabulary: Sequence[str], lowercase: bool) -> Any:
    try:
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    except ImportError:
        reason = "the package tokenizers is missing"
        remedy = "pip install tokenizers (it comes with transformers)"
        raise InputError(f"{OPTION}: {reason}; valid: {remedy}") from None
    numbers = {piece: number for number, piece in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer
