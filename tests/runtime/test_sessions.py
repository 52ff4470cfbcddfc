"""Threads of the sessions: shared in a process of the runtime's own, and in no other, where onnxruntime has other users."""

import subprocess
import sys

import numpy as np
import onnx
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


@pytest.mark.cases("flags", None, "avx2 avx512bw", "")
def test_products_of_8_bits_are_exact(tmp_path, monkeypatch, flags):
    """Sums that saturate 16 bits, as on this processor and as on one without VNNI."""
    if flags is not None:
        (tmp_path / "cpuinfo").write_text(f"flags: {flags}\n")
        monkeypatch.setattr(sessions, "PROCESSOR", tmp_path / "cpuinfo")
    weight = np.random.default_rng(1).integers(100, 128, (64, 16)).astype(np.int8)
    session = sessions.open_session(write_product(tmp_path / "product.onnx", weight), 1)
    values = np.full((3, 64), 255, np.uint8)
    (found,) = session.run(None, {"values": values})
    assert np.array_equal(found, (values.astype(int) - 128) @ weight.astype(int))


@pytest.mark.cases(
    "machine flags unsigned",
    ("x86_64", "avx2 avx512bw", True),
    ("AMD64", None, True),
    ("x86_64", "avx2 avx_vnni", False),
    ("x86_64", "avx512_vnni avx512bw", False),
    ("aarch64", "asimd", False),
)
def test_weights_are_unsigned_only_without_vnni(tmp_path, monkeypatch, machine, flags, unsigned):
    if flags is not None:
        (tmp_path / "cpuinfo").write_text(f"flags: {flags}\n")
    monkeypatch.setattr(sessions, "PROCESSOR", tmp_path / "cpuinfo")
    monkeypatch.setattr(sessions.platform, "machine", lambda: machine)
    options = sessions.open_session(write_folder(tmp_path / "model") / "encoder.onnx", 1).get_session_options()
    try:
        assert (options.get_session_config_entry(sessions.UNSIGNED_WEIGHTS) == "1") == unsigned
    except RuntimeError:  # no such entry
        assert not unsigned


def write_product(path, weight):
    """A graph of one product of ``values`` (N, K), unsigned 8 bits with zero at 128, by a weight (K, M) of signed 8 bits."""
    constants = {
        "weight": weight,
        "one": np.float32(1),
        "scales": np.ones(weight.shape[1], np.float32),
        "middle": np.uint8(128),
        "zeros": np.zeros(weight.shape[1], np.int8),
    }
    names = ["values", "weight", "one", "scales", "middle", "zeros"]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMulIntegerToFloat", names, ["product"], domain="com.microsoft")],
        "product",
        [onnx.helper.make_tensor_value_info("values", onnx.TensorProto.UINT8, ["n", weight.shape[0]])],
        [onnx.helper.make_tensor_value_info("product", onnx.TensorProto.FLOAT, ["n", weight.shape[1]])],
        [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    imports = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("com.microsoft", 1)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=imports, ir_version=9), path)
    return path
