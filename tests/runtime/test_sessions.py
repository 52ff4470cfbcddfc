"""Threads of the sessions: shared in a process of the runtime's own, and in no other, where onnxruntime has other users."""

import subprocess
import sys

import onnxruntime
import pytest

from fairseq_plugins_runtime import load, sessions
from tests.runtime.folders import write_folder

BOTH = """
import sys
import onnxruntime
from fairseq_plugins_runtime import load, sessions

if sys.argv[2] == "own":
    sessions.own_process()
for threads in (None, 1):
    assert load(sys.argv[1], threads).translate(["eins"]) == ["one"]
onnxruntime.InferenceSession(sys.argv[1] + "/encoder.onnx")
"""


@pytest.mark.parametrize("own", [True, False])
def test_the_pool_is_shared_in_a_process_of_its_own_alone(tmp_path, own):
    folder = write_folder(tmp_path / "model")
    command = [sys.executable, "-c", BOTH, str(folder), "own" if own else "other"]
    done = subprocess.run(command, capture_output=True, text=True)
    if own:  # the last line is no session of the runtime
        assert "use_per_session_threads must be false" in done.stderr
        assert "AssertionError" not in done.stderr
    else:
        assert done.returncode == 0, done.stderr


def test_models_of_a_process_may_have_other_threads(tmp_path):
    folder = write_folder(tmp_path / "model")
    for threads in (None, 1, 2, None):
        assert load(folder, threads).translate(["eins"]) == ["one"]
    onnxruntime.InferenceSession(str(folder / "encoder.onnx"))


@pytest.mark.cases(
    "version flags precision warns",
    ("1.24.4", "amx_int8", "int8", True),
    ("1.25.0", "amx_int8", "int8", False),
    ("1.24.4", "avx512_vnni", "int8", False),
    ("1.24.4", "amx_int8", "float32", False),
)
def test_wrong_products_are_told(tmp_path, monkeypatch, caplog, version, flags, precision, warns):
    (tmp_path / "cpuinfo").write_text(f"flags: {flags}\n")
    monkeypatch.setattr(sessions, "PROCESSOR", tmp_path / "cpuinfo")
    monkeypatch.setattr(onnxruntime, "__version__", version)
    load(write_folder(tmp_path / "model", precision=precision))
    assert ("onnxruntime 1.24.4 computes some products of 8 bits wrong" in caplog.text) == warns
