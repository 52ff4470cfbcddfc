"""The runtime needs onnxruntime, sentencepiece and numpy, and nothing of this package."""

import os
import subprocess
import sys

import fairseq_plugins_runtime
from tests.runtime.folders import write_folder

BLOCKED = """
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "fairseq", "fairseq_cli", "fairseq_plugins", "omegaconf", "onnx"}:
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Block())
import fairseq_plugins_runtime.__main__
sys.exit(fairseq_plugins_runtime.__main__.main())
"""


def test_translates_without_torch_and_fairseq(tmp_path):
    folder = write_folder(tmp_path / "model")
    root = os.path.dirname(os.path.dirname(fairseq_plugins_runtime.__file__))
    command = [sys.executable, "-c", BLOCKED, "translate", str(folder), "--threads", "1"]
    done = subprocess.run(
        command,
        input=b"eins zwei\n\n vier\r\n",
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": root},
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == b"one two\n\nfour\n"
