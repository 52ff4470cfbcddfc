"""Language × task × model, from the logs of ``fairseq-validate``: tables with averages, and a heat map.

python -m fairseq_plugins.analysis.transfer_table --log mBART/XNLI=run1.log mBART/XNLI=run2.log m2m/XNLI=run3.log … --plot table.svg

Several logs of one model and task are seeds: the table shows their mean and standard deviation.
"""

import argparse
import math
import statistics
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from . import plots, report
from .logs import read_log

Key = Tuple[str, str, str]
PREFERRED = ("ndcg", "f1", "accuracy")
"""Metrics by which tasks are compared when none is named: the first one that a log has."""
LONG_COLUMNS = ("model", "task", "metric", "language", "seed", "value")


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
    chosen = {
        task: choose_metric([log for _, one, _, log in read if one == task], metrics.get(task), task) for task in tasks
    }
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


def choose_metric(logs: List[Dict[str, Dict[str, float]]], wanted: Optional[str], task: str) -> str:
    """The metric of a task: the wanted one, or the first of :data:`PREFERRED` that every subset has.

    Raises ValueError: some subset does not have it.
    """
    each = [set(numbers) for log in logs for numbers in log.values()]
    common = set.intersection(*each)
    chosen = wanted or next((name for name in PREFERRED if name in common), None)
    if chosen is None or chosen not in common:
        raise ValueError(
            f"--metric {task}={wanted or '(none given)'}: valid: {', '.join(sorted(common)) or '(nothing in common)'}"
        )
    return chosen


def render(scores: Scores, trained_on: Sequence[str]) -> str:
    """Markdown: a table of averages, then one for each task."""
    parts = ["## Averages over languages", report.table(*_averages(scores, ()), text_columns=1)]
    if trained_on:
        title = f"## Averages over languages without {', '.join(trained_on)}"
        parts += [title, report.table(*_averages(scores, trained_on), text_columns=1)]
    for task in scores.tasks:
        columns, rows = _task_rows(scores, task)
        parts += [f"## {task}: {scores.metrics[task]}", report.table(columns, rows, text_columns=1)]
        left_out = [one for one in scores.languages(task) if one not in scores.common(task)]
        if left_out:
            parts.append(f"The average is over the languages that every model has, without {', '.join(left_out)}.")
    return "\n\n".join(parts)


def _averages(scores: Scores, left_out: Sequence[str]) -> Tuple[List[str], List[List[str]]]:
    columns = ["model", *(f"{task} ({scores.metrics[task]})" for task in scores.tasks)]
    return columns, [
        [model, *(_cell(scores.average(model, task, left_out)) for task in scores.tasks)] for model in scores.models
    ]


def _task_rows(scores: Scores, task: str) -> Tuple[List[str], List[List[str]]]:
    languages = scores.languages(task)
    rows = []
    for model in scores.models:
        cells = [_cell(scores.values.get((model, task, language), [])) for language in languages]
        rows.append([model, *cells, _cell(scores.average(model, task))])
    return ["model", *languages, "average"], rows


def _cell(values: Sequence[float]) -> str:
    if not values:
        return ""
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread}"


def long_rows(scores: Scores) -> List[List[Any]]:
    """One row for each model, task, language and seed, as :data:`LONG_COLUMNS`."""
    return [
        [model, task, scores.metrics[task], language, seed, f"{value:g}"]
        for (model, task, language), values in scores.values.items()
        for seed, value in enumerate(values, 1)
    ]


def heat_maps(scores: Scores) -> List[plots.HeatMap]:
    """A heat map for each task: models down, languages across, in hundredths of what the log has (which is in per cent)."""
    maps = []
    for task in scores.tasks:
        languages = scores.languages(task)
        rows: List[List[Optional[float]]] = []
        for model in scores.models:
            cells = [scores.values.get((model, task, language)) for language in languages]
            rows.append([statistics.mean(cell) / 100 if cell else None for cell in cells])
        maps.append(plots.HeatMap(f"{task}: {scores.metrics[task]}", scores.models, languages, rows))
    return maps


def _work(args: argparse.Namespace) -> None:
    logs = [_log(text) for text in args.log]
    metrics = dict(_pair(text, "--metric", "TASK=NAME") for text in args.metric)
    scores = read_scores(logs, metrics)
    report.say(render(scores, [one for one in args.trained_on.split(",") if one]))
    rows = [
        {"model": model, "task": task, "metric": scores.metrics[task], "language": language, "values": values}
        for (model, task, language), values in scores.values.items()
    ]
    report.write_json(args.json, rows)
    report.write_tsv(args.tsv, LONG_COLUMNS, long_rows(scores))
    if args.plot:
        lowest = min(value for values in scores.values.values() for value in values) / 100
        low = max(0.0, math.floor(lowest * 10) / 10)
        plots.draw_heat_maps(args.plot, heat_maps(scores), "language", "model", "Mean over seeds", low=low)


def _log(text: str) -> Tuple[str, str, str]:
    name, path = _pair(text, "--log", "MODEL/TASK=FILE")
    model, slash, task = name.rpartition("/")
    if not (model and slash and task):
        raise ValueError(f"--log must look like MODEL/TASK=FILE; got {text!r}")
    return model, task, path


def _pair(text: str, option: str, shape: str) -> Tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise ValueError(f"{option} must look like {shape}; got {text!r}")
    return name, value


def main(argv: Optional[List[str]] = None) -> int:
    """Command line."""
    parser = report.new_parser("transfer_table", __doc__)
    parser.add_argument(
        "--log", nargs="+", required=True, metavar="MODEL/TASK=FILE", help="what fairseq-validate printed"
    )
    parser.add_argument("--metric", nargs="+", default=[], metavar="TASK=NAME", help="default: ndcg, f1 or accuracy")
    parser.add_argument(
        "--trained-on", default="", metavar="en", help="languages of the training: also averages without"
    )
    report.add_output_options(parser, tsv="one line for each model, task, language and seed")
    return report.run(parser, _work, argv)


if __name__ == "__main__":
    sys.exit(main())
