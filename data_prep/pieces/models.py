"""A sentencepiece model at work: its fairseq dictionary, text to pieces, pieces to text."""

from pathlib import Path
from typing import Any, Iterable, Iterator, List, Optional, Set

import sentencepiece

from .. import cli
from ..files import atomic_texts
from ..io import InputError, PathLike, read_lines

# The first four rows of every fairseq dictionary, in their order: they are not listed in dict.txt.
FAIRSEQ_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
MASK = "<mask>"
RESERVED = frozenset((*FAIRSEQ_SPECIAL, MASK))
WORD_START = "\u2581"
BATCH_LINES = 1000


def load_model(path: PathLike, option: str = "--model") -> Any:
    """Read a sentencepiece model.

    Raises:
        InputError: no such file, or no sentencepiece model.
    """
    if not Path(path).is_file():
        raise InputError(f"{option} {path}: no such file; valid: a model made by python -m data_prep.spm train")
    try:
        return sentencepiece.SentencePieceProcessor(model_file=str(path))  # an empty model_proto would be no error
    except (RuntimeError, OSError) as error:
        raise InputError(f"{option} {path}: not a sentencepiece model ({error})") from None


def model_pieces(model: Any) -> List[str]:
    """Return the pieces that get a row of the dictionary, in the order of the model, as XLM-R's dict.txt has them.

    Left out are the special and control symbols: fairseq brings its own four, the task adds ``<mask>``.

    Raises:
        InputError: the model has a piece that a dictionary file cannot hold.
    """
    pieces = []
    for index in range(model.get_piece_size()):
        piece = model.id_to_piece(index)
        if model.is_unknown(index) or model.is_control(index) or piece in FAIRSEQ_SPECIAL:
            continue
        if "\n" in piece or "\r" in piece:
            raise InputError(f"--model: piece {index} is {piece!r}: a dict.txt cannot hold line breaks")
        pieces.append(piece)
    return pieces


def write_dictionary(model: Any, path: PathLike) -> int:
    """Write dict.txt: one ``PIECE 1`` a line, in the order of the model. In fairseq piece i then has id 4 + i.

    Returns:
        Number of pieces written. fairseq's dictionary has four rows more, and one more with ``<mask>``.
    """
    pieces = model_pieces(model)
    lost = [piece for piece in pieces if piece.split() != [piece]]
    if lost:
        cli.say(f"spm: warning: {len(lost)} pieces contain white space and can never be matched in fairseq: {lost[:5]}")
    with atomic_texts([path], "--dict") as (file,):
        file.writelines(f"{piece} 1\n" for piece in pieces)
    return len(pieces)


def read_dictionary(path: PathLike, option: str = "--dict") -> List[str]:
    """Return the pieces listed in a fairseq dict.txt.

    Raises:
        InputError: a line that is not ``PIECE COUNT``, a piece listed twice, one of fairseq's own four symbols.
    """
    seen: Set[str] = set()
    pieces = []
    for number, line in enumerate(read_lines(path, option, strict=False), start=1):
        piece, _, count = line.removesuffix(" #fairseq:overwrite").rpartition(" ")
        if not piece or not count.isdigit():
            raise InputError(f"{option} {path}, line {number}: {line[:60]!r}; valid: a piece, one space, a count")
        if piece in FAIRSEQ_SPECIAL:
            raise InputError(
                f"{option} {path}, line {number}: lists {piece}; valid: the pieces without "
                f"{' '.join(FAIRSEQ_SPECIAL)}, which fairseq adds itself: see python -m data_prep.spm dict"
            )
        if piece in seen and not line.endswith("#fairseq:overwrite"):
            raise InputError(f"{option} {path}, line {number}: {piece!r} is listed twice; valid: every piece once")
        seen.add(piece)
        pieces.append(piece)
    return pieces


def encode_lines(model: Any, lines: Iterable[str]) -> Iterator[List[str]]:
    """Yield the pieces of each line, in the order of the lines."""
    batch: List[str] = []
    for line in lines:
        batch.append(line)
        if len(batch) == BATCH_LINES:
            yield from model.encode(batch, out_type=str)
            batch = []
    if batch:
        yield from model.encode(batch, out_type=str)


def decode_line(model: Any, line: str) -> str:
    """Return the text of a line of pieces."""
    return model.decode(line.split()).replace(WORD_START, " ").strip()


def vocabulary_of(model: Any, dictionary: Optional[PathLike]) -> Set[str]:
    """Return the pieces that will be known: those of the dictionary, or of the model when there is none."""
    return set(read_dictionary(dictionary)) if dictionary is not None else set(model_pieces(model))
