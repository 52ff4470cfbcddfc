"""The runs of a sweep: what each is given, which count, and how claims about them are tested."""

import json
import sys

import pytest

from tests.conftest import ROOT
from tests.unit.examples import test_sweep
from tests.unit.examples.test_sweep import entry

sys.path[:0] = [str(ROOT / "examples" / "miniature")]

from data_prep.score import System, score_systems  # noqa: E402
from examples.recipes import ledger as ledgers  # noqa: E402

runner = test_sweep.runner


def test_the_code_with_the_most_finals_is_shown(tmp_path):
    """Not the one with the most entries; of equals the later one in the file."""

    def entry_of(code, number, phase, status="done"):
        return {"key": f"{phase}{number}", "code": code, "phase": phase, "status": status}

    path = tmp_path / "ledger.json"
    tuned = [entry_of("a", number, "tune") for number in range(5)]
    failed = [entry_of("b", number, "final", "failed") for number in range(5)]
    entries = [*tuned, *failed, entry_of("b", 9, "final"), *(entry_of("c", number, "final") for number in range(2))]
    path.write_text(json.dumps({"format": ledgers.FORMAT, "entries": entries}), encoding="utf-8")
    shown = ledgers.Ledger(path, "today").largest()
    assert shown.code == "c" and len(shown.current()) == 2 and len(shown.foreign()) == 11
    assert ledgers.Ledger(tmp_path / "none.json", "today").largest().code == "today"


@pytest.mark.parametrize("score", ["bleu", "chrf"])
def test_a_claim_is_tested_as_the_score_command_does(runner, tmp_path, score):
    """By the score of the plan, with the reference of the seed and the runs of the two arms."""
    made = runner(reference="{data}/own.{seed}.{target}", score=score, arms={"good": entry("e"), "bad": entry("x")})
    texts = {"good": ["a b c d e", "f g h", "i j k l m"], "bad": ["a b c d x", "f g", "i j k l m"]}
    for name, lines in texts.items():
        for seed in (1, 2):
            folder = made.keep / f"{name}{seed}"
            folder.mkdir(parents=True)
            (folder / "best.de").write_text("\n".join(lines * 4) + "\n", encoding="utf-8")
    references = {1: ["a b c d e", "f g h", "i j k l m"] * 4, 2: ["a b c d x", "f g", "i j k"] * 4}
    for seed, lines in references.items():
        (tmp_path / f"own.{seed}.de").write_text("\n".join(lines) + "\n", encoding="utf-8")
        found = made.scores.difference(made.plan.claims[0], (f"good{seed}", f"bad{seed}"), "en-de", seed)
        systems = [System(name, texts[name] * 4) for name in ("bad", "good")]
        rows = score_systems(systems, lines, metrics=("chrf", "bleu"))["systems"]
        assert found == (pytest.approx(rows[1][score] - rows[0][score]), rows[1]["p_values"][score])
        assert (found[0] > 0) == (seed == 1)
        assert seed == 1 or rows[1]["p_values"]["chrf"] != rows[1]["p_values"]["bleu"], "so that one is no other"
