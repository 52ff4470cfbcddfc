"""Plots of an analysis: lines over the layers, curves, bars, heat maps.

The same numbers give the same SVG, byte for byte. matplotlib is imported when a plot is drawn: it
is an optional dependency, the extra ``plots``.
"""

import contextlib
import importlib
import io
import math
import os
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from data_prep.files import atomic_path

METADATA = {".svg": ("Date", "Creator"), ".png": ("Software",)}
"""Ending of a file -> metadata that are left out, because they differ between runs or versions."""
COLOURS = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7"),
    *("#e69f00", "#56b4e9", "#000000", "#999999"),
)
STYLE = {
    "svg.hashsalt": "fairseq_plugins",  # ids in the file come from this, not from a random number
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": f"cycler('color', {list(COLOURS)})",
}
LEGEND: Dict[str, Any] = {
    "frameon": False,
    "fontsize": 8,
    "loc": "upper left",
    "bbox_to_anchor": (1.02, 1.0),
}
"""At the right of the last panel."""
MARKERS = "os^Dv<>P"
MOST_MARKED = 40
"""Points of a curve up to which each has a marker."""
MOST_TICKS = 13
"""Labels of an axis of layers, at most."""
CELLS_WITH_NUMBERS = 17
"""Rows or columns of a heat map up to which each cell shows its number."""
UPRIGHT = 4
"""Column labels with more letters than this are written upwards."""


class MissingLibrary(ValueError):
    """matplotlib is not installed."""


class Line(NamedTuple):
    """A line of a panel; lines of one label have one colour and one entry in the legend."""

    label: str
    values: Sequence[float]  # one for each place of the x axis
    style: str = "-"  # of matplotlib, as - or :
    note: str = ""  # meaning of a style other than -: one entry in the legend for all such lines


class Panel(NamedTuple):
    """Lines over a common x axis, drawn in their order."""

    title: str
    y_label: str
    lines: Sequence[Line]
    y_range: Optional[Tuple[float, float]] = None  # None: chosen by matplotlib


class Curve(NamedTuple):
    """A curve with its x values, which ascend."""

    label: str
    places: Sequence[float]
    values: Sequence[float]


class Bars(NamedTuple):
    """Bars of one colour, one per group. A None in the lists leaves out the bar or its interval."""

    label: str
    values: Sequence[Optional[float]]
    spans: Optional[Sequence[Optional[Tuple[float, float]]]] = None  # intervals


class HeatMap(NamedTuple):
    """A matrix of numbers with labels of its rows and columns; None leaves a cell empty."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[Optional[float]]]


def check(path: str) -> None:
    """Check before the work that a plot can be drawn.

    Raises:
        ValueError: another ending than .svg and .png.
        MissingLibrary: no matplotlib.
    """
    if _kind(path) not in METADATA:
        raise ValueError(f"--plot {path}: valid: a file that ends in {' or '.join(METADATA)}")
    _matplotlib()


def draw_lines(
    path: str, panels: Sequence[Panel], places: Sequence[int], x_label: str, title: str
) -> None:
    """Draw panels side by side, with one legend at the right for all of them."""
    with _drawing(path, 4.6 * len(panels) + 2.0, 4.0, title) as figure:
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        entries: Dict[str, Any] = {}
        for axis, panel in zip(axes, panels):
            entries.update(_draw_panel(axis, panel, places))
            axis.set_xlabel(x_label)
        axes[-1].legend(list(entries.values()), list(entries), **LEGEND)


def draw_curves(
    path: str,
    curves: Sequence[Curve],
    x_label: str,
    y_label: str,
    title: str,
    level: Optional[float] = None,
) -> None:
    """Draw curves in one panel, and a dotted line at the ``level`` that they are to reach."""
    with _drawing(path, 7.0, 4.0, title) as figure:
        axis = figure.subplots()
        for number, curve in enumerate(curves):
            axis.plot(
                curve.places,
                curve.values,
                "-" if number < 8 else "--",
                label=curve.label,
                color=f"C{number % 8}",
                marker=MARKERS[number % 8] if len(curve.places) <= MOST_MARKED else "",
                markersize=3.5,
                linewidth=1.3,
            )
        if level is not None:
            axis.axhline(level, linestyle=":", color="0.4", linewidth=1.0, label=f"{level:g}")
        axis.set_xlabel(x_label)
        axis.set_ylabel(y_label)
        axis.grid(linewidth=0.3)
        axis.legend(**LEGEND)


def draw_bars(
    path: str, groups: Sequence[str], bars: Sequence[Bars], y_label: str, title: str
) -> None:
    """Draw groups of bars side by side, from 0, each with its number above it."""
    width = 0.8 / len(bars)
    with _drawing(path, max(4.0, 0.45 * len(groups) * len(bars) + 2.5), 4.0, title) as figure:
        axis = figure.subplots()
        for number, series in enumerate(bars):
            offset = (number - (len(bars) - 1) / 2) * width
            _draw_series(axis, series, offset, width * 0.94, f"C{number % 8}")
        axis.set_xticks(range(len(groups)), groups)
        axis.tick_params(axis="x", length=0)
        axis.set_ylabel(y_label)
        axis.grid(axis="y", linewidth=0.3)
        axis.set_axisbelow(True)
        axis.legend(**LEGEND)


def draw_heat_maps(
    path: str, maps: Sequence[HeatMap], x_label: str, y_label: str, title: str, low: float = 0.0
) -> None:
    """Draw heat maps of one scale from ``low`` to 1, arranged about as a square."""
    columns = min(math.ceil(math.sqrt(len(maps))), 4)
    rows = math.ceil(len(maps) / columns)
    size, height = _map_size(maps)
    with _drawing(path, size * columns + 1.0, height * rows + 0.5, title) as figure:
        axes = figure.subplots(rows, columns, squeeze=False).flatten()
        for axis, heat_map in zip(axes, maps):
            image = _draw_map(axis, heat_map, low)
        for axis in axes[len(maps) :]:
            axis.set_axis_off()
        figure.colorbar(image, ax=list(axes), shrink=0.8)
        figure.supxlabel(x_label, fontsize=9)
        figure.supylabel(y_label, fontsize=9)


# ---- Parts of a figure. ----


def _draw_panel(axis: Any, panel: Panel, places: Sequence[int]) -> Dict[str, Any]:
    """Draw a panel; return label -> handle of each entry in the legend."""
    entries: Dict[str, Any] = {}
    notes: Dict[str, Any] = {}
    numbers: Dict[str, int] = {}
    for line in panel.lines:
        number = numbers.setdefault(line.label, len(numbers))
        solid = line.style == "-"
        (handle,) = axis.plot(
            places,
            line.values,
            line.style,
            linewidth=1.4 if solid else 1.0,
            color=f"C{number % 8}",
            marker=MARKERS[number % 8] if solid else "",
            markersize=4,
        )
        if solid:
            entries[line.label] = handle
        else:
            notes[line.note] = axis.plot([], [], line.style, color="0.4", linewidth=1.0)[0]
    axis.set_title(panel.title, fontsize=9)
    axis.set_ylabel(panel.y_label)
    axis.set_xticks(list(places)[:: max(1, math.ceil(len(places) / MOST_TICKS))])
    axis.grid(linewidth=0.3)
    if panel.y_range is not None:
        axis.set_ylim(*panel.y_range)
    return {**entries, **notes}


def _draw_series(axis: Any, series: Bars, offset: float, width: float, colour: str) -> None:
    """Draw the bars of one colour, ``offset`` to the right of the middle of each group."""
    label = series.label
    for group, value in enumerate(series.values):
        if value is None:
            continue
        place = group + offset
        axis.bar(place, value, width, color=colour, label=label)
        label = "_"  # one entry in the legend
        top = value
        span = None if series.spans is None else series.spans[group]
        if span is not None:
            axis.plot([place, place], span, color="0.25", linewidth=1.0)
            top = max(span[1], value)
        axis.annotate(
            f"{value:#.3g}".rstrip("."),
            (place, top),
            (0, 2),
            textcoords="offset points",
            ha="center",
            fontsize=7,
        )


def _map_size(maps: Sequence[HeatMap]) -> Tuple[float, float]:
    """Return width and height in inches that fit the largest heat map with its labels."""
    longest_row_label = max(len(label) for heat_map in maps for label in heat_map.rows)
    longest_column_label = max(len(label) for heat_map in maps for label in heat_map.columns)
    columns = max(len(heat_map.columns) for heat_map in maps)
    rows = max(len(heat_map.rows) for heat_map in maps)
    below = 0.08 * longest_column_label if longest_column_label > UPRIGHT else 0.1
    width = max(2.2, 0.36 * columns) + 0.08 * longest_row_label + 0.3
    return width, max(1.6, 0.3 * rows) + below + 0.8


def _draw_map(axis: Any, heat_map: HeatMap, low: float) -> Any:
    """Draw a heat map; return its image, for the colour bar."""
    numbers = [[math.nan if cell is None else cell for cell in row] for row in heat_map.values]
    image = axis.imshow(numbers, vmin=low, vmax=1.0, cmap="viridis", aspect="auto")
    columns, rows = heat_map.columns, heat_map.rows
    rotation = 90 if max(map(len, columns)) > UPRIGHT else 0
    axis.set_xticks(range(len(columns)), columns, fontsize=7, rotation=rotation)
    axis.set_yticks(range(len(rows)), rows, fontsize=7)
    axis.set_title(heat_map.title, fontsize=9)
    for side in ("left", "bottom"):
        axis.spines[side].set_visible(False)
    if max(len(rows), len(columns)) <= CELLS_WITH_NUMBERS:
        _write_numbers(axis, numbers, low)
    return image


def _write_numbers(axis: Any, numbers: List[List[float]], low: float) -> None:
    """Write the number of each cell, black on light colours and white on dark ones."""
    for row, cells in enumerate(numbers):
        for column, number in enumerate(cells):
            if not math.isnan(number):
                colour = "black" if (number - low) / (1 - low) > 0.6 else "white"
                text = f"{number:.2f}"
                axis.text(column, row, text, ha="center", va="center", fontsize=6, color=colour)


# ---- Files. ----


@contextlib.contextmanager
def _drawing(path: str, width: float, height: float, title: str) -> Iterator[Any]:
    """Open a figure outside pyplot's state, and write it to ``path`` at the end."""
    check(path)
    with _matplotlib().rc_context(STYLE):
        make_figure = importlib.import_module("matplotlib.figure").Figure
        figure = make_figure(figsize=(width, height), layout="constrained")
        yield figure
        _write(figure, path, title)


def _write(figure: Any, path: str, title: str) -> None:
    """Write a figure atomically; the same figure gives the same bytes."""
    figure.suptitle(title, fontsize=10)
    kind = _kind(path)
    buffer = io.BytesIO()
    metadata = dict.fromkeys(METADATA[kind])
    figure.savefig(buffer, format=kind[1:], dpi=150, metadata=metadata)
    content = buffer.getvalue()
    if kind == ".svg":
        lines = content.decode("utf-8").splitlines()
        content = ("\n".join(line.rstrip() for line in lines) + "\n").encode("utf-8")
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def _kind(path: str) -> str:
    """Return the ending of a file, in lower case."""
    return os.path.splitext(path)[1].lower()


def _matplotlib() -> Any:
    try:
        return importlib.import_module("matplotlib")
    except ImportError as error:
        message = "--plot needs matplotlib: pip install 'fairseq-plugins[plots]'"
        raise MissingLibrary(message) from error
