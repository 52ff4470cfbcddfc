"""Targets and scripts with paths that a shell would split, execute or take for options."""

import io
import os
import subprocess
import sys
import tarfile

import pytest

from data_prep.toy.corpus import generate
from tests.conftest import ROOT
from tests.csr_builders import write_raw
from tests.nlu_bins import model_and_dictionary, write

from .commands import HOSTILE_NAME

TYPED = f"{HOSTILE_NAME} $(shell touch executed)"
"""What a user may type behind NAME= of a target: make has a $(…) of its own."""
LEXICON = "--dim 8 --window 2 --negative 2 --min-count 2 --top 2 --iterations 2 --threads 1 --epochs 1".split()


@pytest.fixture
def folder(tmp_path):
    """Make a folder with a hostile name; check in the end that no part of a path was executed."""
    path = tmp_path / HOSTILE_NAME
    path.mkdir()
    yield path
    assert not list(tmp_path.rglob("executed")) and not (ROOT / "executed").exists()


def run(line, folder, programs=None, **environment):
    """Run a command in a folder, with the programs of another folder before all others."""
    folders = [*([str(programs)] if programs else []), os.path.dirname(sys.executable), os.environ["PATH"]]
    variables = {**os.environ, "PATH": os.pathsep.join(folders), "PYTHON": sys.executable, **environment}
    options = {"capture_output": True, "text": True, "timeout": 300, "check": False}
    return subprocess.run(line, cwd=folder, env=variables, **options)


def run_script(name, folder, *arguments, **environment):
    """Run a script of the checkout in a folder; it must succeed."""
    done = run(["bash", str(ROOT / name), *map(str, arguments)], folder, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture
def environment(tmp_path):
    """Make a finished virtual environment whose programs record their arguments, and return a call of make in it."""
    venv, recipes = tmp_path / "venv", tmp_path / "recipes"
    for name in ("venv/bin", "venv/.stamps", "recipes/bin"):
        (tmp_path / name).mkdir(parents=True)
    stamps = "venv torch constraints.txt builders package recipes study plots runtime onnx"
    for stamp in [*(venv / ".stamps" / name for name in stamps.split()), recipes / ".stamp"]:
        stamp.touch()
    for name in ("bash", "python"):
        program = venv / "bin" / name
        program.write_text(f"#!/bin/bash\nprintf '%s\\0' \"$@\" \"OUT=${{OUT-}}\" >>'{tmp_path}/arguments'\nexit 3\n")
        program.chmod(0o755)

    def call(target, *settings):
        line = ["make", "-C", str(ROOT), target, f"VENV={venv}", f"RECIPES={recipes}", *settings]
        line += [f"PYTHON={venv / 'bin' / 'python'}"] if target == "tree" else []
        done = run(line, tmp_path)
        assert "Error 3" in done.stderr, done.stdout + done.stderr
        return (tmp_path / "arguments").read_text().split("\0")

    return call


@pytest.mark.parametrize(
    ("target", "settings", "passed"),
    [
        ("translator", ["SRC", "TGT", "OUT", "MLM"], ["{}", "{}", "{}", "2", "1", "{}"]),
        ("study", ["STUDY", "DATA", "OUT"], ["{}", "{}", "{}", "1", "cpu"]),
        ("serve", ["MODEL"], ["{}"]),
        ("quickstart", ["OUT"], ["OUT={}"]),
        ("hydra", ["OUT"], ["--output={}"]),
        ("publish", ["OUT"], ["--publish={}"]),
        ("tree", ["ROOT"], ["{}"]),
    ],
)
def test_targets_pass_on_what_was_typed(folder, environment, target, settings, passed):
    arguments = environment(target, *(f"{name}={TYPED}" for name in settings))
    assert [word for word in arguments if word in {text.format(TYPED) for text in passed}] == [
        text.format(TYPED) for text in passed
    ]


def test_preprocess_and_distill(folder):
    model, dictionary = model_and_dictionary(folder / "-model")
    for split in ("train", "valid", "test"):
        for language in ("en", "de"):
            write_raw(folder / "-text" / f"{split}.{language}", "the cat saw the dog", "a dog")
    files = ["--model", f"-model/{model.name}", "--dict", f"-model/{dictionary.name}"]
    options = ["--pairs", "en-de", "--out", "-bin", "--max-unknown", "1"]
    run_script("data_prep/preprocess.sh", folder, "--text", "-text", *files, *options)
    assert (folder / "-bin" / "train.en-de.en.bin").is_file()

    programs = folder.parent / "programs"
    programs.mkdir()
    translation = "D-0\\t0\\tder Hund\\nD-1\\t0\\tein Hund\\nGenerate train with beam=1\\n"
    (programs / "fairseq-generate").write_text(f"#!/bin/sh\n[ \"$1\" = ./-bin ] && printf '{translation}'\n")
    (programs / "fairseq-generate").chmod(0o755)
    (folder / "-checkpoint.pt").touch()
    line = "--data -bin --pair en-de --checkpoint -checkpoint.pt --out -distilled --shards 1".split()
    run_script("data_prep/distill.sh", folder, *line, programs=programs)
    assert (folder / "-distilled" / "bin" / "train.en-de.de.bin").is_file()


def test_lexicon(folder):
    examples = list(generate(3, {"train": 60}))
    for language in ("en", "de"):
        write_raw(folder / f"-toy.{language}", *(example.texts[language] for example in examples))
    run_script("data_prep/lexicon.sh", folder, "--source=-toy.en", "--target=-toy.de", "--out=-out", *LEXICON)
    assert (folder / "-out" / "en-de.tsv").is_file()


def test_understanding(folder):
    model, dictionary = model_and_dictionary(folder / "-model")
    write(folder / "-train.tsv", "the cat\tanimal", "a dog\tanimal")
    files = [f"--sentencepiece=-model/{model.name}", f"--dict=-model/{dictionary.name}"]
    line = ["sentences", "./-out", *files, "--text", "1", "train.en=-train.tsv"]
    run_script("data_prep/nlu.sh", folder, *line)
    assert (folder / "-out" / "input0" / "train.en.bin").is_file()


def test_corpus_from_an_archive(folder):
    members = {
        f"ml50/{split}.de_DE-en_XX.{language}": f"a line of {split}\n"
        for split in ("train", "valid", "test")
        for language in ("de_DE", "en_XX")
    }
    with tarfile.open(folder / "-archive.tar", "w") as archive:
        for name, text in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    line = "--out -out --pairs de_DE-en_XX --archive -archive.tar".split()
    run_script("data_prep/ml50.sh", folder, *line)
    assert (folder / "-out" / "text" / "manifest.json").is_file()


def test_quickstart_begins_in_its_folder(folder):
    stub = folder.parent / "python"
    stub.write_text('#!/bin/sh\nprintf "%s\\n" "$@" >&2; exit 7\n')
    stub.chmod(0o755)
    relative = os.path.relpath(folder, ROOT)
    done = run(["bash", "examples/quickstart/run.sh"], ROOT, OUT=f"{relative}/-out", PYTHON=str(stub))
    assert done.returncode == 7 and f"{relative}/-out/text" in done.stderr.splitlines()


def test_serve_exports_and_starts(folder):
    stub = folder.parent / "python"
    stub.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    stub.chmod(0o755)
    (folder / "-model").mkdir()
    (folder / "-model" / "model.json").touch()
    done = run_script("examples/serve.sh", folder, "-model", PYTHON=str(stub))
    assert done.stdout.splitlines() == ["-m", "fairseq_plugins_runtime", "serve", "./-model", "--port", "5000"]
