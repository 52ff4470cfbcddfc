"""int8 weights: products whose right side is a weight, and embeddings."""

import hashlib
from typing import Any, Dict, List, Optional

import numpy as np

LARGEST = 127  # symmetric: -128 is not used, so that zero is exact
MIDDLE = 128  # what zero is among activations, which have no sign
TINY = 1e-12  # for rows of zeros
DOMAIN, PRODUCT = "com.microsoft", "MatMulIntegerToFloat"


def quantise(graph: Any, names: Dict[bytes, str]) -> List[str]:
    """Quantise the weights of a graph in place. What they are multiplied with is quantised when the graph runs.

    A weight has a scale per output, a table of embeddings one per row, so that an output projection tied to the embedding is stored
    once. The other side of a product has a scale per row: with one for the whole tensor, as onnxruntime has it, a sentence's
    result would depend on the others of its batch, and large batches would lose more. Everything else stays float32.

    Args:
        graph: ``onnx_ir.Graph``.
        names: of weights, by their digest.

    Returns:
        The names of the quantised weights.
    """
    return _Quantiser(graph, names).run()


class _Quantiser:
    def __init__(self, graph: Any, names: Dict[bytes, str]):
        self.graph, self.names = graph, names
        self.listed: Dict[str, None] = {}
        self.weights: Dict[Any, Any] = {}  # (initializer, axis of the scales) -> quantised initializer, scales, zeros
        self.inputs: Dict[Any, Any] = {}  # value -> its rows in 8 bits, and their largest magnitudes

    def run(self) -> List[str]:
        for node in list(self.graph):
            if node.op_type in ("MatMul", "Gemm"):
                self._product(node)
            elif node.op_type == "Gather" and node.attributes.get_int("axis", 0) == 0:
                self._embedding(node)
        for name, value in list(self.graph.initializers.items()):
            if not value.uses():
                del self.graph.initializers[name]
        self.graph.opset_imports[DOMAIN] = 1
        return list(self.listed)

    # ---- What is replaced. ----

    def _product(self, node: Any) -> None:
        """``x W (+ b)`` with a constant W; W may be the transpose of a constant."""
        if node.op_type == "Gemm" and not self._plain(node):
            return
        right, transposed = node.inputs[1], node.op_type == "Gemm" and node.attributes.get_int("transB", 0) == 1
        turn = right.producer()
        if turn is not None and turn.op_type == "Transpose" and _table(turn.inputs[0]):
            right, transposed = turn.inputs[0], not transposed
        if not _table(right):
            return
        weight, scale, zero = self._weight(right, axis=0 if transposed else 1)
        new = _Nodes(node)
        if transposed:
            weight = new("Transpose", weight, perm=[1, 0])
        bias = node.inputs[2] if node.op_type == "Gemm" and len(node.inputs) > 2 else None
        result = self._by_rows(node.inputs[0], weight, scale, zero, new)
        if bias is not None:
            result = new("Add", result, bias)
        new.replace(result)
        if turn is not None and not turn.outputs[0].uses():
            self.graph.remove(turn, safe=True)

    def _by_rows(self, value: Any, weight: Any, scale: Any, zero: Any, new: "_Nodes") -> Any:
        """A product with a scale for each row of the input."""
        rows, largest = self._input(value, new)
        step, middle = self._shared("step", np.float32(1 / LARGEST)), self._shared("middle", np.uint8(MIDDLE))
        return new("Mul", new(PRODUCT, rows, weight, step, scale, middle, zero, domain=DOMAIN), largest)

    def _embedding(self, node: Any) -> None:
        """Rows of a constant table."""
        table, rows = node.inputs
        if not _table(table):
            return
        weight, scale, _ = self._weight(table, axis=0)
        new = _Nodes(node)
        taken = new("Cast", new("Gather", weight, rows, axis=0), to=1)
        scales = new("Gather", self._column(scale, len(table.const_value.numpy())), rows, axis=0)
        new.replace(new("Mul", taken, scales))

    @staticmethod
    def _plain(node: Any) -> bool:
        """Whether a Gemm is a product and a sum."""
        attributes = node.attributes
        factors = [attributes.get_float(name, 1.0) for name in ("alpha", "beta")]
        return factors == [1.0, 1.0] and attributes.get_int("transA", 0) == 0

    # ---- Constants, and what is made of an input once. ----

    def _weight(self, value: Any, axis: int) -> Any:
        """The quantised weight with a scale per index of ``axis``: int8 values, scales (N,), zero points (N,)."""
        key = (value, axis)
        if key not in self.weights:
            values = value.const_value.numpy()
            scale = np.abs(values).max(axis=1 - axis) / np.float32(LARGEST)
            scale = np.where(scale == 0, np.float32(1), scale).astype(np.float32)
            rounded = np.rint(values / np.expand_dims(scale, 1 - axis)).astype(np.int8)
            parts = {"quantised": rounded, "scale": scale, "zero": np.zeros(len(scale), np.int8)}
            self.weights[key] = tuple(
                self._constant(f"{value.name}_{axis}_{name}", array) for name, array in parts.items()
            )
            self.listed[self.names.get(digest(values), value.name)] = None
        return self.weights[key]

    def _column(self, scale: Any, rows: int) -> Any:
        """Scales as a column, (rows, 1)."""
        name = f"{scale.name}_column"
        found = self.graph.initializers.get(name)
        return self._constant(name, scale.const_value.numpy().reshape(rows, 1)) if found is None else found

    def _constant(self, name: str, array: np.ndarray) -> Any:
        import onnx_ir

        value = onnx_ir.val(name, const_value=onnx_ir.tensor(array, name=name))
        self.graph.register_initializer(value)
        return value

    def _input(self, value: Any, new: "_Nodes") -> Any:
        """The rows of an input in 8 bits, and the largest magnitude of each; made once for products that read the same."""
        if value not in self.inputs:
            last = self._shared("last", np.array([-1]))
            largest = new("Max", new("ReduceMax", new("Abs", value), last), self._shared("tiny", np.float32(TINY)))
            step, middle = self._shared("step", np.float32(1 / LARGEST)), self._shared("middle", np.uint8(MIDDLE))
            self.inputs[value] = new("QuantizeLinear", new("Div", value, largest), step, middle), largest
        return self.inputs[value]

    def _shared(self, name: str, value: Any) -> Any:
        """A constant of all products."""
        name = f"quantised_{name}"
        found = self.graph.initializers.get(name)
        return self._constant(name, np.asarray(value)) if found is None else found


def digest(values: np.ndarray) -> bytes:
    """Of the values and the shape of an array."""
    return hashlib.sha256(repr(values.shape).encode() + np.ascontiguousarray(values).tobytes()).digest()


def _table(value: Optional[Any]) -> bool:
    """Whether a value is a constant float32 matrix."""
    tensor = None if value is None or not value.is_initializer() else value.const_value
    return tensor is not None and len(tensor.shape) == 2 and tensor.dtype.name == "FLOAT"


class _Nodes:
    """Makes nodes in front of a node, then puts the last value in its place."""

    def __init__(self, node: Any):
        self.node = node

    def __call__(self, kind: str, *inputs: Any, domain: str = "", **attributes: Any) -> Any:
        """The output of a new node."""
        import onnx_ir

        made = onnx_ir.node(kind, inputs, attributes=attributes, domain=domain)
        self.node.graph.insert_before(self.node, made)
        return made.outputs[0]

    def replace(self, value: Any) -> None:
        """``value`` takes the place of the node's output."""
        old = self.node.outputs[0]
        graph = self.node.graph
        value.name, value.shape, value.type = old.name, old.shape, old.type
        old.replace_all_uses_with(value, replace_graph_outputs=True)
        graph.remove(self.node, safe=True)
