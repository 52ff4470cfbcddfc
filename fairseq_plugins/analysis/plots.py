"""Plots of an analysis: lines over the layers, curves, bars, heat maps. The same numbers give the same SVG, byte for byte.

matplotlib is imported when a plot is drawn: it is an optional dependency, the extra ``plots``.
"""

import contextlib
import importlib
import io
import math
import os
from typing import Any, Dict, Iterator, NamedTuple, Optional, Sequence, Tuple

from data_prep.files import atomic_path

KINDS = (".svg", ".png")
STYLE = {
    "svg.hashsalt": "fairseq_plugins",  # ids in the file come from this instead of a random number
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": "cycler('color', ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#000000', '#999999'])",
}
LEGEND: Dict[str, Any] = {"frameon": False, "fontsize": 8, "loc": "upper left", "bbox_to_anchor": (1.02, 1.0)}
"""At the right of the last panel."""
MARKERS = "os^Dv<>P"
MOST_MARKED = 40
"""Points of a curve up to which each has a marker."""
CELLS_WITH_NUMBERS = 17
"""Rows or columns of a heat map up to which each cell shows its number."""
UPRIGHT = 4
"""Letters from which on the labels of columns are written upwards."""


class MissingLibrary(ValueError):
    """matplotlib is not installed."""


class Line(NamedTuple):
    """A line of a panel; lines of one label have one colour and one entry in the legend."""

    label: str
    values: Sequence[float]  # one for each place of the x axis
    style: str = "-"  # of matplotlib, as - or :
    note: str = ""  # what lines of another style than - are: one entry in the legend for all of them


class Panel(NamedTuple):
    """Lines over a common x axis, drawn in their order."""

    title: str
    y_label: str
    lines: Sequence[Line]
    y_range: Optional[Tuple[float, float]] = None  # None: what the lines need


class Curve(NamedTuple):
    """A curve with an x axis of its own, whose ``places`` ascend."""

    label: str
    places: Sequence[float]
    values: Sequence[float]


class Bars(NamedTuple):
    """Bars of one colour, one in each group; None leaves a bar out, or the interval (``spans``) of its value."""

    label: str
    values: Sequence[Optional[float]]
    spans: Optional[Sequence[Optional[Tuple[float, float]]]] = None


class HeatMap(NamedTuple):
    """A matrix of numbers with labels of its rows and columns; None leaves a cell empty."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[Optional[float]]]


def check(path: str) -> None:
    """Refuse what cannot be drawn, before the work.

    Raises:
        ValueError: another ending than .svg and .png.
        MissingLibrary: no matplotlib.
    """
    if os.path.splitext(path)[1].lower() not in KINDS:
        raise ValueError(f"--plot {path}: valid: a file that ends in {' or '.join(KINDS)}")
    _matplotlib()


@contextlib.contextmanager
def _drawing(path: str, width: float, height: float, title: str) -> Iterator[Any]:
    """A figure that is no part of pyplot's state; it is written to ``path`` at the end."""
    check(path)
    with _matplotlib().rc_context(STYLE):
        size = (width, height)
        figure = importlib.import_module("matplotlib.figure").Figure(figsize=size, layout="constrained")
        yield figure
        _write(figure, path, title)


def draw_lines(path: str, panels: Sequence[Panel], places: Sequence[int], x_label: str, title: str) -> None:
    """Panels side by side, with one legend at the right for all of them."""
    with _drawing(path, 4.6 * len(panels) + 2.0, 4.0, title) as figure:
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        entries: Dict[str, Any] = {}
        for axis, panel in zip(axes, panels):
            entries.update(_draw_panel(axis, panel, places))
            axis.set_xlabel(x_label)
        axes[-1].legend(list(entries.values()), list(entries), **LEGEND)


def draw_curves(
    path: str, curves: Sequence[Curve], x_label: str, y_label: str, title: str, level: Optional[float] = None
) -> None:
    """Curves in one panel; ``level`` is a value that they are to reach, drawn as a dotted line."""
    with _drawing(path, 7.0, 4.0, title) as figure:
        axis = figure.subplots()
        for number, curve in enumerate(curves):
            marker = MARKERS[number % 8] if len(curve.places) <= MOST_MARKED else ""
            look = {"color": f"C{number % 8}", "marker": marker, "markersize": 3.5, "linewidth": 1.3}
            axis.plot(curve.places, curve.values, "-" if number < 8 else "--", label=curve.label, **look)
        if level is not None:
            axis.axhline(level, linestyle=":", color="0.4", linewidth=1.0, label=f"{level:g}")
        axis.set_xlabel(x_label)
        axis.set_ylabel(y_label)
        axis.grid(linewidth=0.3)
        axis.legend(**LEGEND)


def draw_bars(path: str, groups: Sequence[str], bars: Sequence[Bars], y_label: str, title: str) -> None:
    """Groups of bars side by side, from 0, each with its number above it."""
    width = 0.8 / len(bars)
    with _drawing(path, max(4.0, 0.45 * len(groups) * len(bars) + 2.5), 4.0, title) as figure:
        axis = figure.subplots()
        for number, one in enumerate(bars):
            label = one.label
            for group, value in enumerate(one.values):
                if value is None:
                    continue
                place = group + (number - (len(bars) - 1) / 2) * width
                axis.bar(place, value, width * 0.94, color=f"C{number % 8}", label=label)
                label = "_"  # one entry in the legend
                span = one.spans[group] if one.spans is not None else None
                if span is not None:
                    axis.plot([place, place], span, color="0.25", linewidth=1.0)
                top = value if span is None else max(span[1], value)
                number_text = f"{value:#.3g}".rstrip(".")
                axis.annotate(number_text, (place, top), (0, 2), textcoords="offset points", ha="center", fontsize=7)
        axis.set_xticks(range(len(groups)), groups)
        axis.tick_params(axis="x", length=0)
        axis.set_ylabel(y_label)
        axis.grid(axis="y", linewidth=0.3)
        axis.set_axisbelow(True)
        axis.legend(**LEGEND)


def draw_heat_maps(
    path: str, maps: Sequence[HeatMap], x_label: str, y_label: str, title: str, low: float = 0.0
) -> None:
    """Heat maps of one scale from ``low`` to 1, as many side by side as make a square of them."""
    columns = min(math.ceil(math.sqrt(len(maps))), 4)
    rows = math.ceil(len(maps) / columns)
    widest = max(len(label) for one in maps for label in one.rows)
    tallest = max(len(label) for one in maps for label in one.columns)
    size = max(2.2, 0.36 * max(len(one.columns) for one in maps)) + 0.08 * widest + 0.3
    height = max(1.6, 0.3 * max(len(one.rows) for one in maps)) + (0.08 * tallest if tallest > UPRIGHT else 0.1) + 0.8
    with _drawing(path, size * columns + 1.0, height * rows + 0.5, title) as figure:
        axes = figure.subplots(rows, columns, squeeze=False).flatten()
        for axis, one in zip(axes, maps):
            image = _draw_map(axis, one, low)
        for axis in axes[len(maps) :]:
            axis.set_axis_off()
        figure.colorbar(image, ax=list(axes), shrink=0.8)
        figure.supxlabel(x_label, fontsize=9)
        figure.supylabel(y_label, fontsize=9)


def _draw_panel(axis: Any, panel: Panel, places: Sequence[int]) -> Dict[str, Any]:
    """Draw a panel; label -> what stands for it in the legend."""
    entries: Dict[str, Any] = {}
    notes: Dict[str, Any] = {}
    colours: Dict[str, int] = {}
    for line in panel.lines:
        number = colours.setdefault(line.label, len(colours))
        solid = line.style == "-"
        look = {"color": f"C{number % 8}", "marker": MARKERS[number % 8] if solid else "", "markersize": 4}
        (drawn,) = axis.plot(places, line.values, line.style, linewidth=1.4 if solid else 1.0, **look)
        if solid:
            entries[line.label] = drawn
        else:
            notes[line.note] = axis.plot([], [], line.style, color="0.4", linewidth=1.0)[0]
    axis.set_title(panel.title, fontsize=9)
    axis.set_ylabel(panel.y_label)
    axis.set_xticks(list(places)[:: max(1, math.ceil(len(places) / 13))])  # at most 13 whole numbers
    axis.grid(linewidth=0.3)
    if panel.y_range is not None:
        axis.set_ylim(*panel.y_range)
    return {**entries, **notes}


def _draw_map(axis: Any, one: HeatMap, low: float) -> Any:
    numbers = [[math.nan if value is None else value for value in row] for row in one.values]
    image = axis.imshow(numbers, vmin=low, vmax=1.0, cmap="viridis", aspect="auto")
    upright = max(map(len, one.columns)) > UPRIGHT
    axis.set_xticks(range(len(one.columns)), one.columns, fontsize=7, rotation=90 if upright else 0)
    axis.set_yticks(range(len(one.rows)), one.rows, fontsize=7)
    axis.set_title(one.title, fontsize=9)
    for side in ("left", "bottom"):
        axis.spines[side].set_visible(False)
    if max(len(one.rows), len(one.columns)) <= CELLS_WITH_NUMBERS:
        for place, row in enumerate(numbers):
            for column, value in enumerate(row):
                if not math.isnan(value):
                    colour = "black" if (value - low) / (1 - low) > 0.6 else "white"
                    axis.text(column, place, f"{value:.2f}", ha="center", va="center", fontsize=6, color=colour)
    return image


def _matplotlib() -> Any:
    try:
        return importlib.import_module("matplotlib")
    except ImportError as error:
        raise MissingLibrary("--plot needs matplotlib: pip install 'fairseq-plugins[plots]'") from error


def _write(figure: Any, path: str, title: str) -> None:
    figure.suptitle(title, fontsize=10)
    kind = os.path.splitext(path)[1].lower()[1:]
    names = {"svg": ("Date", "Creator"), "png": ("Software",)}[kind]
    content = io.BytesIO()
    figure.savefig(content, format=kind, dpi=150, metadata=dict.fromkeys(names))
    data = content.getvalue()
    if kind == "svg":
        lines = data.decode("utf-8").splitlines()
        data = ("\n".join(line.rstrip() for line in lines) + "\n").encode("utf-8")
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)
