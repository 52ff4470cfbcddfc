"""Language × task × model, from logs of ``fairseq-validate``: tables of averages, and a heat map.

    fairseq-plugins transfer-table --log mBART/XNLI=run1.log m2m/XNLI=run2.log … --plot table.svg

Several logs of one model and task are seeds: the table shows their mean and standard deviation.
"""

import argparse
import math
import statistics
import sys
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..own_commands import forward
from . import plots
from .logs import read_log
from .report import named_paths, say, table, write_json, write_tsv

PREFERRED = ("ndcg_xglue", "ndcg", "f1", "accuracy")
"""Metrics by which tasks are compared by default: the first one that every log of a task has."""


class Key(NamedTuple):
    """A cell of the tables."""

    model: str
    task: str
    language: str


class Log(NamedTuple):
    """A log of the command line, and its numbers by subset and name."""

    model: str
    task: str
    path: str
    subsets: Dict[str, Dict[str, float]]

    def languages(self) -> List[str]:
        """List the languages of the subsets. Raises ValueError for a language with two subsets."""
        languages = [subset.rpartition(".")[2] for subset in self.subsets]
        twice = sorted({language for language in languages if languages.count(language) > 1})
        if twice:
            problem = f"two subsets of language {twice[0]}"
            raise ValueError(f"{self.path}: {problem}; valid: one for each language")
        return languages


class Scores(NamedTuple):
    """Numbers of the tables; models and tasks in the order of the command line."""

    models: List[str]
    tasks: List[str]
    metrics: Dict[str, str]  # of each task
    values: Dict[Key, List[float]]  # one number for each seed

    def cell(self, model: str, task: str, language: str) -> List[float]:
        """Return the numbers of a cell, one for each seed; empty if there are none."""
        return self.values.get(Key(model, task, language), [])

    def languages(self, task: str) -> List[str]:
        """List the languages of a task that any model has."""
        return list(dict.fromkeys(key.language for key in self.values if key.task == task))

    def common(self, task: str) -> List[str]:
        """List the languages that every model with this task has: averages are over these."""
        models = {key.model for key in self.values if key.task == task}
        return [
            language
            for language in self.languages(task)
            if all(self.cell(model, task, language) for model in models)
        ]

    def average(self, model: str, task: str, left_out: Sequence[str] = ()) -> List[float]:
        """Average over the common languages, one number for each seed; empty without scores."""
        languages = [language for language in self.common(task) if language not in left_out]
        columns = [self.cell(model, task, language) for language in languages]
        seeds = min(map(len, columns), default=0)
        return [statistics.mean(column[seed] for column in columns) for seed in range(seeds)]


def read_scores(logs: Sequence[Tuple[str, str, str]], metrics: Dict[str, str]) -> Scores:
    """Read logs (model, task, path); repeated models and tasks are seeds.

    Args:
        metrics: task -> its metric, for tasks that have another than the preferred one.

    Raises:
        ValueError: a log without numbers, seeds with different languages, or a metric or task that
            is not there.
    """
    models = list(dict.fromkeys(model for model, _, _ in logs))
    tasks = list(dict.fromkeys(task for _, task, _ in logs))
    unknown = sorted(set(metrics) - set(tasks))
    if unknown:
        item = f"{unknown[0]}={metrics[unknown[0]]}"
        raise ValueError(f"--metric {item}: no log of that task; valid: {', '.join(tasks)}")
    contents = [Log(model, task, path, read_log(path)) for model, task, path in logs]
    choices = {}
    for task in tasks:
        of_task = [log for log in contents if log.task == task]
        choices[task] = choose_metric(task, of_task, metrics.get(task))
    values: Dict[Key, List[float]] = {}
    first_seeds: Dict[Tuple[str, str], List[str]] = {}
    for log in contents:
        subsets = sorted(log.subsets)
        expected = first_seeds.setdefault((log.model, log.task), subsets)
        if expected != subsets:
            raise ValueError(
                f"{log.path}: subsets {', '.join(subsets)}; valid: those of the other seeds of "
                f"{log.model}/{log.task}, {', '.join(expected)}"
            )
        for language, numbers in zip(log.languages(), log.subsets.values()):
            seeds = values.setdefault(Key(log.model, log.task, language), [])
            seeds.append(numbers[choices[log.task]])
    return Scores(models, tasks, choices, values)


def choose_metric(task: str, logs: Sequence[Log], metric: Optional[str]) -> str:
    """Return ``metric`` or, if it is None, the first of :data:`PREFERRED` that every subset has.

    Raises:
        ValueError: a subset does not have it.
    """
    common = set.intersection(*(set(numbers) for log in logs for numbers in log.subsets.values()))
    choice = metric or next((name for name in PREFERRED if name in common), "")
    if choice not in common:
        valid = ", ".join(sorted(common)) or "(nothing in common)"
        raise ValueError(f"--metric {task}={metric or '(none given)'}: valid: {valid}")
    return choice


def render(scores: Scores, trained_on: Sequence[str]) -> str:
    """Format Markdown: a table of averages, then one for each task.

    Args:
        trained_on: languages of the training; a second table of averages leaves them out.
    """
    parts = ["## Averages over languages", _averages(scores)]
    if trained_on:
        heading = f"## Averages over languages without {', '.join(trained_on)}"
        parts += [heading, _averages(scores, trained_on)]
    for task in scores.tasks:
        languages = scores.languages(task)
        rows = []
        for model in scores.models:
            cells = [_cell(scores.cell(model, task, language)) for language in languages]
            rows.append([model, *cells, _cell(scores.average(model, task))])
        columns = ["model", *languages, "average"]
        parts += [f"## {task}: {scores.metrics[task]}", table(columns, rows)]
        missing = [language for language in languages if language not in scores.common(task)]
        if missing:
            parts.append(
                "The average is over the languages that every model has, without "
                f"{', '.join(missing)}."
            )
    return "\n\n".join(parts)


def _averages(scores: Scores, left_out: Sequence[str] = ()) -> str:
    columns = ["model", *(f"{task} ({scores.metrics[task]})" for task in scores.tasks)]
    rows = []
    for model in scores.models:
        cells = [_cell(scores.average(model, task, left_out)) for task in scores.tasks]
        rows.append([model, *cells])
    return table(columns, rows)


def _cell(values: Sequence[float]) -> str:
    """Format mean and standard deviation over the seeds."""
    if not values:
        return ""
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread}"


def draw(path: str, scores: Scores) -> None:
    """Draw a heat map for each task: models down, languages across, as shares of 1."""
    maps = []
    for task in scores.tasks:
        languages = scores.languages(task)
        rows: List[List[Optional[float]]] = []
        for model in scores.models:
            cells = [scores.cell(model, task, language) for language in languages]
            rows.append([statistics.mean(cell) / 100 if cell else None for cell in cells])
        title = f"{task}: {scores.metrics[task]}"
        maps.append(plots.HeatMap(title, scores.models, languages, rows))
    lowest = min(number for numbers in scores.values.values() for number in numbers) / 100
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
    valid = "as xnli=accuracy, each task once"
    scores = read_scores(logs, named_paths(args.metric, "--metric", valid, "TASK=NAME"))
    say(render(scores, [language for language in args.trained_on.split(",") if language]))
    content, lines = [], []
    for (model, task, language), numbers in scores.values.items():
        cell = {
            "model": model,
            "task": task,
            "metric": scores.metrics[task],
            "language": language,
        }
        content.append({**cell, "values": numbers})
        for seed, number in enumerate(numbers, start=1):
            lines.append([*cell.values(), seed, f"{number:g}"])
    write_json(args.json, content)
    columns = ["model", "task", "metric", "language", "seed", "value"]
    write_tsv(args.tsv, columns, lines)
    if args.plot:
        draw(args.plot, scores)


if __name__ == "__main__":
    sys.exit(forward("transfer-table"))
