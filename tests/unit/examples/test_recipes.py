"""SGA's scripts: outputs stay with their run, and data of a user stay as they are."""

import os
import subprocess

from fairseq_plugins import checkpoints  # noqa: F401  (its import counts for no test)
from tests.contract.repository import ROOT


def bash(script, **env):
    return subprocess.run(["bash", "-c", script], cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True)


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
    calls = tmp_path / "calls"
    calls.write_text("", encoding="utf-8")
    paths = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "PYTHON": str(tmp_path / "python")}
    done = bash(f"bash examples/sga/{command}", CALLS=str(calls), **paths, **env)
    assert done.returncode == 0, done.stderr
    return [line.split(" ") for line in calls.read_text(encoding="utf-8").splitlines()]


def value(call, option):
    return call[len(call) - call[::-1].index(option)]


def test_outputs_stay_with_the_run_and_are_scored_there(tmp_path):
    """A run of a user does not overwrite the project's own."""
    (tmp_path / "run").mkdir()
    calls = calls_of(tmp_path, f"evaluate.sh {tmp_path} run 0", PAIR="de-en")
    assert not any("examples.recipes.record" in call for call in calls), "a run without a log, as one by hydra"
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
    bash(f"bash examples/sga/prepare.sh {data} {tmp_path}/out", PYTHON="true", VALID_LINES="2")  # makes no data-bin
    copies = (tmp_path / "out" / "text").glob("*.?*")
    lines = {path.name: path.read_text(encoding="utf-8").count("\n") for path in copies}
    expected = {"train": 3, "valid": 2, "test_2016_flickr": 3}
    assert lines == {f"{split}.{lang}": count for split, count in expected.items() for lang in ("en", "de", "fr")}
    assert (data / "valid.de").read_text(encoding="utf-8").count("\n") == 3
