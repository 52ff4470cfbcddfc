"""Dictionaries and sentencepiece models that are cut, empty or of another checkpoint: named, wherever fairseq reads them."""

import logging
import re
from typing import Any, Optional

from .patch import Patch, instead_of, is_patched

logger = logging.getLogger(__name__)

NAME = "damaged_vocabularies"
_REMEDY = "copy it again, or run fairseq-preprocess again"
_ROWS = re.compile(
    r"size mismatch for (\S*embed_tokens\S*): copying a param with shape torch\.Size\(\[(\d+), (\d+)\]\)"
)
_COUNT = re.compile(r"[+-]?\d+")
_OVERWRITE = re.compile(r" #fairseq:overwrite$")
_MODEL_ROWS = re.compile(r"the shape in current model is torch\.Size\(\[(\d+), (\d+)\]\)")


def check_dictionary(path: str) -> None:
    """Check that a dictionary is whole as far as it tells.

    Args:
        path: of ``dict.txt``.

    Raises:
        ValueError: it is empty, no text, or a line is not ``symbol count``; names file and line.
    """
    try:
        with open(path, encoding="utf-8", newline="\n") as stream:
            lines = stream.read().split("\n")
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


def _names_nothing() -> bool:
    from fairseq.data import Dictionary

    return not is_patched(Dictionary.add_from_file, NAME)


def _name_files() -> None:
    from fairseq.data import Dictionary
    from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE
    from fairseq.file_io import PathManager
    from fairseq.models import BaseFairseqModel

    add, begin, load = Dictionary.add_from_file, SentencepieceBPE.__init__, BaseFairseqModel.load_state_dict

    @instead_of(add, NAME)
    def add_from_file(self: Any, f: Any) -> None:
        if not isinstance(f, str):
            return add(self, f)
        path = PathManager.get_local_path(f)
        try:
            if type(self)._load_meta is Dictionary._load_meta:  # others may begin with other lines
                check_dictionary(path)
            return add(self, path)
        except RuntimeError as error:  # an entry that is there twice
            raise ValueError(f"dictionary {path}: {str(error).splitlines()[0]}") from error

    @instead_of(begin, NAME)
    def __init__(self: Any, cfg: Any) -> None:
        try:
            begin(self, cfg)
        except RuntimeError as error:
            raise ValueError(
                f"--sentencepiece-model {cfg.sentencepiece_model}: is no sentencepiece model, or is empty or damaged ({error}); "
                "valid: the model that the data were cut with"
            ) from error

    @instead_of(load, NAME)
    def load_state_dict(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return load(self, *args, **kwargs)
        except RuntimeError as error:
            other = _other_rows(str(error))
            if other is None:
                raise
            raise ValueError(other) from error

    Dictionary.add_from_file, SentencepieceBPE.__init__ = add_from_file, __init__
    BaseFairseqModel.load_state_dict = load_state_dict


def _other_rows(message: str) -> Optional[str]:
    """What to say of a state that has another number of rows than the dictionary; None where it fails for another reason."""
    found = _ROWS.search(message)
    model = _MODEL_ROWS.search(message, found.end()) if found else None
    if not found or not model or found.group(3) != model.group(2) or found.group(2) == model.group(1):
        return None
    rows, entries = int(found.group(2)), int(model.group(1))
    cut = "is it cut, or " if entries < rows else ""
    return (
        f"the checkpoint has {rows:,} rows in {found.group(1)}, the data's dictionary {entries:,} entries (what the task adds to "
        f"it counted): {cut}of another run? Use the dict.*.txt of the checkpoint's training"
    )


DAMAGED_VOCABULARIES = Patch(
    name=NAME,
    reason="a cut or empty dictionary or sentencepiece model fails without its name, or as a size mismatch of a tensor",
    upstream="facebookresearch/fairseq#2167, #2804, #3147",
    needed=_names_nothing,
    apply=_name_files,
)
