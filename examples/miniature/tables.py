"""Tables of a sweep, from the ledger alone: the same ledger gives the same bytes."""

import statistics
from dataclasses import dataclass
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


def render(plan: Plan, ledger: Ledger, today: str) -> str:
    """The whole page.

    Args:
        plan: the sweep.
        ledger: as the code sees it whose runs are shown.
        today: digest of the checkout's code.
    """
    finals = [entry for entry in ledger.current() if entry.get("phase") == "final"]
    parts = [
        f"# {plan.title}",
        _head(plan, ledger, today),
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


def _head(plan: Plan, ledger: Ledger, today: str) -> str:
    entries = [entry for entry in ledger.current() if entry.get("phase")]
    machines = sorted({entry["machine"] for entry in entries if "machine" in entry})
    outputs = [one for entry in entries for one in entry.get("outputs", {}).values()]
    signatures = _signatures(plan, outputs)
    # Today's digest is not named: a page that has said "changed" stays true, whatever changes next.
    since = "unchanged since" if ledger.code == today else "**changed since**, today's code may give other numbers"
    lines = [
        f"Made by `examples/miniature/sweep.py results` from `ledger-{plan.name}.json`. {_budget(plan, ledger)}",
        "",
        *(f"- {note}" for note in plan.notes),
        f"- Machine: {'; '.join(machines) or 'no run yet'}",
        *_measures(plan),
        *([f"- {named(plan)}: `{'`, `'.join(signatures) or 'no run yet'}`"] if signatures or not plan.metrics else []),
        f"- Code: `{ledger.code}`; commits: {', '.join(sorted({entry['commit'] for entry in entries})) or 'none'}; {since}",
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


def _t_test(differences: Sequence[float]) -> float:
    """Two-sided p of the paired t-test; differences that are all the same have no spread to compare with."""
    from scipy.stats import ttest_1samp

    if statistics.pstdev(differences) == 0.0:
        return 0.0 if differences[0] else 1.0
    return float(ttest_1samp(differences, 0.0).pvalue)


@dataclass(frozen=True)
class Outcome:
    """What the runs say of a claim in one direction.

    Attributes:
        differences: better minus worse, by seed.
        p_values: of the bootstrap of each seed, or one of the t-test over the seeds; none where there are too few seeds.
        seeds: of the plan.
    """

    differences: Sequence[float]
    p_values: Sequence[float]
    seeds: int

    def tested(self) -> bool:
        """True where every seed is there, three at least, and all have one sign."""
        enough = len(self.differences) >= max(self.seeds, 3)
        return enough and (all(one > 0 for one in self.differences) or all(one < 0 for one in self.differences))

    def p_value(self) -> float:
        """That of the t-test, or the second largest of the seeds' own; 1 where the claim is not tested."""
        return sorted(self.p_values)[-2:][0] if self.tested() else 1.0

    def cells(self, corrected: float) -> List[str]:
        """Differences, corrected p and verdict."""
        each = [f"{one:+.1f}" for one in self.differences]
        if len(self.p_values) == len(each) > 1:
            text = ", ".join(f"{one} ({p:.3f})" for one, p in zip(each, self.p_values))
        else:
            text = ", ".join(each) + "".join(f" ({_p(p)})" for p in self.p_values)
        return [text, _p(corrected) if self.tested() else "", self.verdict(corrected)]

    def verdict(self, corrected: float) -> str:
        """In words."""
        if len(self.differences) < max(self.seeds, 3):
            return f"open, {len(self.differences)} of {self.seeds} seeds"
        if not self.tested():
            return "not shown: signs differ"
        better = self.differences[0] > 0
        if corrected < SIGNIFICANT:
            return "shown" if better else "refuted"
        return "not shown: not significant" if better else "not shown: the other way, not significant"


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else "< 0.001"


def holm(p_values: Sequence[float]) -> List[float]:
    """Adjusted p-values, in the order given: none of the hypotheses is rejected wrongly with more than the level's probability.

    Source: Holm 1979, A simple sequentially rejective multiple test procedure.
    """
    adjusted, largest = [1.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        largest = max(largest, min((len(p_values) - rank) * p_values[place], 1.0))
        adjusted[place] = largest
    return adjusted


def outcomes(plan: Plan, ledger: Ledger) -> Dict[Tuple[Claim, str], Outcome]:
    """What the ledger says of every claim in every direction."""
    finals = [entry for entry in ledger.current() if entry.get("phase") == "final"]
    seeds, found = len(plan.seeds), {}
    for number, claim in enumerate(plan.claims):
        for pair in plan.directions:
            if plan.metrics:
                differences = _differences(claim, finals, pair, plan.seeds)
                p_values = [_t_test(differences)] if len(differences) >= max(seeds, 3) else []
            else:
                listed = [ledger.get(f"claims/{pair}/seed{seed}").get("results", []) for seed in plan.seeds]
                results = [result for results in listed for result in results if result["claim"] == number]
                differences = [result["difference"] for result in results]
                p_values = [result["p"] for result in results]
            found[claim, pair] = Outcome(differences, p_values, seeds)
    return found


def _claims(plan: Plan, ledger: Ledger) -> str:
    """A claim is shown where the sign agrees in every seed, three at least, and p < 0.05 after Holm's correction over the page.

    p is that of a paired t-test over the seeds where the plan has metrics. Else every seed has one of a paired bootstrap and the
    second largest counts: one seed may have none. These are two-sided and the signs must agree, so of two seeds without a true
    difference one has a small p and the sign of the others with at most the level's probability, dependent or not.
    """
    found = outcomes(plan, ledger)
    corrected = holm([outcome.p_value() for outcome in found.values()])
    rows = [[_title(claim), pair, *outcome.cells(p)] for ((claim, pair), outcome), p in zip(found.items(), corrected)]
    kind = "a paired t-test over the seeds" if plan.metrics else "the second largest of the seeds' paired bootstraps"
    note = (
        f"Shown, or refuted: the same sign in every one of the seeds (three at least) and p < {SIGNIFICANT:g} after Holm's "
        f"correction over all rows. The p of a row: {kind}; 1 where seeds are missing or signs differ."
    )
    columns = ["claim", "task", "difference by seed (p)"]
    if not plan.metrics:
        columns = ["claim", "direction", f"{named(plan)} difference by seed (p)"]
    return _table([*columns, "p, Holm", "verdict"], rows) + "\n\n" + note


def _title(claim: Claim) -> str:
    return f"{claim.better[0]} ({claim.better[1]}) better than {claim.worse[0]} ({claim.worse[1]})"


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
