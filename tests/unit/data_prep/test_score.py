"""Scores equal sacreBLEU's own command; hypotheses come out of generate logs in order, and damaged logs are refused."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from data_prep import hypotheses, score
from data_prep.io import InputError

REFERENCE = [
    "the cat sat on the mat today",
    "a dog runs in the old park",
    "two birds sing at dawn here",
    "it rains a lot",
] * 5
BETTER = ["the cat sat on the mat today", "a dog runs in the park", "two birds sing at dawn here", "it rains a lot"] * 5
WORSE = ["the cat on mat", "dog is running in a park now", "birds sang", "rain"] * 5


def write(path: Path, lines: "list[str]") -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_scores_equal_the_sacrebleu_command(tmp_path: Path) -> None:
    reference, better = write(tmp_path / "ref", REFERENCE), write(tmp_path / "better", BETTER)
    command = [sys.executable, "-m", "sacrebleu", str(reference), "-i", str(better), "-m", "bleu", "chrf", "-w", "4"]
    printed = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    result = score.score_systems(score.read_systems([f"better={better}"]), REFERENCE)
    row = result["systems"][0]
    assert [row["bleu"], row["chrf"]] == pytest.approx([each["score"] for each in printed], abs=1e-4)
    assert result["signatures"]["bleu"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert row["p_value"] is None


def test_bootstrap_tells_a_worse_system_from_an_equal_one() -> None:
    systems = [score.System("first", BETTER), score.System("same", BETTER), score.System("worse", WORSE)]
    rows = score.score_systems(systems, REFERENCE, samples=200)["systems"]
    assert rows[1]["p_value"] > 0.3
    assert rows[2]["p_value"] < 0.02 and rows[2]["bleu"] < rows[0]["bleu"] and rows[2]["length_ratio"] < 1
    assert "| worse |" in score.table(score.score_systems(systems, REFERENCE, samples=50))


@pytest.mark.parametrize("option", ["name", "=file", "name="])
def test_malformed_systems_are_refused(option: str) -> None:
    with pytest.raises(InputError, match="valid: NAME=FILE"):
        score.read_systems([option])


def test_different_line_counts_are_refused() -> None:
    with pytest.raises(InputError, match="20"):
        score.score_systems([score.System("short", BETTER[:-1])], REFERENCE)


def test_hypotheses_are_sorted_by_sentence(tmp_path: Path) -> None:
    log = write(
        tmp_path / "log", ["S-1\tx", "D-1\t-0.5\tsecond  one", "H-0\t-1\tzzz", "D-0\t-0.1\tfirst", "D-2\t-0.1\t"]
    )
    assert hypotheses.read_hypotheses(log) == ["first", "second  one", ""]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["H-0\t-1\tx"], "no line D-<number>"),
        (["D-0\t-1\tx", "D-2\t-1\ty"], "sentence 1 is missing"),
        (["D-0\t-1\tx", "D-0\t-1\ty"], "sentence 0 twice"),
    ],
)
def test_damaged_logs_are_refused(tmp_path: Path, lines: "list[str]", message: str) -> None:
    with pytest.raises(InputError, match=message):
        hypotheses.read_hypotheses(write(tmp_path / "log", lines))
