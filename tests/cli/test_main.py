"""The folder with data_prep beside it, and nothing else installed but what it needs."""

import os
import shutil
import subprocess
import sys

import pytest

USER_DIR = """
import argparse, sys
from fairseq import tasks, utils
utils.import_user_module(argparse.Namespace(user_dir=sys.argv[1]))
from data_prep import files
print(tasks.TASK_REGISTRY["sga_translation"].__module__.split(".")[0], files.__file__)
"""


@pytest.fixture
def folder(tmp_path, user_dir):
    """A copy of both packages under names of its own."""
    path = tmp_path / "elsewhere" / "my_plugins"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(user_dir, path, ignore=ignore)
    source = os.path.join(os.path.dirname(user_dir), "data_prep")
    shutil.copytree(source, path.with_name("data_prep"), ignore=ignore)
    return path


def run(folder, *command):
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH="", PYTHONWARNINGS="ignore")
    line = [sys.executable, *command]
    return subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True)


def test_the_folder_reports_its_path_and_names(tmp_path, folder):
    process = run(tmp_path, str(folder))
    assert (process.returncode, process.stderr) == (0, "")
    lines = dict(line.split(None, 1) for line in process.stdout.splitlines())
    assert lines["--user-dir"] == str(folder)
    assert "sga_translation" in lines["--task"].split(", ")


def test_user_dir_from_another_folder_finds_data_prep_beside_it(tmp_path, folder):
    process = run(tmp_path, "-c", USER_DIR, str(folder))
    assert process.returncode == 0, process.stderr
    name, path = process.stdout.split()
    assert name == "my_plugins" and path == str(folder.with_name("data_prep") / "files.py")
