"""How long each training of a translator may take: measured speed against the budget, written to ``plan.json`` and printed.

python -m recipes.plan make --hours 2 --systems masked_lm sga at --frozen masked_lm --parallel 2 --output plan.json
python -m recipes.plan show plan.json
"""

import argparse
import csv
import datetime
import functools
import itertools
import json
import statistics
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Sequence

RESERVED = 0.03
"""Share of the budget for averaging, scoring and the starts of programs."""
DECODING = 4.0
"""The search of the table takes at most this many times as long as that of a validation."""
SUBSETS = 2
"""That are decoded in the end: validation and test set."""
FROZEN_SHARE = 0.5
"""Share of the training time for the masked LM: SGA's level is set by it."""
SAVING = 0.05
"""Share of a training's time for its start and for saving."""
VALIDATING = 0.25
"""Share of a training's time for validations at most."""
VALIDATIONS = 12
"""Of one training, where they fit into their share."""
LEAST_UPDATES = 100


def updates_per_second(log: Path) -> float:
    """Of a short training, by the lines of its log; the first one, which warms up, is left out."""
    rates = []
    for line in log.read_text(encoding="utf-8").splitlines():
        start = line.find('{"epoch"')
        found = json.loads(line[start:]) if start >= 0 and line.endswith("}") else {}
        if "ups" in found:
            rates.append(float(found["ups"]))
    if len(rates) < 2:
        raise ValueError(f"{log}: tells no speed; valid: the log of a training of several log intervals")
    return statistics.median(rates[1:])


def validation_seconds(log: Path) -> float:
    """Of the slowest validation of a short training, by the times of its log, which are whole seconds."""
    begun, longest = None, None
    for line in log.read_text(encoding="utf-8").splitlines():
        try:
            now = datetime.datetime.strptime(line[:19], "%Y-%m-%d %H:%M:%S")
        except ValueError:
            continue
        if "begin validation on" in line:
            begun = now
        elif begun is not None and "| valid |" in line:
            longest, begun = max(longest or 0.0, (now - begun).total_seconds()), None
    if longest is None:
        raise ValueError(f"{log}: tells no validation; valid: the log of a training that was validated")
    return longest + 1.0


def spent_seconds(benchmarks: Path) -> float:
    """Seconds of the finished steps, by Snakemake's benchmark files."""
    seconds = 0.0
    for path in benchmarks.glob("*.tsv"):
        with open(path, encoding="utf-8", newline="") as file:
            seconds += sum(float(row["s"]) for row in csv.DictReader(file, delimiter="\t"))
    return seconds


def make_plan(
    hours: float,
    spent: float,
    rates: Mapping[str, float],
    validations: Mapping[str, float],
    frozen: Optional[str],
    parallel: int,
    systems: Optional[Sequence[str]] = None,
) -> Dict[str, Any]:
    """Divide the time that is left after decoding: half for the masked LM, the rest for the systems on it.

    Args:
        hours: the budget.
        spent: seconds of it that are gone.
        rates: measured system -> updates per second.
        validations: measured system -> seconds of one validation.
        frozen: the system that is trained before the others, alone; None where there is none.
        parallel: other systems that train at a time.
        systems: every system of the run (default: the measured ones). Systems that are not measured yet
            take their share of the time, and their validations count as no time.

    Returns:
        system -> updates, seconds, interval between validations (updates), updates_per_second, validation_seconds.

    Raises:
        ValueError: not enough time for a training worth the name.
    """
    divide = functools.partial(
        _divide,
        spent=spent,
        rates=rates,
        validations=validations,
        frozen=frozen,
        parallel=parallel,
        systems=systems or list(rates),
    )
    plan = divide(hours)
    for name, one in plan.items():
        if one["updates"] < LEAST_UPDATES:
            more = (hours + 0.1 * step for step in itertools.count(1))
            needed = next(h for h in more if all(one["updates"] >= LEAST_UPDATES for one in divide(h).values()))
            raise ValueError(
                f"HOURS {hours:g}: {name} would have {max(one['updates'], 0)} updates at {rates[name]:.2f} per second; "
                f"valid: about {needed:.1f} hours, for {LEAST_UPDATES} updates, at least"
            )
    return plan


def _divide(
    hours: float,
    spent: float,
    rates: Mapping[str, float],
    validations: Mapping[str, float],
    frozen: Optional[str],
    parallel: int,
    systems: Sequence[str],
) -> Dict[str, Any]:
    others = [name for name in systems if name != frozen]
    rounds = -(-len(others) // parallel)
    decoding = SUBSETS * rounds * DECODING * max((validations.get(name, 0.0) for name in others), default=0.0)
    left = hours * 3600 * (1 - RESERVED) - spent - decoding
    alone = left * FROZEN_SHARE if frozen else 0.0
    plan = {}
    for name, rate in rates.items():
        seconds = alone if name == frozen else (left - alone) / rounds
        number = max(1, min(VALIDATIONS, int(seconds * VALIDATING / validations[name])))
        updates = int((seconds * (1 - SAVING) - number * validations[name]) * rate)
        plan[name] = {
            "updates": updates,
            "seconds": round(seconds),
            "interval": max(20, -(-updates // number)),
            "updates_per_second": round(rate, 3),
            "validation_seconds": round(validations[name], 1),
        }
    return plan


def check_hours(
    hours: float, systems: Sequence[str], frozen: Optional[str], parallel: int, folder: Path = Path()
) -> None:
    """Compare the budget with the short trainings that have ended so far.

    Args:
        hours: the budget.
        systems: every system of the run, in the order of their training.
        frozen: as in :func:`make_plan`.
        parallel: as in :func:`make_plan`.
        folder: of the run, with the logs in ``speed`` and Snakemake's ``benchmarks``.

    Raises:
        ValueError: a measured training would have fewer than ``LEAST_UPDATES`` updates; names enough hours.
    """
    benchmarks = folder / "benchmarks"
    measured = [name for name in systems if (benchmarks / f"speed-{name}.tsv").is_file()]
    logs = {name: folder / "speed" / f"{name}.log" for name in measured}
    rates = {name: updates_per_second(log) for name, log in logs.items()}
    validations = {name: validation_seconds(log) for name, log in logs.items()}
    make_plan(hours, spent_seconds(benchmarks), rates, validations, frozen, parallel, systems)


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    make = verbs.add_parser("make", help="divide the budget")
    make.add_argument("--hours", type=float, required=True)
    make.add_argument("--systems", nargs="+", required=True, help="in the order of their training")
    make.add_argument("--frozen", help="the one that is trained first, alone")
    make.add_argument("--parallel", type=int, default=1, help="others at a time")
    make.add_argument("--benchmarks", type=Path, default=Path("benchmarks"))
    make.add_argument("--speed", type=Path, default=Path("speed"), help="folder of the logs of short trainings")
    make.add_argument("--output", type=Path, required=True)
    verbs.add_parser("show", help="print a plan").add_argument("plan", type=Path)
    args = parser.parse_args(argv)
    try:
        if args.verb == "show":
            content = json.loads(args.plan.read_text(encoding="utf-8"))
        else:
            rates = {name: updates_per_second(args.speed / f"{name}.log") for name in args.systems}
            spent = spent_seconds(args.benchmarks)
            validations = {name: validation_seconds(args.speed / f"{name}.log") for name in args.systems}
            systems = make_plan(args.hours, spent, rates, validations, args.frozen, args.parallel)
            content = {"hours": args.hours, "spent_seconds": round(spent), "systems": systems}
            args.output.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    except (OSError, ValueError) as error:
        parser.error(str(error))
    if args.verb == "show":
        print(shown(content), flush=True)
    return 0


def shown(content: Mapping[str, Any]) -> str:
    """A plan for a reader."""
    rows = [f"| {name} | {one['updates']:,} | {one['seconds'] / 60:.0f} |" for name, one in content["systems"].items()]
    spent = content["spent_seconds"] / 60
    head = f"Budget: {content['hours']:g} hours in all, {spent:.0f} minutes of them for the text and for measuring the speed."
    return "\n".join([head, "", "| training | updates | minutes at most |", "|---|---|---|", *rows, ""])


if __name__ == "__main__":
    raise SystemExit(main())
