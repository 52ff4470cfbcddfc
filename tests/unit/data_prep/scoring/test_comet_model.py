"""Test ``--comet-model``: commands of current COMET, and of the version for CSR's model."""

import shlex

import pytest

from data_prep.scoring import comet, score
from tests.nlu_bins import write
from tests.unit.data_prep.files import assert_refused


@pytest.fixture
def line(tmp_path):
    for name in ("ref", "src", "a", "b"):
        write(tmp_path / name, "one line", "and another")
    systems = ["--system", f"A={tmp_path / 'a'}", "--system", f"B={tmp_path / 'b'}"]
    return ["--reference", str(tmp_path / "ref"), *systems, "--metrics", "chrf", "--samples", "2"]


def commands(line, folder, capsys, *more):
    source = ["--source", str(folder / "src"), "--comet-files", str(folder / "my files")]
    score.main([*line, *source, *more])
    hint, *found = capsys.readouterr().out.split("\n\n")[-1].strip().splitlines()
    return hint, [shlex.split(command) for command in found]


@pytest.mark.parametrize("model", [None, "Unbabel/wmt20-comet-da"])
def test_present_models(line, tmp_path, capsys, model):
    hint, found = commands(line, tmp_path, capsys, *(["--comet-model", model] if model else []))
    assert [command[0] for command in found] == [
        "comet-score",
        "comet-compare",
    ] and "before" not in hint
    for command in found:
        assert command[command.index("--model") + 1] == (model or "Unbabel/wmt22-comet-da")


def test_the_paper_s_model_has_a_command_for_each_system(line, tmp_path, capsys):
    hint, found = commands(line, tmp_path, capsys, "--comet-model", comet.CSR_MODEL)
    folder = tmp_path / "my files"
    shared = [
        "comet",
        "score",
        "-s",
        str(folder / "source.txt"),
        "-r",
        str(folder / "reference.txt"),
    ]
    shared += ["--model", "wmt-large-da-estimator-1719"]
    assert found == [[*shared, "-h", str(folder / f"{name}.txt")] for name in "AB"]
    assert "unbabel-comet<1" in hint
    assert sorted(path.name for path in folder.iterdir()) == [
        "A.txt",
        "B.txt",
        "reference.txt",
        "source.txt",
    ]


def test_a_model_without_files_is_refused(line, tmp_path):
    assert_refused(
        "--comet-model x: only --comet-files DIR uses it", score.main, [*line, "--comet-model", "x"]
    )
    files = ["--source", str(tmp_path / "src"), "--comet-files", str(tmp_path / "out")]
    assert_refused("--comet-model ''", score.main, [*line, *files, "--comet-model", " "])
    assert not (tmp_path / "out").exists()
