"""The page of a study, from the ledger alone: the same ledger gives the same bytes."""

import itertools
import statistics
from typing import Any, Dict, List, Sequence

from data_prep.score import TITLES

from .claims import SIGNIFICANT, holm, outcomes
from .ledger import Ledger, best_validation, by_loss, output_of, score_of
from .studies import Claim, Study, in_words


def render(study: Study, ledger: Ledger, today: str, published: bool = True) -> str:
    """The whole page: the finding where the runs are published, the tables, the claims, how it was run.

    Args:
        study: the study.
        ledger: as the code sees it whose runs are shown.
        today: digest of the checkout's code.
        published: whether the page lies with its plot in ``docs/results``; else beside ``ledger.json`` and ``plot.svg``.
    """
    finals = [entry for entry in ledger.current() if entry.get("phase") == "final"]
    parts = [f"# {study.title}"]
    if published:
        parts.append(" ".join([f"**{study.finding}**", study.cannot_tell]).rstrip())
    plot = f"{study.name}.svg" if published else "plot.svg"
    scored = any(entry.get("outputs") for entry in finals)
    parts += [f"## Test {named(study)}", _scores(study, finals)] if scored else []
    parts += [f"![{f'Test {named(study)} and validation' if scored else 'Validation'} curves]({plot})"]
    if study.metrics:
        parts += ["## By language", *_by_subset(study, finals)]
    elif scored:
        parts += ["## Other measures, mean over the seeds", _others(study, finals)]
    if study.by_updates and not study.metrics:
        parts += [f"## Validation BLEU by {updates_of(finals)}", *_by_updates(study, finals)]
    parts += ["## Claims", _claims(study, ledger)] if scored else []
    parts += ["## How it was run", _conditions(study, ledger, today, published)]
    parts += ["## Every run", _runs(study, ledger)]
    if ledger.foreign():
        parts += [
            "## Runs with other code, not counted",
            "\n".join(f"- {one['key']} ({one['commit']})" for one in ledger.foreign()),
        ]
    return "\n\n".join(parts) + "\n"


def index(studies: Sequence[Study]) -> str:
    """The page that lists the pages of studies."""
    rows = [[f"[{study.title}]({study.name}.md)", study.finding, study.cannot_tell] for study in studies]
    text = "Each page is made of a ledger and an archive of outputs in `examples/results` by `make results`. How to read them: "
    text += "[studies](../studies.md)."
    pages = "```{toctree}\n:hidden:\n:glob:\n\n*\n```"
    return (
        "\n\n".join(
            ["# Results of the studies", text, _table(["study", "finding", "what it cannot tell"], rows), pages]
        )
        + "\n"
    )


def _conditions(study: Study, ledger: Ledger, today: str, published: bool) -> str:
    entries = [entry for entry in ledger.current() if entry.get("phase")]
    machines = sorted({entry["machine"] for entry in entries if "machine" in entry})
    outputs = [one for entry in entries for one in entry.get("outputs", {}).values()]
    signatures = _signatures(study, outputs)
    # Today's digest is not named: a page that has said "changed" stays true, whatever changes next.
    since = "unchanged since" if ledger.code == today else "**changed since**, today's code may give other numbers"
    again = f"`make study STUDY={study.name}` runs it again"
    made = (
        f"Made from `examples/results/{study.name}.json`; the outputs are in `{study.name}.tar.xz` beside it; {again}."
    )
    wanted = len(study.final({arm.name: 0 for arm in study.arms}))
    done = sum(entry["phase"] == "final" and entry["status"] == "done" for entry in entries)
    lines = [
        _budget(study, ledger),
        "",
        *([f"- {done} of {wanted} final runs are there."] if done < wanted else []),
        *([f"- {made}"] if published else []),
        *(f"- {note}" for note in study.notes),
        f"- Machine: {'; '.join(machines) or 'no run yet'}",
        *_measures(study),
        *([f"- {named(study)}: `{'`, `'.join(signatures)}`"] if signatures else []),
        f"- Code: `{ledger.code}`; commits: {', '.join(sorted({entry['commit'] for entry in entries})) or 'none'}; {since}",
    ]
    assets = ledger.get("assets")
    lines += [f"- `{path}`: sha256 `{value[:16]}`" for path, value in sorted(assets.get("hashes", {}).items())]
    return "\n".join(lines)


def named(study: Study) -> str:
    """What the tables show."""
    return "scores" if study.metrics else TITLES[study.score]


def _signatures(study: Study, outputs: Sequence[Dict[str, Any]]) -> List[str]:
    """Signatures of the metrics that the tables show."""
    wanted = {*(study.metrics or {"": study.score}).values(), *(["language"] if study.output_languages else [])}
    return sorted({text for one in outputs for metric, text in one.get("signature", {}).items() if metric in wanted})


def _metric_title(study: Study, pair: str) -> str:
    return f"{study.metric(pair)}, mean over languages" if study.metrics else TITLES[study.score]


def _measures(study: Study) -> List[str]:
    if not study.metrics:
        return []
    return ["- Scores in per cent: " + ", ".join(f"{pair} {_metric_title(study, pair)}" for pair in study.directions)]


def _budget(study: Study, ledger: Ledger) -> str:
    points, final = len(study.arms[0].grid), f"at most {study.limit('final')}"
    others = [f"{arm.name}: {in_words(arm.stages[-1].limits)}" for arm in study.arms if arm.stages[-1].limits]
    own = f" ({'; '.join(others)})" if others else ""
    if points == 1:
        return f"Training: {final} per run{own}; nothing is tuned."
    by = "score" if study.metrics else "BLEU"
    tuned = [one for one in ledger.current() if one.get("phase") == "tune" and one["status"] == "done"]
    runs = {arm.name: [one for one in tuned if one["arm"] == arm.name] for arm in study.arms}
    lacking = [name for name, found in runs.items() if found and by_loss(found, study.metric(study.directions[0]))]
    but = f" (the loss where a task logs none: {', '.join(lacking)})" if lacking else ""
    return (
        f"Training: at most {study.limit('tune')} per tuning run, {final} per final run, the same for every arm{own}; "
        f"{points} settings per arm are tried on {study.directions[0]} with seed {study.seeds[0]} and chosen by validation "
        f"{by}{but}."
    )


def _scores(study: Study, finals: Sequence[Dict[str, Any]]) -> str:
    """Arm and output down, direction and seed across, mean and standard deviation at the end of each direction."""
    columns = ["system", "decoding"]
    for pair in study.directions:
        columns += [f"{pair}, seed {seed}" for seed in study.seeds] + [f"{pair}, mean ± sd"]
    rows = []
    for arm in study.arms:
        for output, text in arm.outputs.items():
            cells = [arm.name, text]
            for pair in study.directions:
                values = [score_of(finals, arm.name, output, pair, seed, study.score) for seed in study.seeds]
                cells += ["" if value is None else f"{value:.1f}" for value in values]
                cells.append(_mean([value for value in values if value is not None]))
            rows.append(cells)
    return _table(columns, [cells for cells in rows if any(cells[2:])])


def _others(study: Study, finals: Sequence[Dict[str, Any]]) -> str:
    """Arm and output down, direction and measure across: lengths, whose share a score hides, and scores of other kinds."""
    measures = [name for name in ("bleu", "chrf", "language", "length_ratio") if name != study.score]
    if not study.output_languages:
        measures.remove("language")
    titles = {**TITLES, "length_ratio": "length ratio"}
    columns = ["system", "decoding", *(f"{pair}, {titles[name]}" for pair in study.directions for name in measures)]
    rows = []
    for arm in study.arms:
        for output, text in arm.outputs.items():
            cells = [arm.name, text]
            for pair, name in itertools.product(study.directions, measures):
                found = [output_of(finals, arm.name, output, pair, seed) for seed in study.seeds]
                values = [one[name] for one in found if name in one]
                cells.append(f"{statistics.mean(values):.{2 if name == 'length_ratio' else 1}f}" if values else "")
            rows.append(cells)
    return _table(columns, [cells for cells in rows if any(cells[2:])])


def updates_of(finals: Sequence[Dict[str, Any]]) -> str:
    """What validation is shown over: systems of several stages are validated in the last one alone."""
    return "updates of the last stage" if any(entry.get("earlier_updates") for entry in finals) else "updates"


def _by_updates(study: Study, finals: Sequence[Dict[str, Any]]) -> List[str]:
    """A table per direction: arm down, updates across, mean and standard deviation over the seeds that were validated then."""
    parts = []
    for pair in study.directions:
        found: Dict[str, Dict[int, List[float]]] = {}
        for entry in (one for one in finals if one["pair"] == pair):
            for point in (point for point in entry.get("validation", []) if "bleu" in point):
                found.setdefault(entry["arm"], {}).setdefault(int(point["num_updates"]), []).append(point["bleu"])
        columns = sorted({updates for points in found.values() for updates in points})
        arms = [arm.name for arm in study.arms if arm.name in found]
        rows = [[arm, *(_mean(found[arm].get(updates, [])) for updates in columns)] for arm in arms]
        parts += [f"{pair}:", _table(["system", *(f"{updates:,}" for updates in columns)], rows)]
    return parts


def _by_subset(study: Study, finals: Sequence[Dict[str, Any]]) -> List[str]:
    """A table a direction: arm and output down, subsets across, mean and standard deviation over the seeds."""
    parts = []
    for pair in study.directions:
        found = {
            (arm.name, output, seed): output_of(finals, arm.name, output, pair, seed).get("subsets", {})
            for arm in study.arms
            for output in arm.outputs
            for seed in study.seeds
        }
        subsets = list(dict.fromkeys(subset for scores in found.values() for subset in scores))
        rows = []
        for arm in study.arms:
            for output, text in arm.outputs.items():
                scores = [found[arm.name, output, seed] for seed in study.seeds]
                cells = [_mean([one[subset] for one in scores if subset in one]) for subset in subsets]
                rows.append([arm.name, text, *cells])
        parts += [f"{pair}, {study.metric(pair)}:", _table(["system", "output", *subsets], rows)]
    return parts


def _mean(values: Sequence[float]) -> str:
    if not values:
        return ""
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread} (n = {len(values)})"


def _claims(study: Study, ledger: Ledger) -> str:
    """A claim is shown where the sign agrees in every seed, three at least, and p < 0.05 after Holm's correction over the page.

    p is that of a paired t-test over the seeds where the study has metrics. Else every seed has one of a paired bootstrap and the
    second largest counts: one seed may have none. These are two-sided and the signs must agree, so of two seeds without a true
    difference one has a small p and the sign of the others with at most the level's probability, dependent or not.
    """
    found = outcomes(study, ledger)
    corrected = holm([outcome.p_value() for outcome in found.values()])
    rows = [
        [_title(study, claim), pair, *outcome.cells(p)] for ((claim, pair), outcome), p in zip(found.items(), corrected)
    ]
    kind = "a paired t-test over the seeds" if study.metrics else "the second largest of the seeds' paired bootstraps"
    note = (
        f"Shown, or refuted: the same sign in every one of the seeds (three at least) and p < {SIGNIFICANT:g} after Holm's "
        f"correction over all rows. The p of a row: {kind}; 1 where seeds are missing or signs differ."
    )
    columns = ["claim", "task", "difference by seed (p)"]
    if not study.metrics:
        columns = ["claim", "direction", f"{named(study)} difference by seed (p)"]
    return _table([*columns, "p, Holm", "verdict"], rows) + "\n\n" + note


def _title(study: Study, claim: Claim) -> str:
    """Arm and decoding of both sides, as the table of scores names them."""
    outputs = {arm.name: arm.outputs for arm in study.arms}
    return " better than ".join(f"{arm} ({outputs[arm][output]})" for arm, output in (claim.better, claim.worse))


def _runs(study: Study, ledger: Ledger) -> str:
    """A row per point of a grid and direction; what differs by seed is listed in the order of the seeds."""
    groups: Dict[str, List[Any]] = {}
    for entry in sorted((one for one in ledger.current() if one.get("phase")), key=lambda one: int(one["seed"])):
        groups.setdefault(entry["key"].rpartition("/")[0], []).append(entry)
    rows, timed = [], any("cpu_seconds" in entry for entries in groups.values() for entry in entries)
    for key, entries in sorted(groups.items()):
        best = [best_validation(entry, study.metric(entry["pair"])) for entry in entries]
        shown = ["-" if one is None else f"{one:.1f}" for one in best if any(two is not None for two in best)]
        states = [f"seed {entry['seed']}: {entry['status']}" for entry in entries if entry["status"] != "done"]
        cells = [
            " ".join([key, *(f"({state})" for state in states)]),
            " ".join(entries[0]["options"]) or "defaults",
            f"{max(entry.get('trained_parameters', 0) for entry in entries):,}",
            ", ".join(f"{entry.get('updates', 0):,}" for entry in entries),
            ", ".join(_minutes(entry, "train_seconds") for entry in entries),
        ]
        if timed:
            cells.append(", ".join(_minutes(entry, "cpu_seconds") for entry in entries))
        rows.append([*cells, ", ".join(shown)])
    measure = f"best validation {'score' if study.metrics else 'BLEU'}"
    columns = ["run", "options", "trained parameters", "updates by seed", "minutes", *["CPU minutes"] * timed, measure]
    return _table(columns, rows)


def _minutes(entry: Dict[str, Any], seconds: str) -> str:
    return f"{entry[seconds] / 60:.1f}" if seconds in entry else "-"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [list(columns), ["---"] * len(columns), *rows])
