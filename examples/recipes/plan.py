r"""Divide a translator's budget of hours between its trainings, by measured speed.

python -m recipes.plan make --hours 2 --systems masked_lm sga at --frozen masked_lm \\
    --parallel 2 --output plan.json
python -m recipes.plan show plan.json
"""

import argparse
import csv
import datetime
import itertools
import json
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Sequence

RESERVED = 0.03
"""Share of the budget for averaging, scoring and the starts of programs."""
DECODING = 4.0
"""Largest ratio of the final search's time to that of a validation."""
SUBSETS = 2
"""Subsets that are decoded in the end: validation and test set."""
FROZEN_SHARE = 0.5
"""Share of the training time for the masked LM, which sets the level of SGA."""
SAVING = 0.05
"""Share of a training's time for its start and for saving."""
VALIDATING = 0.25
"""Largest share of a training's time for validations."""
VALIDATIONS = 12
"""Validations of one training, if they fit into their share."""
LEAST_UPDATES = 100
LEAST_INTERVAL = 20
"""Updates between two validations."""
CLOCK = "%Y-%m-%d %H:%M:%S"
CLOCK_WIDTH = 19
"""Characters of a time of that form, with which lines of logs begin."""


def updates_per_second(log: Path) -> float:
    """Return the median speed of a short training by its log, without the first interval.

    Raises:
        ValueError: the log has fewer than two intervals.
    """
    rates = []
    for line in log.read_text(encoding="utf-8").splitlines():
        start = line.find('{"epoch"')
        record = json.loads(line[start:]) if start >= 0 and line.endswith("}") else {}
        if "ups" in record:
            rates.append(float(record["ups"]))
    if len(rates) < 2:
        valid = "valid: the log of a training of several log intervals"
        raise ValueError(f"{log}: tells no speed; {valid}")
    return statistics.median(rates[1:])


def validation_seconds(log: Path) -> float:
    """Return the time of the slowest validation of a short training, rounded up to seconds.

    Raises:
        ValueError: the log has no validation.
    """
    start, longest = None, None
    for line in log.read_text(encoding="utf-8").splitlines():
        try:
            now = datetime.datetime.strptime(line[:CLOCK_WIDTH], CLOCK)
        except ValueError:
            continue
        if "begin validation on" in line:
            start = now
        elif start is not None and "| valid |" in line:
            longest, start = max(longest or 0.0, (now - start).total_seconds()), None
    if longest is None:
        valid = "valid: the log of a training that was validated"
        raise ValueError(f"{log}: tells no validation; {valid}")
    return longest + 1.0


def spent_seconds(benchmarks: Path) -> float:
    """Return the seconds of the finished steps, by Snakemake's benchmark files."""
    seconds = 0.0
    for path in benchmarks.glob("*.tsv"):
        with open(path, encoding="utf-8", newline="") as file:
            seconds += sum(float(row["s"]) for row in csv.DictReader(file, delimiter="\t"))
    return seconds


@dataclass(frozen=True)
class Speeds:
    """Measurements and settings on which a plan is based, apart from the hours.

    Attributes:
        spent: seconds of the budget that are gone.
        rates: measured system -> updates per second.
        validations: measured system -> seconds of one validation.
        frozen: the system that is trained first and alone; None if there is none.
        parallel: number of other systems that train at the same time.
        systems: every system of the run. A system that is not measured yet gets its share of the
            time; its validations are taken to need no time.
    """

    spent: float
    rates: Mapping[str, float]
    validations: Mapping[str, float]
    frozen: Optional[str]
    parallel: int
    systems: Sequence[str]


def make_plan(hours: float, speeds: Speeds) -> Dict[str, Any]:
    """Divide the time that decoding leaves: half for the masked LM, the rest for the systems.

    Args:
        hours: the budget.
        speeds: what was measured.

    Returns:
        system -> updates, seconds, interval between validations (updates), updates_per_second,
        validation_seconds.

    Raises:
        ValueError: a training would have fewer than ``LEAST_UPDATES`` updates; names enough hours.
    """
    plan = _divide(hours, speeds)
    for name, share in plan.items():
        if share["updates"] < LEAST_UPDATES:
            rate = f"{speeds.rates[name]:.2f} per second"
            raise ValueError(
                f"HOURS {hours:g}: {name} would have {max(share['updates'], 0)} updates at {rate}; "
                f"valid: about {_find_enough_hours(hours, speeds):.1f} hours, "
                f"for {LEAST_UPDATES} updates, at least"
            )
    return plan


def _find_enough_hours(hours: float, speeds: Speeds) -> float:
    """Search a sufficient budget above ``hours``, in steps of 0.1 hours."""
    for step in itertools.count(1):
        budget = hours + 0.1 * step
        plan = _divide(budget, speeds)
        if all(share["updates"] >= LEAST_UPDATES for share in plan.values()):
            return budget
    raise AssertionError("more hours are always enough")


def _divide(hours: float, speeds: Speeds) -> Dict[str, Any]:
    """Compute the shares of :func:`make_plan`, however small.

    The systems train in rounds of ``parallel``, each round for the same time. A share is spent on
    the start, on validations (at most ``VALIDATING`` of it) and on updates.
    """
    translators = [name for name in speeds.systems if name != speeds.frozen]
    rounds = -(-len(translators) // speeds.parallel)
    slowest = max((speeds.validations.get(name, 0.0) for name in translators), default=0.0)
    decoding = SUBSETS * rounds * DECODING * slowest
    remaining = hours * 3600 * (1 - RESERVED) - speeds.spent - decoding
    alone = remaining * FROZEN_SHARE if speeds.frozen else 0.0
    plan = {}
    for name, rate in speeds.rates.items():
        seconds = alone if name == speeds.frozen else (remaining - alone) / rounds
        validation = speeds.validations[name]
        number = max(1, min(VALIDATIONS, int(seconds * VALIDATING / validation)))
        updates = int((seconds * (1 - SAVING) - number * validation) * rate)
        plan[name] = {
            "updates": updates,
            "seconds": round(seconds),
            "interval": max(LEAST_INTERVAL, -(-updates // number)),
            "updates_per_second": round(rate, 3),
            "validation_seconds": round(validation, 1),
        }
    return plan


def measure(
    systems: Sequence[str],
    frozen: Optional[str],
    parallel: int,
    ended: Optional[Sequence[str]] = None,
    benchmarks: Path = Path("benchmarks"),
    logs: Path = Path("speed"),
) -> Speeds:
    """Read the speeds of the short trainings.

    Args:
        systems: every system of the run, in the order of their training.
        frozen: see :class:`Speeds`.
        parallel: see :class:`Speeds`.
        ended: systems whose short training has ended (default: all).
        benchmarks: folder of Snakemake's benchmark files.
        logs: folder of the logs of the short trainings.

    Raises:
        ValueError: a log that is not one of a short training.
    """
    paths = {name: logs / f"{name}.log" for name in (systems if ended is None else ended)}
    rates = {name: updates_per_second(path) for name, path in paths.items()}
    validations = {name: validation_seconds(path) for name, path in paths.items()}
    return Speeds(spent_seconds(benchmarks), rates, validations, frozen, parallel, systems)


def check_hours(
    hours: float,
    systems: Sequence[str],
    frozen: Optional[str],
    parallel: int,
) -> None:
    """Compare the budget with the short trainings that have ended so far, in this folder.

    Raises:
        ValueError: a measured training would have fewer than ``LEAST_UPDATES`` updates; names
            enough hours.
    """
    ended = [name for name in systems if Path("benchmarks", f"speed-{name}.tsv").is_file()]
    make_plan(hours, measure(systems, frozen, parallel, ended))


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the command."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    make = verbs.add_parser("make", help="divide the budget")
    make.add_argument("--hours", type=float, required=True, help="the budget")
    make.add_argument("--systems", nargs="+", required=True, help="in the order of their training")
    make.add_argument("--frozen", help="the system that is trained first, alone")
    make.add_argument("--parallel", type=int, default=1, help="other systems at a time")
    make.add_argument("--benchmarks", type=Path, default=Path("benchmarks"), help="folder")
    make.add_argument("--speed", type=Path, default=Path("speed"), help="folder of their logs")
    make.add_argument("--output", type=Path, required=True)
    verbs.add_parser("show", help="print a plan").add_argument("plan", type=Path)
    args = parser.parse_args(argv)
    try:
        if args.verb == "show":
            content = json.loads(args.plan.read_text(encoding="utf-8"))
            print(format_plan(content), flush=True)
        else:
            folders = {"benchmarks": args.benchmarks, "logs": args.speed}
            speeds = measure(args.systems, args.frozen, args.parallel, **folders)
            plan = make_plan(args.hours, speeds)
            head = {"hours": args.hours, "spent_seconds": round(speeds.spent)}
            content = {**head, "systems": plan}
            args.output.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    except (OSError, ValueError) as error:
        parser.error(str(error))
    return 0


def format_plan(content: Mapping[str, Any]) -> str:
    """Return a plan as a table."""
    hours, spent = content["hours"], content["spent_seconds"] / 60
    lines = [
        f"Budget: {hours:g} hours in all, {spent:.0f} minutes of them for text and speed.",
        "",
        "| training | updates | minutes at most |",
        "|---|---|---|",
    ]
    for name, share in content["systems"].items():
        lines.append(f"| {name} | {share['updates']:,} | {share['seconds'] / 60:.0f} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    raise SystemExit(main())
