"""A model folder: ``model.json`` checked, every file compared with its hash, graphs opened as sessions of onnxruntime."""

import hashlib
import logging
import re
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Union

import numpy as np
import onnxruntime

from .model_json import ModelError, Values, read
from .sessions import has_wrong_products, open_session
from .text import Text, read_vocabulary

logger = logging.getLogger(__name__)
FORMAT = 1
"""The newest layout of a folder that is read here."""
MODEL_JSON = "model.json"
KINDS = ("slots", "encoder_decoder", "encoder")
SYMBOLS = ("bos", "pad", "eos", "unk")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # of a file inside the folder
_BLOCK = 1 << 20


class Pair(NamedTuple):
    """A direction of translation: what stands around the ids of a source, and what a target begins with."""

    source: str
    target: str
    source_prefix: List[int]
    source_suffix: List[int]
    target_prefix: List[int]
    eos: int  # what a target ends with


class Symbols(NamedTuple):
    """Ids of the special symbols."""

    bos: int
    pad: int
    eos: int
    unk: int


class Graph:
    """One graph. May be run by several threads at once."""

    def __init__(self, session: onnxruntime.InferenceSession, path: Path) -> None:
        self.session, self.path = session, path
        self.inputs = [argument.name for argument in session.get_inputs()]
        self.outputs = [argument.name for argument in session.get_outputs()]

    def run(self, outputs: Sequence[str], inputs: Dict[str, np.ndarray]) -> List[np.ndarray]:
        """The outputs of these names. ModelError: the graph does not take the inputs."""
        try:
            return list(self.session.run(list(outputs), inputs))
        except Exception as error:  # onnxruntime's errors have no other base
            raise ModelError(f"{self.path}: {_first_line(error)}") from error

    def run_values(self, outputs: Sequence[str], inputs: Dict[str, Any]) -> List[Any]:
        """:meth:`run` with values of onnxruntime, which are not copied from one run to the next."""
        try:
            return list(self.session.run_with_ort_values(list(outputs), inputs))
        except Exception as error:  # onnxruntime's errors have no other base
            raise ModelError(f"{self.path}: {_first_line(error)}") from error

    def shape(self, name: str) -> List[Any]:
        """The shape of an input; names stand for sizes that vary."""
        return next(list(one.shape) for one in self.session.get_inputs() if one.name == name)

    def expect(self, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        """Raise ModelError where the graph lacks one of these."""
        for side, found, needed in (("input", self.inputs, inputs), ("output", self.outputs, outputs)):
            missing = [name for name in needed if name not in found]
            if missing:
                raise ModelError(f"{self.path}: has no {side} {missing[0]}; it has {', '.join(found)}")


class Folder:
    """What is in a model folder.

    ``model``: the entries of ``model.json``, for what one kind of models alone has.
    """

    def __init__(self, path: Union[str, Path], threads: Optional[int] = None) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            raise ModelError(f"{self.path}: no such folder; valid: what `export --format onnx` writes")
        if threads is not None and threads < 1:
            raise ModelError(f"threads must be at least 1, or None for onnxruntime's choice; got {threads}")
        model = self.model = read(self.path / MODEL_JSON)
        self._check_format()
        self.kind = model.choice("kind", *KINDS)
        self.architecture, self.fingerprint = model.text("architecture"), model.text("fingerprint")
        self.precision = model.choice("precision", "float32", "int8")
        if self.precision == "int8" and has_wrong_products():
            logger.warning(
                "onnxruntime %s computes some products of 8 bits wrong on this processor (AMX), and this model may have them: "
                "use onnxruntime 1.25 or newer, or the float32 model",
                onnxruntime.__version__,
            )
        self.quantised = model.texts("quantised")
        self.files = self._check_files()
        self._read_text()
        self._threads = threads or 0

    def _check_format(self) -> None:
        number = self.model.integer("format", 1)
        if number > FORMAT:
            raise ModelError(
                f"{self.model.where}: format {number} is newer than this version reads; valid: 1 to {FORMAT}, or a newer "
                "fairseq_plugins_runtime"
            )

    def _check_files(self) -> Dict[str, Path]:
        found = {}
        for name, expected in self.model.table("files").items():
            found[name] = self._path(name)
            digest = _sha256(found[name])
            if digest != expected:
                raise ModelError(f"{found[name]}: damaged or replaced: sha256 {digest}; valid: {expected[:64]}")
        return found

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise ModelError(f"{self.model.where}: files {name[:60]!r}; valid: names of files in its folder")
        path = self.path / name
        if not path.is_file():
            raise ModelError(f"{path}: no such file, and {MODEL_JSON} names it")
        return path

    def file(self, values: Values, name: str) -> Path:
        """The file that an entry names. ModelError: it is none of ``files``."""
        found = values.text(name)
        if found not in self.files:
            raise values.error(name, "a name that `files` has")
        return self.files[found]

    def _read_text(self) -> None:
        model, vocabulary = self.model, self.model.part("vocabulary")
        source = read_vocabulary(self.file(vocabulary, "source"))
        target = read_vocabulary(self.file(vocabulary, "target"))
        self.symbols = _symbols(model.part("symbols"), len(target))
        own = "source_symbols" in model.values
        self.source_symbols = _symbols(model.part("source_symbols" if own else "symbols"), len(source))
        pieces = self.file(model, "pieces") if model.values.get("pieces") is not None else None
        ignored = model.ids("ignored", len(target))
        self.text = Text(source, target, pieces, self.source_symbols.unk, ignored)
        self.limits = {
            name: model.part("limits").integer(name, 1)
            for name in ("source_tokens", "target_tokens")
            if name == "source_tokens" or name in model.part("limits").values
        }
        self.pairs = [self._pair(pair) for pair in model.parts("pairs")] if self.kind != "encoder" else []

    def _pair(self, values: Values) -> Pair:
        source, target = len(self.text.source), len(self.text.target)
        pair = Pair(
            values.text("source"),
            values.text("target"),
            values.ids("source_prefix", source),
            values.ids("source_suffix", source),
            values.ids("target_prefix", target),
            values.integer("eos", 0, target - 1) if "eos" in values.values else self.symbols.eos,
        )
        around = len(pair.source_prefix) + len(pair.source_suffix)
        if self.limits["source_tokens"] <= around:
            raise self.model.part("limits").error("source_tokens", f"more than {around}, what stands around a source")
        return pair

    def graphs(self, *names: str) -> Dict[str, Graph]:
        """Open graphs by their names in ``model.json``.

        Raises ModelError: one is missing, made from another model, or not what onnxruntime can run.
        """
        listed = self.model.part("graphs")
        return {name: self._open(self.file(listed, name)) for name in names}

    def _open(self, path: Path) -> Graph:
        try:
            session = open_session(path, self._threads)
        except Exception as error:  # onnxruntime's errors have no other base
            raise ModelError(f"{path}: onnxruntime {onnxruntime.__version__}: {_first_line(error)}") from error
        found = session.get_modelmeta().custom_metadata_map.get("fingerprint")
        if found != self.fingerprint:
            raise ModelError(
                f"{path}: made from another model than {MODEL_JSON}: fingerprint {found}; valid: {self.fingerprint[:64]}"
            )
        return Graph(session, path)


def _symbols(values: Values, size: int) -> Symbols:
    return Symbols(*(values.integer(name, 0, size - 1) for name in SYMBOLS))


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            for block in iter(lambda: stream.read(_BLOCK), b""):
                digest.update(block)
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror or error}") from None
    return digest.hexdigest()


def _first_line(error: Any) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
