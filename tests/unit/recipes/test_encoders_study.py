"""Test four encoders side by side (MT transfer, Table 1): settings, a run of tiny models."""

import json
import os
import subprocess
import sys

import pytest
import yaml

import fairseq_plugins  # noqa: F401  (registers the tasks and architectures)
from examples.recipes.runs import Runs
from examples.recipes.studies import STUDIES, read_study
from tests import nlu_builders
from tests.conftest import ROOT
from tests.unit.recipes.test_studies import options_of

ARMS = {"mBERT": "bert", "XLM-R": "xlmr", "mBART-50": "mbart50", "NLLB": "mbart50"}
KINDS = {"mbert": "bert", "xlmr": "xlmr", "mbart": "mbart", "nllb": "nllb"}
CODES = {"mbart": ["en_XX", "de_DE"], "nllb": ["eng_Latn", "deu_Latn"]}


def test_the_settings_are_the_papers():
    study = read_study(STUDIES / "encoders.yaml")
    runs = Runs(study, ROOT, "data", {})
    jobs = study.final()
    assert [job.arm.name for job in jobs[:4]] == list(ARMS) and len(jobs) == 4 * 8
    for job in jobs:
        command = runs.training(job, 1)
        options = options_of(command)
        expected = "2e-5" if job.pair == "pos" else "5e-6"
        names = ("lr", "max-epoch", "max-positions", "input-format", "train-subset", "valid-subset")
        values = (expected, "10", "256", ARMS[job.arm.name], "train.en", "valid.*")
        assert tuple(options[f"--{name}"] for name in names) == values
        folder = job.arm.start
        assert options["--pretrained-encoder"] == f"data/encoders/{folder}"
        assert f" fairseq-train {folder}/{job.pair} " in command


@pytest.fixture
def data(tmp_path):
    """Write XGLUE's parts of speech (en, de; the German test without tags), four tiny encoders."""
    import transformers

    folder = tmp_path / "my data"
    (folder / "POS").mkdir(parents=True)
    rows = "abc DET\nbcd NOUN\n\n" * 4
    for name in ("en.train", "en.dev", "de.dev", "en.test", "de.test"):
        (folder / "POS" / name).write_text(rows)
    for name, kind in KINDS.items():
        place = folder / "encoders" / name
        if kind == "bert":
            rows = len(nlu_builders.write_vocab(place))
        else:
            rows = (
                4 + len(nlu_builders.write_sentencepiece(place)) - 3 + 1 + len(CODES.get(name, ()))
            )
        if name in CODES:
            special = {"additional_special_tokens": CODES[name]}
            nlu_builders.write_json(place / "special_tokens_map.json", special)
        nlu_builders.huggingface(transformers, kind, place, rows)
    return folder


def write_study(folder):
    content = yaml.safe_load((STUDIES / "xglue.yaml").read_text())
    changes = {
        "values": {
            "tasks": ["pos"],
            "length": 20,
            "batch": 2,
            "mbart_langs": ",".join(CODES["mbart"]),
            "nllb_langs": ",".join(CODES["nllb"]),
            "nllb_codes": "en=eng_Latn,de=deu_Latn",
        },
        "directions": ["pos"],
        "metrics": {"pos": "accuracy"},
        "budget": {"final": {"epochs": 1}},
    }
    content["variants"]["encoders"].update(changes)
    (folder / "xglue.yaml").write_text(yaml.safe_dump(content))
    return read_study(folder / "encoders.yaml")


def call(script, folder, **options):
    environment = {**os.environ, "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}
    environment["PYTHONPATH"] = f"{ROOT}:{ROOT / 'examples'}"
    line = ["bash", "-euo", "pipefail", "-c", script]
    return subprocess.run(
        line, cwd=folder, env=environment, capture_output=True, text=True, **options
    )


@pytest.mark.slow
def test_tiny_encoders_run_side_by_side(data, tmp_path):
    study = write_study(tmp_path)
    out = tmp_path / "out"
    out.mkdir()
    runs = Runs(study, ROOT, str(data), {"cpu": True})
    assert runs.scored == [
        "xglue_pos: scored on test; 2 of 18 languages, no file of ar, bg, el, es, fr, hi, it, "
        "nl, pl, pt, ru, th, tr, ur, vi, zh"
    ]
    for step in study.set["steps"]:
        done = call(runs.script(step["run"]), out)
        assert done.returncode == 0 and (out / step["makes"]).is_file(), done.stderr
    for job in study.final():
        (out / runs.model(job)).parent.mkdir(parents=True)  # Snakemake makes it
        best = f"runs/{job.key}/checkpoint_best.pt"  # stands for the average of one checkpoint
        copy = f"cp {best} {runs.model(job)}"
        for command in (runs.training(job, 1), copy, runs.output(job, "test")):
            done = call(command, out)
            assert done.returncode == 0, (job.arm.name, command, done.stdout + done.stderr)
        scores = [
            json.loads(line.partition("{")[1] + line.partition("{")[2])
            for line in done.stdout.splitlines()
            if "_accuracy" in line
        ]
        assert {key for row in scores for key in row if key.endswith("_accuracy")} == {
            "test.en_accuracy",
            "test.de_accuracy",
        }
        predictions = out / runs.predictions(job) / "test.de.tsv"
        assert len(predictions.read_text().splitlines()) == 4


def test_a_missing_encoder_is_said_before_any_data_is_made(data, tmp_path):
    (data / "encoders/nllb").rename(data / "other")
    runs = Runs(write_study(tmp_path), ROOT, str(data), {})
    script = runs.script(runs.study.set["steps"][0]["run"]).replace(
        "python -m fairseq_plugins dictionary", ": "
    )
    done = call(script, tmp_path)
    assert done.returncode == 1 and not (tmp_path / "encoders/done").exists()
    assert "error: nllb: no folder " in done.stderr and "nothing was trained" in done.stderr
