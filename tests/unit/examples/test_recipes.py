"""SGA's scripts: mistakes are named, budgets are shared, and outputs and data of a user stay."""

import os
import subprocess
import sys

import pytest

from fairseq_plugins import checkpoints  # noqa: F401  (its import counts for no test)
from tests.contract.repository import ROOT


def bash(script, **env):
    given = {**os.environ, "PYTHON": sys.executable, **env}
    return subprocess.run(["bash", "-c", script], cwd=ROOT, env=given, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("command", "env", "message"),
    [
        (
            "train_mtransformer.sh {out} n 1 1",
            {"PAIR": "de-fr"},
            "PAIR is 'de-fr'; valid: one of PAIRS, which is en-de,en-fr",
        ),
        ("train_adapter.sh {out} n 1 1", {"PAIRS": "de-en"}, "PAIR is 'en-de'; valid: one of PAIRS, which is de-en"),
        (
            "evaluate.sh {out} n '0 beams'",
            {},
            "CASE is 'beams'; valid: a number of denoising passes, beam, tagged, mbart",
        ),
        (
            "evaluate.sh {out} n 0 --nbest=5",
            {},
            "--nbest: this script keeps one output a sentence; valid: fairseq-generate itself",
        ),
        ("train_each.sh {out} n 1 1", {"SYSTEM": "free"}, "SYSTEM is 'free'; valid: many (SGA), msp, at, from_xlmr"),
    ],
)
def test_mistakes_are_named(tmp_path, command, env, message):
    done = bash(f"bash examples/sga/{command.format(out=tmp_path)}", KEEP=str(tmp_path), **env)
    assert done.returncode == 2 and done.stderr == message + "\n"


FAKE = r"""#!/usr/bin/env bash
# Stands for Python and fairseq-generate: notes its arguments, answers for trained_with.py.
echo "$(basename "$0") $*" >>"$CALLS"
case "$*" in
    *trained_with.py\ pairs*) echo "fr-en,de-en,de-fr" ;;
    *trained_with.py\ tags*) echo "--langs de_DE,en_XX" ;;
esac
"""


def calls_of(tmp_path, command, **env):
    """Command lines that a script runs when its programs do nothing."""
    for name in ("python", "fairseq-preprocess", "fairseq-train", "fairseq-generate"):
        (tmp_path / name).write_text(FAKE, encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    calls = tmp_path / "calls"
    calls.write_text("", encoding="utf-8")
    done = bash(f"bash examples/sga/{command}", CALLS=str(calls), PATH=path, PYTHON=str(tmp_path / "python"), **env)
    assert done.returncode == 0, done.stderr
    return [line.split(" ") for line in calls.read_text(encoding="utf-8").splitlines()]


def value(call, option):
    return call[len(call) - call[::-1].index(option)]


def test_models_of_each_language_share_the_wall_time(tmp_path):
    """A finished one does not start again."""
    command = f"train_each.sh {tmp_path} run 1 7 --lr 0.1"
    (tmp_path / "run" / "es").mkdir(parents=True)
    (tmp_path / "run" / "es" / "done").touch()
    calls = calls_of(tmp_path, command, TRAINED="de es fr ru")
    facts = [
        [value(call, name) for name in ("--lang-pairs", "--save-dir", "--stop-time-hours", "--lr")] for call in calls
    ]
    assert facts == [[f"{one}-en", f"{tmp_path}/run/{one}", "0.250000", "0.1"] for one in ("de", "fr", "ru")]
    assert calls_of(tmp_path, command, TRAINED="de es") == [], "the others are finished too"
    for name in ("de", "fr"):
        (tmp_path / "run" / name / "done").unlink()
    (tmp_path / "fairseq-train").write_text("#!/bin/sh\ncase $* in *de-en*) exit 3;; esac\n", encoding="utf-8")
    done = bash(f"bash examples/sga/{command}", PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}", TRAINED="de fr")
    assert done.returncode != 0 and not (tmp_path / "run" / "fr" / "done").exists(), "a failed one ends it"


def test_the_wall_time_of_adapters_is_split(tmp_path):
    """Half each; a given backbone leaves all of it to the adapters, and adapters that have begun keep their backbone."""
    command = f"train_adapter.sh {tmp_path} run 0.5 7 --cpu --lr 0.1"
    first, second = calls_of(tmp_path, command, BACKBONE_OPTIONS="--dropout 0.3")
    assert [value(call, "--stop-time-hours") for call in (first, second)] == ["0.250000", "0.250000"]
    assert value(first, "--arch") == "transformer" and value(first, "--save-dir") == f"{tmp_path}/run/backbone"
    assert value(first, "--dropout") == "0.3" and "--cpu" in first and value(first, "--lr") != "0.1"
    assert value(second, "--adapter-backbone") == f"{tmp_path}/run/backbone/checkpoint_best.pt"
    assert value(second, "--lr") == "0.1" and value(second, "--dropout") != "0.3" and value(second, "--seed") == "7"
    (given,) = calls_of(tmp_path, command, BACKBONE="other.pt")
    assert value(given, "--stop-time-hours") == "0.5" and value(given, "--adapter-backbone") == "other.pt"
    (tmp_path / "run" / "checkpoint_last.pt").write_text("", encoding="utf-8")
    (again,) = calls_of(tmp_path, command)
    assert value(again, "--stop-time-hours") == "0.250000"


def test_outputs_stay_with_the_run_and_are_scored_there(tmp_path):
    """A run of a user does not overwrite the project's own."""
    (tmp_path / "run").mkdir()
    calls = calls_of(tmp_path, f"evaluate.sh {tmp_path} run 0", PAIR="de-en")
    assert [call[1] for call in calls].count("examples/sga/record.py") == 0, "a run without a log, as one by hydra"
    (tmp_path / "run" / "train.log").touch()
    calls = calls_of(tmp_path, f"evaluate.sh {tmp_path} run 0 --lenpen 7", PAIR="de-en")
    assert value(calls[0], "--best") == "5" and value(calls[1], "--lenpen") == "7"
    assert "--truncate-source" not in calls[1]
    assert value(calls[2], "--input") == f"{tmp_path}/run/generate-with-options-0.log", "not a log of the run's facts"
    assert value(calls_of(tmp_path, f"evaluate.sh {tmp_path} run 0", BEST="1")[0], "--best") == "1"
    written = [value(call, "--output") for call in calls if "--output" in call]
    assert written == [f"{tmp_path}/run/{name}" for name in ("average.pt", "0.en", "run.json")]
    (call,) = calls_of(tmp_path, f"score.sh texts {tmp_path} run/0 other/beam", PAIR="de-en", SUBSET="test")
    assert [call[place + 1] for place, word in enumerate(call) if word == "--system"] == [
        f"run/0={tmp_path}/run/0.en",
        f"other/beam={tmp_path}/other/beam.en",
    ]
    assert value(call, "--reference") == "texts/test.en"


def test_a_smaller_validation_set(tmp_path):
    """The text is a copy then, and DATA stays as it is."""
    data = tmp_path / "data"
    data.mkdir()
    for split in ("train", "valid", "test_2016_flickr"):
        for language in ("en", "de", "fr"):
            (data / f"{split}.{language}").write_text("a\nb\nc\n", encoding="utf-8")
    environment = {**os.environ, "PYTHON": "true", "VALID_LINES": "2"}
    command = ["bash", "examples/sga/prepare.sh", str(data), str(tmp_path / "out")]
    subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, check=False)  # nothing makes the data-bin
    lines = {
        path.name: path.read_text(encoding="utf-8").count("\n") for path in (tmp_path / "out" / "text").glob("*.?*")
    }
    assert lines == {
        f"{split}.{language}": 2 if split == "valid" else 3
        for split in ("train", "valid", "test_2016_flickr")
        for language in ("en", "de", "fr")
    }
    assert (data / "valid.de").read_text(encoding="utf-8").count("\n") == 3
