"""A plan as text, in MiB."""

from collections import Counter
from typing import List, Mapping, Sequence, Tuple

from .live import GRADIENTS, OPTIMIZER, STEP, WEIGHTS
from .rehearsal import BACKWARD, FORWARD, START, UPDATE, Plan, Step
from .replicas import Replicas

MIB = 1024**2
COLUMNS = ("component", "trained", "frozen", "weights", "gradients", "optimizer", "activations")
PHASES = {START: "start of the step", FORWARD: "forward pass", BACKWARD: "backward pass", UPDATE: "update"}
KINDS = (WEIGHTS, GRADIENTS, OPTIMIZER)


def render(plan: Plan, several: Replicas, device: str) -> str:
    """The table of one device, its peak, and that of each of several."""
    worst = plan.steps[0]
    held = by_kind(worst.peak.held)
    parts = [f"{kind} {mib(held[kind])}" for kind in KINDS] + [f"activations and temporaries {mib(held[STEP])}"]
    lines = [f"one {device}, in MiB; {batch(worst)}, the one of {len(plan.steps)} with the highest peak", ""]
    lines += [*grid([COLUMNS, *rows(plan)]), ""]
    lines += [f"peak               {mib(worst.peak.size)}, in the {PHASES[worst.peak.phase]}: {' + '.join(parts)}"]
    lines += [f"largest temporary  {mib(worst.largest.size)}: {worst.largest.where}"]
    if several.devices > 1:
        name, exchange = f"{several.devices} devices".ljust(17), mib(several.buckets)
        lines += [
            f"{name}  {mib(several.peak)} at the peak of each: {exchange} for the exchange of gradients; "
            f"{several.devices * worst.sentences:,} sentences instead of {worst.sentences:,}, all else is on each device"
        ]
    return "\n".join(lines) + "\n"


def rows(plan: Plan) -> List[Tuple[str, ...]]:
    """A row for each component and one for all; parameters, then bytes."""
    activations = plan.steps[0].activations
    names = list(dict.fromkeys([*plan.order, *activations]))
    found = []
    for name in names:
        sizes = [*(plan.held.get((kind, name), 0) for kind in KINDS), activations[name]]
        counts = [plan.trained.get(name, 0), plan.frozen.get(name, 0)]
        if any(counts) or any(size >= MIB / 20 for size in sizes):
            found.append((name, *(f"{count:,}" for count in counts), *map(mib, sizes)))
    held = by_kind(plan.held)
    counts = [sum(plan.trained.values()), sum(plan.frozen.values())]
    sizes = [*(held[kind] for kind in KINDS), sum(activations.values())]
    return [*found, ("all", *(f"{count:,}" for count in counts), *map(mib, sizes))]


def by_kind(held: Mapping[Tuple[str, str], int]) -> "Counter[str]":
    """Bytes of each kind of storage, over all components."""
    found: Counter[str] = Counter()
    for (kind, _), size in held.items():
        found[kind] += size
    return found


def batch(step: Step) -> str:
    """A batch in words."""
    return f"a batch of {step.sentences:,} sentences ({', '.join(step.shapes)})"


def grid(lines: Sequence[Sequence[str]]) -> List[str]:
    """Columns of equal width, all but the first to the right."""
    widths = [max(map(len, column)) for column in zip(*lines)]
    padded = [
        [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:]))] for line in lines
    ]
    return ["  ".join(line) for line in padded]


def mib(size: int) -> str:
    """Bytes in MiB."""
    return f"{size / MIB:,.1f}"
