"""The folder of a translator says which system is better, and whether it may be used."""

import json
import os
import shutil
import subprocess

import pytest

from examples.recipes.report import build, main, show, verdict
from fairseq_plugins import model_files

SCORES = {"valid": {"sga": 12.0, "at": 25.0}, "test": {"sga": 26.0, "at": 24.0}}


@pytest.fixture
def run(tmp_path):
    for subset, scores in SCORES.items():
        rows = [{"name": name, "bleu": bleu, "chrf": 50.0, "length_ratio": 0.9} for name, bleu in scores.items()]
        content = {"systems": rows, "signatures": {"bleu": "nrefs:1|tok:13a"}}
        (tmp_path / f"scores-{subset}.json").write_text(json.dumps(content))
    for folder in ("benchmarks", "averages", "bin"):
        (tmp_path / folder).mkdir()
    for name in ("sga", "at"):
        (tmp_path / "benchmarks" / f"train-{name}.tsv").write_text("s\tcpu_time\n120.0\t60.0\n")
        (tmp_path / "averages" / f"{name}.pt").write_text(name)
    for name in ("sentencepiece.bpe.model", "dict.cs.txt", "dict.en.txt"):
        (tmp_path / "bin" / name).touch()
    return tmp_path


def test_the_default_is_the_better_on_validation(run):
    text = build("cs-en", ["sga", "at"], run, run / "translator")
    content = json.loads((run / "translator" / "translator.json").read_text())
    assert content["default"] == "at" and content["systems"]["sga"]["test"]["bleu"] == 26.0
    assert "Fit for text" in text and "| AT (`--system at`) | 25.0 | 24.0 | 50.0 | 0.90 | 2 | 1 |" in text
    for name in ("sga", "at"):
        assert sorted(path.name for path in (run / "translator" / name).iterdir()) == [
            *("dict.cs.txt", "dict.en.txt", "model.pt", "search.json", "sentencepiece.bpe.model")
        ]
        assert (run / "translator" / name / "model.pt").read_text() == name
        search = model_files.read_search_options(run / "translator" / name)
        assert ("--beam" in search) == (name == "at") and "--truncate-source" in search, "options of the scores"


@pytest.mark.parametrize("name", ["out", "an out", "it's $(touch x) `y` & #1", "-out"])
def test_the_last_screen_has_the_path_as_it_was_typed(run, tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    build("cs-en", ["sga", "at"], run, run / "first" / "translator")
    os.rename("first", name)
    main([f"--show={name}"])
    screen = capsys.readouterr().out.strip()
    assert screen == show(name).strip() and "FOLDER" not in screen and "**Fit for text" in screen
    programs = tmp_path / "programs"  # each writes down its words
    programs.mkdir()
    for program in ("fairseq-plugins", "make"):
        (programs / program).write_text(f'#!/bin/sh\nprintf "%s\\n" {program} "$@"\n')
        (programs / program).chmod(0o755)
    commands = screen.partition("```bash\nsource .venv/bin/activate\n")[2].partition("```")[0]
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    output = subprocess.check_output(["bash", "-c", commands], env=environment, text=True)
    line, _, serve = output.partition("make\n")
    program, verb, folder, *options = line.splitlines()
    assert (program, verb) == ("fairseq-plugins", "translate")
    assert options == ["--input", "TEXT", "--output", "TRANSLATION"]
    assert serve == f"serve\nMODEL={folder}\n"
    model = tmp_path / name / "translator" / "at" / "model.pt"
    assert model_files.find_checkpoint(folder).samefile(model)


def test_the_page_that_is_kept_holds_no_path(run):
    build("cs-en", ["sga", "at"], run, run / "out" / "translator")
    shutil.move(run / "out", run / "moved")
    text = (run / "moved" / "translator" / "README.md").read_text()
    assert "FOLDER is the path of this folder" in text
    assert str(run) not in text and "moved" not in text
    with pytest.raises(SystemExit):
        main(["--pair", "cs-en"])


@pytest.mark.parametrize(("bleu", "words"), [(30.0, "Fit for"), (19.9, "Only for the gist"), (9.9, "NOT FIT FOR USE")])
def test_the_verdict(bleu, words):
    assert verdict(bleu).startswith(words)
