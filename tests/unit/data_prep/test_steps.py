"""Steps are skipped only when nothing changed; manifests hold hashes and no times or folders."""

import pytest

from data_prep.io import read_json, sha256
from data_prep.steps import Step, write_manifest


@pytest.fixture
def files(tmp_path):
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_text("in\n")
    target.write_text("out\n")
    return source, target, tmp_path / "steps" / "record.json"


def make(files, **options):
    source, target, record = files
    return Step(record, {"text": source}, {"size": 1, **options}, [target])


def test_a_finished_step_returns_its_counts(files):
    assert make(files).done() is None
    make(files).finish({"lines": 1})
    assert make(files).done() == {"lines": 1}
    make(files).begin()
    assert make(files).done() is None


@pytest.mark.parametrize("change", ["input", "output", "no output", "option", "truncated record", "version"])
def test_any_change_undoes_a_step(files, change, monkeypatch):
    source, target, record = files
    make(files).finish({"lines": 1})
    if change == "input":
        source.write_text("IN\n")
    elif change == "output":
        target.write_text("OUT\n")
    elif change == "no output":
        target.unlink()
    elif change == "truncated record":
        record.write_bytes(record.read_bytes()[:-9])
    elif change == "version":
        monkeypatch.setattr("data_prep.steps.versions", lambda: {"sentencepiece": "0"})
    assert make(files, **({"size": 2} if change == "option" else {})).done() is None


def test_manifest_is_reproducible_and_complete(files, tmp_path):
    source, target, _ = files
    for name in ("a", "b"):
        write_manifest(tmp_path / name, "clean", {"size": 1}, {"read": 1}, [source], [target])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert str(tmp_path) not in (tmp_path / "a").read_text()
    content = read_json(tmp_path / "a")
    assert content["inputs"] == [{"file": "in", "bytes": 3, "sha256": sha256(source)}]
    assert content["outputs"][0]["file"] == "out"
    assert {"python", "sentencepiece"} <= set(content["versions"])
