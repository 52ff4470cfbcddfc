"""Singular values of one encoder's matrices, or of two.

    fairseq-plugins singular-values MODEL [MODEL_B]

For each layer and matrix (K, Q, V, Out, FC1, FC2): ‖σ‖, the L2 norm of the vector of singular
values, which is also the Frobenius norm of the matrix. With two models also d, the L2 distance
between the two vectors, both sorted from the largest. Layers are counted from 1, the one next to
the embedding.
"""

import argparse
import logging
import math
import re
import sys
from typing import Dict, List, Mapping, NamedTuple, Sequence

import torch
from torch import Tensor

from ..checkpoints.encoders import read_encoder
from ..own_commands import forward
from . import plots
from .report import names_of_sides, say, short_names, table, write_json

logger = logging.getLogger(__name__)

MATRICES = {
    "K": "self_attn.k_proj",
    "Q": "self_attn.q_proj",
    "V": "self_attn.v_proj",
    "Out": "self_attn.out_proj",
    "FC1": "fc1",
    "FC2": "fc2",
}
"""Name in tables -> name in a layer; the order of the paper's Table 2."""
TOLERANCE = 1e-4
"""Largest relative difference between ‖σ‖ and the Frobenius norm of the matrix."""

Layers = List[Dict[str, Tensor]]
"""For each layer, its matrices by the keys of :data:`MATRICES`."""


class Comparison(NamedTuple):
    """A matrix of two models."""

    layer: int  # counted from 1
    matrix: str  # key of MATRICES
    first: float  # ‖σ‖ of the first model
    second: float
    distance: float  # d


def layer_matrices(tensors: Mapping[str, Tensor], name: str) -> Layers:
    """Collect the six matrices of each layer, from the first layer on.

    Args:
        tensors: with names as in fairseq's ``TransformerEncoder``.
        name: of the model, for messages.

    Raises:
        ValueError: no layers, or a matrix is missing.
    """
    matches = [re.match(r"layers\.(\d+)\.", key) for key in tensors]
    count = max((int(match.group(1)) + 1 for match in matches if match), default=0)
    if not count:
        raise ValueError(f"{name}: has no encoder layers")
    layers: Layers = []
    for number in range(count):
        keys = {matrix: f"layers.{number}.{inner}.weight" for matrix, inner in MATRICES.items()}
        missing = [key for key in keys.values() if key not in tensors]
        if missing:
            raise ValueError(f"{name}: layer {number + 1} lacks {', '.join(missing)}")
        layers.append({matrix: tensors[key] for matrix, key in keys.items()})
    return layers


def singular_values(matrix: Tensor, name: str) -> Tensor:
    """Compute singular values, from the largest to the smallest.

    Args:
        name: of the matrix, for messages.

    Returns:
        (min(rows, columns),) float64.

    Raises:
        ValueError: entries that are not finite, or a decomposition that did not converge to the
            norm of the matrix.
    """
    exact = matrix.double()
    if not bool(torch.isfinite(exact).all()):
        raise ValueError(f"{name}: holds numbers that are not finite")
    try:
        values = torch.linalg.svdvals(exact)
    except torch.linalg.LinAlgError as error:
        raise ValueError(f"{name}: {error}") from None
    sigma, frobenius = float(values.norm()), float(torch.linalg.matrix_norm(exact))
    if not math.isclose(sigma, frobenius, rel_tol=TOLERANCE, abs_tol=1e-12):
        raise ValueError(
            f"{name}: ‖σ‖ is {sigma:.6g}, the Frobenius norm {frobenius:.6g}; valid: equal"
        )
    return values


def compare(first: Layers, second: Layers, names: Sequence[str]) -> List[Comparison]:
    """Compare the matrices of two models, each from :func:`layer_matrices`.

    Raises:
        ValueError: other numbers of layers, or other shapes.

    Source: Ji et al. 2024, section 3.3 and Table 5.
    """
    check_shapes(first, second, names)
    comparisons = []
    for number, (ours, theirs) in enumerate(zip(first, second), start=1):
        logger.info("layer %d of %d", number, len(first))
        for matrix in MATRICES:
            x = singular_values(ours[matrix], f"{names[0]}, layer {number}, {matrix}")
            y = singular_values(theirs[matrix], f"{names[1]}, layer {number}, {matrix}")
            norms = float(x.norm()), float(y.norm())
            comparisons.append(Comparison(number, matrix, *norms, float((x - y).norm())))
    return comparisons


def measure(layers: Layers, name: str) -> List[Dict[str, float]]:
    """Compute ‖σ‖ of every matrix of a model, by layer and key of :data:`MATRICES`."""
    norms = []
    for number, matrices in enumerate(layers, start=1):
        logger.info("layer %d of %d", number, len(layers))
        norms.append(
            {
                matrix: float(singular_values(tensor, f"{name}, layer {number}, {matrix}").norm())
                for matrix, tensor in matrices.items()
            }
        )
    return norms


def check_shapes(first: Layers, second: Layers, names: Sequence[str]) -> None:
    """Raise ValueError, naming layer, matrix and both shapes, unless all shapes are equal."""
    valid = "valid: two models of one shape"
    if len(first) != len(second):
        raise ValueError(f"{names[0]} has {len(first)} layers, {names[1]} {len(second)}; {valid}")
    for number, (ours, theirs) in enumerate(zip(first, second), start=1):
        for matrix, inner in MATRICES.items():
            x, y = tuple(ours[matrix].shape), tuple(theirs[matrix].shape)
            if x != y:
                matrix_name = f"layer {number}, {matrix} ({inner}.weight)"
                raise ValueError(
                    f"{matrix_name}: {names[0]} has the shape {x}, {names[1]} {y}; {valid}"
                )


def render(comparisons: Sequence[Comparison], names: Sequence[str]) -> str:
    """Format the table: for each layer a row of ‖σ‖ for each model, and a row of d.

    It is the paper's Table 5 with layers as rows.
    """
    rows = []
    for layer in dict.fromkeys(entry.layer for entry in comparisons):
        entries = [entry for entry in comparisons if entry.layer == layer]
        rows.append([str(layer), f"‖σ‖ {names[0]}", *(f"{entry.first:.2f}" for entry in entries)])
        rows.append(["", f"‖σ‖ {names[1]}", *(f"{entry.second:.2f}" for entry in entries)])
        rows.append(["", "d", *(f"{entry.distance:.2f}" for entry in entries)])
    return table(["layer", "", *MATRICES], rows, text_columns=2)


def draw(path: str, comparisons: Sequence[Comparison], names: Sequence[str]) -> None:
    """Draw two panels over the layers, the rise of ‖σ‖ and d, with a line for each matrix."""
    rises: Dict[str, List[float]] = {matrix: [] for matrix in MATRICES}
    distances: Dict[str, List[float]] = {matrix: [] for matrix in MATRICES}
    for entry in comparisons:
        rises[entry.matrix].append(entry.second - entry.first)
        distances[entry.matrix].append(entry.distance)
    panels = [
        _panel(f"‖σ‖ of {names[1]} minus that of {names[0]}", "difference of ‖σ‖", rises),
        _panel("distance of the singular values", "d", distances),
    ]
    layers = list(dict.fromkeys(entry.layer for entry in comparisons))
    plots.draw_lines(path, panels, layers, "layer", f"singular values: {names[0]} and {names[1]}")


def _panel(title: str, label: str, numbers: Mapping[str, Sequence[float]]) -> plots.Panel:
    """Collect the lines of a panel; 0 is always in it, to tell a rise from a fall."""
    lines = [plots.Line(matrix, values) for matrix, values in numbers.items()]
    values = [0.0, *(value for line in lines for value in line.values)]
    margin = 0.05 * (max(values) - min(values)) or 1.0
    return plots.Panel(title, label, lines, (min(values) - margin, max(values) + margin))


def work_on_one(args: argparse.Namespace) -> None:
    """Compute, print and write the values of one model."""
    (name,) = short_names([args.model])
    norms = measure(layer_matrices(read_encoder(args.model, heads=args.heads).tensors, name), name)
    rows = [
        [str(layer), *(f"{of_layer[matrix]:.2f}" for matrix in MATRICES)]
        for layer, of_layer in enumerate(norms, start=1)
    ]
    say(f"Singular values of {name}: ‖σ‖\n\n{table(['layer', *MATRICES], rows)}")
    entries = [
        {"layer": layer, "matrix": matrix, "first": norm}
        for layer, of_layer in enumerate(norms, start=1)
        for matrix, norm in of_layer.items()
    ]
    write_json(args.json, {"models": [name], "rows": entries})
    if args.plot is not None:
        lines = {matrix: [of_layer[matrix] for of_layer in norms] for matrix in MATRICES}
        panel = _panel(f"‖σ‖ of {name}", "‖σ‖", lines)
        layers = list(range(1, len(norms) + 1))
        plots.draw_lines(args.plot, [panel], layers, "layer", f"singular values: {name}")


def work(args: argparse.Namespace) -> None:
    """Compute, print and write."""
    if args.model_b is None:
        work_on_one(args)
        return
    names = names_of_sides([args.model, args.model_b])
    first = layer_matrices(read_encoder(args.model, heads=args.heads).tensors, names[0])
    heads = args.heads_b or args.heads
    second = layer_matrices(read_encoder(args.model_b, heads=heads).tensors, names[1])
    comparisons = compare(first, second, names)
    say(f"Singular values of {names[0]} and {names[1]}\n\n{render(comparisons, names)}")
    rows = [entry._asdict() for entry in comparisons]
    write_json(args.json, {"models": names, "rows": rows})
    if args.plot is not None:
        draw(args.plot, comparisons, names)


if __name__ == "__main__":
    sys.exit(forward("singular-values"))
