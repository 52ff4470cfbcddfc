"""Ledgers and what is shown of them: which code counts, negative scores, the choice of a point, languages."""

import json

import pytest
from matplotlib.figure import Figure

from examples.recipes import plots, tables
from examples.recipes.ledger import FORMAT, Ledger, choose, digest
from examples.recipes.studies import read_study
from tests.unit.recipes.test_studies import BEAM, write

ARMS = {"good": {"system": "at", "outputs": BEAM}}


def ledger_of(folder, study, code="code"):
    """A ledger with a finished final of every arm, direction and seed."""
    ledger = Ledger(folder / "ledger.json", code)
    facts = {"phase": "final", "status": "done", "commit": "c", "updates": 7, "train_seconds": 90.0, "outputs": {}}
    for job in study.final():
        place = {"arm": job.arm.name, "pair": job.pair, "seed": job.seed, "trained_parameters": 5}
        ledger.put({"key": job.key, "options": job.options, **place, **facts})
    return ledger


def test_a_page_says_whether_the_code_has_changed(tmp_path):
    study = read_study(write(tmp_path, arms=ARMS, claims=[]))
    ledger = ledger_of(tmp_path, study)
    for entry in list(ledger.entries):
        ledger.put({**entry, "outputs": {"beam": {"bleu": 77.7, "chrf": 50.0, "length_ratio": 1.0}}})
    before, since = tables.render(study, ledger, "code"), tables.render(study, ledger, "other")
    ((said, then),) = (pair for pair in zip(before.splitlines(), since.splitlines()) if pair[0] != pair[1])
    assert said.endswith("unchanged since") and "**changed since**" in then and "77.7" in since
    assert tables.render(study, ledger, "third") == since, "what has changed once need not be written again"


def test_a_ledger_has_runs_of_one_code_alone(tmp_path):
    ledger = ledger_of(tmp_path, read_study(write(tmp_path, arms=ARMS, claims=[])))
    assert Ledger(ledger.path).code == "code" and Ledger(tmp_path / "none.json").code == ""
    with pytest.raises(ValueError, match="ledger.json: code code, other; valid: entries of one code"):
        Ledger(ledger.path, "other")
    content = json.loads(ledger.path.read_text())
    content["entries"][0]["code"] = "other"
    ledger.path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="valid: entries of one code"):
        Ledger(ledger.path)
    ledger.path.write_text(json.dumps({"format": FORMAT + 1, "entries": []}))
    with pytest.raises(ValueError, match=f"format {FORMAT + 1}; valid: {FORMAT}"):
        Ledger(ledger.path)


def test_an_arm_with_limits_of_its_own_is_named_beside_the_budget(tmp_path):
    arms = {**ARMS, "longer": {**ARMS["good"], "limits": {"updates": 5000}}}
    page = tables.render(
        read_study(write(tmp_path, arms=arms, claims=[])), Ledger(tmp_path / "none.json", "code"), "code"
    )
    assert " per run (longer: 5,000 updates); nothing is tuned." in page


def test_cpu_time_has_a_column_where_it_is_known(tmp_path):
    study = read_study(write(tmp_path, arms=ARMS, claims=[], directions=["en-de"]))
    ledger = ledger_of(tmp_path, study)
    assert "CPU" not in tables.render(study, ledger, "code")
    for one in list(ledger.entries):
        ledger.put({**one, "cpu_seconds": 60.0 * one["seed"]})
    page = tables.render(study, ledger, "code")
    assert "| minutes | CPU minutes |" in page and "| 1.5, 1.5 | 1.0, 2.0 |" in page


def test_lengths_and_other_scores_have_a_table(tmp_path):
    study = read_study(write(tmp_path, arms=ARMS, claims=[], directions=["en-de"]))
    ledger = ledger_of(tmp_path, study)
    for one in list(ledger.entries):
        found = {"bleu": 20.0, "chrf": 50.0 + one["seed"], "length_ratio": 0.9 + one["seed"] / 50}
        ledger.put({**one, "outputs": {"beam": found}})
    page = tables.render(study, ledger, "code")
    assert "| system | decoding | en-de, chrF | en-de, length ratio |" in page
    assert "| good | beam 5 | 51.5 | 0.93 |" in page


@pytest.mark.parametrize(("earlier", "heading"), [(0, "by updates\n"), (7, "by updates of the last stage\n")])
def test_validations_by_updates_stand_without_test_scores(tmp_path, earlier, heading):
    """Where updates limit the runs, those of the last stage; what no run has is no row."""
    study = read_study(write(tmp_path, arms=ARMS, claims=[], directions=["en-de"], budget={"final": {"updates": 9}}))
    ledger = ledger_of(tmp_path, study)
    for one in list(ledger.entries):
        points = [{"num_updates": step, "bleu": 10.0 * step + one["seed"]} for step in (1, 2)]
        ledger.put(
            {**one, "outputs": {}, "validation": points if one["arm"] == "good" else [], "earlier_updates": earlier}
        )
    page = tables.render(study, ledger, "code")
    assert f"## Validation BLEU {heading}" in page
    assert "| system | 1 | 2 |\n| --- | --- | --- |\n| good | 11.5 ± 0.7 (n = 2) | 21.5 ± 0.7 (n = 2) |\n\n" in page
    assert "## Test BLEU" not in page and "![Validation curves]" in page


def test_the_code_is_its_files_and_the_settings(tmp_path):
    (tmp_path / "a.py").write_text("1")
    first = digest(tmp_path, ["*.py"], {"lr": 1})
    assert digest(tmp_path, ["*.py"], {"lr": 2}) != first == digest(tmp_path, ["*.py"], {"lr": 1})
    (tmp_path / "a.py").write_text("2")
    assert digest(tmp_path, ["*.py"], {"lr": 1}) != first
    with pytest.raises(ValueError, match="b.py names no file"):
        digest(tmp_path, ["b.py"], {})


def test_scores_and_validations_may_be_negative(tmp_path):
    """COMET and correlations are: a missing one is not better, and the best is not 0."""
    metrics = {"xnli": "comet", "ner": "f1"}
    study = read_study(write(tmp_path, directions=[*metrics], metrics=metrics, arms=ARMS, claims=[], seeds=[1, 2, 3]))
    ledger = ledger_of(tmp_path, study)
    for one in list(ledger.entries):
        sign = 1 if one["pair"] == "ner" else -1
        curve = [{"num_updates": step, "loss": 3.0, metrics[one["pair"]]: sign * step / 2} for step in (3, 1, 2)]
        values = {"en": sign * 0.75 * one["seed"], "de": sign * 0.25 * one["seed"]}
        ledger.put({**one, "validation": curve, "outputs": {"beam": {"subsets": values}}})
    page = tables.render(study, ledger, "code")
    assert "| good | beam 5 | -0.5 | -1.0 | -1.5 | -1.0 ± 0.5 (n = 3) | 0.5 | 1.0 | 1.5 | 1.0 ± 0.5 (n = 3) |" in page
    assert "| good | beam 5 | -1.5 ± 0.8 (n = 3) | -0.5 ± 0.2 (n = 3) |" in page, "by language"
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| final/")]
    assert {row[0].split("/")[1]: row[-1] for row in rows} == {"xnli": "-0.5, -0.5, -0.5 |", "ner": "1.5, 1.5, 1.5 |"}
    axis = Figure().subplots()
    plots._draw_parameters(axis, study, ledger.finals(), "xnli")
    assert [float(line.get_ydata()[0]) for line in axis.lines if len(line.get_xdata())] == [-1.0]


@pytest.mark.parametrize(
    ("metric", "validations", "chosen"),
    [
        ("bleu", ([-0.5], [-0.3]), 1),
        ("bleu", ([-0.3], [-0.5]), 0),
        ("bleu", ([-0.3], []), 0),
        ("bleu", ([], [-0.3]), 1),
        ("loss", ([1.0], [2.0]), None),  # without the metric nothing is chosen
    ],
)
def test_the_best_validation_is_chosen(tmp_path, metric, validations, chosen):
    arms = {"good": {**ARMS["good"], "grid": [{"lr": 1}, {"lr": 2}]}}
    study = read_study(write(tmp_path, arms=arms, claims=[]))
    ledger = Ledger(tmp_path / "ledger.json", "code")
    for job, values in zip(study.tuning(), validations):
        points = [{"loss": 1.0, metric: value} for value in values]
        ledger.put({"key": job.key, "phase": "tune", "status": "done", "validation": points})
    assert choose(study, ledger) == ({} if chosen is None else {"good": chosen})
