"""Test the command line of the plugins: its verbs start without torch and fairseq."""

import os
import shutil
import subprocess
import sys

import pytest

from fairseq_plugins.__main__ import VERBS
from fairseq_plugins.analysis.retrieval_tables import BACKWARD, BOTH, FORWARD
from fairseq_plugins.commands import analysis, analysis_options
from fairseq_plugins.ops.neighbours import SCORES
from fairseq_plugins.scoring.words import KINDS
from fairseq_plugins.understanding.inputs import INPUT_FORMATS

HEAVY = ("torch", "fairseq", "numpy", "fairseq_plugins.compat", "fairseq_plugins.checkpoints")
PROBE = """
import runpy, sys
sys.argv = ["-m", *sys.argv[1:]]
sys.orig_argv = ["python", "-m", "fairseq_plugins"]
try:
    runpy.run_module("fairseq_plugins", run_name="__main__", alter_sys=True)
finally:
    print("loaded:", *(name for name in {heavy} if name in sys.modules))
"""

USER_DIR = """
import argparse, sys
from fairseq import tasks, utils
utils.import_user_module(argparse.Namespace(user_dir=sys.argv[1]))
from data_prep import files
print(tasks.TASK_REGISTRY["sga_translation"].__module__.split(".")[0], files.__file__)
"""


def probe(*words):
    """Run a command line; return the process and the heavy modules that it has imported."""
    command = [sys.executable, "-c", PROBE.format(heavy=HEAVY), *map(str, words)]
    process = subprocess.run(command, capture_output=True, text=True)
    last = process.stdout.splitlines()[-1]
    return process, last.split()[1:]


def test_the_list_names_every_verb():
    process, loaded = probe()
    assert (process.returncode, process.stderr, loaded) == (0, "", [])
    for verb, entry in VERBS.items():
        assert f"  {verb} " in process.stdout
        assert entry.summary in process.stdout
    assert probe("--help")[0].stdout == process.stdout


@pytest.mark.parametrize("verb", list(VERBS))
def test_help_imports_neither_torch_nor_fairseq(verb):
    process, loaded = probe(verb, "--help")
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout.startswith("usage: ")
    assert set(loaded) <= ({"numpy"} if verb == "cut-vocabulary" else set())


@pytest.mark.cases(
    "line message",
    ("tranlate", "tranlate: no such verb; valid: translate, "),
    ("translate no.pt", "MODEL no.pt: no such file or folder"),
    ("translate . --input no.txt", "--input no.txt: no such file"),
    ("average --inputs no.pt --output x.pt", "--inputs no.pt: no such file"),
    ("average --directory no --best 2 --output x.pt", "--directory no: no such folder"),
    ("average --direc no --best 2 --output x.pt", "--inputs --directory"),
    ("dictionary no dict.txt", "ENCODER no: no such file"),
    ("export no folder", "MODEL no: no such file"),
    ("export . folder --data no", "--data no: no such file"),
    ("import no x.pt", "FOLDER no: no such file"),
    ("export import no x.pt", "FOLDER no: no such file"),
    ("score --reference no --system a=no", "--reference no: no such file"),
    ("cka --text en=no", "--text en: no: no such file"),
    ("cka no --text en=no", "no: no such file"),
    ("cka . --sentencepiece no", "--sentencepiece no: no such file"),
    ("singular-values . no", "MODEL_B no: no such file"),
    (
        "language-distance a=no --source . --target . --source-lang a --target-lang b",
        "MODEL a: no: no such file",
    ),
    ("retrieval tatoeba . --pair de-en no no", "de-en: no: no such file"),
    ("retrieval-comparison no no", "JSON no: no such file"),
    ("pair-probe . --train de=no --dev de=no --test de=no", "--train de: no: no such file"),
    ("frequency-f1 --train no --reference no --output a=no", "--train no: no such file"),
    ("training-curves a=no", "NAME=LOG a: no: no such file"),
    ("transfer-table --log a/b=no", "--log a/b: no: no such file"),
    ("info more", "unrecognized arguments: more"),
)
def test_wrong_input_is_refused_at_once_in_one_line(line, message):
    process, loaded = probe(*line.split())
    assert process.returncode == 2
    assert message in process.stderr.splitlines()[-1]
    assert "Traceback" not in process.stderr
    assert loaded == []


def test_a_missing_checkpoint_of_cut_vocabulary_is_refused_before_torch_is_imported(tmp_path):
    (tmp_path / "text").write_text("a b\n", encoding="utf-8")
    (tmp_path / "dict.txt").write_text("a 1\n", encoding="utf-8")
    files = ["--output", tmp_path / "out", "--dict", tmp_path / "dict.txt"]
    line = ["--checkpoint", "no.pt", *files, "--pieces", tmp_path / "text"]
    process, loaded = probe("cut-vocabulary", *line)
    assert process.returncode == 2
    assert "--checkpoint no.pt: no such file" in process.stderr.splitlines()[-1]
    assert not {"torch", "fairseq"} & set(loaded)


def test_a_plain_import_registers_everything():
    code = """
import fairseq_plugins
from fairseq.tasks import TASK_REGISTRY
print("sga_translation" in TASK_REGISTRY)
"""
    line = [sys.executable, "-W", "ignore", "-c", code]
    assert subprocess.run(line, capture_output=True, text=True).stdout.strip() == "True"


@pytest.mark.cases(
    "module verb",
    ("analysis.training_curves", "training-curves"),
    ("checkpoints.average", "average"),
    ("checkpoints.dictionary", "dictionary"),
    ("checkpoints.export", "export --format safetensors"),
)
def test_a_module_that_was_a_command_runs_its_verb(run_cli, module, verb):
    process = run_cli(f"fairseq_plugins.{module}", "--help")
    assert f"fairseq-plugins {verb}; " in process.stderr.splitlines()[0]
    assert process.stdout.startswith(f"usage: fairseq-plugins {verb.split()[0]} ")


def choices(parser, option):
    return next(action.choices for action in parser._actions if option in action.option_strings)


def test_parsers_list_the_choices_of_the_code_they_call():
    assert analysis_options.INPUT_FORMATS == tuple(map(str, INPUT_FORMATS))
    retrieval = analysis.COMMANDS["retrieval"].build_parser()
    tatoeba = retrieval._subparsers._group_actions[0].choices["tatoeba"]
    assert set(choices(tatoeba, "--score")) == set(SCORES)
    assert choices(tatoeba, "--directions") == (FORWARD, BACKWARD, BOTH)
    frequency_f1 = analysis.COMMANDS["frequency-f1"].build_parser()
    assert set(choices(frequency_f1, "--tokens")) == set(KINDS)


@pytest.fixture
def folder(tmp_path, user_dir):
    """Copy both packages to another folder, the plugins under another name."""
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
    process = run(tmp_path, str(folder), "info")
    assert (process.returncode, process.stderr) == (0, "")
    lines = dict(line.split(None, 1) for line in process.stdout.splitlines())
    assert lines["--user-dir"] == str(folder)
    assert "sga_translation" in lines["--task"].split(", ")


def test_user_dir_from_another_folder_finds_data_prep_beside_it(tmp_path, folder):
    process = run(tmp_path, "-c", USER_DIR, str(folder))
    assert process.returncode == 0, process.stderr
    name, path = process.stdout.split()
    assert name == "my_plugins" and path == str(folder.with_name("data_prep") / "files.py")
