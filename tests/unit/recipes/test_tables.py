"""Test ledgers and their pages: one code, negative scores, the choice of a point, languages."""

import json

import pytest
from matplotlib.figure import Figure

from examples.recipes import plots, tables
from examples.recipes.ledger import FORMAT, Ledger, choose, digest
from examples.recipes.studies import read_study
from tests.unit.recipes.builders import BEAM, write_study

ARMS = {"good": {"system": "at", "outputs": BEAM}}


def read_probe(folder, arms=ARMS, **changes):
    return read_study(write_study(folder, arms=arms, claims=[], **changes))


def fill_ledger(folder, study, describe=lambda run: {}):
    """Return a ledger with a finished final of every run, plus what `describe` says of it."""
    ledger = Ledger(folder / "ledger.json", "code")
    facts = {"phase": "final", "status": "done", "commit": "c", "updates": 7, "outputs": {}}
    facts.update({"train_seconds": 90.0, "trained_parameters": 5})
    for job in study.final():
        run = {"arm": job.arm.name, "pair": job.pair, "seed": job.seed}
        ledger.put({"key": job.key, "options": job.options, **run, **facts, **describe(run)})
    return ledger


def test_a_page_says_whether_the_code_has_changed(tmp_path):
    study = read_probe(tmp_path)
    scores = {"bleu": 77.7, "chrf": 50.0, "length_ratio": 1.0}
    ledger = fill_ledger(tmp_path, study, lambda run: {"outputs": {"beam": scores}})
    unchanged, changed = (tables.render(study, ledger, code) for code in ("code", "other"))
    pairs = zip(unchanged.splitlines(), changed.splitlines())
    ((old_line, new_line),) = (pair for pair in pairs if pair[0] != pair[1])
    assert old_line.endswith("unchanged since") and "**changed since**" in new_line
    assert "77.7" in changed
    assert tables.render(study, ledger, "third") == changed, "later changes change no page"


def test_a_ledger_has_runs_of_one_code(tmp_path):
    ledger = fill_ledger(tmp_path, read_probe(tmp_path))
    assert Ledger(ledger.path).code == "code" and Ledger(tmp_path / "none.json").code == ""
    with pytest.raises(ValueError, match="ledger.json: code code, other"):
        Ledger(ledger.path, "other")
    content = json.loads(ledger.path.read_text())
    content["entries"][0]["code"] = "other"
    ledger.path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="ledger.json: code code, other"):
        Ledger(ledger.path)
    ledger.path.write_text(json.dumps({"format": FORMAT + 1, "entries": []}))
    with pytest.raises(ValueError, match=f"format {FORMAT + 1}; valid: {FORMAT}"):
        Ledger(ledger.path)


def test_the_limits_of_an_arm_stand_beside_the_budget(tmp_path):
    longer = {**ARMS["good"], "limits": {"updates": 5000}}
    study = read_probe(tmp_path, {**ARMS, "longer": longer})
    page = tables.render(study, Ledger(tmp_path / "none.json", "code"), "code")
    assert " per run (longer: 5,000 updates); nothing is tuned." in page


def test_cpu_time_has_a_column_if_it_is_recorded(tmp_path):
    study = read_probe(tmp_path, directions=["en-de"])
    assert "CPU" not in tables.render(study, fill_ledger(tmp_path, study), "code")
    ledger = fill_ledger(tmp_path, study, lambda run: {"cpu_seconds": 60.0 * run["seed"]})
    page = tables.render(study, ledger, "code")
    assert "| minutes | CPU minutes |" in page and "| 1.5, 1.5 | 1.0, 2.0 |" in page


def test_lengths_and_other_scores_have_a_table(tmp_path):
    study = read_probe(tmp_path, directions=["en-de"])

    def describe(run):
        scores = {"chrf": 50.0 + run["seed"], "length_ratio": 0.9 + run["seed"] / 50}
        return {"outputs": {"beam": {"bleu": 20.0, **scores}}}

    page = tables.render(study, fill_ledger(tmp_path, study, describe), "code")
    assert "| system | decoding | en-de, chrF | en-de, length ratio |" in page
    assert "| good | beam 5 | 51.5 | 0.93 |" in page


@pytest.mark.cases("earlier heading", (0, "by updates\n"), (7, "by updates of the last stage\n"))
def test_validations_by_updates_stand_without_test_scores(tmp_path, earlier, heading):
    budget = {"final": {"updates": 9}}
    study = read_probe(tmp_path, directions=["en-de"], budget=budget)

    def describe(run):
        points = [{"num_updates": step, "bleu": 10.0 * step + run["seed"]} for step in (1, 2)]
        return {"validation": points, "earlier_updates": earlier}

    page = tables.render(study, fill_ledger(tmp_path, study, describe), "code")
    assert f"## Validation BLEU {heading}" in page
    row = "| good | 11.5 ± 0.7 (n = 2) | 21.5 ± 0.7 (n = 2) |"
    assert f"| system | 1 | 2 |\n| --- | --- | --- |\n{row}\n\n" in page
    assert "## Test BLEU" not in page and "![Validation curves]" in page


def test_the_code_is_its_files_and_the_settings(tmp_path):
    (tmp_path / "a.py").write_text("1")
    first = digest(tmp_path, ["*.py"], {"lr": 1})
    assert digest(tmp_path, ["*.py"], {"lr": 1}) == first
    assert digest(tmp_path, ["*.py"], {"lr": 2}) != first
    (tmp_path / "a.py").write_text("2")
    assert digest(tmp_path, ["*.py"], {"lr": 1}) != first
    with pytest.raises(ValueError, match="b.py names no file"):
        digest(tmp_path, ["b.py"], {})


def test_scores_and_validations_may_be_negative(tmp_path):
    metrics = {"xnli": "comet", "ner": "f1"}
    study = read_probe(tmp_path, directions=[*metrics], metrics=metrics, seeds=[1, 2, 3])

    def describe(run):
        sign = 1 if run["pair"] == "ner" else -1
        metric = metrics[run["pair"]]
        curve = [{"num_updates": n, "loss": 3.0, metric: sign * n / 2} for n in (3, 1, 2)]
        values = {"en": sign * 0.75 * run["seed"], "de": sign * 0.25 * run["seed"]}
        return {"validation": curve, "outputs": {"beam": {"subsets": values}}}

    ledger = fill_ledger(tmp_path, study, describe)
    page = tables.render(study, ledger, "code")
    comet, f1 = "-0.5 | -1.0 | -1.5 | -1.0 ± 0.5 (n = 3)", "0.5 | 1.0 | 1.5 | 1.0 ± 0.5 (n = 3)"
    assert f"| good | beam 5 | {comet} | {f1} |" in page
    by_language = "| good | beam 5 | -1.5 ± 0.8 (n = 3) | -0.5 ± 0.2 (n = 3) |"
    assert by_language in page
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| final/")]
    best = {row[0].split("/")[1]: row[-1] for row in rows}
    assert best == {"xnli": "-0.5, -0.5, -0.5 |", "ner": "1.5, 1.5, 1.5 |"}
    axis = Figure().subplots()
    plots._draw_parameters(axis, study, ledger.finals(), "xnli")
    heights = [float(line.get_ydata()[0]) for line in axis.lines if len(line.get_xdata())]
    assert heights == [-1.0]


@pytest.mark.cases(
    "metric validations best",
    ("bleu", ([-0.5], [-0.3]), {"good": 1}),
    ("bleu", ([-0.3], [-0.5]), {"good": 0}),
    ("bleu", ([-0.3], []), {"good": 0}),
    ("bleu", ([], [-0.3]), {"good": 1}),
    ("loss", ([1.0], [2.0]), {}),  # without the metric nothing is chosen
)
def test_the_point_with_the_best_validation_is_chosen(tmp_path, metric, validations, best):
    study = read_probe(tmp_path, {"good": {**ARMS["good"], "grid": [{"lr": 1}, {"lr": 2}]}})
    ledger = Ledger(tmp_path / "ledger.json", "code")
    for job, values in zip(study.tuning(), validations):
        points = [{"loss": 1.0, metric: value} for value in values]
        ledger.put({"key": job.key, "phase": "tune", "status": "done", "validation": points})
    assert choose(study, ledger) == best
