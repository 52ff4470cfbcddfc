"""Test targets and scripts with paths that a shell would split, execute or take for options."""

import io
import os
import sys
import tarfile

import pytest

from data_prep.toy.corpus import generate
from tests.conftest import ROOT
from tests.csr_builders import write_raw
from tests.nlu_bins import model_and_dictionary, write

from .commands import HOSTILE_NAME, finish, start, write_program

SETTING = f"{HOSTILE_NAME} $(shell touch executed)"
"""Value of a make variable: make has a $(…) of its own."""

LEXICON = """--source=-toy.en --target=-toy.de --out=-out --dim 8 --window 2 --negative 2
    --min-count 2 --top 2 --iterations 2 --threads 1 --epochs 1"""
ECHO = '#!/bin/sh\nprintf "%s\\n" "$@" >&2\nexit {status}\n'


@pytest.fixture
def folder(tmp_path):
    """Make a folder with a hostile name; check in the end that no part of a path was executed."""
    path = tmp_path / HOSTILE_NAME
    path.mkdir()
    yield path
    assert not list(tmp_path.rglob("executed"))
    assert not (ROOT / "executed").exists()


def run(line, folder, programs=None, **environment):
    """Run a command in a folder; programs in the folder ``programs`` precede all others."""
    folders = [os.path.dirname(sys.executable), os.environ["PATH"]]
    if programs:
        folders.insert(0, str(programs))
    environment = {"PYTHON": sys.executable, **environment}
    return finish(start(line, folder, PATH=os.pathsep.join(folders), **environment))


def run_script(name, folder, *arguments, **environment):
    """Run a script of the checkout in a folder; it must succeed. Returns its output."""
    status, output = run(["bash", ROOT / name, *arguments], folder, **environment)
    assert status == 0, output
    return output


@pytest.fixture
def make(tmp_path):
    """Call make in a finished virtual environment whose programs record their arguments."""
    venv, recipes = tmp_path / "venv", tmp_path / "recipes"
    for name in ("venv/bin", "venv/.stamps", "recipes/bin"):
        (tmp_path / name).mkdir(parents=True)
    stamps = "venv torch constraints.txt builders package recipes study plots runtime onnx"
    for stamp in [*(venv / ".stamps" / name for name in stamps.split()), recipes / ".stamp"]:
        stamp.touch()
    recorded = tmp_path / "arguments"
    for name in ("bash", "python"):
        record = f"printf '%s\\0' \"$@\" \"OUT=${{OUT-}}\" >>'{recorded}'"
        write_program(venv / "bin" / name, f"#!/bin/bash\n{record}\nexit 3\n")

    def call(target, *settings):
        line = ["make", "-C", ROOT, target, f"VENV={venv}", f"RECIPES={recipes}", *settings]
        if target == "tree":
            line.append(f"PYTHON={venv / 'bin' / 'python'}")
        _, output = run(line, tmp_path)
        assert "Error 3" in output, output
        return recorded.read_text().split("\0")

    return call


@pytest.mark.cases(
    "target variables arguments",
    ("translator", ["SRC", "TGT", "OUT", "MLM"], ["{}", "{}", "{}", "2", "1", "{}"]),
    ("study", ["STUDY", "DATA", "OUT"], ["{}", "{}", "{}", "1", "cpu"]),
    ("serve", ["MODEL"], ["{}"]),
    ("quickstart", ["OUT"], ["OUT={}"]),
    ("hydra", ["OUT"], ["--output={}"]),
    ("publish", ["OUT"], ["--publish={}"]),
    ("tree", ["ROOT"], ["{}"]),
)
def test_targets_pass_settings_on_unchanged(folder, make, target, variables, arguments):
    expected = [text.format(SETTING) for text in arguments]
    recorded = make(target, *(f"{name}={SETTING}" for name in variables))
    assert [word for word in recorded if word in expected] == expected


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
    output = "D-0\\t0\\tder Hund\\nD-1\\t0\\tein Hund\\nGenerate train with beam=1\\n"
    generate_stub = f"#!/bin/sh\n[ \"$1\" = ./-bin ] && printf '{output}'\n"
    write_program(programs / "fairseq-generate", generate_stub)
    (folder / "-checkpoint.pt").touch()
    line = "--data -bin --pair en-de --checkpoint -checkpoint.pt --out -distilled --shards 1"
    run_script("data_prep/distill.sh", folder, *line.split(), programs=programs)
    assert (folder / "-distilled" / "bin" / "train.en-de.de.bin").is_file()


def test_lexicon(folder):
    examples = list(generate(3, {"train": 60}))
    for language in ("en", "de"):
        write_raw(folder / f"-toy.{language}", *(example.texts[language] for example in examples))
    run_script("data_prep/lexicon.sh", folder, *LEXICON.split())
    assert (folder / "-out" / "en-de.tsv").is_file()


def test_understanding(folder):
    model, dictionary = model_and_dictionary(folder / "-model")
    write(folder / "-train.tsv", "the cat\tanimal", "a dog\tanimal")
    files = [f"--sentencepiece=-model/{model.name}", f"--dict=-model/{dictionary.name}"]
    line = ["sentences", "./-out", *files, "--text", "1", "train.en=-train.tsv"]
    run_script("data_prep/nlu.sh", folder, *line)
    assert (folder / "-out" / "input0" / "train.en.bin").is_file()


def test_corpus_from_an_archive(folder):
    with tarfile.open(folder / "-archive.tar", "w") as archive:
        for split in ("train", "valid", "test"):
            for language in ("de_DE", "en_XX"):
                entry = tarfile.TarInfo(f"ml50/{split}.de_DE-en_XX.{language}")
                text = f"a line of {split}\n".encode()
                entry.size = len(text)
                archive.addfile(entry, io.BytesIO(text))
    line = "--out -out --pairs de_DE-en_XX --archive -archive.tar".split()
    run_script("data_prep/ml50.sh", folder, *line)
    assert (folder / "-out" / "text" / "manifest.json").is_file()


def test_quickstart_and_serve_call_python_in_their_folder(folder):
    failing = write_program(folder.parent / "failing", ECHO.format(status=7))
    out = f"{os.path.relpath(folder, ROOT)}/-out"
    line = ["bash", "examples/quickstart/run.sh"]
    status, output = run(line, ROOT, OUT=out, PYTHON=str(failing))
    assert status == 7
    assert f"{out}/text" in output.splitlines()

    (folder / "-model").mkdir()
    (folder / "-model" / "model.json").touch()
    echo = write_program(folder.parent / "echo", ECHO.format(status=0))
    output = run_script("examples/serve.sh", folder, "-model", PYTHON=str(echo))
    expected = "-m fairseq_plugins_runtime serve ./-model --port 5000"
    assert output.splitlines() == expected.split()
