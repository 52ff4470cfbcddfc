"""The folder of a translator says which system is better, and whether it may be used."""

import json

import pytest

from examples.recipes.report import build, verdict
from fairseq_plugins import translate

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
        search = translate.search_options(run / "translator" / name)
        assert ("--beam" in search) == (name == "at") and "--truncate-source" in search, "options of the scores"


@pytest.mark.parametrize(("bleu", "words"), [(30.0, "Fit for"), (19.9, "Only for the gist"), (9.9, "NOT FIT FOR USE")])
def test_the_verdict(bleu, words):
    assert verdict(bleu).startswith(words)
