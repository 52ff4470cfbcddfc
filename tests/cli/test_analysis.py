"""The commands of the analysis room, as a user types them."""

import json

import pytest

CLI = "fairseq_plugins.analysis."


@pytest.fixture
def models(world, tmp_path):
    """Two random masked LMs of the tiny world."""
    from tests.cli.conftest import write_random_masked_lm

    return world.masked_lm, write_random_masked_lm(tmp_path / "other", world.pieces + 5, 2, world.root / "dict.txt")


def test_cka_and_retrieval(world, models, run_cli, tmp_path):
    """Toy sentences, a word being a piece."""
    text = [f"{lang}={world.root / f'train.{lang}'}" for lang in ("en", "de")]
    line = ["--cpu", "--sentencepiece", "none", "--text", *text]
    done = run_cli(CLI + "cka", *models, *line, "--json", tmp_path / "x.json", "--plot", tmp_path / "x.svg")
    assert "CKA of masked_lm × other" in done.stdout
    assert done.stdout.count("\n| en") == done.stdout.count("\n| de") == 3
    rows = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))["rows"]
    assert {row["n"] for row in rows} == {96}
    assert all(-1 <= row["unbiased"] < row["biased"] <= 1 and len(row["floor_biased"]) == 5 for row in rows)
    assert "unbiased CKA" in (tmp_path / "x.svg").read_text(encoding="utf-8")
    assert "RuntimeWarning" not in done.stderr
    files = [world.root / f"test.{lang}" for lang in ("en", "de")]
    done = run_cli(CLI + "retrieval", "tatoeba", models[0], "--pair", "en-de", *files, *line[:3])
    assert "| average" in done.stdout


def test_singular_values(models, run_cli, tmp_path):
    done = run_cli(CLI + "singular_values", *models, "--json", tmp_path / "x.json", "--plot", tmp_path / "x.png")
    assert done.stdout.count("| d ") == 2
    rows = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))["rows"]
    assert len(rows) == 2 * 6
    assert all(row["distance"] > 0 for row in rows)
    refused = run_cli(CLI + "singular_values", models[0], tmp_path / "none", check=False)
    assert refused.returncode == 2
    assert "none" in refused.stderr
