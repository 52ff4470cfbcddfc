"""Test ``make serve`` with a stand-in for Python: when a model is exported, and what is served."""

import pytest

from tests.conftest import ROOT

from .commands import finish, start, write_program

# Records each call, names a checkpoint like fairseq_plugins.translate, and "exports" a folder.
STAND_IN = """#!/usr/bin/env bash
echo "$*" >>"$CALLS"
case "$*" in
    -\\ *) echo "$2/average.pt" ;;
    *" export "*) mkdir "${@: -1}" && touch "${@: -1}/model.json" ;;
esac
"""


@pytest.fixture
def serve(tmp_path):
    """Run serve.sh; return its calls of Python without their first words."""
    python = write_program(tmp_path / "python", STAND_IN)
    calls = tmp_path / "calls"

    def call(model, expected_status=0, **settings):
        calls.write_text("")
        line = ["bash", ROOT / "examples" / "serve.sh", model]
        environment = {"PYTHON": str(python), "CALLS": str(calls), **settings}
        status, output = finish(start(line, tmp_path, **environment))
        assert status == expected_status, output
        return [text.removeprefix("-m fairseq_plugins") for text in calls.read_text().splitlines()]

    return call


def run_folder(path):
    path.mkdir(parents=True)
    (path / "average.pt").write_text("weights")
    return path


def test_an_exported_folder_is_served_without_an_export(serve, tmp_path):
    (tmp_path / "model.json").touch()
    command = f"_runtime serve {tmp_path} --port"
    assert serve(tmp_path) == [f"{command} 5000"]
    assert serve(tmp_path, PORT="5001", PRECISION="int8") == [f"{command} 5001"]
    assert serve(tmp_path, PRECISION="int4", expected_status=2) == []


def test_a_checkpoint_is_exported_once(serve, tmp_path):
    run = run_folder(tmp_path / "a run")
    (run / "bin").mkdir()
    choose, export, start_server = serve(run)
    folder = start_server[len("_runtime serve ") : -len(" --port 5000")]
    assert choose == f"- {run} "
    assert export == f" export --format onnx --data {run}/bin {run}/average.pt {folder}"
    assert folder.startswith(f"{run}/onnx-float32-")
    assert serve(run) == [choose, start_server]

    _, export, start_server = serve(run, PRECISION="int8")
    assert " --int8 " in export
    assert f"{run}/onnx-int8-" in start_server
    assert len(serve(run)) == 2
    (run / "average.pt").write_text("changed weights")
    choose, export, start_server = serve(run)
    assert f"serve {folder} " not in start_server


def test_translate_chooses_the_checkpoint_of_a_system(serve, tmp_path):
    assert serve(run_folder(tmp_path / "out"), SYSTEM="sga")[0] == f"- {tmp_path / 'out'} sga"
