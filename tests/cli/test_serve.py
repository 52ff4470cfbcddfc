"""``make serve``: what is exported, when it is exported again, what is served. The long commands are stand-ins."""

import os
import subprocess

import pytest

from tests.conftest import ROOT

# Stands for Python: notes each call, names a checkpoint as fairseq_plugins.translate does, leaves what the export leaves.
STAND_IN = """#!/usr/bin/env bash
echo "$*" >>"$CALLS"
case "$*" in
    -\\ *) echo "$2/average.pt" ;;
    *" export "*) mkdir "${@: -1}" && touch "${@: -1}/model.json" ;;
esac
"""


@pytest.fixture
def serve(tmp_path):
    """A call of the script; gives the calls of Python that it made, without the first words."""
    (tmp_path / "python").write_text(STAND_IN)
    (tmp_path / "python").chmod(0o755)

    def call(model, **settings):
        calls = tmp_path / "calls"
        calls.write_text("")
        environment = {**os.environ, "PYTHON": str(tmp_path / "python"), "CALLS": str(calls), **settings}
        line = ["bash", str(ROOT / "examples" / "serve.sh"), str(model)]
        done = subprocess.run(line, env=environment, capture_output=True, text=True)
        assert done.returncode == (2 if "valid:" in done.stderr else 0), done.stderr
        return [text.removeprefix("-m fairseq_plugins") for text in calls.read_text().splitlines()]

    return call


def run_folder(path):
    path.mkdir(parents=True)
    (path / "average.pt").write_text("weights")
    return path


def test_an_exported_folder_is_served_as_it_is(serve, tmp_path):
    (tmp_path / "model.json").touch()
    assert serve(tmp_path) == [f"_runtime serve {tmp_path} --port 5000"]
    assert serve(tmp_path, PORT="5001", PRECISION="int8") == [f"_runtime serve {tmp_path} --port 5001"]


def test_a_checkpoint_is_exported_once(serve, tmp_path):
    run = run_folder(tmp_path / "a run")
    (run / "bin").mkdir()
    asked, exported, served = serve(run)
    folder = served[len("_runtime serve ") : -len(" --port 5000")]
    assert asked == f"- {run} "
    assert exported == f" export --format onnx --data {run}/bin {run}/average.pt {folder}"
    assert folder.startswith(f"{run}/onnx-float32-") and serve(run) == [asked, served]

    small = serve(run, PRECISION="int8")
    assert " --int8 " in small[1] and f"{run}/onnx-int8-" in small[2] and len(serve(run)) == 2
    (run / "average.pt").write_text("other weights")
    assert len(serve(run)) == 3 and f"serve {folder} " not in serve(run)[1]


def test_the_checkpoint_of_a_system_is_left_to_translate(serve, tmp_path):
    assert serve(run_folder(tmp_path / "out"), SYSTEM="sga")[0] == f"- {tmp_path / 'out'} sga"


def test_an_unknown_precision_is_named(serve, tmp_path):
    assert serve(tmp_path, PRECISION="int4") == []
