"""Training curves of several runs from their logs: ``fairseq-plugins training-curves``.

    … plain=run1/train.log restored=run2/train.log --metric valid.loss

The table tells each run's best value, and the updates (and minutes of running) after which it first reached a given one: by default
the worst of the runs' best values, which is the best that all of them reached. ``ratio`` is to the first run. A point of a curve
is a line of the log; nothing is interpolated. A run in two commands is counted from the start of the first one with
``--earlier restored=run2/restore/train.log``.
"""

import argparse
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..own_commands import forward
from . import plots
from .logs import Point, read_curves
from .report import named_paths, say, table, write_json, write_tsv

LOWER, HIGHER = "lower", "higher"
UPDATES, WALL = "updates", "wall"
FALLING = ("loss", "ppl")
"""Metrics of which lower values are better, by the ends of their names."""


class Row(NamedTuple):
    """A run: its best value where it was first, and the first point that is at least as good as the value asked for."""

    name: str
    points: int
    best: Point
    reached: Optional[Point]
    updates_ratio: Optional[float]  # of ``reached`` to that of the first run; None where either is missing
    minutes_ratio: Optional[float]


COLUMNS = ("run", "points", "best", "at updates", "updates to {}", "ratio", "minutes to {}", "ratio")


def pick(metric: str, path: str) -> List[Point]:
    """The curve of a metric in a log. Raises ValueError: the log has no such metric; names those it has."""
    curves = read_curves(path)
    if metric not in curves:
        raise ValueError(f"--metric {metric}: {path} has none; valid: {', '.join(sorted(curves))}")
    return curves[metric]


def later(points: Sequence[Point], path: str) -> List[Point]:
    """A curve behind an earlier stage: the last updates and minutes of that stage's log are added."""
    ends = [curve[-1] for curve in read_curves(path).values()]
    updates, times = max(end.updates for end in ends), [end.minutes for end in ends if end.minutes is not None]

    def moved(minutes: Optional[float]) -> Optional[float]:
        return minutes + max(times) if times and minutes is not None else None

    return [Point(updates + point.updates, moved(point.minutes), point.value) for point in points]


def compare(runs: Dict[str, List[Point]], better: str, reach: Optional[float]) -> Tuple[List[Row], float]:
    """A row for each run, and the value to reach: ``reach``, or the worst of the runs' best values when that is None.

    Source: CSR section V-C, "only requires about half of the update steps (12k vs. 25k) to reach the same loss level".
    """
    sign = 1 if better == LOWER else -1
    bests = [min(points, key=lambda point: sign * point.value) for points in runs.values()]  # of equals the first
    wanted = max(sign * best.value for best in bests) * sign if reach is None else reach
    rows: List[Row] = []
    for (name, points), best in zip(runs.items(), bests):
        here = next((point for point in points if sign * point.value <= sign * wanted), None)
        first = rows[0].reached if rows else here
        ratios: List[Optional[float]] = [None, None]
        if here is not None and first is not None:
            both = zip((here.updates, here.minutes), (first.updates, first.minutes))
            ratios = [None if one is None or not other else one / other for one, other in both]
        rows.append(Row(name, len(points), best, here, *ratios))
    return rows, wanted


def cells(row: Row) -> List[Any]:
    """A run as a row of the table."""
    updates = "never" if row.reached is None else row.reached.updates
    minutes = "" if row.reached is None or row.reached.minutes is None else f"{row.reached.minutes:.1f}"
    ratios = ["" if ratio is None else f"{ratio:.2f}" for ratio in (row.updates_ratio, row.minutes_ratio)]
    return [row.name, row.points, f"{row.best.value:g}", row.best.updates, updates, ratios[0], minutes, ratios[1]]


def draw(path: str, runs: Dict[str, List[Point]], metric: str, against: str, wanted: float) -> None:
    """The curves, and the value to reach."""
    curves = []
    for name, points in runs.items():
        places = [float(point.updates) if against == UPDATES else point.minutes for point in points]
        known = [place for place in places if place is not None]
        curves.append(plots.Curve(name, known, [point.value for point in points]))
    label = "updates" if against == UPDATES else "minutes of running"
    plots.draw_curves(path, curves, label, metric, f"training curves: {metric}", wanted)


def work(args: argparse.Namespace) -> None:
    """Read, print and write."""
    valid = "as plain=run1/train.log restored=run2/train.log, each name once"
    paths = named_paths(args.runs, "NAME=LOG", valid, "NAME=LOG")
    runs = {name: pick(args.metric, path) for name, path in paths.items()}
    earlier = named_paths(args.earlier, "--earlier", "as restored=run2/restore/train.log, each name once", "NAME=LOG")
    for name, path in earlier.items():
        if name not in runs:
            raise ValueError(f"--earlier {name}={path}: no run of that name; valid: {', '.join(runs)}")
        runs[name] = later(runs[name], path)
    if args.against == WALL:
        timeless = [name for name, points in runs.items() if any(point.minutes is None for point in points)]
        if timeless:
            logs = " or ".join(found[timeless[0]] for found in (paths, earlier) if timeless[0] in found)
            raise ValueError(
                f"--against {WALL}: the lines of {logs} have no times; valid: {UPDATES}, or a log with times"
            )
    better = args.better or (LOWER if args.metric.endswith(FALLING) else HIGHER)
    rows, wanted = compare(runs, better, args.reach)
    columns = [column.format(f"{wanted:g}") for column in COLUMNS]
    say(f"{args.metric} ({better} is better)\n\n{table(columns, [cells(row) for row in rows])}")
    content = {"metric": args.metric, "better": better, "reach": wanted}
    points = {row.name: {"best": row.best._asdict(), "reached": row.reached and row.reached._asdict()} for row in rows}
    write_json(args.json, {**content, "rows": [{**row._asdict(), **points[row.name]} for row in rows], "curves": runs})
    lines = [[name, *point] for name, curve in runs.items() for point in curve]
    write_tsv(args.tsv, ["run", "updates", "minutes", args.metric], lines)
    if args.plot is not None:
        draw(args.plot, runs, args.metric, args.against, wanted)


if __name__ == "__main__":
    sys.exit(forward("training-curves"))
