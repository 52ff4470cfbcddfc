"""The analysis commands, as a user types them."""

import json

import pytest

from tests import nlu_builders

from .conftest import write_random_masked_lm


@pytest.fixture
def models(world, tmp_path):
    return world.masked_lm, write_random_masked_lm(tmp_path / "other", world.pieces + 5, 2, world.root / "dict.txt")


def rows_of(folder):
    return json.loads((folder / "x.json").read_text(encoding="utf-8"))["rows"]


def test_cka_and_retrieval(world, models, run_cli, tmp_path):
    common = ["--cpu", "--sentencepiece", "none"]
    texts = ["--text", *(f"{lang}={world.root / f'train.{lang}'}" for lang in ("en", "de"))]
    written = ["--json", tmp_path / "x.json", "--plot", tmp_path / "x.svg"]
    done = run_cli("fairseq_plugins", "cka", *models, *common, *texts, *written)
    assert done.stdout.count("\n| en") == done.stdout.count("\n| de") == 3
    rows = rows_of(tmp_path)
    assert {row["n"] for row in rows} == {96}
    assert all(-1 <= row["unbiased"] < row["biased"] <= 1 and len(row["floor_biased"]) == 5 for row in rows)
    assert "unbiased CKA" in (tmp_path / "x.svg").read_text(encoding="utf-8")
    assert "RuntimeWarning" not in done.stderr
    files = [world.root / f"test.{lang}" for lang in ("en", "de")]
    done = run_cli("fairseq_plugins", "retrieval", "tatoeba", models[0], "--pair", "en-de", *files, *common)
    assert "| average" in done.stdout


def test_singular_values(models, run_cli, tmp_path):
    done = run_cli(
        "fairseq_plugins", "singular-values", *models, "--json", tmp_path / "x.json", "--plot", tmp_path / "x.png"
    )
    assert done.stdout.count("| d ") == 2
    assert [row["distance"] > 0 for row in rows_of(tmp_path)] == [True] * 2 * 6


def test_distance_and_frequencies(run_cli, tmp_path):
    nlu_builders.mbart_cc25(tmp_path / "cc25")
    (tmp_path / "en").write_text("p1 p2\np3\n", encoding="utf-8")
    (tmp_path / "de").write_text("p5\np6 p7\n", encoding="utf-8")
    line = f"--source {tmp_path / 'en'} --target {tmp_path / 'de'} --source-lang en --target-lang de --sentencepiece none --cpu"
    done = run_cli("fairseq_plugins", "language-distance", tmp_path / "cc25", *line.split())
    assert "distance of en and de" in done.stdout and "2 sentences" in done.stderr
    line = f"--train {tmp_path / 'en'} --reference {tmp_path / 'de'} --output x={tmp_path / 'en'}"
    assert "| x " in run_cli("fairseq_plugins", "frequency-f1", *line.split()).stdout
