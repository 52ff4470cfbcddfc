"""XGLUE, XTREME and retrieval: settings that were published, arms that are refused, what is scored, missing files."""

import itertools
import subprocess

import yaml

import fairseq_plugins  # noqa: F401  (registers the tasks and architectures)
from examples.recipes.claims import outcomes
from examples.recipes.ledger import Ledger
from examples.recipes.runs import Runs
from examples.recipes.studies import STUDIES, read_study
from tests.conftest import ROOT
from tests.unit.recipes.test_studies import METRICS, options_of, write


def commands_of(name, arm="", data="data"):
    """Direction -> options of the training, of an arm of a shipped study (default: its first one)."""
    study = read_study(STUDIES / f"{name}.yaml")
    runs, found = Runs(study, ROOT, data, {}), {}
    for job in study.final():
        if job.arm.name == (arm or study.arms[0].name):
            found[job.pair] = options_of(runs.training(job, 1))[1]
    return found


def settings(options):
    return tuple(options[f"--{name}"] for name in ("lr", "max-epoch", "max-positions", "batch-size", "valid-subset"))


def test_collections_have_the_settings_that_were_published():
    xglue, questions = commands_of("xglue"), ("3e-5", "3", "384", "32", "valid.en")
    expected = dict.fromkeys(["nc", "qam", "qadsm", "xnli", "pawsx", "ner"], ("5e-6", "10", "256", "32", "valid.*"))
    expected["pos"], expected["mlqa"] = ("2e-5", "10", "256", "32", "valid.*"), ("3e-5", "2", "384", "12", "valid.*")
    wpr = xglue.pop("wpr")
    assert {task: settings(options) for task, options in xglue.items()} == expected
    assert (wpr["--lr"], wpr["--max-epoch"], wpr["--max-positions"], wpr["--max-tokens"]) == (
        "5e-6",
        "10",
        "256",
        "8192",
    )
    assert all("--max-tokens" not in options for options in xglue.values()), "rows alone limit a batch"
    pairs, tags = ("2e-5", "5", "128", "32", "valid.en"), ("2e-5", "10", "128", "32", "valid.en")
    expected = {"xnli": pairs, "pawsx": pairs, "panx": tags, "udpos": tags}
    expected.update(dict.fromkeys(["xquad", "mlqa", "tydiqa"], questions))
    transfer, translated = commands_of("xtreme"), commands_of("xtreme", "translate-train-all")
    assert {task: settings(options) for task, options in transfer.items()} == expected
    assert {options["--train-subset"] for options in transfer.values()} == {"train.en"}
    assert {task: settings(options) for task, options in translated.items()} == {
        task: of for task, of in expected.items() if of != tags
    }
    assert {options["--train-subset"] for options in translated.values()} == {"train.en,translate.*"}
    assert all(options["--window-stride"] == "128" for options in (transfer["xquad"], xglue["mlqa"]))
    assert settings(commands_of("retrieval")["xnli"]) == pairs
    asset = read_study(STUDIES / "xtreme.yaml")
    assert settings(options_of(Runs(asset, ROOT, "data", {}).asset_training("squad"))[1]) == questions


def test_the_grid_of_xtreme():
    study = read_study(STUDIES / "xtreme_grid.yaml")
    rates = {"transfer": ["1e-5", "2e-5", "3e-5"], "translate-train-all": ["3e-6", "5e-6", "1e-5"]}
    for arm in study.arms:
        expected = itertools.product(rates[arm.name], (3, 5, 10), (16, 32, 64))
        assert [tuple(point.values()) for point in arm.grid] == list(expected)
        assert [tuple(point) for point in arm.grid] == [("lr", "max-epoch", "batch-size")] * 27
    job = study.tuning()[0]
    given = options_of(Runs(study, ROOT, "data", {}).training(job, 1))[1]
    assert settings(given) == ("1e-5", "3", "128", "16", "valid.*")


def test_an_arm_that_is_refused_in_a_direction(tmp_path):
    arm = {"system": "understanding", "outputs": {"test": {"title": "test"}}}
    arms = {"A": arm, "B": {**arm, "directions": {"de-en": {"refused": "no translations"}}}}
    claims = [{"better": ["B", "test"], "worse": ["A", "test"]}]
    study = read_study(write(tmp_path, metrics=METRICS, arms=arms, claims=claims))
    jobs = [(job.arm.name, job.pair, job.seed) for job in study.final()]
    assert jobs == [
        (name, pair, seed) for seed in (1, 2) for name, pair in [("A", "en-de"), ("B", "en-de"), ("A", "de-en")]
    ]
    assert study.refusals == ["Refused: B of de-en: no translations."]
    assert [pair for _, pair in outcomes(study, Ledger(tmp_path / "ledger.json", "code"))] == ["en-de"]
    (note,) = read_study(STUDIES / "xtreme.yaml").refusals
    assert "translate-train-all of panx, udpos: XTREME has no translations" in note


def test_a_training_by_epochs(tmp_path):
    """fairseq's schedule needs updates, which are counted when the data is there; a validation ends each epoch."""
    arm = {"system": "understanding", "start": "model", "train": {"max-epoch": "$epochs"}}
    arms = {"one": {**arm, "outputs": {"x": {"title": "x"}}}}
    for limits, epochs, interval in (({"epochs": 7}, "7", None), ({"epochs": 7, "interval": 9}, "7", "9")):
        study = read_study(write(tmp_path, metrics=METRICS, arms=arms, claims=[], budget={"final": limits}))
        command = Runs(study, ROOT, "data", {}).training(study.final({"one": 0})[0], 1)
        given = options_of(command)[1]
        assert command.startswith("python -m recipes.epochs 0.1 fairseq-train bin ") and given["--max-epoch"] == epochs
        assert given.get("--validate-interval-updates") == given.get("--save-interval-updates") == interval
        assert not {"--max-update", "--total-num-update", "--warmup-updates"} & set(given)
        assert study.limit("final") == "7 epochs"
    study = read_study(write(tmp_path, metrics=METRICS, arms=arms, claims=[], budget={"final": {"updates": 60}}))
    given = options_of(Runs(study, ROOT, "data", {}).training(study.final({"one": 0})[0], 1))[1]
    assert (given["--max-epoch"], given["--total-num-update"], given["--warmup-updates"]) == ("1000", "60", "6")


def test_values_and_a_budget_make_a_collection_fit_a_small_model(tmp_path):
    content = yaml.safe_load((STUDIES / "xglue.yaml").read_text())
    content["values"].update(lr=0.0005, batch=8, length=64)
    content["budget"] = {"final": {"updates": 40}}
    (tmp_path / "xglue.yaml").write_text(yaml.safe_dump(content))
    study = read_study(tmp_path / "xglue.yaml")
    runs = Runs(study, ROOT, "data", {})
    given = options_of(runs.training(study.final({"encoder": 0})[0], 1))[1]
    assert settings(given) == ("0.0005", "1000", "64", "8", "valid.*") and given["--max-update"] == "40"


def test_missing_gold_is_said_before_anything_is_trained(tmp_path):
    study = read_study(STUDIES / "retrieval.yaml")
    data = tmp_path / "my data"
    runs = Runs(study, ROOT, str(data), {})
    for name in runs.word_lists["needed"]:
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).touch()
    first = study.set["steps"][0]
    script = ["bash", "-euo", "pipefail", "-c", runs.script(first["run"])]
    assert subprocess.run(script, cwd=tmp_path).returncode == 0 and (tmp_path / first["makes"]).is_file()
    (tmp_path / first["makes"]).unlink()
    (data / "bucc2018/de-en.test.gold").unlink()
    done = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and not (tmp_path / first["makes"]).exists()
    assert "bucc2018/de-en.test.gold: missing, nothing was trained: XTREME's script" in done.stderr
