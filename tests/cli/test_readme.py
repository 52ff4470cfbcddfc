"""Test that the README's stock commands run as written, with a smaller corpus and fewer updates."""

import os
import re
import subprocess
import sys

import pytest

SHORTER = {
    "--langs en,de": "--langs en,de --train 400 --valid 20 --test 20",
    "--max-update 400": "--max-update 4",
}


@pytest.fixture
def commands(repo_root):
    """Read the commands of "How data flows"."""
    readme = (repo_root / "README.md").read_text(encoding="utf-8")
    section = readme.partition("\n## How data flows\n")[2].partition("\n## ")[0]
    (text,) = re.findall(r"```bash\n(.*?)```", section, re.DOTALL)
    for words, shorter in SHORTER.items():
        assert text.count(words) == 1
        text = text.replace(words, shorter)
    return text


def test_the_stock_commands_run_as_written(commands, repo_root, tmp_path):
    for name in ("fairseq_plugins", "data_prep", "examples"):
        (tmp_path / name).symlink_to(repo_root / name)
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    line = ["bash", "-euo", "pipefail", "-c", commands]
    options = {"capture_output": True, "text": True, "timeout": 300}
    process = subprocess.run(line, cwd=tmp_path, env={**os.environ, "PATH": path}, **options)
    assert process.returncode == 0, process.stderr[-3000:]
    assert len(re.findall(r"^D-", process.stdout, re.MULTILINE)) == 20
    assert "Generate test with beam=" in process.stdout
