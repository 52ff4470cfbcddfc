"""The page of a study, from the ledger alone: the same ledger gives the same bytes."""

import itertools
import re
import statistics
from typing import Any, Dict, List, Sequence

from data_prep.scoring.score import TITLES

from .claims import SIGNIFICANT, holm, outcomes
from .ledger import Ledger, best_validation, output_of, score_of
from .studies import Claim, Study, describe_limits

Entries = Sequence[Dict[str, Any]]


def render(study: Study, ledger: Ledger, today: str, published: bool = True) -> str:
    """Return the whole page.

    Args:
        study: the study.
        ledger: its runs.
        today: digest of the checkout's code.
        published: True = the page of ``docs/results``, which begins with the finding; False = the
            page beside ``ledger.json`` and ``plot.svg``.
    """
    finals = ledger.finals()
    scored = any(entry.get("outputs") for entry in finals)
    parts = [f"# {study.title}"]
    if published:
        parts.append(f"**{study.finding}** {study.cannot_tell}".rstrip())
    if scored:
        parts += [f"## Test {name_score(study)}", _tabulate_scores(study, finals)]
    alt = f"Test {name_score(study)} and validation" if scored else "Validation"
    parts.append(f"![{alt} curves]({f'{study.name}.svg' if published else 'plot.svg'})")
    if study.metrics:
        parts += ["## By language", *_tabulate_subsets(study, finals)]
    elif scored:
        parts += ["## Other measures, mean over the seeds", _tabulate_measures(study, finals)]
    if study.by_updates and not study.metrics:
        heading = f"## Validation BLEU by {name_updates(finals)}"
        parts += [heading, *_tabulate_validations(study, finals)]
    if scored:
        parts += ["## Claims", _tabulate_claims(study, ledger)]
    parts += ["## How it was run", _list_conditions(study, ledger, today, published)]
    parts += ["## Every run", _tabulate_runs(study, ledger)]
    return "\n\n".join(parts) + "\n"


def list_findings(studies: Sequence[Study]) -> str:
    """Return a list of the pages of studies, each with the first sentence of its finding."""
    lines = []
    for study in studies:
        first = re.split(r"(?<=\.) ", study.finding, maxsplit=1)[0]
        lines.append(f"- [{study.title}](results/{study.name}.md): {first}\n")
    return "".join(lines)


def name_score(study: Study) -> str:
    """Return the name of the scores in tables and plots."""
    return "scores" if study.metrics else TITLES[study.score]


def name_updates(finals: Entries) -> str:
    """Name the updates of validation curves, which are those of the last stage."""
    has_stages = any(entry.get("earlier_updates") for entry in finals)
    return "updates of the last stage" if has_stages else "updates"


# ---- How it was run. ----


def _list_conditions(study: Study, ledger: Ledger, today: str, published: bool) -> str:
    entries = ledger.runs()
    machines = sorted({entry["machine"] for entry in entries if "machine" in entry})
    commits = sorted({entry["commit"] for entry in entries})
    signatures = _list_signatures(study, entries)
    # Today's digest is not named: a page that has said "changed" stays true, whatever changes next.
    since = "**changed since**, today's code may give other numbers"
    if ledger.code == today:
        since = "unchanged since"
    expected = len(study.final())
    finished = sum(entry["status"] == "done" for entry in ledger.finals())
    lines = [_describe_budget(study), ""]
    if finished < expected:
        lines.append(f"- {finished} of {expected} final runs are there.")
    if published:
        lines.append(
            f"- Made from `examples/results/{study.name}.json`; the outputs are in "
            f"`{study.name}.tar.xz` beside it; `make study STUDY={study.name}` runs it again."
        )
    lines += [f"- {note}" for note in study.notes]
    lines.append(f"- Machine: {'; '.join(machines) or 'no run yet'}")
    if study.metrics:
        measures = [f"{pair} {_name_metric(study, pair)}" for pair in study.directions]
        lines.append(f"- Scores in per cent: {', '.join(measures)}")
    if signatures:
        lines.append(f"- {name_score(study)}: `{'`, `'.join(signatures)}`")
    lines.append(f"- Code: `{ledger.code}`; commits: {', '.join(commits) or 'none'}; {since}")
    hashes = ledger.get("assets").get("hashes", {})
    lines += [f"- `{path}`: sha256 `{hashes[path][:16]}`" for path in sorted(hashes)]
    return "\n".join(lines)


def _list_signatures(study: Study, entries: Entries) -> List[str]:
    """List the signatures of the metric that the tables show."""
    outputs = [output for entry in entries for output in entry.get("outputs", {}).values()]
    texts = {output.get("signature", {}).get(study.score) for output in outputs}
    return sorted(text for text in texts if text)


def _name_metric(study: Study, pair: str) -> str:
    return f"{study.metric(pair)}, mean over languages" if study.metrics else TITLES[study.score]


def _describe_budget(study: Study) -> str:
    points, final = len(study.arms[0].grid), f"at most {study.limit('final')}"
    exceptions = []
    for arm in study.arms:
        if arm.stages[-1].limits:
            exceptions.append(f"{arm.name}: {describe_limits(arm.stages[-1].limits)}")
    apart = f" ({'; '.join(exceptions)})" if exceptions else ""
    if points == 1:
        return f"Training: {final} per run{apart}; nothing is tuned."
    return (
        f"Training: at most {study.limit('tune')} per tuning run, {final} per final run, the same "
        f"for every arm{apart}; {points} settings per arm are tried on {study.directions[0]} with "
        f"seed {study.seeds[0]} and chosen by validation {'score' if study.metrics else 'BLEU'}."
    )


# ---- Scores. ----


def _tabulate_scores(study: Study, finals: Entries) -> str:
    """Return a table of test scores by arm and output (rows), and direction and seed (columns)."""
    columns = ["system", "decoding"]
    for pair in study.directions:
        columns += [f"{pair}, seed {seed}" for seed in study.seeds] + [f"{pair}, mean ± sd"]
    rows = []
    for arm in study.arms:
        for output, title in arm.outputs.items():
            cells = []
            for pair in study.directions:
                place = (arm.name, output, pair)
                scores = [score_of(finals, *place, seed, study.score) for seed in study.seeds]
                cells += ["" if score is None else f"{score:.1f}" for score in scores]
                cells.append(_format_mean([score for score in scores if score is not None]))
            if any(cells):
                rows.append([arm.name, title, *cells])
    return _format_table(columns, rows)


def _tabulate_measures(study: Study, finals: Entries) -> str:
    """Return a table of other measures by arm and output (rows), and direction (columns).

    They are BLEU and chrF, without the score of the study, and the length ratio.
    """
    titles = {"bleu": TITLES["bleu"], "chrf": TITLES["chrf"], "length_ratio": "length ratio"}
    titles.pop(study.score, None)
    columns = ["system", "decoding"]
    columns += [f"{pair}, {title}" for pair in study.directions for title in titles.values()]
    rows = []
    for arm in study.arms:
        for output, title in arm.outputs.items():
            cells = []
            for pair, measure in itertools.product(study.directions, titles):
                runs = [output_of(finals, arm.name, output, pair, seed) for seed in study.seeds]
                numbers = [scores[measure] for scores in runs if measure in scores]
                decimals = 2 if measure == "length_ratio" else 1
                cells.append(f"{statistics.mean(numbers):.{decimals}f}" if numbers else "")
            if any(cells):
                rows.append([arm.name, title, *cells])
    return _format_table(columns, rows)


def _tabulate_validations(study: Study, finals: Entries) -> List[str]:
    """Return a table per direction: validation BLEU by arm (rows) and updates (columns)."""
    parts = []
    for pair in study.directions:
        scores: Dict[str, Dict[int, List[float]]] = {}
        for entry in (entry for entry in finals if entry["pair"] == pair):
            for point in entry.get("validation", []):
                if "bleu" in point:
                    by_updates = scores.setdefault(entry["arm"], {})
                    by_updates.setdefault(int(point["num_updates"]), []).append(point["bleu"])
        columns = sorted({updates for by_updates in scores.values() for updates in by_updates})
        rows = []
        for arm in (arm.name for arm in study.arms if arm.name in scores):
            rows.append([arm, *(_format_mean(scores[arm].get(updates, [])) for updates in columns)])
        table = _format_table(["system", *(f"{updates:,}" for updates in columns)], rows)
        parts += [f"{pair}:", table]
    return parts


def _tabulate_subsets(study: Study, finals: Entries) -> List[str]:
    """Return a table per direction: test scores by arm and output (rows) and subset (columns)."""
    parts = []
    for pair in study.directions:
        scores = {}
        for arm in study.arms:
            for output, title in arm.outputs.items():
                runs = [output_of(finals, arm.name, output, pair, seed) for seed in study.seeds]
                scores[arm.name, title] = [run.get("subsets", {}) for run in runs]
        subsets = list(dict.fromkeys(itertools.chain(*itertools.chain(*scores.values()))))
        rows = []
        for names, by_seed in scores.items():
            numbers = [[run[subset] for run in by_seed if subset in run] for subset in subsets]
            rows.append([*names, *map(_format_mean, numbers)])
        table = _format_table(["system", "output", *subsets], rows)
        parts += [f"{pair}, {study.metric(pair)}:", table]
    return parts


def _format_mean(numbers: Sequence[float]) -> str:
    if not numbers:
        return ""
    spread = f" ± {statistics.stdev(numbers):.1f}" if len(numbers) > 1 else ""
    return f"{statistics.mean(numbers):.1f}{spread} (n = {len(numbers)})"


# ---- Claims. ----


def _tabulate_claims(study: Study, ledger: Ledger) -> str:
    """Return the table of the claims, with the rule of its verdicts.

    A claim is shown if all seeds, at least three, have the same sign and p < 0.05 after Holm's
    correction over the page. In a study with metrics p is that of a paired t-test over the seeds.
    Elsewhere each seed has the p of a paired bootstrap, and the second largest p counts.

    The second largest keeps the level: if it is small, then at least one of any two seeds has a
    small p. Without a true difference a seed has a small two-sided p and the claimed sign with
    half the level's probability, so one of two seeds with at most the level, independent or not.
    """
    table = outcomes(study, ledger)
    corrected = holm([outcome.p_value() for outcome in table.values()])
    rows = []
    for ((claim, pair), outcome), p_value in zip(table.items(), corrected):
        rows.append([_name_claim(study, claim), pair, *outcome.cells(p_value)])
    kind = "a paired t-test over the seeds"
    columns = ["claim", "task", "difference by seed (p)"]
    if not study.metrics:
        kind = "the second largest of the seeds' paired bootstraps"
        columns = ["claim", "direction", f"{name_score(study)} difference by seed (p)"]
    note = (
        "Shown, or refuted: the same sign in every one of the seeds (three at least) and "
        f"p < {SIGNIFICANT:g} after Holm's correction over all rows. "
        f"The p of a row: {kind}; 1 where seeds are missing or signs differ."
    )
    return _format_table([*columns, "p, Holm", "verdict"], rows) + "\n\n" + note


def _name_claim(study: Study, claim: Claim) -> str:
    """Return arm and decoding of both sides, as the table of scores names them."""
    titles = {arm.name: arm.outputs for arm in study.arms}
    sides = [f"{arm} ({titles[arm][output]})" for arm, output in (claim.better, claim.worse)]
    return " better than ".join(sides)


# ---- Every run. ----


def _tabulate_runs(study: Study, ledger: Ledger) -> str:
    """Return a table with a row per direction and point of a grid; cells list all seeds."""
    groups: Dict[str, List[Any]] = {}
    for entry in sorted(ledger.runs(), key=lambda run: int(run["seed"])):
        groups.setdefault(entry["key"].rpartition("/")[0], []).append(entry)
    is_timed = any("cpu_seconds" in entry for entry in ledger.runs())
    rows = [_list_cells(study, key, groups[key], is_timed) for key in sorted(groups)]
    columns = ["run", "options", "trained parameters", "updates by seed", "minutes"]
    columns += ["CPU minutes"] if is_timed else []
    columns.append(f"best validation {'score' if study.metrics else 'BLEU'}")
    return _format_table(columns, rows)


def _list_cells(study: Study, key: str, entries: Entries, is_timed: bool) -> List[str]:
    """Return the cells of a row, whose runs differ by seed alone."""
    unfinished = [entry for entry in entries if entry["status"] != "done"]
    states = [f"(seed {entry['seed']}: {entry['status']})" for entry in unfinished]
    best = [best_validation(entry, study.metric(entry["pair"])) for entry in entries]
    validated = any(score is not None for score in best)
    scores = ["-" if score is None else f"{score:.1f}" for score in best] if validated else []
    return [
        " ".join([key, *states]),
        " ".join(entries[0]["options"]) or "defaults",
        f"{max(entry.get('trained_parameters', 0) for entry in entries):,}",
        ", ".join(f"{entry.get('updates', 0):,}" for entry in entries),
        _format_minutes(entries, "train_seconds"),
        *([_format_minutes(entries, "cpu_seconds")] if is_timed else []),
        ", ".join(scores),
    ]


def _format_minutes(entries: Entries, key: str) -> str:
    times = [f"{entry[key] / 60:.1f}" if key in entry else "-" for entry in entries]
    return ", ".join(times)


def _format_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
