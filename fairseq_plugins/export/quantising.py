"""int8 weights: products whose right side is a weight, and embeddings."""

import hashlib
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

LARGEST = 127  # symmetric: -128 is not used, so that zero is exact
MIDDLE = 128  # zero of activations, which have no sign
TINY = 1e-12  # for rows of zeros
DOMAIN, PRODUCT = "com.microsoft", "MatMulIntegerToFloat"


def quantise(graph: Any, names: Dict[bytes, str]) -> List[str]:
    """Quantise the weights of a graph in place; the other factors are quantised when it runs.

    A weight of a product has a scale per output, a table of embeddings has one per row. So an
    output projection that is tied to the embedding is stored once. The other factor of a product
    has a scale per row. With one scale for the whole tensor, onnxruntime's usual way, a sentence's
    result would depend on the rest of its batch. Everything else stays float32.

    Args:
        graph: ``onnx_ir.Graph``.
        names: digest of a weight -> its name.

    Returns:
        The names of the quantised weights.
    """
    return _Quantiser(graph, names).run()


class QuantisedWeight(NamedTuple):
    """Initializers of a weight (K, N) or (N, K): int8 values, scales (N,), zero points (N,)."""

    values: Any
    scale: Any
    zero: Any


class QuantisedInput(NamedTuple):
    """An input divided by the largest magnitude of each row, in 8 bits, and these magnitudes."""

    rows: Any
    largest: Any


class _Quantiser:
    """Replace the products and lookups of one graph; weights and inputs are quantised once."""

    def __init__(self, graph: Any, names: Dict[bytes, str]):
        self.graph, self.names = graph, names
        self.quantised_names: Dict[str, None] = {}
        self.weights: Dict[Tuple[Any, int], QuantisedWeight] = {}
        """(initializer, axis of the scales) -> its quantised form."""
        self.inputs: Dict[Any, QuantisedInput] = {}

    def run(self) -> List[str]:
        """Quantise; return the names of the weights."""
        for node in list(self.graph):
            if node.op_type == "MatMul" or (node.op_type == "Gemm" and self._is_plain(node)):
                self._quantise_product(node)
            elif node.op_type == "Gather" and node.attributes.get_int("axis", 0) == 0:
                self._quantise_embedding(node)
        for name, value in list(self.graph.initializers.items()):
            if not value.uses():
                del self.graph.initializers[name]
        self.graph.opset_imports[DOMAIN] = 1
        return list(self.quantised_names)

    # ---- Nodes that are replaced. ----

    @staticmethod
    def _is_plain(node: Any) -> bool:
        """Return True for a Gemm that computes ``x W + b``, with W perhaps transposed."""
        attributes = node.attributes
        factors = [attributes.get_float(name, 1.0) for name in ("alpha", "beta")]
        return factors == [1.0, 1.0] and attributes.get_int("transA", 0) == 0

    def _quantise_product(self, node: Any) -> None:
        """Replace ``x W (+ b)`` if W is a constant matrix or the transpose of one."""
        is_gemm = node.op_type == "Gemm"
        right, transposed = node.inputs[1], is_gemm and node.attributes.get_int("transB", 0) == 1
        transpose = right.producer()
        if transpose is not None and transpose.op_type == "Transpose":
            if _is_table(transpose.inputs[0]):
                right, transposed = transpose.inputs[0], not transposed
        if not _is_table(right):
            return
        weight = self._weight(right, axis=0 if transposed else 1)
        new = _Nodes(node)
        product = self._product(node.inputs[0], weight, transposed, new)
        if is_gemm and len(node.inputs) > 2 and node.inputs[2] is not None:
            product = new.add("Add", product, node.inputs[2])
        new.replace(product)
        if transpose is not None and not transpose.outputs[0].uses():
            self.graph.remove(transpose, safe=True)

    def _product(self, value: Any, weight: QuantisedWeight, transposed: bool, new: "_Nodes") -> Any:
        """Add the nodes of a quantised product; ``transposed``: the values of the weight are."""
        matrix = weight.values
        if transposed:
            matrix = new.add("Transpose", matrix, perm=[1, 0])
        rows, largest = self._input(value, new)
        step = self._shared("step", np.float32(1 / LARGEST))
        middle = self._shared("middle", np.uint8(MIDDLE))
        factors = (rows, matrix, step, weight.scale, middle, weight.zero)
        return new.add("Mul", new.add(PRODUCT, *factors, domain=DOMAIN), largest)

    def _quantise_embedding(self, node: Any) -> None:
        """Replace a lookup in a constant table by one in its int8 values and one in its scales."""
        table, rows = node.inputs
        if not _is_table(table):
            return
        weight = self._weight(table, axis=0)
        new = _Nodes(node)
        numbers = new.add("Cast", new.add("Gather", weight.values, rows, axis=0), to=1)
        column = self._column(weight.scale, len(table.const_value.numpy()))
        scales = new.add("Gather", column, rows, axis=0)
        new.replace(new.add("Mul", numbers, scales))

    # ---- Constants, and quantised inputs. ----

    def _weight(self, value: Any, axis: int) -> QuantisedWeight:
        """Quantise a weight, once, with a scale per index of ``axis``."""
        key = (value, axis)
        if key not in self.weights:
            array = value.const_value.numpy()
            scale = np.abs(array).max(axis=1 - axis) / np.float32(LARGEST)
            scale = np.where(scale == 0, np.float32(1), scale).astype(np.float32)
            rounded = np.rint(array / np.expand_dims(scale, 1 - axis)).astype(np.int8)
            name = f"{value.name}_{axis}"
            self.weights[key] = QuantisedWeight(
                self._constant(f"{name}_quantised", rounded),
                self._constant(f"{name}_scale", scale),
                self._constant(f"{name}_zero", np.zeros(len(scale), np.int8)),
            )
            self.quantised_names[self.names.get(digest(array), value.name)] = None
        return self.weights[key]

    def _input(self, value: Any, new: "_Nodes") -> QuantisedInput:
        """Add the nodes that quantise an input, once for all products that read it."""
        if value not in self.inputs:
            last = self._shared("last", np.array([-1]))
            magnitudes = new.add("ReduceMax", new.add("Abs", value), last)
            largest = new.add("Max", magnitudes, self._shared("tiny", np.float32(TINY)))
            step = self._shared("step", np.float32(1 / LARGEST))
            middle = self._shared("middle", np.uint8(MIDDLE))
            shares = new.add("Div", value, largest)
            rows = new.add("QuantizeLinear", shares, step, middle)
            self.inputs[value] = QuantisedInput(rows, largest)
        return self.inputs[value]

    def _column(self, scale: Any, rows: int) -> Any:
        """Return scales as a constant (rows, 1)."""
        name = f"{scale.name}_column"
        if name in self.graph.initializers:
            return self.graph.initializers[name]
        return self._constant(name, scale.const_value.numpy().reshape(rows, 1))

    def _shared(self, name: str, number: Any) -> Any:
        """Return a constant that all products share."""
        name = f"quantised_{name}"
        if name in self.graph.initializers:
            return self.graph.initializers[name]
        return self._constant(name, np.asarray(number))

    def _constant(self, name: str, array: np.ndarray) -> Any:
        import onnx_ir

        value = onnx_ir.val(name, const_value=onnx_ir.tensor(array, name=name))
        self.graph.register_initializer(value)
        return value


def digest(array: np.ndarray) -> bytes:
    """Hash the values and the shape of an array."""
    content = np.ascontiguousarray(array).tobytes()
    return hashlib.sha256(repr(array.shape).encode() + content).digest()


def _is_table(value: Optional[Any]) -> bool:
    """Return True for a constant float32 matrix."""
    tensor = None if value is None or not value.is_initializer() else value.const_value
    return tensor is not None and len(tensor.shape) == 2 and tensor.dtype.name == "FLOAT"


class _Nodes:
    """Insert nodes before a node, and replace it by the last of them."""

    def __init__(self, node: Any):
        self.node = node

    def add(self, kind: str, *inputs: Any, domain: str = "", **attributes: Any) -> Any:
        """Insert a node; return its output."""
        import onnx_ir

        node = onnx_ir.node(kind, inputs, attributes=attributes, domain=domain)
        self.node.graph.insert_before(self.node, node)
        return node.outputs[0]

    def replace(self, value: Any) -> None:
        """Put ``value`` in the place of the node's output, and remove the node."""
        old = self.node.outputs[0]
        graph = self.node.graph
        value.name, value.shape, value.type = old.name, old.shape, old.type
        old.replace_all_uses_with(value, replace_graph_outputs=True)
        graph.remove(self.node, safe=True)
