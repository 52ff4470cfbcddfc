"""The folder alone, with nothing installed but what it needs, reports itself under any name."""

import os
import shutil
import subprocess
import sys


def test_the_folder_alone_reports_its_path_and_names(tmp_path, user_dir):
    folder = tmp_path / "elsewhere" / "my_plugins"
    shutil.copytree(user_dir, folder, ignore=shutil.ignore_patterns("__pycache__"))
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH="")
    command = [sys.executable, str(folder)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    lines = dict(line.split(None, 1) for line in done.stdout.splitlines())
    assert lines["--user-dir"] == str(folder)
    expected = "fairseq_plugins Python torch numpy sentencepiece sacrebleu --criterion --arch"
    assert set(expected.split()) <= set(lines)
    assert "not installed" not in lines["fairseq"]
    assert "sga_translation" in lines["--task"].split(", ")
    path_only = subprocess.run([*command, "--path"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert path_only.stdout == f"{folder}\n"
