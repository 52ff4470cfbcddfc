"""The sweep runner: equal grids, resuming, failures that are listed, other code never mixed in, verdicts, same bytes."""

import subprocess
import sys

import pytest
import yaml

from tests.conftest import ROOT

sys.path[:0] = [str(ROOT / "examples" / "miniature")]

import sweep  # noqa: E402
from plan import read_plan  # noqa: E402

from examples.recipes import ledger as ledgers  # noqa: E402
from examples.recipes import record, tables  # noqa: E402

# Training leaves one line a call; the score of a run is that of its --lr, so that 0.2 wins in tuning.
TRAIN = 'mkdir -p {out}/{run}; set -- {options}; echo "$2" >> {out}/{run}/calls'
EVALUATE = 'mkdir -p {keep}; for n in 1 2 3 4; do echo "a b c d {word}"; done > {keep}/best.de'


def entry(word="e", **changes):
    """An arm of the YAML."""
    commands = {"train": TRAIN, "evaluate": EVALUATE.replace("{word}", word)}
    return {**commands, "outputs": {"best": "greedy"}, "grid": [["--lr", 0.1], ["--lr", 0.2]], **changes}


STAMP = "prepared-probe.json"  # says what code made the assets of an output folder


def write_plan(folder, **changes):
    """A sweep of two arms; ``good`` gives the reference itself."""
    content = {
        "name": "probe",
        "title": "Probe",
        "prepare": ["mkdir -p {out}; echo asset > {out}/dict.txt"],
        "assets": ["{out}/dict.txt"],
        "code": ["examples/miniature/*.py"],
        "reference": "{data}/test.{target}",
        "directions": ["en-de"],
        "seeds": [1, 2, 3],
        "minutes": {"tune": 1, "final": 2},
        "arms": {"good": entry("e"), "bad": entry("x")},
        "claims": [{"better": ["good", "best"], "worse": ["bad", "best"]}],
        **changes,
    }
    path = folder / "probe.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return path


@pytest.fixture
def runner(tmp_path, monkeypatch):
    """Makes runners over one folder; the facts of a run come from what its command wrote."""
    monkeypatch.setattr(sweep, "HERE", tmp_path)
    monkeypatch.setattr(ledgers, "commit", lambda root: "abc1234")

    def describe(folder):
        calls = (folder / "calls").read_text().split()
        validation = [{"num_updates": 1, "bleu": 10 * float(calls[0])}]
        return {"options": {"lr": calls[0]}, "updates": len(calls), "machine": "none", "validation": validation}

    monkeypatch.setattr(record, "describe", describe)
    (tmp_path / "test.de").write_text("a b c d e\n" * 4, encoding="utf-8")

    def make(**changes):
        return sweep.Runner(read_plan(write_plan(tmp_path, **changes)), tmp_path, tmp_path / "out", [], jobs=2)

    return make


def statuses(runner, phase):
    return [one["status"] for one in runner.ledger.current() if one.get("phase") == phase]


def test_a_whole_sweep(runner):
    made = runner()
    made.run("")
    assert statuses(made, "tune") == ["done"] * 4
    assert statuses(made, "final") == ["done"] * 6
    finals = [one for one in made.ledger.current() if one.get("phase") == "final"]
    assert {tuple(one["options"]) for one in finals} == {("--lr", "0.2")}, "the better point of the grid is chosen"
    by_arm = {one["arm"]: one["outputs"]["best"]["bleu"] for one in finals}
    assert by_arm["good"] == pytest.approx(100.0) and by_arm["bad"] < 100
    page = tables.render(made.plan, made.ledger, made.ledger.code)
    assert "| good (best) better than bad (best) | en-de |" in page
    assert "100.0 ± 0.0 (n = 3)" in page
    assert "| final/en-de/good-1/seed1 | --lr 0.2 | done |" in page


def test_what_is_done_is_not_done_again(runner, tmp_path):
    runner().run("good")
    calls = {path: path.read_text() for path in tmp_path.glob("out/*/*/*/good*/*/calls")}
    assert len(calls) == 2, "tuning is not complete: no final run"
    runner().run("")
    assert {path: path.read_text() for path in calls} == calls
    assert len(list(tmp_path.glob("out/*/final/*/*/*/calls"))) == 6


def test_a_failed_run_is_listed_and_tried_again(runner, tmp_path):
    failing = entry(train='[ -e {out}/mended ] || { echo "no space left" >&2; exit 3; }; ' + TRAIN)
    failing["train"] = failing["train"].replace("|| { echo", "|| {{ echo").replace("exit 3; }", "exit 3; }}")
    arms = {"good": entry(), "bad": failing}
    made = runner(arms=arms)
    made.run("")
    assert sorted(statuses(made, "tune")) == ["done", "done", "failed", "failed"]
    assert "no space left" in (tmp_path / "out" / made.ledger.code / "tune/en-de/bad-0/seed1/console.log").read_text()
    assert "| failed |" in tables.render(made.plan, made.ledger, made.ledger.code)
    (tmp_path / "out" / "mended").touch()
    made = runner(arms=arms)
    made.run("")
    assert statuses(made, "tune") == ["done"] * 4


def test_other_code_is_warned_about_and_never_mixed(runner, tmp_path, capsys):
    first = runner()
    first.run("")
    second = runner(code=["examples/miniature/plan.py"])
    assert "final/en-de/good-1/seed1 was run with other code (abc1234)" in capsys.readouterr().err
    assert second.ledger.current() == [] and len(second.ledger.foreign()) == len(first.ledger.entries)
    page = tables.render(second.plan, second.ledger, second.ledger.code)
    assert "Runs with other code, not counted" in page and "100.0" not in page
    (tmp_path / "out" / STAMP).unlink()
    second.run("")
    assert statuses(second, "final") == ["done"] * 6
    updates = [one["updates"] for one in second.ledger.current() if one.get("phase")]
    assert set(updates) == {1}, "a run with other code starts anew, it does not continue the other's checkpoints"


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"seeds": [1, 2, 3, 4], "title": "Another title", "claims": []}, True),
        ({"minutes": {"tune": 1, "final": 3}}, False),
        ({"reference": "{data}/other.{target}"}, False),
        ({"metrics": {"en-de": "accuracy"}}, False),
        ({"score": "chrf"}, False),
        ({"arms": {"good": entry("e"), "bad": entry("y")}}, False),
        ({"arms": {"good": entry("e"), "bad": entry("x", grid=[["--lr", 0.1], ["--lr", 0.3]])}}, False),
    ],
)
def test_what_counts_as_other_code(runner, changes, same):
    assert (runner(**changes).ledger.code == runner().ledger.code) is same


def test_the_page_outlives_a_change_of_the_code(runner, tmp_path, capsys):
    first = runner()
    first.run("")
    page = tmp_path / "RESULTS-probe.md"
    before = sweep.show(tmp_path / "probe.yaml")
    assert before == sweep.show(tmp_path / "probe.yaml") and set(before) == {page, tmp_path / "plots" / "probe.svg"}
    runner(code=["examples/miniature/plan.py"])
    after = sweep.show(tmp_path / "probe.yaml")
    assert {path for path in after if after[path] != before[path]} == {page}, "the plot says nothing of the code"
    lines = zip(before[page].splitlines(), after[page].splitlines())
    ((said, then),) = (pair for pair in lines if pair[0] != pair[1])
    assert said.endswith("; unchanged since") and "; **changed since**" in then and "100.0" in after[page]
    runner(code=["examples/miniature/sweep.py"])
    assert sweep.show(tmp_path / "probe.yaml") == after, "what has changed once need not be written again"
    assert f"made with other code ({first.ledger.code}) than today's" in capsys.readouterr().err
    (tmp_path / "out" / STAMP).unlink()
    runner(code=["examples/miniature/plan.py"]).run("")
    again = sweep.show(tmp_path / "probe.yaml")[page]
    assert "Runs with other code, not counted" in again and first.ledger.code not in again


def test_assets_that_changed_or_are_of_other_code_are_refused(runner, tmp_path):
    runner().prepare()
    with pytest.raises(ValueError, match=r"--out .*out: was prepared with other code .* without prepared-probe"):
        runner(minutes={"tune": 1, "final": 3}).prepare()
    (tmp_path / "out" / "dict.txt").write_text("another", encoding="utf-8")
    with pytest.raises(ValueError, match=r"--out .*dict.txt differ from the ledger's"):
        runner().prepare()
    (tmp_path / "out" / STAMP).unlink()
    with pytest.raises(subprocess.CalledProcessError):
        runner(assets=["{out}/more"], prepare=["false"]).prepare()
    with pytest.raises(ValueError, match="was prepared with other code"):
        runner().prepare()


def test_scores_of_subsets_instead_of_bleu(runner):
    """Directions are tasks; what counts is a metric in the logs of fairseq-validate, its mean over the languages."""

    def arm(*scores):
        line = '0 | INFO | test.{language} | {{{{"test.{language}_accuracy": "{score}"}}}}'
        lines = [line.format(language=language, score=score) for language, score in zip(("en", "de"), scores)]
        commands = ["mkdir -p {keep}", "echo {seed}", *(f"echo '{text}' >> {{keep}}/best.log" for text in lines)]
        return entry(evaluate="; ".join(commands), grid=[["--lr", 0.1]])

    arms = {"high": arm(60, 40), "low": arm(50, 20)}
    claims = [{"better": ["high", "best"], "worse": ["low", "best"]}]
    made = runner(directions=["xnli"], metrics={"xnli": "accuracy"}, arms=arms, claims=claims)
    made.run("")
    assert statuses(made, "final") == ["done"] * 6
    page = tables.render(made.plan, made.ledger, made.ledger.code)
    assert "| high | greedy | 50.0 | 50.0 | 50.0 | 50.0 ± 0.0 (n = 3) |" in page
    assert "| low | greedy | 50.0 ± 0.0 (n = 3) | 20.0 ± 0.0 (n = 3) |" in page, "by language: test.en, test.de"
    assert "| xnli | +15.0, +15.0, +15.0 (< 0.001) | < 0.001 | shown |" in page and "BLEU" not in page
