"""Training curves of several runs from their logs: ``fairseq-plugins training-curves``.

    … plain=run1/train.log restored=run2/train.log --metric valid.loss

The table gives each run's best value, and the updates (and minutes of running) after which the run
first reached the value of ``--reach``. The default is the best value that every run reached.
``ratio`` compares with the first run. A point of a curve is a line of the log; nothing is
interpolated. ``--earlier restored=run2/restore/train.log`` adds the updates and minutes of an
earlier stage of a run.
"""

import argparse
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from ..own_commands import forward
from . import plots
from .logs import Point, read_curves
from .report import named_paths, say, table, write_json, write_tsv

LOWER, HIGHER = "lower", "higher"
UPDATES, WALL = "updates", "wall"
LOWER_IS_BETTER = ("loss", "ppl")
"""Ends of the names of metrics of which lower values are better."""

Runs = Dict[str, List[Point]]
"""Name of a run -> its curve."""


class Row(NamedTuple):
    """A run, and the point where it reached the value to reach."""

    name: str
    points: int
    best: Point  # the first of equally good ones
    reached: Optional[Point]  # first point that is at least as good as the value
    updates_ratio: Optional[float]  # of ``reached`` to that of the first run; None if one is absent
    minutes_ratio: Optional[float]


COLUMNS = (
    "run",
    "points",
    "best",
    "at updates",
    "updates to {}",
    "ratio",
    "minutes to {}",
    "ratio",
)


def read_curve(metric: str, path: str) -> List[Point]:
    """Read the curve of a metric. Raises ValueError, naming the log's metrics, if it has none."""
    curves = read_curves(path)
    if metric not in curves:
        raise ValueError(f"--metric {metric}: {path} has none; valid: {', '.join(sorted(curves))}")
    return curves[metric]


def add_stage(points: Sequence[Point], path: str) -> List[Point]:
    """Add the updates and minutes of an earlier stage, by the end of its log, to every point."""
    ends = [curve[-1] for curve in read_curves(path).values()]
    updates = max(end.updates for end in ends)
    minutes = max((end.minutes for end in ends if end.minutes is not None), default=None)
    curve = []
    for point in points:
        total = None
        if minutes is not None and point.minutes is not None:
            total = point.minutes + minutes
        curve.append(Point(updates + point.updates, total, point.value))
    return curve


class Comparison(NamedTuple):
    """A row for each run, and the value to reach."""

    rows: List[Row]
    reach: float


def compare(runs: Runs, better: str, reach: Optional[float]) -> Comparison:
    """Compare how soon runs reach a value.

    Args:
        better: which values are better, :data:`LOWER` or :data:`HIGHER`.
        reach: the value; None = the best value that every run reached.

    Source: CSR section V-C, "only requires about half of the update steps (12k vs. 25k) to reach
    the same loss level".
    """
    sign = 1 if better == LOWER else -1  # of two values, that with the smaller product is better
    bests = [min(points, key=lambda point: sign * point.value) for points in runs.values()]
    if reach is None:
        reach = max(sign * best.value for best in bests) * sign
    rows: List[Row] = []
    for (name, points), best in zip(runs.items(), bests):
        good = (point for point in points if sign * point.value <= sign * reach)
        reached = next(good, None)
        first = rows[0].reached if rows else reached
        updates_ratio = minutes_ratio = None
        if reached is not None and first is not None:
            updates_ratio = _ratio(reached.updates, first.updates)
            minutes_ratio = _ratio(reached.minutes, first.minutes)
        rows.append(Row(name, len(points), best, reached, updates_ratio, minutes_ratio))
    return Comparison(rows, reach)


def _ratio(number: Optional[float], base: Optional[float]) -> Optional[float]:
    return None if number is None or not base else number / base


def cells(row: Row) -> List[Any]:
    """Return the cells of a run."""
    updates: Any = "never"
    minutes = ""
    if row.reached is not None:
        updates = row.reached.updates
        minutes = "" if row.reached.minutes is None else f"{row.reached.minutes:.1f}"
    updates_ratio = "" if row.updates_ratio is None else f"{row.updates_ratio:.2f}"
    minutes_ratio = "" if row.minutes_ratio is None else f"{row.minutes_ratio:.2f}"
    best = [row.name, row.points, f"{row.best.value:g}", row.best.updates]
    return [*best, updates, updates_ratio, minutes, minutes_ratio]


def draw(path: str, runs: Runs, metric: str, against: str, reach: float) -> None:
    """Draw the curves, and the value to reach."""
    curves = []
    for name, points in runs.items():
        if against == UPDATES:
            places = [float(point.updates) for point in points]
        else:
            places = [point.minutes for point in points if point.minutes is not None]
        curves.append(plots.Curve(name, places, [point.value for point in points]))
    label = "updates" if against == UPDATES else "minutes of running"
    plots.draw_curves(path, curves, label, metric, f"training curves: {metric}", reach)


def read_runs(args: argparse.Namespace) -> Runs:
    """Read the curve of each run, with its earlier stage if it has one.

    Raises:
        ValueError: a log has no such metric, or no times, which ``--against wall`` needs; or
            ``--earlier`` names no run.
    """
    valid = "as plain=run1/train.log restored=run2/train.log, each name once"
    paths = named_paths(args.runs, "NAME=LOG", valid, "NAME=LOG")
    runs = {name: read_curve(args.metric, path) for name, path in paths.items()}
    valid = "as restored=run2/restore/train.log, each name once"
    earlier = named_paths(args.earlier, "--earlier", valid, "NAME=LOG")
    for name, path in earlier.items():
        if name not in runs:
            raise ValueError(
                f"--earlier {name}={path}: no run of that name; valid: {', '.join(runs)}"
            )
        runs[name] = add_stage(runs[name], path)
    for name, points in runs.items():
        if args.against == WALL and any(point.minutes is None for point in points):
            logs = " or ".join(group[name] for group in (paths, earlier) if name in group)
            raise ValueError(
                f"--against {WALL}: the lines of {logs} have no times; valid: {UPDATES}, or a log "
                "with times"
            )
    return runs


def work(args: argparse.Namespace) -> None:
    """Read, print and write."""
    runs = read_runs(args)
    better = args.better or (LOWER if args.metric.endswith(LOWER_IS_BETTER) else HIGHER)
    rows, reach = compare(runs, better, args.reach)
    columns = [column.format(f"{reach:g}") for column in COLUMNS]
    say(f"{args.metric} ({better} is better)\n\n{table(columns, [cells(row) for row in rows])}")
    entries = []
    for row in rows:
        reached = None if row.reached is None else row.reached._asdict()
        entries.append({**row._asdict(), "best": row.best._asdict(), "reached": reached})
    content = {"metric": args.metric, "better": better, "reach": reach}
    write_json(args.json, {**content, "rows": entries, "curves": runs})
    lines = [[name, *point] for name, curve in runs.items() for point in curve]
    write_tsv(args.tsv, ["run", "updates", "minutes", args.metric], lines)
    if args.plot is not None:
        draw(args.plot, runs, args.metric, args.against, reach)


if __name__ == "__main__":
    sys.exit(forward("training-curves"))
