"""Tables of a sweep, from the ledger alone: the same ledger gives the same bytes."""

import statistics
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ledger import Ledger
from plan import Claim, Plan

from data_prep.score import TITLES

SIGNIFICANT = 0.05
LOWEST = float("-inf")


def choose(plan: Plan, ledger: Ledger) -> Dict[str, Tuple[str, ...]]:
    """The point of each arm's grid with the best validation in the tuning phase; arms that are not complete are left out.

    The metric of the plan decides; in an arm whose task does not log it (stock multilingual translation has no BLEU), the loss.
    """
    chosen = {arm.name: arm.grid[0] for arm in plan.arms if len(arm.grid) == 1}
    for arm in (arm for arm in plan.arms if len(arm.grid) > 1):
        jobs = [job for job in plan.tuning() if job.arm is arm]
        entries = [ledger.get(job.key) for job in jobs]
        if not all(entry.get("status") for entry in entries):
            continue
        scores = [best_validation(entry, plan.metric(job.pair)) for entry, job in zip(entries, jobs)]
        if by_loss(entries, plan.metric(jobs[0].pair)):
            losses = [[point["loss"] for point in entry.get("validation", [])] for entry in entries]
            scores = [-min(found) if found else None for found in losses]
        if any(score is not None for score in scores):
            best = max(range(len(jobs)), key=lambda number: LOWEST if scores[number] is None else scores[number])
            chosen[arm.name] = jobs[best].options
    return chosen


def by_loss(entries: Sequence[Dict[str, Any]], metric: str) -> bool:
    """True where no run of an arm has logged the metric."""
    return all(best_validation(entry, metric) is None for entry in entries)


def best_validation(entry: Dict[str, Any], metric: str) -> Optional[float]:
    """Best validation score of a run."""
    scores = [point[metric] for point in entry.get("validation", []) if metric in point]
    return max(scores) if scores else None


def render(plan: Plan, ledger: Ledger) -> str:
    """The whole page."""
    finals = [entry for entry in ledger.current() if entry.get("phase") == "final"]
    parts = [
        f"# {plan.title}",
        _head(plan, ledger),
        f"## Test {named(plan)}",
        _scores(plan, finals),
        f"![Test {named(plan)} and validation curves](plots/{plan.name}.svg)",
    ]
    if plan.metrics:
        parts += ["## By language", *_by_subset(plan, finals)]
    parts += ["## Claims", _claims(plan, ledger), "## Every run", _runs(plan, ledger)]
    if ledger.foreign():
        parts += [
            "## Runs with other code, not counted",
            "\n".join(f"- {one['key']} ({one['commit']})" for one in ledger.foreign()),
        ]
    return "\n\n".join(parts) + "\n"


def _head(plan: Plan, ledger: Ledger) -> str:
    entries = [entry for entry in ledger.current() if entry.get("phase")]
    machines = sorted({entry["machine"] for entry in entries if "machine" in entry})
    outputs = [one for entry in entries for one in entry.get("outputs", {}).values()]
    signatures = _signatures(plan, outputs)
    lines = [
        f"Made by `examples/miniature/sweep.py results` from `ledger-{plan.name}.json`. {_budget(plan, ledger)}",
        "",
        *(f"- {note}" for note in plan.notes),
        f"- Machine: {'; '.join(machines) or 'no run yet'}",
        *_measures(plan),
        *([f"- {named(plan)}: `{'`, `'.join(signatures) or 'no run yet'}`"] if signatures or not plan.metrics else []),
        f"- Code: `{ledger.code}`; commits: {', '.join(sorted({entry['commit'] for entry in entries})) or 'none'}",
    ]
    assets = ledger.get("assets")
    lines += [f"- `{path}`: sha256 `{value[:16]}`" for path, value in sorted(assets.get("hashes", {}).items())]
    return "\n".join(lines)


def named(plan: Plan) -> str:
    """What the tables show."""
    return "scores" if plan.metrics else TITLES[plan.score]


def _signatures(plan: Plan, outputs: Sequence[Dict[str, Any]]) -> List[str]:
    """Signatures of the metrics that the tables show."""
    wanted = set((plan.metrics or {"": plan.score}).values())
    return sorted({text for one in outputs for metric, text in one.get("signature", {}).items() if metric in wanted})


def _measures(plan: Plan) -> List[str]:
    if not plan.metrics:
        return []
    return ["- Scores in per cent: " + ", ".join(f"{pair} {plan.metric_title(pair)}" for pair in plan.directions)]


def _budget(plan: Plan, ledger: Ledger) -> str:
    points, final = len(plan.arms[0].grid), f"{plan.minutes['final']:g} minutes at most"
    if points == 1:
        return f"Every training run has {final}; nothing is tuned."
    by = "score" if plan.metrics else "BLEU"
    tuned = [one for one in ledger.current() if one.get("phase") == "tune" and one["status"] == "done"]
    runs = {arm.name: [one for one in tuned if one["arm"] == arm.name] for arm in plan.arms}
    lacking = [name for name, found in runs.items() if found and by_loss(found, plan.metric(plan.directions[0]))]
    but = f" (the loss where a task logs none: {', '.join(lacking)})" if lacking else ""
    return (
        f"Training: {plan.minutes['tune']:g} minutes a tuning run, {final} a final run, the same for every arm; {points} settings "
        f"an arm are tried on {plan.directions[0]} with seed {plan.seeds[0]} and chosen by validation {by}{but}."
    )


def _scores(plan: Plan, finals: Sequence[Dict[str, Any]]) -> str:
    """Arm and output down, direction and seed across, mean and standard deviation at the end of each direction."""
    columns = ["system", "decoding"]
    for pair in plan.directions:
        columns += [f"{pair}, seed {seed}" for seed in plan.seeds] + [f"{pair}, mean ± sd"]
    rows = []
    for arm in plan.arms:
        for output, text in arm.outputs.items():
            cells = [arm.name, text]
            for pair in plan.directions:
                values = [score(finals, arm.name, output, pair, seed, plan.score) for seed in plan.seeds]
                cells += ["" if value is None else f"{value:.1f}" for value in values]
                cells.append(_mean([value for value in values if value is not None]))
            rows.append(cells)
    return _table(columns, rows)


def score(
    finals: Sequence[Dict[str, Any]], arm: str, output: str, pair: str, seed: int, metric: str = "bleu"
) -> Optional[float]:
    """Test score, or the mean over the subsets, of one run and output, if it is there."""
    found = _output(finals, arm, output, pair, seed)
    if not found:
        return None
    return statistics.mean(found["subsets"].values()) if "subsets" in found else float(found[metric])


def _output(finals: Sequence[Dict[str, Any]], arm: str, output: str, pair: str, seed: int) -> Dict[str, Any]:
    for entry in finals:
        if (entry["arm"], entry["pair"], entry["seed"]) == (arm, pair, seed):
            return dict(entry.get("outputs", {}).get(output, {}))
    return {}


def _by_subset(plan: Plan, finals: Sequence[Dict[str, Any]]) -> List[str]:
    """A table a direction: arm and output down, subsets across, mean and standard deviation over the seeds."""
    parts = []
    for pair in plan.directions:
        found = {
            (arm.name, output, seed): _output(finals, arm.name, output, pair, seed).get("subsets", {})
            for arm in plan.arms
            for output in arm.outputs
            for seed in plan.seeds
        }
        subsets = list(dict.fromkeys(subset for scores in found.values() for subset in scores))
        rows = []
        for arm in plan.arms:
            for output, text in arm.outputs.items():
                scores = [found[arm.name, output, seed] for seed in plan.seeds]
                cells = [_mean([one[subset] for one in scores if subset in one]) for subset in subsets]
                rows.append([arm.name, text, *cells])
        parts += [f"{pair}, {plan.metric(pair)}:", _table(["system", "output", *subsets], rows)]
    return parts


def _mean(values: Sequence[float]) -> str:
    if not values:
        return ""
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread} (n = {len(values)})"


def _differences(claim: Claim, finals: Sequence[Dict[str, Any]], pair: str, seeds: Sequence[int]) -> List[float]:
    """Better minus worse, of the seeds that have both."""
    both = [[score(finals, *side, pair, seed) for side in (claim.better, claim.worse)] for seed in seeds]
    return [better - worse for better, worse in both if better is not None and worse is not None]


def _spread_verdict(differences: Sequence[float], seeds: int) -> List[str]:
    text = ", ".join(f"{one:+.1f}" for one in differences)
    if len(differences) < max(seeds, 3):
        return [text, f"open, {len(differences)} of {seeds} seeds"]
    p_value = _t_test(differences)
    text += f" ({p_value:.3f})" if p_value >= 0.001 else " (< 0.001)"
    significant = p_value < SIGNIFICANT
    if all(one > 0 for one in differences):
        return [text, "shown" if significant else "not shown: within the spread of the seeds"]
    if all(one < 0 for one in differences):
        return [text, "refuted" if significant else "not shown: the other way, within the spread of the seeds"]
    return [text, "not shown: signs differ"]


def _t_test(differences: Sequence[float]) -> float:
    """Two-sided p of the paired t-test; differences that are all the same have no spread to compare with."""
    from scipy.stats import ttest_1samp

    if statistics.pstdev(differences) == 0.0:
        return 0.0 if differences[0] else 1.0
    return float(ttest_1samp(differences, 0.0).pvalue)


def _claims(plan: Plan, ledger: Ledger) -> str:
    """A claim is shown where the sign agrees in every seed, three at least, and p < 0.05.

    That is p of the paired bootstrap in all seeds but one at most, or of a t-test over the seeds where the plan has metrics.
    """
    rows = []
    finals = [entry for entry in ledger.current() if entry.get("phase") == "final"]
    for number, claim in enumerate(plan.claims):
        for pair in plan.directions:
            found = []
            for seed in plan.seeds:
                results = ledger.get(f"claims/{pair}/seed{seed}").get("results", [])
                found += [result for result in results if result["claim"] == number]
            if plan.metrics:
                differences = _differences(claim, finals, pair, plan.seeds)
                rows.append([_title(claim), pair, *_spread_verdict(differences, len(plan.seeds))])
            else:
                rows.append([_title(claim), pair, *_verdict(found, len(plan.seeds))])
    if plan.metrics:
        note = f"Shown: the same sign in every one of the seeds (three at least) and p < {SIGNIFICANT:g} in a t-test over them."
        return _table(["claim", "task", "difference by seed (p)", "verdict"], rows) + "\n\n" + note
    note = f"Shown: the same sign in every one of the seeds (three at least) and p < {SIGNIFICANT:g} in all but one at most."
    return _table(["claim", "direction", f"{named(plan)} difference by seed (p)", "verdict"], rows) + "\n\n" + note


def _title(claim: Claim) -> str:
    return f"{claim.better[0]} ({claim.better[1]}) better than {claim.worse[0]} ({claim.worse[1]})"


def _verdict(found: Sequence[Dict[str, Any]], seeds: int) -> List[str]:
    text = ", ".join(f"{one['difference']:+.1f} ({one['p']:.3f})" for one in found)
    if len(found) < max(seeds, 3):
        return [text, f"open, {len(found)} of {seeds} seeds"]
    significant = sum(one["p"] < SIGNIFICANT for one in found) >= len(found) - 1
    if all(one["difference"] > 0 for one in found):
        return [text, "shown" if significant else "not shown: not significant"]
    if all(one["difference"] < 0 for one in found):
        return [text, "refuted" if significant else "not shown: the other way, not significant"]
    return [text, "not shown: signs differ"]


def _runs(plan: Plan, ledger: Ledger) -> str:
    rows = []
    for entry in ledger.current():
        if not entry.get("phase"):
            continue
        best = best_validation(entry, plan.metric(entry["pair"]))
        cells = [
            entry["key"],
            " ".join(entry["options"]) or "defaults",
            entry["status"],
            f"{entry.get('updates', 0):,}",
        ]
        cells += [f"{entry.get('train_seconds', 0) / 60:.1f}", f"{entry.get('trained_parameters', 0):,}"]
        rows.append([*cells, "" if best is None else f"{best:.1f}", entry["commit"]])
    return _table(
        [
            "run",
            "options",
            "status",
            "updates",
            "minutes",
            "trained parameters",
            f"best validation {'score' if plan.metrics else 'BLEU'}",
            "commit",
        ],
        rows,
    )


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [list(columns), ["---"] * len(columns), *rows])
