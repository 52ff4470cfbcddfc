"""Test the folder of a translator: its default system, its page, its commands and verdicts."""

import json
import os
import shutil
import subprocess

import pytest

from examples.recipes.report import build, main, show, verdict
from fairseq_plugins import model_files

SCORES = {"valid": {"sga": 12.0, "at": 25.0}, "test": {"sga": 26.0, "at": 24.0}}
FILES = ["dict.cs.txt", "dict.en.txt", "model.pt", "search.json", "sentencepiece.bpe.model"]


@pytest.fixture
def run(tmp_path):
    for subset, scores in SCORES.items():
        more = {"chrf": 50.0, "length_ratio": 0.9}
        rows = [{"name": name, "bleu": bleu, **more} for name, bleu in scores.items()]
        content = {"systems": rows, "signatures": {"bleu": "nrefs:1|tok:13a"}}
        (tmp_path / f"scores-{subset}.json").write_text(json.dumps(content))
    for folder in ("benchmarks", "averages", "bin"):
        (tmp_path / folder).mkdir()
    for name in ("sga", "at"):
        times = "s\tcpu_time\n120.0\t60.0\n"
        (tmp_path / "benchmarks" / f"train-{name}.tsv").write_text(times)
        (tmp_path / "averages" / f"{name}.pt").write_text(name)
    for name in ("sentencepiece.bpe.model", "dict.cs.txt", "dict.en.txt"):
        (tmp_path / "bin" / name).touch()
    return tmp_path


def test_the_default_is_the_best_on_validation(run):
    page = build("cs-en", ["sga", "at"], run, run / "translator")
    content = json.loads((run / "translator" / "translator.json").read_text())
    assert content["default"] == "at" and content["systems"]["sga"]["test"]["bleu"] == 26.0
    row = "| AT (`--system at`) | 25.0 | 24.0 | 50.0 | 0.90 | 2 | 1 |"
    assert "Fit for text" in page and row in page
    for name in ("sga", "at"):
        folder = run / "translator" / name
        assert sorted(path.name for path in folder.iterdir()) == FILES
        assert (folder / "model.pt").read_text() == name
        options = model_files.read_search_options(folder)
        assert ("--beam" in options) == (name == "at")
        assert "--truncate-source" in options


@pytest.mark.parametrize("name", ["out", "an out", "it's $(touch x) `y` & #1", "-out"])
def test_printed_commands_have_the_path_as_it_was_typed(run, tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    build("cs-en", ["sga", "at"], run, run / "first" / "translator")
    os.rename("first", name)
    main([f"--show={name}"])
    screen = capsys.readouterr().out.strip()
    assert screen == show(name).strip() and "FOLDER" not in screen
    programs = tmp_path / "programs"  # stand-ins that print their arguments
    programs.mkdir()
    for program in ("fairseq-plugins", "make"):
        (programs / program).write_text(f'#!/bin/sh\nprintf "%s\\n" {program} "$@"\n')
        (programs / program).chmod(0o755)
    commands = screen.partition("```bash\nsource .venv/bin/activate\n")[2].partition("```")[0]
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    output = subprocess.check_output(["bash", "-c", commands], env=environment, text=True)
    translate, _, serve = output.partition("make\n")
    program, verb, folder, *options = translate.splitlines()
    assert (program, verb) == ("fairseq-plugins", "translate")
    assert options == ["--input", "TEXT", "--output", "TRANSLATION"]
    assert serve == f"serve\nMODEL={folder}\n"
    model = tmp_path / name / "translator" / "at" / "model.pt"
    assert model_files.find_checkpoint(folder).samefile(model)


def test_the_page_in_the_folder_holds_no_path(run):
    build("cs-en", ["sga", "at"], run, run / "out" / "translator")
    shutil.move(run / "out", run / "moved")
    page = (run / "moved" / "translator" / "README.md").read_text()
    assert "FOLDER is the path of this folder" in page
    assert str(run) not in page and "moved" not in page
    with pytest.raises(SystemExit):
        main(["--pair", "cs-en"])


@pytest.mark.cases(
    "bleu words", (20.0, "Fit for"), (10.0, "Only for the gist"), (9.9, "NOT FIT FOR USE")
)
def test_the_verdict_follows_from_validation_bleu(bleu, words):
    assert verdict(bleu).startswith(words)
