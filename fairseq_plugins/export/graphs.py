"""torch modules as ONNX graphs that share one file of weights, in float32 or with int8 weights.

All graphs of a model lie beside ``weights.bin``, to which they refer: a weight that several use is stored once.
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
"""Bytes: smaller constants stay in the graph's own file, where shape inference reads them."""
ALIGNMENT = 64
"""Of a tensor in the file of weights, in bytes."""
_WRAPPED = "model."
LOGGERS = ("torch.onnx", "onnxscript", "onnx_ir", "torch.export", "torch._dynamo", "torch.fx")


@dataclass
class Graph:
    """A graph to be written.

    Args:
        module: in evaluation mode, on the CPU, float32; its outputs are one tensor, or a tuple of them.
        inputs: an example of each argument of ``module.forward`` by name, in its order. A size that varies is at least 2 here,
            and two sizes that need not be equal differ. The inputs of a list are called ``NAME.0``, ``NAME.1`` ...
        varying: the dimensions of each input that vary, in a list of each of its inputs. Inputs left out have fixed sizes.
        outputs: names of the outputs, in their order.
    """

    module: nn.Module
    inputs: Mapping[str, Union[Tensor, List[Tensor]]]
    varying: Mapping[str, Sequence[int]]
    outputs: Sequence[str]


class Weights:
    """The file of weights: each distinct tensor once."""

    def __init__(self, stream: BinaryIO):
        self.stream = stream
        self.places: Dict[Tuple[str, bytes], int] = {}

    def place(self, values: np.ndarray) -> int:
        """Offset of these values, which are written where they are not there yet."""
        data = values.tobytes()
        key = (f"{values.dtype}{values.shape}", hashlib.sha256(data).digest())
        if key not in self.places:
            self.stream.write(bytes(-self.stream.tell() % ALIGNMENT))
            self.places[key] = self.stream.tell()
            self.stream.write(data)
        return self.places[key]


def write_graphs(graphs: Mapping[str, Graph], folder: Path, fingerprint: str, int8: bool = False) -> List[str]:
    """Write ``NAME.onnx`` for each graph and the weights of all; the files are those of ``graphs`` and :data:`WEIGHTS`.

    Args:
        fingerprint: of the exported weights; kept in the metadata of each graph, so that the runtime notices a file of another.
        int8: quantise the weights of products and embeddings, see :func:`~.quantising.quantise`.

    Returns:
        What is quantised: ``"GRAPH: WEIGHT"``; empty for float32.
    """
    import onnx_ir

    listed = []
    with (folder / WEIGHTS).open("wb") as stream:
        weights = Weights(stream)
        for name, graph in graphs.items():
            model = exported(graph)
            known = names_of(graph.module)
            if int8:
                listed += [f"{name}: {weight}" for weight in quantise(model.graph, known)]
            model.metadata_props[FINGERPRINT] = fingerprint
            model.producer_name = __package__.split(".")[0]
            _move_weights(model, weights, folder)
            onnx_ir.save(model, folder / f"{name}.onnx")
            logger.info("wrote %s.onnx: %d nodes", name, len(model.graph))
    return listed


def exported(graph: Graph) -> Any:
    """The ``onnx_ir.Model`` of a graph, optimised, with its weights in memory."""
    dynamic: Dict[str, Any] = {}
    names: List[str] = []
    for name, example in graph.inputs.items():
        dynamic[name] = dict.fromkeys(graph.varying.get(name, ()), torch.export.Dim.DYNAMIC) or None
        if isinstance(example, list):
            dynamic[name] = [dynamic[name]] * len(example)
        names += [f"{name}.{number}" for number in range(len(example))] if isinstance(example, list) else [name]
    with _silence(), torch.no_grad(), torch.backends.mkldnn.flags(enabled=False):  # its products are no ONNX operators
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
    """Digest of a weight (of a matrix also transposed) -> its name in the module, or in its ``model``."""
    found: Dict[bytes, str] = {}
    for name, tensor in [*module.named_buffers(), *module.named_parameters()]:
        values = tensor.detach().numpy()
        for one in (values, values.T) if values.ndim == 2 else (values,):
            found[digest(one)] = name[len(_WRAPPED) :] if name.startswith(_WRAPPED) else name
    return found


def _move_weights(model: Any, weights: Weights, folder: Path) -> None:
    """Put the large constants of a graph into the file of weights."""
    import onnx_ir

    for value in model.graph.initializers.values():
        tensor = value.const_value
        if tensor.nbytes < INLINE:
            continue
        offset = weights.place(np.ascontiguousarray(tensor.numpy()))
        value.const_value = onnx_ir.ExternalTensor(
            WEIGHTS, offset, tensor.nbytes, tensor.dtype, shape=tensor.shape, name=value.name, base_dir=folder
        )


def _strip(model: Any) -> None:
    """Leave out what the exporter notes for debugging: places in the source, which say where it was exported."""
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
    """Without the exporter's notes and warnings."""
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
