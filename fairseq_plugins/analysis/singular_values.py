"""Singular values of two encoders' matrices: ``fairseq-plugins singular-values MODEL MODEL_B``.

For each layer and matrix (K, Q, V, Out, FC1, FC2): ‖σ‖ of both, the L2 norm of the vector of singular values, which is also the
Frobenius norm of the matrix; and d, the L2 distance between the two vectors, both sorted from the largest. Layers are counted
from 1, the one next to the embedding.
"""

import argparse
import logging
import math
import re
import sys
from typing import Callable, Dict, List, Mapping, NamedTuple, Sequence

import torch
from torch import Tensor

from ..checkpoints.encoders import read_encoder
from ..own_commands import forward
from . import plots
from .report import names_of_sides, say, table, write_json

logger = logging.getLogger(__name__)

MATRICES = {
    "K": "self_attn.k_proj",
    "Q": "self_attn.q_proj",
    "V": "self_attn.v_proj",
    "Out": "self_attn.out_proj",
    "FC1": "fc1",
    "FC2": "fc2",
}
"""Shown name -> name in a layer; the order of the paper's Table 2."""
TOLERANCE = 1e-4
"""Largest relative difference between ‖σ‖ and the Frobenius norm of the matrix."""

Layers = List[Dict[str, Tensor]]


class Comparison(NamedTuple):
    """A matrix of two models: ``layer`` is counted from 1, ``matrix`` is a key of :data:`MATRICES`."""

    layer: int
    matrix: str
    first: float  # ‖σ‖ of the first model
    second: float
    distance: float  # d


def layer_matrices(tensors: Mapping[str, Tensor], name: str) -> Layers:
    """The six matrices of each layer, from the first one on, of tensors named as in fairseq's ``TransformerEncoder``.

    Raises ValueError: no layers, or a matrix is missing.
    """
    numbers = {int(found.group(1)) for found in (re.match(r"layers\.(\d+)\.", key) for key in tensors) if found}
    if not numbers:
        raise ValueError(f"{name}: has no encoder layers")
    layers: Layers = []
    for number in range(max(numbers) + 1):
        keys = {matrix: f"layers.{number}.{inner}.weight" for matrix, inner in MATRICES.items()}
        missing = [key for key in keys.values() if key not in tensors]
        if missing:
            raise ValueError(f"{name}: layer {number + 1} lacks {', '.join(missing)}")
        layers.append({matrix: tensors[key] for matrix, key in keys.items()})
    return layers


def singular_values(matrix: Tensor, name: str) -> Tensor:
    """(min(rows, columns),) float64: from the largest to the smallest.

    Raises ValueError: entries that are not finite, or a decomposition that did not converge to the norm of the matrix; begins with
    ``name``.
    """
    exact = matrix.double()
    if not bool(torch.isfinite(exact).all()):
        raise ValueError(f"{name}: holds numbers that are not finite")
    try:
        values = torch.linalg.svdvals(exact)
    except torch.linalg.LinAlgError as error:
        raise ValueError(f"{name}: {error}") from None
    sums = float(values.norm()), float(torch.linalg.matrix_norm(exact))
    if not math.isclose(*sums, rel_tol=TOLERANCE, abs_tol=1e-12):
        raise ValueError(f"{name}: ‖σ‖ is {sums[0]:.6g}, the Frobenius norm {sums[1]:.6g}; valid: equal")
    return values


def compare(first: Layers, second: Layers, names: Sequence[str]) -> List[Comparison]:
    """Compare the matrices of two models, each from :func:`layer_matrices`.

    Raises:
        ValueError: other numbers of layers; other shapes, naming the layer, the matrix and both shapes.

    Source: Ji et al. 2024, section 3.3 and Table 5.
    """
    valid = "valid: two models of one shape"
    if len(first) != len(second):
        raise ValueError(f"{names[0]} has {len(first)} layers, {names[1]} {len(second)}; {valid}")
    for number, (one, other) in enumerate(zip(first, second), start=1):
        for matrix, inner in MATRICES.items():
            a, b = tuple(one[matrix].shape), tuple(other[matrix].shape)
            if a != b:
                where = f"layer {number}, {matrix} ({inner}.weight)"
                raise ValueError(f"{where}: {names[0]} has the shape {a}, {names[1]} {b}; {valid}")
    found = []
    for number, pair in enumerate(zip(first, second), start=1):
        logger.info("layer %d of %d", number, len(first))
        for matrix in MATRICES:
            x, y = (
                singular_values(side[matrix], f"{name}, layer {number}, {matrix}") for name, side in zip(names, pair)
            )
            found.append(Comparison(number, matrix, float(x.norm()), float(y.norm()), float((x - y).norm())))
    return found


def render(found: Sequence[Comparison], names: Sequence[str]) -> str:
    """The table: for each layer a row of ‖σ‖ for each model, and a row of d, as in the paper's Table 5 turned."""
    rows = []
    for layer in dict.fromkeys(one.layer for one in found):
        here = [one for one in found if one.layer == layer]
        rows.append([str(layer), f"‖σ‖ {names[0]}", *(f"{one.first:.2f}" for one in here)])
        rows.append(["", f"‖σ‖ {names[1]}", *(f"{one.second:.2f}" for one in here)])
        rows.append(["", "d", *(f"{one.distance:.2f}" for one in here)])
    return table(["layer", "", *MATRICES], rows, text_columns=2)


def draw(path: str, found: Sequence[Comparison], names: Sequence[str]) -> None:
    """Two panels over the layers: how much ‖σ‖ rose, and d; a line for each matrix. 0 is in both, to tell a rise from a fall."""

    def panel(title: str, label: str, value: Callable[[Comparison], float]) -> plots.Panel:
        lines = [plots.Line(matrix, [value(one) for one in found if one.matrix == matrix]) for matrix in MATRICES]
        values = [0.0, *(value for line in lines for value in line.values)]
        margin = 0.05 * (max(values) - min(values)) or 1.0
        return plots.Panel(title, label, lines, (min(values) - margin, max(values) + margin))

    rise = f"‖σ‖ of {names[1]} minus that of {names[0]}"
    panels = [
        panel(rise, "difference of ‖σ‖", lambda one: one.second - one.first),
        panel("distance of the singular values", "d", lambda one: one.distance),
    ]
    layers = list(dict.fromkeys(one.layer for one in found))
    plots.draw_lines(path, panels, layers, "layer", f"singular values: {names[0]} and {names[1]}")


def work(args: argparse.Namespace) -> None:
    """Compute, print and write."""
    names = names_of_sides([args.model, args.model_b])
    sides = [
        layer_matrices(read_encoder(path, heads=heads).tensors, name)
        for path, name, heads in zip((args.model, args.model_b), names, (args.heads, args.heads_b or args.heads))
    ]
    found = compare(sides[0], sides[1], names)
    say(f"Singular values of {names[0]} and {names[1]}\n\n{render(found, names)}")
    write_json(args.json, {"models": names, "rows": [one._asdict() for one in found]})
    if args.plot is not None:
        draw(args.plot, found, names)


if __name__ == "__main__":
    sys.exit(forward("singular-values"))
