"""Open a model folder: check ``model.json`` and the hash of every file, and open the graphs."""

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
"""Newest format of a folder that this version reads."""
MODEL_JSON = "model.json"
KINDS = ("slots", "encoder_decoder", "encoder")
SYMBOLS = ("bos", "pad", "eos", "unk")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # of a file inside the folder
_BLOCK = 1 << 20


class Pair(NamedTuple):
    """Direction of translation, and the special symbols of its sentences."""

    source: str
    target: str
    source_prefix: List[int]  # ids before the source
    source_suffix: List[int]  # ids after the source
    target_prefix: List[int]  # ids that a target begins with
    eos: int  # id that a target ends with


class Symbols(NamedTuple):
    """Ids of the special symbols."""

    bos: int
    pad: int
    eos: int
    unk: int


class Graph:
    """Graph of a model. Several threads may run it at once."""

    def __init__(self, session: onnxruntime.InferenceSession, path: Path) -> None:
        self.session, self.path = session, path
        self.inputs = [argument.name for argument in session.get_inputs()]
        self.outputs = [argument.name for argument in session.get_outputs()]

    def run(self, outputs: Sequence[str], inputs: Dict[str, np.ndarray]) -> List[np.ndarray]:
        """Compute outputs by name. Raises ModelError if the graph does not take the inputs."""
        try:
            return list(self.session.run(list(outputs), inputs))
        except Exception as error:  # onnxruntime's errors have no other base
            raise ModelError(f"{self.path}: {_first_line(error)}") from error

    def run_values(self, outputs: Sequence[str], inputs: Dict[str, Any]) -> List[Any]:
        """Compute outputs by name as onnxruntime's values, which the next run need not copy."""
        try:
            return list(self.session.run_with_ort_values(list(outputs), inputs))
        except Exception as error:  # onnxruntime's errors have no other base
            raise ModelError(f"{self.path}: {_first_line(error)}") from error

    def shape(self, name: str) -> List[Any]:
        """Return the shape of an input; a size that varies is a name instead of a number."""
        return next(list(entry.shape) for entry in self.session.get_inputs() if entry.name == name)

    def expect(self, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        """Raise ModelError if the graph lacks an input or an output."""
        sides = (("input", self.inputs, inputs), ("output", self.outputs, outputs))
        for side, names, expected in sides:
            missing = [name for name in expected if name not in names]
            if missing:
                raise ModelError(
                    f"{self.path}: has no {side} {missing[0]}; it has {', '.join(names)}"
                )


class Folder:
    """Content of a model folder.

    Args:
        path: the folder.
        threads: threads of each pass; None = one per core.

    Attributes:
        model: entries of ``model.json``, from which each kind of model reads its own.

    Raises:
        ModelError: a file is missing or damaged, or an entry is not valid.
    """

    def __init__(self, path: Union[str, Path], threads: Optional[int] = None) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            raise ModelError(
                f"{self.path}: no such folder; valid: what `export --format onnx` writes"
            )
        if threads is not None and threads < 1:
            raise ModelError(
                f"threads must be at least 1, or None for onnxruntime's choice; got {threads}"
            )
        model = self.model = read(self.path / MODEL_JSON)
        self._check_format()
        self.kind = model.choice("kind", *KINDS)
        self.architecture, self.fingerprint = model.text("architecture"), model.text("fingerprint")
        self.precision = model.choice("precision", "float32", "int8")
        if self.precision == "int8" and has_wrong_products():
            logger.warning(
                "onnxruntime %s computes some products of 8 bits wrong on this processor (AMX), "
                "and this model may have them: use onnxruntime 1.25 or newer, or the float32 model",
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
                f"{self.model.place}: format {number} is newer than this version reads; "
                f"valid: 1 to {FORMAT}, or a newer fairseq_plugins_runtime"
            )

    def _check_files(self) -> Dict[str, Path]:
        """Compare each file with its hash; return name -> path."""
        files = {}
        for name, expected in self.model.table("files").items():
            files[name] = self._path(name)
            digest = _sha256(files[name])
            if digest != expected:
                raise ModelError(
                    f"{files[name]}: damaged or replaced: sha256 {digest}; valid: {expected[:64]}"
                )
        return files

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise ModelError(
                f"{self.model.place}: files {name[:60]!r}; valid: names of files in its folder"
            )
        path = self.path / name
        if not path.is_file():
            raise ModelError(f"{path}: no such file, and {MODEL_JSON} names it")
        return path

    def file(self, values: Values, name: str) -> Path:
        """Return the path of the file that an entry names; ModelError if `files` lacks it."""
        file = values.text(name)
        if file not in self.files:
            raise values.error(name, "a name that `files` has")
        return self.files[file]

    def _read_text(self) -> None:
        model, vocabulary = self.model, self.model.part("vocabulary")
        source = read_vocabulary(self.file(vocabulary, "source"))
        target = read_vocabulary(self.file(vocabulary, "target"))
        self.symbols = _symbols(model.part("symbols"), len(target))
        entry = "source_symbols" if "source_symbols" in model.values else "symbols"
        self.source_symbols = _symbols(model.part(entry), len(source))
        pieces = self.file(model, "pieces") if model.values.get("pieces") is not None else None
        ignored = model.ids("ignored", len(target))
        self.text = Text(source, target, pieces, self.source_symbols.unk, ignored)
        limits = model.part("limits")
        self.limits = {"source_tokens": limits.integer("source_tokens", 1)}
        if "target_tokens" in limits.values:
            self.limits["target_tokens"] = limits.integer("target_tokens", 1)
        self.pairs: List[Pair] = []
        if self.kind != "encoder":
            self.pairs = [self._pair(pair) for pair in model.parts("pairs")]

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
        added = len(pair.source_prefix) + len(pair.source_suffix)
        if self.limits["source_tokens"] <= added:
            valid = f"more than {added}, the special symbols of a source"
            raise self.model.part("limits").error("source_tokens", valid)
        return pair

    def graphs(self, *names: str) -> Dict[str, Graph]:
        """Open graphs by their names in ``model.json``.

        Raises:
            ModelError: a graph is missing, was made from another model, or cannot be run.
        """
        listed = self.model.part("graphs")
        return {name: self._open(self.file(listed, name)) for name in names}

    def _open(self, path: Path) -> Graph:
        try:
            session = open_session(path, self._threads)
        except Exception as error:  # onnxruntime's errors have no other base
            raise ModelError(
                f"{path}: onnxruntime {onnxruntime.__version__}: {_first_line(error)}"
            ) from error
        fingerprint = session.get_modelmeta().custom_metadata_map.get("fingerprint")
        if fingerprint != self.fingerprint:
            raise ModelError(
                f"{path}: made from another model than {MODEL_JSON}: fingerprint {fingerprint}; "
                f"valid: {self.fingerprint[:64]}"
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
