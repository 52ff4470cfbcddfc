"""Language × task × model, from the logs of ``fairseq-validate``: tables with averages, and a heat map.

fairseq-plugins transfer-table --log mBART/XNLI=run1.log mBART/XNLI=run2.log m2m/XNLI=run3.log … --plot table.svg

Several logs of one model and task are seeds: the table shows their mean and standard deviation.
"""

import argparse
import math
import statistics
import sys
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from ..own_commands import forward
from . import plots
from .logs import read_log
from .report import named_paths, say, table, write_json, write_tsv

Key = Tuple[str, str, str]
PREFERRED = ("ndcg", "f1", "accuracy")
"""Metrics by which tasks are compared when none is named: the first one that a log has."""


class Scores(NamedTuple):
    """Everything that the table shows; models and tasks in the order of the command line."""

    models: List[str]
    tasks: List[str]
    metrics: Dict[str, str]  # of each task
    values: Dict[Key, List[float]]  # (model, task, language) -> one number for each seed

    def languages(self, task: str) -> List[str]:
        """Languages of a task, those that any model has."""
        return list(dict.fromkeys(key[2] for key in self.values if key[1] == task))

    def common(self, task: str) -> List[str]:
        """Languages that every model has which has the task at all: averages are over these."""
        models = [model for model in self.models if any(key[:2] == (model, task) for key in self.values)]
        return [one for one in self.languages(task) if all((model, task, one) in self.values for model in models)]

    def average(self, model: str, task: str, left_out: Sequence[str] = ()) -> List[float]:
        """Mean over the common languages, one number for each seed; empty when the model lacks the task."""
        columns = [self.values.get((model, task, one), []) for one in self.common(task) if one not in left_out]
        seeds = min(map(len, columns), default=0)
        return [statistics.mean(column[seed] for column in columns) for seed in range(seeds)]


def read_scores(logs: Sequence[Tuple[str, str, str]], metrics: Dict[str, str]) -> Scores:
    """Read logs (model, task, path); repeated models and tasks are seeds. ``metrics`` names those that are not to be chosen.

    Raises ValueError: a log without numbers, seeds with different languages, a metric or task that is not there.
    """
    models, tasks = (list(dict.fromkeys(log[place] for log in logs)) for place in (0, 1))
    unknown = sorted(set(metrics) - set(tasks))
    if unknown:
        raise ValueError(f"--metric {unknown[0]}={metrics[unknown[0]]}: no log of that task; valid: {', '.join(tasks)}")
    read = [(model, task, path, read_log(path)) for model, task, path in logs]
    chosen = {}
    for task in tasks:
        common = set.intersection(*(set(numbers) for _, one, _, log in read if one == task for numbers in log.values()))
        wanted = metrics.get(task)
        chosen[task] = wanted or next((name for name in PREFERRED if name in common), "")
        if chosen[task] not in common:
            valid = ", ".join(sorted(common)) or "(nothing in common)"
            raise ValueError(f"--metric {task}={wanted or '(none given)'}: valid: {valid}")
    values: Dict[Key, List[float]] = {}
    subsets: Dict[Tuple[str, str], Any] = {}
    for model, task, path, log in read:
        here = sorted(log)
        if subsets.setdefault((model, task), here) != here:
            raise ValueError(
                f"{path}: subsets {', '.join(here)}; valid: those of the other seeds of {model}/{task}, "
                f"{', '.join(subsets[model, task])}"
            )
        languages = [subset.rpartition(".")[2] for subset in log]
        twice = sorted({one for one in languages if languages.count(one) > 1})
        if twice:
            raise ValueError(f"{path}: two subsets of language {twice[0]}; valid: one for each language")
        for language, numbers in zip(languages, log.values()):
            values.setdefault((model, task, language), []).append(numbers[chosen[task]])
    return Scores(models, tasks, chosen, values)


def render(scores: Scores, trained_on: Sequence[str]) -> str:
    """Markdown: a table of averages, then one for each task."""
    parts = []
    for left_out in ((), trained_on) if trained_on else ((),):
        columns = ["model", *(f"{task} ({scores.metrics[task]})" for task in scores.tasks)]
        rows = [
            [model, *(_cell(scores.average(model, task, left_out)) for task in scores.tasks)] for model in scores.models
        ]
        without = f" without {', '.join(left_out)}" if left_out else ""
        parts += [f"## Averages over languages{without}", table(columns, rows)]
    for task in scores.tasks:
        languages = scores.languages(task)
        rows = []
        for model in scores.models:
            cells = [_cell(scores.values.get((model, task, language), [])) for language in languages]
            rows.append([model, *cells, _cell(scores.average(model, task))])
        parts += [f"## {task}: {scores.metrics[task]}", table(["model", *languages, "average"], rows)]
        left = [one for one in languages if one not in scores.common(task)]
        if left:
            parts.append(f"The average is over the languages that every model has, without {', '.join(left)}.")
    return "\n\n".join(parts)


def _cell(values: Sequence[float]) -> str:
    if not values:
        return ""
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread}"


def draw(path: str, scores: Scores) -> None:
    """A heat map for each task: models down, languages across, in hundredths of what the log has (which is in per cent)."""
    maps = []
    for task in scores.tasks:
        languages = scores.languages(task)
        cells = [[scores.values.get((model, task, one)) for one in languages] for model in scores.models]
        means = [[statistics.mean(cell) / 100 if cell else None for cell in row] for row in cells]
        maps.append(plots.HeatMap(f"{task}: {scores.metrics[task]}", scores.models, languages, means))
    lowest = min(value for values in scores.values.values() for value in values) / 100
    low = max(0.0, math.floor(lowest * 10) / 10)
    plots.draw_heat_maps(path, maps, "language", "model", "Mean over seeds", low=low)


def work(args: argparse.Namespace) -> None:
    """Read, print and write."""
    logs = []
    for text in args.log:
        name, _, path = text.partition("=")
        model, _, task = name.rpartition("/")
        if not (model and task and path):
            raise ValueError(f"--log must look like MODEL/TASK=FILE; got {text!r}")
        logs.append((model, task, path))
    scores = read_scores(logs, named_paths(args.metric, "--metric", "as xnli=accuracy, each task once", "TASK=NAME"))
    say(render(scores, [one for one in args.trained_on.split(",") if one]))
    rows = [
        (model, task, scores.metrics[task], language, one) for (model, task, language), one in scores.values.items()
    ]
    names = "model", "task", "metric", "language"
    write_json(args.json, [{**dict(zip(names, row)), "values": row[-1]} for row in rows])
    lines = [[*row[:-1], seed, f"{value:g}"] for row in rows for seed, value in enumerate(row[-1], 1)]
    write_tsv(args.tsv, [*names, "seed", "value"], lines)
    if args.plot:
        draw(args.plot, scores)


if __name__ == "__main__":
    sys.exit(forward("transfer-table"))
