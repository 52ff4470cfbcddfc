"""Looks at a file of ``torch.save`` before torch reads it (checksums, sizes that it cannot hold), and at the options in it.

Nothing is built from the file. Its pickles are followed with empty stand-ins for every object that they name. fairseq evaluates
some of the options that a checkpoint brings along (``cfg``, ``args``) as Python code, and downloads others: what the user types
is the user's own; what comes from a file is data.
"""

import _compat_pickle
import argparse
import ast
import io
import logging
import math
import operator
import pickle
import re
import zipfile
from typing import IO, Any, BinaryIO, Dict, Iterable, Iterator, List, Mapping, Optional, Set, Tuple
from urllib.parse import urlparse

import torch

logger = logging.getLogger(__name__)


class CheckpointError(ValueError):
    """A checkpoint that cannot be read or does not have the expected content; the message names the file."""


class DamagedCheckpoint(CheckpointError):
    """A file that is truncated, damaged or no checkpoint at all."""


ZIP_START = b"PK\x03\x04"  # as torch decides; zipfile.is_zipfile would also take a pickle with a zip file behind it
EXPANDED_BYTES = 16 * 2**20  # to which copies of tensors that repeat their storage may grow, where the file is smaller
_LEGACY_PICKLES = 4  # magic number, protocol, machine, content; the bytes of the tensors follow
_NO_SIZES = {"builtins.set", "collections.Counter", "collections.OrderedDict"}  # called with values of any size
_NUMBERS = re.compile(r"[<>|=]?(?:[?bhilqBHILQefdgFD]|b1|[iu][1248]|f(?:2|4|8|16)|c(?:8|16|32))")
_NUMBERS_STATE = (None, None, None, -1, -1, 0)  # no part of another type, no fields, sizes and flags of the type itself


def check_file(stream: BinaryIO, origin: str, names: Set[str]) -> None:
    """Refuse a file of ``torch.save`` that is damaged, or that would take more memory than the file is big.

    The checksum (CRC-32) of each record is compared; files from before torch 1.6 have none. ``names`` gets every ``module.name``
    that the file refers to, up to its damage. The stream is at its start afterwards.

    Raises CheckpointError: a checksum differs, records are compressed or overlap, or more is declared than it holds; any other
    Exception where the file is truncated or no checkpoint: torch cannot read it either.
    """
    size = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    zipped = stream.read(len(ZIP_START)) == ZIP_START
    stream.seek(0)
    try:
        if not (_check_zip if zipped else _check_legacy)(stream, size, names):
            logger.info(
                "checkpoint %s: has no checksums (before torch 1.6, or switched off): flipped bits go unnoticed", origin
            )
    except MemoryError as error:
        raise CheckpointError(f"checkpoint {origin}: asks for more memory than its {size:,} bytes can need") from error
    except CheckpointError as error:
        raise CheckpointError(f"checkpoint {origin}: {error}") from None
    stream.seek(0)


def _check_zip(stream: BinaryIO, size: int, names: Set[str]) -> bool:
    with zipfile.ZipFile(stream) as archive:
        records = archive.infolist()
        _check_records(records, size)
        summed = any(record.CRC for record in records if record.file_size)
        for record in records if not summed else ():
            record.CRC = None  # type: ignore[assignment]  # there is nothing to compare with
        wrong = archive.testzip()
        if wrong:
            raise CheckpointError(
                f"damaged, the checksum of record {wrong} is wrong: bits have changed since it was written; take another copy"
            )
        sizes = {record.filename: record.file_size for record in records}
        folder = records[0].filename.split("/")[0]
        if f"{folder}/data.pkl" not in sizes:
            return summed  # torch refuses it with its own words
        inspector = _Inspector(io.BytesIO(archive.read(f"{folder}/data.pkl")), size, names)
    inspector.load()
    for key, declared in inspector.storages.items():
        held = sizes.get(f"{folder}/data/{key}", declared)  # a missing record is torch's to report
        if declared > held:
            raise CheckpointError(
                f"a tensor needs {declared:,} bytes of record {folder}/data/{key}, which has {held:,}"
            )
    return summed


def _check_records(records: List[zipfile.ZipInfo], size: int) -> None:
    for record in records:
        if record.compress_type != zipfile.ZIP_STORED:
            raise CheckpointError(
                f"its record {record.filename} is compressed ({record.compress_size:,} to {record.file_size:,} bytes); torch.save "
                "writes records as they are"
            )
    declared, names = sum(record.file_size for record in records), {record.filename for record in records}
    if declared > size or len(names) < len(records) or min(record.header_offset for record in records) != 0:
        raise CheckpointError(
            f"its {len(records)} records overlap ({declared:,} bytes of records, {size:,} bytes of file); torch.save writes none so"
        )


def _check_legacy(stream: BinaryIO, size: int, names: Set[str]) -> bool:
    inspector = _Inspector(stream, size, names)
    for _ in range(_LEGACY_PICKLES):
        inspector.load()
    declared = sum(inspector.storages.values())
    if declared > size:
        raise EOFError(f"its tensors need {declared:,} bytes")  # like any file that is cut
    return False


def _no_numbers(found: Any) -> CheckpointError:
    # numpy reads memory that is not its own where the description of another type is forged.
    return CheckpointError(f"refused, it describes a numpy type by {str(found)[:80]}; valid: arrays of numbers")


class _Named:
    """Stands for whatever a pickle names: takes any arguments and any state, does nothing."""

    name = ""
    inspector: "_Inspector"

    def __new__(cls, *args: Any) -> Any:
        cls.inspector.called(cls.name, args)
        return super().__new__(cls)

    def __init__(self, *args: Any) -> None: ...

    def __setstate__(self, state: Any) -> None:
        self.inspector.built(self.name, state)

    def __setitem__(self, key: Any, value: Any) -> None: ...


# The one in Python, not in C: that one lets a pickle ask for a memo of any length.
class _Inspector(pickle._Unpickler):
    """Follows pickles and notes the names of objects and the bytes of storages in them."""

    def __init__(self, stream: IO[bytes], size: int, names: Set[str]) -> None:
        super().__init__(stream, encoding="latin1")
        self.size, self.names = size, names
        self.storages: Dict[str, int] = {}
        self.expanded = 0
        self._stand_ins: Dict[str, Any] = {"torch.Size": tuple}

    def find_class(self, module: str, name: str) -> Any:
        module, name = _compat_pickle.NAME_MAPPING.get((module, name), (module, name))
        full = f"{_compat_pickle.IMPORT_MAPPING.get(module, module)}.{name}"
        self.names.add(full)
        if full not in self._stand_ins:
            self._stand_ins[full] = type("_Named", (_Named,), {"name": full, "inspector": self})
        return self._stand_ins[full]

    def get_extension(self, code: int) -> None:
        raise pickle.UnpicklingError("copyreg's extensions are not followed")

    def persistent_load(self, pid: Any) -> Tuple[int, int]:
        """Bytes of a storage and of one element of it."""
        _, kind, key, _, count = pid[:5]
        element = _element_bytes(kind.name)
        self.storages[str(key)] = max(self.storages.get(str(key), 0), int(count) * element)
        return int(count) * element, element

    def called(self, name: str, args: Tuple[Any, ...]) -> None:
        """Look at a call that the pickle asks for: no tensor bigger than its storage, no size bigger than the file."""
        function = name.rsplit(".", 1)[-1]
        if name == "numpy.dtype":
            if not args or not isinstance(args[0], str) or not _NUMBERS.fullmatch(args[0]):
                raise _no_numbers(args[:1])
        elif name == "numpy.ndarray" or name.startswith("numpy.dtype"):
            raise _no_numbers(name)  # numpy's own pickles only refer to these
        elif function == "_rebuild_from_type_v2":
            args[0](*args[2])
        elif function == "_rebuild_sparse_tensor":
            self.called(f"{name} (dense)", args[1])
        elif function.startswith("_rebuild_") and args and isinstance(args[0], tuple):
            self._tensor(args[0], args[2], args[6].name if function.endswith("_v3") else None)
        elif name not in _NO_SIZES:
            asked = max(_sizes(args), default=0)
            if asked > max(self.size, EXPANDED_BYTES):
                raise CheckpointError(f"asks for {name} of {asked:,} elements, the file has {self.size:,} bytes")

    def built(self, name: str, state: Any) -> None:
        """Look at the state of an object: tensors of old files get their storage there, numpy's types their layout."""
        if name == "numpy.dtype" and (not isinstance(state, tuple) or state[2:] != _NUMBERS_STATE):
            raise _no_numbers(state)
        if isinstance(state, tuple) and len(state) > 2 and isinstance(state[0], tuple):
            self._tensor(state[0], state[2])

    def _tensor(self, storage: Tuple[int, int], shape: Any, dtype: Optional[str] = None) -> None:
        held, element = storage
        needed = math.prod(shape) * (_element_bytes(dtype) if dtype else element)
        self.expanded += needed if needed > held else 0
        if self.expanded > max(self.size, EXPANDED_BYTES):
            raise CheckpointError(
                f"a tensor of shape {tuple(shape)} ({needed:,} bytes) repeats a storage of {held:,}; the file has {self.size:,}"
            )


def _sizes(args: Tuple[Any, ...]) -> Iterator[int]:
    """What the numbers among arguments may stand for: each by itself, and a shape's product."""
    for value in (args, *args):
        if isinstance(value, (tuple, list)):
            numbers = [abs(item) for item in value if isinstance(item, int)]
            yield from numbers
            yield math.prod(numbers)


def _element_bytes(name: str) -> int:
    """Bytes of one element of ``torch.FloatStorage``, ``torch.UntypedStorage`` or ``torch.float32``."""
    last = name.rsplit(".", 1)[-1]
    if last == "UntypedStorage":
        return 1
    dtype = torch.serialization.StorageType(last).dtype if last.endswith("Storage") else getattr(torch, last)
    return int(dtype.itemsize)


# ---- Stored options. ----

EVALUATED = frozenset(
    """
    adafactor_eps adam_betas adamax_betas adaptive_input_cutoff adaptive_softmax_cutoff character_filters
    conv_aggregator_layers conv_feature_layers decoder_attention decoder_layers decoder_xformers_att_config downsample
    encoder_attention encoder_layers encoder_xformers_att_config feature_encoder_spec gated_attention lamb_betas
    left_pad_source left_pad_target pipeline_balance pipeline_decoder_balance pipeline_decoder_devices pipeline_devices
    pipeline_encoder_balance pipeline_encoder_devices pretrained project_input self_attention wer_args
    xformers_att_config
    """.split()
)
"""Options whose text fairseq evaluates as Python code."""
FETCHED = re.compile(r"bpe|codes|sentencepiece|tokenizer|vocab|wordpiece")
"""Options whose path fairseq downloads where it is an address: those of ``bpe`` and ``tokenizer``."""
_STOCK = "https://dl.fbaipublicfiles.com/fairseq/gpt2_bpe/"
STOCK_ADDRESSES = (f"{_STOCK}encoder.json", f"{_STOCK}vocab.bpe")  # defaults, which every run with GPT-2's BPE stores
MOST_OPTIONS = 100_000
DEEPEST = 50
DEEPEST_CONTENT = 200
_MOST_CHARACTERS, _MOST_ELEMENTS = 10_000, 100_000
_VALID = "a number, text in quotes, True, False, None, or lists, tuples and dictionaries of these, joined by + and *"


def check_options(state: Any, origin: str) -> None:
    """Refuse a checkpoint whose options would make fairseq run code or download something (CheckpointError)."""
    if not isinstance(state, Mapping):
        return
    _check_depth(state, origin)
    for path, name, value in (
        one for section in ("args", "cfg") for one in _texts(state.get(section), section, origin)
    ):
        refused = f"{origin}: refused, its stored option {path} is {_short(value)}, which fairseq would"
        if name in EVALUATED and value.strip():
            try:
                literal(value)
            except ValueError as error:
                raise CheckpointError(f"{refused} evaluate as code: {error}") from None
        elif FETCHED.search(path) and value not in STOCK_ADDRESSES and _is_address(value):
            raise CheckpointError(f"{refused} download; valid: the path of a file here")


def _check_depth(state: Mapping[str, Any], origin: str) -> None:
    """Whatever is nested without end makes the next that goes through it fail."""
    level: Dict[int, Any] = {id(state): state}  # of one depth, by their place in memory, without those met before
    seen: Set[int] = set()
    for _ in range(DEEPEST_CONTENT):
        seen |= level.keys()
        items = [item for value in level.values() for item in _items(value)]
        nested = (one for one in items if isinstance(one, (Mapping, list, tuple, argparse.Namespace)))
        level = {id(one): one for one in nested if id(one) not in seen}
    if level:
        raise CheckpointError(f"{origin}: refused, its content is nested deeper than {DEEPEST_CONTENT}")


def _items(value: Any) -> Iterable[Any]:
    value = vars(value) if isinstance(value, argparse.Namespace) else value
    return value.values() if isinstance(value, Mapping) else value


def literal(text: str) -> Any:
    """The value of a text that holds no code: literals, and lists as fairseq writes them, ``[(512, 3)] * 4 + [(1024, 3)]``.

    Raises ValueError: a name, a call, anything else that Python would compute; or a value that grows too big.
    """
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(f"text of {len(text):,} characters, valid: up to {_MOST_CHARACTERS:,}")
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, ArithmeticError, MemoryError, RecursionError) as error:
        reason = str(error) if type(error) is ValueError else f"{type(error).__name__} when read"
        raise ValueError(f"{_short(text)} is no literal ({reason}); valid: {_VALID}") from None


def _value(node: ast.AST) -> Any:
    """A literal, or several joined by + and repeated by *; ValueError for one of more than :data:`_MOST_ELEMENTS`."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.Add, ast.Mult)):
        return ast.literal_eval(node)
    left, right = _value(node.left), _value(node.right)
    operation = operator.add if isinstance(node.op, ast.Add) else operator.mul
    sizes = [len(one) if isinstance(one, (list, tuple, str, bytes)) else one for one in (left, right)]
    if abs(operation(*sizes)) > _MOST_ELEMENTS:
        raise ValueError(f"more than {_MOST_ELEMENTS:,} elements")
    return operation(left, right)


def _texts(options: Any, section: str, origin: str) -> Iterator[Tuple[str, str, str]]:
    """Path, own name and text of every string among nested options. A list's items have the list's name."""
    waiting: List[Tuple[str, str, Any, int]] = [(section, section, options, 0)]
    seen = 0
    while waiting:
        path, name, value, depth = waiting.pop()
        seen += 1
        if seen > MOST_OPTIONS or depth > DEEPEST:
            raise CheckpointError(
                f"{origin}: refused, its stored options {section} are more than {MOST_OPTIONS:,} or nested deeper than {DEEPEST}"
            )
        if isinstance(value, bytes):
            value = value.decode("latin1")
        if isinstance(value, str):
            yield path, name, value
        elif isinstance(value, argparse.Namespace):
            waiting.append((path, name, vars(value), depth))
        elif isinstance(value, Mapping):
            waiting += [(f"{path}.{key}", str(key), item, depth + 1) for key, item in value.items()]
        elif isinstance(value, (list, tuple, set)):
            waiting += [(path, name, item, depth + 1) for item in value]


def _is_address(text: str) -> bool:
    """True for what fairseq's ``cached_path`` downloads. A reference to another option could turn into one."""
    try:
        return urlparse(text).scheme in ("http", "https", "s3") or "${" in text
    except ValueError:  # fairseq fails on it alike
        return False


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
