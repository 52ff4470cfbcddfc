"""Test the analysis commands as a user types them."""

import json

import pytest

from tests import nlu_builders

from .conftest import write_random_masked_lm

PLAIN = ["--cpu", "--sentencepiece", "none"]


@pytest.fixture
def models(world, tmp_path):
    words = world.root / "dict.txt"
    return world.masked_lm, write_random_masked_lm(tmp_path / "lm", world.pieces + 5, 2, words)


def read_rows(path):
    return json.loads(path.read_text(encoding="utf-8"))["rows"]


def test_cka_and_retrieval(world, models, run_cli, tmp_path):
    texts = ["--text", *(f"{lang}={world.root / f'train.{lang}'}" for lang in ("en", "de"))]
    results = ["--json", tmp_path / "cka.json", "--plot", tmp_path / "cka.svg"]
    process = run_cli("fairseq_plugins", "cka", *models, *PLAIN, *texts, *results)
    assert process.stdout.count("\n| en") == process.stdout.count("\n| de") == 3
    rows = read_rows(tmp_path / "cka.json")
    assert {row["n"] for row in rows} == {96}
    for row in rows:
        assert -1 <= row["unbiased"] < row["biased"] <= 1
        assert len(row["floor_biased"]) == 5
    assert "unbiased CKA" in (tmp_path / "cka.svg").read_text(encoding="utf-8")
    assert "RuntimeWarning" not in process.stderr

    files = [world.root / f"test.{lang}" for lang in ("en", "de")]
    line = ["retrieval", "tatoeba", models[0], "--pair", "en-de", *files, *PLAIN]
    assert "| average" in run_cli("fairseq_plugins", *line).stdout


def test_singular_values(models, run_cli, tmp_path):
    results = ["--json", tmp_path / "values.json", "--plot", tmp_path / "values.png"]
    process = run_cli("fairseq_plugins", "singular-values", *models, *results)
    assert process.stdout.count("| d ") == 2
    rows = read_rows(tmp_path / "values.json")
    assert [row["distance"] > 0 for row in rows] == [True] * 2 * 6


def test_distance_and_frequencies(run_cli, tmp_path):
    nlu_builders.mbart_cc25(tmp_path / "cc25")
    source, target = tmp_path / "en", tmp_path / "de"
    source.write_text("p1 p2\np3\n", encoding="utf-8")
    target.write_text("p5\np6 p7\n", encoding="utf-8")
    texts = f"--source {source} --target {target} --source-lang en --target-lang de".split()
    line = ["language-distance", tmp_path / "cc25", *texts, *PLAIN]
    process = run_cli("fairseq_plugins", *line)
    assert "distance of en and de" in process.stdout
    assert "2 sentences" in process.stderr

    line = f"frequency-f1 --train {source} --reference {target} --output x={source}"
    assert "| x " in run_cli("fairseq_plugins", *line.split()).stdout
