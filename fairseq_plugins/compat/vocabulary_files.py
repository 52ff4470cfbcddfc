"""Dictionaries and sentencepiece models that are cut, empty or of another checkpoint: named, wherever fairseq reads them."""

import logging
import re
from pathlib import Path
from typing import Any

from .patch import Patch

logger = logging.getLogger(__name__)

DAMAGED_VOCABULARIES = Patch(
    name="damaged_vocabularies",
    reason="a cut or empty dictionary or sentencepiece model fails without its name, or as a size mismatch of a tensor",
    upstream="facebookresearch/fairseq#2167, #2804, #3147",
)
_REMEDY = "copy it again, or run fairseq-preprocess again"
# Of a state whose token embedding has another number of rows, and the width of the model's.
_ROWS = re.compile(
    r"size mismatch for (?P<name>\S*embed_tokens\S*): copying a param with shape torch\.Size\(\[(?P<rows>\d+), (?P<width>\d+)\]\)"
    r".*?the shape in current model is torch\.Size\(\[(?!(?P=rows),)(?P<entries>\d+), (?P=width)\]\)"
)
_COUNT = re.compile(r"[+-]?\d+")
_OVERWRITE = re.compile(r" #fairseq:overwrite$")


def check_dictionary(path: str) -> None:
    """Check that a ``dict.txt`` is whole as far as it tells.

    Raises ValueError: it is empty, no text, or a line is not ``symbol count``; names file and line.
    """
    try:
        lines = Path(path).read_bytes().decode("utf-8").split("\n")
    except UnicodeError as error:
        raise ValueError(f"dictionary {path}: is no UTF-8 text ({error}); {_REMEDY}") from None
    if lines == [""]:
        raise ValueError(f"dictionary {path}: is empty (0 bytes); {_REMEDY}")
    for number, line in enumerate(lines[:-1] if not lines[-1] else lines, 1):
        symbol, space, count = _OVERWRITE.sub("", line.rstrip()).rpartition(" ")
        if not space or not _COUNT.fullmatch(count):
            where = ", the last one, so that the file is probably cut" if number >= len(lines) - 1 else ""
            raise ValueError(
                f"dictionary {path}: line {number}{where}, is {line[:80]!r}; expected 'symbol count'; {_REMEDY}"
            )
    if lines[-1]:
        logger.warning("dictionary %s: its last line %r has no line break: the file may be cut", path, lines[-1][:80])


@DAMAGED_VOCABULARIES.replace("fairseq.data:Dictionary.add_from_file")
def add_from_file(stock: Any, dictionary: Any, f: Any) -> None:
    """Check the file first."""
    from fairseq.data import Dictionary
    from fairseq.file_io import PathManager

    if not isinstance(f, str):
        return stock(dictionary, f)
    path = PathManager.get_local_path(f)
    try:
        if type(dictionary)._load_meta is Dictionary._load_meta:  # others may begin with other lines
            check_dictionary(path)
        return stock(dictionary, path)
    except RuntimeError as error:  # an entry that is there twice
        raise ValueError(f"dictionary {path}: {str(error).splitlines()[0]}") from error


@DAMAGED_VOCABULARIES.replace("fairseq.data.encoders.sentencepiece_bpe:SentencepieceBPE.__init__")
def read_sentencepiece(stock: Any, bpe: Any, cfg: Any) -> None:
    """Name the file that is no sentencepiece model."""
    try:
        stock(bpe, cfg)
    except RuntimeError as error:
        raise ValueError(
            f"--sentencepiece-model {cfg.sentencepiece_model}: is no sentencepiece model, or is empty or damaged ({error}); "
            "valid: the model that the data were cut with"
        ) from error


@DAMAGED_VOCABULARIES.replace("fairseq.models:BaseFairseqModel.load_state_dict")
def load_state_dict(stock: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
    """Say where the state has the rows of another dictionary."""
    try:
        return stock(model, *args, **kwargs)
    except RuntimeError as error:
        found = _ROWS.search(str(error))
        if not found:
            raise
        rows, entries = int(found["rows"]), int(found["entries"])
        cut = "is it cut, or " if entries < rows else ""
        raise ValueError(
            f"the checkpoint has {rows:,} rows in {found['name']}, the data's dictionary {entries:,} entries (what the task adds "
            f"to it counted): {cut}of another run? Use the dict.*.txt of the checkpoint's training"
        ) from error
