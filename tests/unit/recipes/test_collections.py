"""Test the studies of XGLUE, XTREME and retrieval: published settings, scores, missing files."""

import itertools
import subprocess

import pytest
import yaml

import fairseq_plugins  # noqa: F401  (registers the tasks and architectures)
from examples.recipes.claims import outcomes
from examples.recipes.ledger import Ledger
from examples.recipes.runs import Runs
from examples.recipes.studies import STUDIES, read_study
from tests.conftest import ROOT
from tests.unit.recipes.builders import METRICS, options_of, write_study

SETTINGS = ("lr", "max-epoch", "max-positions", "batch-size", "valid-subset")
UNDERSTANDING = {"system": "understanding", "outputs": {"test": {"title": "test"}}}


def shipped_study(name):
    study = read_study(STUDIES / f"{name}.yaml")
    return study, Runs(study, ROOT, "data", {})


def options_by_direction(name, arm=None):
    """Return the options of the trainings of an arm of a shipped study (default: its first)."""
    study, runs = shipped_study(name)
    jobs = [job for job in study.final() if job.arm.name == (arm or study.arms[0].name)]
    return {job.pair: options_of(runs.training(job, 1)) for job in jobs}


def settings(options):
    return tuple(options[f"--{name}"] for name in SETTINGS)


def test_xglue_has_the_published_settings():
    options = options_by_direction("xglue")
    ranking = options.pop("wpr")
    names = ("--lr", "--max-epoch", "--max-positions", "--max-tokens")
    assert [ranking[name] for name in names] == ["5e-6", "10", "256", "8192"]
    tasks = ["nc", "qam", "qadsm", "xnli", "pawsx", "ner"]
    expected = dict.fromkeys(tasks, ("5e-6", "10", "256", "32", "valid.*"))
    expected["pos"] = ("2e-5", "10", "256", "32", "valid.*")
    expected["mlqa"] = ("3e-5", "2", "384", "12", "valid.*")
    assert {task: settings(row) for task, row in options.items()} == expected
    assert options["mlqa"]["--window-stride"] == "128"
    assert all("--max-tokens" not in row for row in options.values()), "rows limit a batch"


def test_xtreme_and_retrieval_have_the_published_settings():
    transfer = options_by_direction("xtreme")
    translate = options_by_direction("xtreme", "translate-train-all")
    expected = dict.fromkeys(("xnli", "pawsx"), ("2e-5", "5", "128", "32", "valid.en"))
    questions = ("3e-5", "3", "384", "32", "valid.en")
    expected.update(dict.fromkeys(["xquad", "mlqa", "tydiqa"], questions))
    assert {task: settings(row) for task, row in translate.items()} == expected
    expected.update(dict.fromkeys(("panx", "udpos"), ("2e-5", "10", "128", "32", "valid.en")))
    assert {task: settings(row) for task, row in transfer.items()} == expected
    assert transfer["xquad"]["--window-stride"] == "128"
    assert {row["--train-subset"] for row in transfer.values()} == {"train.en"}
    assert {row["--train-subset"] for row in translate.values()} == {"train.en,translate.*"}
    assert settings(options_by_direction("retrieval")["xnli"]) == expected["xnli"]
    _, runs = shipped_study("xtreme")
    assert settings(options_of(runs.asset_training("squad"))) == questions


def test_the_grid_of_xtreme():
    study, runs = shipped_study("xtreme_grid")
    rates = {"transfer": ["1e-5", "2e-5", "3e-5"], "translate-train-all": ["3e-6", "5e-6", "1e-5"]}
    for arm in study.arms:
        points = itertools.product(rates[arm.name], (3, 5, 10), (16, 32, 64))
        expected = [dict(zip(("lr", "max-epoch", "batch-size"), point)) for point in points]
        assert list(arm.grid) == expected
    options = options_of(runs.training(study.tuning()[0], 1))
    assert settings(options) == ("1e-5", "3", "128", "16", "valid.*")


def test_an_arm_that_is_refused_in_a_direction_has_no_run_and_no_claim(tmp_path):
    refusal = {"directions": {"de-en": {"refused": "no translations"}}}
    arms = {"A": UNDERSTANDING, "B": {**UNDERSTANDING, **refusal}}
    claims = [{"better": ["B", "test"], "worse": ["A", "test"]}]
    study = read_study(write_study(tmp_path, metrics=METRICS, arms=arms, claims=claims))
    runs = [("A", "en-de"), ("B", "en-de"), ("A", "de-en")]
    jobs = [(job.seed, job.arm.name, job.pair) for job in study.final()]
    assert jobs == [(seed, *run) for seed in (1, 2) for run in runs]
    assert study.refusals == ["Refused: B of de-en: no translations."]
    ledger = Ledger(tmp_path / "ledger.json", "code")
    assert [pair for _, pair in outcomes(study, ledger)] == ["en-de"]
    (note,) = shipped_study("xtreme")[0].refusals
    assert "translate-train-all of panx, udpos: " in note


@pytest.mark.cases(
    "limits epochs interval",
    ({"epochs": 7}, "7", None),
    ({"epochs": 7, "interval": 9}, "7", "9"),
)
def test_trainings_by_epochs_count_their_updates_at_the_start(tmp_path, limits, epochs, interval):
    study = write_epochs_study(tmp_path, limits)
    command = Runs(study, ROOT, "data", {}).training(study.final({"one": 0})[0], 1)
    options = options_of(command)
    assert command.startswith("python -m recipes.epochs 0.1 fairseq-train bin ")
    assert options["--max-epoch"] == epochs
    assert options.get("--validate-interval-updates") == interval
    assert options.get("--save-interval-updates") == interval
    assert not {"--max-update", "--total-num-update", "--warmup-updates"} & set(options)
    assert study.limit("final") == "7 epochs"


def write_epochs_study(folder, limits):
    arm = {**UNDERSTANDING, "start": "model", "train": {"max-epoch": "$epochs"}}
    options = {"metrics": METRICS, "claims": [], "budget": {"final": limits}}
    return read_study(write_study(folder, arms={"one": arm}, **options))


def test_updates_overrule_epochs(tmp_path):
    study = write_epochs_study(tmp_path, {"updates": 60})
    command = Runs(study, ROOT, "data", {}).training(study.final({"one": 0})[0], 1)
    options = options_of(command)
    names = ("--max-epoch", "--total-num-update", "--warmup-updates")
    assert [options[name] for name in names] == ["1000", "60", "6"]


def test_values_and_a_budget_fit_a_collection_to_a_small_model(tmp_path):
    content = yaml.safe_load((STUDIES / "xglue.yaml").read_text())
    content["values"].update(lr=0.0005, batch=8, length=64)
    content["budget"] = {"final": {"updates": 40}}
    (tmp_path / "xglue.yaml").write_text(yaml.safe_dump(content))
    study = read_study(tmp_path / "xglue.yaml")
    command = Runs(study, ROOT, "data", {}).training(study.final({"encoder": 0})[0], 1)
    options = options_of(command)
    assert settings(options) == ("0.0005", "1000", "64", "8", "valid.*")
    assert options["--max-update"] == "40"


def test_missing_gold_files_are_named_before_anything_is_trained(tmp_path):
    study, data = read_study(STUDIES / "retrieval.yaml"), tmp_path / "my data"
    runs = Runs(study, ROOT, str(data), {})
    for name in runs.word_lists["needed"]:
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).touch()
    step = study.set["steps"][0]
    script = ["bash", "-euo", "pipefail", "-c", runs.script(step["run"])]
    assert subprocess.run(script, cwd=tmp_path).returncode == 0
    (tmp_path / step["makes"]).unlink()
    (data / "bucc2018/de-en.test.gold").unlink()
    process = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode == 1 and not (tmp_path / step["makes"]).exists()
    assert "bucc2018/de-en.test.gold: missing" in process.stderr
