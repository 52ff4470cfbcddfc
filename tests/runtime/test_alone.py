"""Test that the runtime needs onnxruntime, sentencepiece and numpy, and nothing of this package."""

import os
import subprocess
import sys
from pathlib import Path

import fairseq_plugins_runtime
from tests.runtime.folders import write_folder

CODE = """
import sys

BLOCKED = {"torch", "fairseq", "fairseq_cli", "fairseq_plugins", "omegaconf", "onnx"}

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Block())
import fairseq_plugins_runtime.__main__
sys.exit(fairseq_plugins_runtime.__main__.main())
"""


def test_the_runtime_translates_without_torch_and_fairseq(tmp_path):
    folder = write_folder(tmp_path / "model")
    root = Path(fairseq_plugins_runtime.__file__).parent.parent
    process = subprocess.run(
        [sys.executable, "-c", CODE, "translate", str(folder), "--threads", "1"],
        input=b"eins zwei\n\n vier\r\n",
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert process.returncode == 0, process.stderr.decode()
    assert process.stdout == b"one two\n\nfour\n"
