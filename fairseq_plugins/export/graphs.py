"""torch modules as ONNX graphs that share one file of weights, in float32 or with int8 weights.

All graphs of a model lie beside ``weights.bin``, to which they refer: a weight that several graphs
use is stored once.
"""

import contextlib
import hashlib
import logging
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Dict, Iterator, List, Mapping, Sequence, Tuple, Union

import numpy as np
import torch
from torch import Tensor, nn

from .quantising import digest, quantise

logger = logging.getLogger(__name__)

WEIGHTS = "weights.bin"
FINGERPRINT = "fingerprint"
OPSET = 20
INLINE = 1024
"""Size in bytes: smaller constants stay in the graph's file, where shape inference reads them."""
ALIGNMENT = 64
"""Byte alignment of each tensor in weights.bin."""
LOGGERS = ("torch.onnx", "onnxscript", "onnx_ir", "torch.export", "torch._dynamo", "torch.fx")
SENTENCES, SOURCE = 3, 7  # sizes of the sources that graphs are traced with


@dataclass
class Graph:
    """A graph to be written.

    Args:
        module: in evaluation mode, on the CPU, float32; its output is a tensor or a tuple of them.
        inputs: an example of each argument of ``module.forward`` by name, in its order. A size that
            varies is at least 2 here, and two sizes that need not be equal differ. The inputs of a
            list are called ``NAME.0``, ``NAME.1`` ...
        varying: the dimensions of each input that vary; of a list, those of each of its inputs.
            Inputs left out have fixed sizes.
        outputs: names of the outputs, in their order.
    """

    module: nn.Module
    inputs: Mapping[str, Union[Tensor, List[Tensor]]]
    varying: Mapping[str, Sequence[int]]
    outputs: Sequence[str]


def make_source(pad: int) -> Tensor:
    """Make the source (B, S) that graphs are traced with; a row has padding."""
    source = torch.full((SENTENCES, SOURCE), pad + 1)
    source[1, SOURCE - 2 :] = pad
    return source


class Weights:
    """The file of weights: each distinct tensor is in it once."""

    def __init__(self, stream: BinaryIO):
        self.stream = stream
        self.offsets: Dict[Tuple[str, bytes], int] = {}

    def place(self, array: np.ndarray) -> int:
        """Return the offset of an array, after writing it if it is not in the file yet."""
        content = array.tobytes()
        key = (f"{array.dtype}{array.shape}", hashlib.sha256(content).digest())
        if key not in self.offsets:
            self.stream.write(bytes(-self.stream.tell() % ALIGNMENT))
            self.offsets[key] = self.stream.tell()
            self.stream.write(content)
        return self.offsets[key]


def write_graphs(
    graphs: Mapping[str, Graph], folder: Path, fingerprint: str, int8: bool = False
) -> List[str]:
    """Write ``NAME.onnx`` for each graph, and :data:`WEIGHTS` with the weights of all.

    Args:
        fingerprint: of the exported weights; stored in the metadata of each graph, so that the
            runtime notices a file of another model.
        int8: quantise the weights of products and embeddings, see :func:`~.quantising.quantise`.

    Returns:
        The quantised weights, ``"GRAPH: WEIGHT"``; empty for float32.
    """
    import onnx_ir

    quantised = []
    with (folder / WEIGHTS).open("wb") as stream:
        weights = Weights(stream)
        for name, graph in graphs.items():
            model = export_graph(graph)
            names = names_of(graph.module)
            if int8:
                quantised += [f"{name}: {weight}" for weight in quantise(model.graph, names)]
            model.metadata_props[FINGERPRINT] = fingerprint
            model.producer_name = __package__.split(".")[0]
            _move_weights(model, weights, folder)
            onnx_ir.save(model, folder / f"{name}.onnx")
            logger.info("wrote %s.onnx: %d nodes", name, len(model.graph))
    return quantised


def export_graph(graph: Graph) -> Any:
    """Convert a graph to an ``onnx_ir.Model``, optimised, with its weights in memory."""
    dynamic: Dict[str, Any] = {}
    names: List[str] = []
    for name, example in graph.inputs.items():
        sizes = dict.fromkeys(graph.varying.get(name, ()), torch.export.Dim.DYNAMIC) or None
        if isinstance(example, list):
            dynamic[name] = [sizes] * len(example)
            names += [f"{name}.{number}" for number in range(len(example))]
        else:
            dynamic[name] = sizes
            names.append(name)
    without_mkldnn = torch.backends.mkldnn.flags(enabled=False)  # its products are not ONNX's
    with _silence(), torch.no_grad(), without_mkldnn:
        program = torch.onnx.export(
            graph.module.eval(),
            kwargs=dict(graph.inputs),
            input_names=names,
            output_names=list(graph.outputs),
            dynamic_shapes=dynamic,
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    model = program.model
    _strip(model)
    return model


def names_of(module: nn.Module) -> Dict[bytes, str]:
    """Map the digest of each weight to its name in the module, without a leading ``model.``.

    A matrix is listed with its transpose, since the exporter may transpose it.
    """
    names: Dict[bytes, str] = {}
    for name, tensor in [*module.named_buffers(), *module.named_parameters()]:
        plain = name[len("model.") :] if name.startswith("model.") else name
        array = tensor.detach().numpy()
        names[digest(array)] = plain
        if array.ndim == 2:
            names[digest(array.T)] = plain
    return names


def _move_weights(model: Any, weights: Weights, folder: Path) -> None:
    """Move the large constants of a graph into the file of weights."""
    import onnx_ir

    for value in model.graph.initializers.values():
        tensor = value.const_value
        if tensor.nbytes < INLINE:
            continue
        offset = weights.place(np.ascontiguousarray(tensor.numpy()))
        value.const_value = onnx_ir.ExternalTensor(
            WEIGHTS,
            offset,
            tensor.nbytes,
            tensor.dtype,
            shape=tensor.shape,
            name=value.name,
            base_dir=folder,
        )


def _strip(model: Any) -> None:
    """Remove the exporter's debugging notes, which name source files of this machine."""
    model.metadata_props.clear()
    model.graph.metadata_props.clear()
    for node in model.graph:
        node.metadata_props.clear()
        node.doc_string = None
        for value in node.outputs:
            value.metadata_props.clear()
    for value in [*model.graph.inputs, *model.graph.initializers.values()]:
        value.metadata_props.clear()


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Suppress the exporter's notes and warnings."""
    levels = {name: logging.getLogger(name).level for name in LOGGERS}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name in LOGGERS:
                logging.getLogger(name).setLevel(logging.ERROR)
            yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
