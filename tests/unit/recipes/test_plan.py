"""Test that a budget is divided by measured speed, and is never exceeded."""

import json
import re

import pytest

from examples.recipes import plan as plans
from examples.recipes.plan import Speeds, main, make_plan

RATES = {"masked_lm": 4.0, "sga": 1.0, "at": 3.0}
VALIDATIONS = {"masked_lm": 2.0, "sga": 10.0, "at": 30.0}


@pytest.mark.parametrize(("frozen", "parallel"), [("masked_lm", 2), ("masked_lm", 1), (None, 1)])
def test_all_trainings_fit_into_the_remaining_time(frozen, parallel):
    rates = RATES if frozen else {name: RATES[name] for name in ("sga", "at")}
    plan = make_plan(2.0, Speeds(600.0, rates, VALIDATIONS, frozen, parallel, [*rates]))
    seconds = {name: row["seconds"] for name, row in plan.items()}
    total = seconds.pop(frozen, 0)
    total += max(seconds.values()) if parallel == 2 else sum(seconds.values())
    decoding = 2 * 4 * 30 * (1 if parallel == 2 else 2)
    assert 0.95 * 7200 < total + 600 + decoding < 0.98 * 7200
    for name, row in plan.items():
        validations = row["updates"] / row["interval"]
        training = row["updates"] / rates[name] + validations * VALIDATIONS[name]
        assert training < row["seconds"] and 11 < validations <= 12


def test_slow_validations_take_a_quarter_of_the_time():
    row = make_plan(3.0, Speeds(0.0, {"at": 1.0}, {"at": 300.0}, None, 1, ["at"]))["at"]
    assert row["updates"] / row["interval"] == pytest.approx(row["seconds"] // 1200, abs=0.02)


def test_a_budget_that_is_too_small_names_one_that_is_enough():
    speeds = Speeds(60.0, RATES, VALIDATIONS, "masked_lm", 1, [*RATES])
    message = r"HOURS 0\.1: masked_lm would have 0 updates .*; valid: about (0\.\d) hours"
    with pytest.raises(ValueError, match=message) as error:
        make_plan(0.1, speeds)
    hours = float(re.search(message, str(error.value))[1])
    assert min(row["updates"] for row in make_plan(hours, speeds).values()) >= 100


VALIDATION = (
    '{} | INFO | fairseq_cli.train | begin validation on "valid" subset\n{} | INFO | valid | {{}}\n'
)


def test_speed_and_time_are_read_from_logs(tmp_path):
    log = tmp_path / "sga.log"
    start = '2026-01-01 | INFO | train_inner | {{"epoch": 1, "ups": "{}"}}\n'
    log.write_text("a line\n" + "".join(start.format(rate) for rate in (0.1, 2.0, 2.2, 2.1)))
    assert plans.updates_per_second(log) == 2.1
    log.write_text(start.format(0.1))
    with pytest.raises(ValueError, match=r"sga\.log: tells no speed"):
        plans.updates_per_second(log)
    first = VALIDATION.format("2026-01-01 23:59:10", "2026-01-01 23:59:13")
    second = VALIDATION.format("2026-01-01 23:59:50", "2026-01-02 00:00:15")
    log.write_text(first + second)
    assert plans.validation_seconds(log) == 26.0
    log.write_text(VALIDATION.format("2026-01-01 23:59:10", "no time"))
    with pytest.raises(ValueError, match=r"sga\.log: tells no validation"):
        plans.validation_seconds(log)
    benchmarks = tmp_path / "benchmarks"
    benchmarks.mkdir()
    for name, seconds in (("text", "1.5"), ("speed-sga", "30")):
        (benchmarks / f"{name}.tsv").write_text(f"s\th:m:s\n{seconds}\t0:00:01\n")
    assert plans.spent_seconds(benchmarks) == 31.5


def test_the_command_writes_and_shows_the_plan(tmp_path, capsys):
    for name, rate in RATES.items():
        end = f"2026-01-01 10:00:{VALIDATIONS[name] - 1:02.0f}"
        updates = f'{{"epoch": 1, "ups": "{rate}"}}\n' * 3
        log = updates + VALIDATION.format("2026-01-01 10:00:00", end)
        (tmp_path / f"{name}.log").write_text(log)
    output = tmp_path / "plan.json"
    logs = ["--speed", str(tmp_path), "--benchmarks", str(tmp_path), "--output", str(output)]
    line = ["make", "--hours", "2", "--systems", *RATES, "--frozen", "masked_lm", *logs]
    assert main(line) == 0
    speeds = Speeds(0.0, RATES, VALIDATIONS, "masked_lm", 1, [*RATES])
    assert json.loads(output.read_text())["systems"] == make_plan(2.0, speeds)
    assert main(["show", str(output)]) == 0
    assert "| masked_lm | " in capsys.readouterr().out
