"""Test the threads of sessions, and their products of 8 bits on different processors."""

import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest

from fairseq_plugins_runtime import load, sessions
from tests.runtime.folders import write_folder

CODE = """
import sys
import onnxruntime
from fairseq_plugins_runtime import load, sessions

sessions.own_process()
for threads in (None, 1):
    assert load(sys.argv[1], threads).translate(["eins"]) == ["one"]
print("translated", flush=True)
onnxruntime.InferenceSession(sys.argv[1] + "/encoder.onnx")
"""


def test_threads_are_shared_in_a_process_of_the_runtime(tmp_path):
    folder = write_folder(tmp_path / "model")
    command = [sys.executable, "-c", CODE, str(folder)]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.stdout.startswith("translated\n"), process.stderr
    # The last session is not one of the runtime.
    assert "use_per_session_threads must be false" in process.stderr


def test_threads_are_not_shared_with_other_users_of_onnxruntime(tmp_path):
    folder = write_folder(tmp_path / "model")
    for threads in (None, 1, 2, None):
        assert load(folder, threads).translate(["eins"]) == ["one"]
    onnxruntime.InferenceSession(str(folder / "encoder.onnx"))


@pytest.fixture
def set_processor(tmp_path, monkeypatch):
    """Set the machine and the flags of the processor; flags None: it does not tell them."""

    def set_processor(flags, machine="x86_64"):
        if flags is not None:
            (tmp_path / "cpuinfo").write_text(f"flags: {flags}\n")
        monkeypatch.setattr(sessions, "PROCESSOR", tmp_path / "cpuinfo")
        monkeypatch.setattr(sessions.platform, "machine", lambda: machine)

    return set_processor


@pytest.mark.cases(
    "version flags precision warns",
    ("1.24.4", "amx_int8", "int8", True),
    ("1.25.0", "amx_int8", "int8", False),
    ("1.24.4", "avx512_vnni", "int8", False),
    ("1.24.4", "amx_int8", "float32", False),
)
def test_a_version_with_wrong_products_is_warned_of(
    tmp_path, monkeypatch, set_processor, caplog, version, flags, precision, warns
):
    set_processor(flags)
    monkeypatch.setattr(onnxruntime, "__version__", version)
    load(write_folder(tmp_path / "model", precision=precision))
    assert ("onnxruntime 1.24.4" in caplog.text) == warns


@pytest.mark.cases("flags", "avx2 avx512bw", "")
def test_products_of_8_bits_are_exact_without_vnni(tmp_path, set_processor, flags):
    """Use sums that would saturate 16 bits."""
    set_processor(flags)
    check_products(tmp_path / "product.onnx")


def test_products_of_8_bits_are_exact_on_this_processor(tmp_path):
    check_products(tmp_path / "product.onnx")


@pytest.mark.cases(
    "machine flags unsigned",
    ("x86_64", "avx2 avx512bw", True),
    ("AMD64", None, True),
    ("x86_64", "avx2 avx_vnni", False),
    ("x86_64", "avx512_vnni avx512bw", False),
    ("aarch64", "asimd", False),
)
def test_weights_are_unsigned_only_without_vnni(tmp_path, set_processor, machine, flags, unsigned):
    set_processor(flags, machine)
    session = sessions.open_session(write_folder(tmp_path / "model") / "encoder.onnx", 1)
    options = session.get_session_options()
    try:
        assert (options.get_session_config_entry(sessions.UNSIGNED_WEIGHTS) == "1") == unsigned
    except RuntimeError:  # the entry does not exist
        assert not unsigned


def check_products(path):
    weight = np.random.default_rng(1).integers(100, 128, (64, 16)).astype(np.int8)
    values = np.full((3, 64), 255, np.uint8)
    session = sessions.open_session(write_product(path, weight), 1)
    (product,) = session.run(None, {"values": values})
    assert np.array_equal(product, (values.astype(int) - 128) @ weight.astype(int))


def write_product(path, weight):
    """Write a graph that multiplies ``values`` (N, K) by a weight (K, M) of signed 8 bits.

    The values are unsigned 8 bits whose zero is 128.
    """
    rows, columns = weight.shape
    constants = {
        "weight": weight,
        "one": np.float32(1),
        "scales": np.ones(columns, np.float32),
        "middle": np.uint8(128),
        "zeros": np.zeros(columns, np.int8),
    }
    node = onnx.helper.make_node(
        "MatMulIntegerToFloat", ["values", *constants], ["product"], domain="com.microsoft"
    )
    make_value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [node],
        "product",
        [make_value("values", onnx.TensorProto.UINT8, ["n", rows])],
        [make_value("product", onnx.TensorProto.FLOAT, ["n", columns])],
        [
            onnx.numpy_helper.from_array(np.asarray(array), name)
            for name, array in constants.items()
        ],
    )
    imports = [
        onnx.helper.make_opsetid("", 18),
        onnx.helper.make_opsetid("com.microsoft", 1),
    ]
    onnx.save(onnx.helper.make_model(graph, opset_imports=imports, ir_version=9), path)
    return path
