"""The call for a GPU: what is finished is not run again, logs are read by batch, the search finds the largest batch."""

import json
import sys
import time

import pytest

from benchmarks import gpu, precision
from benchmarks.largest_batch import search

LOG = """2026-01-01 | INFO | train_inner | {"epoch": 1, "loss": "8.000", "ups": "2", "num_updates": "1"}
2026-01-01 | INFO | fairseq.trainer | NOTE: gradient overflow detected, ignoring gradient, setting loss scale to: 64.0
2026-01-01 | INFO | train_inner | {"epoch": 1, "loss": "6.060", "ups": "4", "num_updates": "2"}
2026-01-01 | INFO | train | {"epoch": 1, "train_loss": "7", "train_num_updates": "2"}
2026-01-01 | INFO | train_inner | {"epoch": 2, "loss": "5.000", "ups": "3", "num_updates": "3"}
"""


def test_a_batch_that_overflows_is_counted_and_the_later_ones_are_compared_with_their_own():
    run = precision.read_log(LOG, 3)
    assert run == {"losses": {"1": 8.0, "3": 6.06, "4": 5.0}, "skipped": 1, "ups": 3.0}
    single = {"losses": {"1": 8.0, "2": 7.0, "3": 6.0}, "skipped": 0, "ups": 1.0}
    row = precision.compare("sga", "fp16", run, single, warmup=1)
    assert row["losses"] == {"1": 8.0, "3": 5.0}, "by updates"
    assert row["largest"] == row["mean"] == row["last"] == pytest.approx(0.01)
    assert not precision.compare("sga", "fp16", run, {**single, "losses": {"3": 5.5}}, warmup=1)["agrees"]
    with pytest.raises(ValueError, match="3 updates"):
        precision.read_log(LOG, 4)


@pytest.mark.parametrize("limit", [0, 1, 2, 31, 32, 33, 99, 100])
def test_the_search_finds_the_limit(limit):
    found, tried = search(lambda number: number <= limit, at_most=100)
    assert found == limit
    assert len(tried) == len(set(tried)) <= 14
    assert limit in (0, *tried) and (limit == 100 or limit + 1 in tried)


def test_a_rough_search_is_within_its_share():
    found, tried = search(lambda number: number <= 5000, at_most=10**6, within=0.02)
    assert 4900 <= found <= 5000 and len(tried) <= 20


def step(text, name="one"):
    """A step whose command ends with ``text``."""
    return gpu.Step("batch", name, ["printed", text], gpu._last_json)


@pytest.fixture
def started(monkeypatch):
    """The texts of the steps that were started; a step prints its text, and fails without one."""
    texts, stock = [], gpu.subprocess.run

    def run(command, **options):
        texts.append(command[-1])
        code = "import sys, time; text = sys.argv[1]; text or sys.exit('none'); print(text); time.sleep(60 * (len(text) > 50))"
        return stock([sys.executable, "-c", code, command[-1]], **options)

    monkeypatch.setattr(gpu.subprocess, "run", run)
    return texts


def test_what_is_finished_is_not_run_again(started, tmp_path, capsys):
    good, bad, changed = '{"sentences": 4}', "", '{"sentences": 5}'
    steps = [step(good, "good"), step(bad, "bad"), step("no result", "empty")]
    assert gpu.run_all(steps, tmp_path) == {"good": {"sentences": 4}}
    assert "bad: failed: none" in capsys.readouterr().err
    assert gpu.run_all(steps, tmp_path) == {"good": {"sentences": 4}}
    assert started == [good, bad, "no result", bad, "no result"]
    assert gpu.run_all([step(changed, "good")], tmp_path) == {"good": {"sentences": 5}}
    (tmp_path / "steps" / "good.json").write_text('{"command": ["ben', encoding="utf-8")
    assert gpu.run_all([step(changed, "good")], tmp_path) == {"good": {"sentences": 5}}
    assert started[5:] == [changed, changed]


def test_time_that_is_over_starts_nothing_and_stops_what_runs(started, tmp_path, monkeypatch):
    assert gpu.run_all([step('{"sentences": 4}')], tmp_path, time.monotonic() + 30) == {}
    assert started == []
    monkeypatch.setitem(gpu.MINUTES, "batch", 0.0)
    assert gpu.run_all([step(json.dumps({"sentences": "4" * 50}))], tmp_path, time.monotonic() + 3) == {}
    assert len(started) == 1
    assert not (tmp_path / "steps" / "one.json").exists()
