"""A budget is divided by measured speed, and is never exceeded."""

import json
import re

import pytest

from examples.recipes.plan import Speeds, main, make_plan, spent_seconds, updates_per_second, validation_seconds

RATES = {"masked_lm": 4.0, "sga": 1.0, "at": 3.0}
VALIDATIONS = {"masked_lm": 2.0, "sga": 10.0, "at": 30.0}


@pytest.mark.parametrize(("frozen", "parallel"), [("masked_lm", 2), ("masked_lm", 1), (None, 1)])
def test_all_trainings_fit_into_what_is_left(frozen, parallel):
    rates = RATES if frozen else {name: RATES[name] for name in ("sga", "at")}
    plan = make_plan(2.0, Speeds(600.0, rates, VALIDATIONS, frozen, parallel, [*rates]))
    others = [plan[name]["seconds"] for name in rates if name != frozen]
    wall = (plan[frozen]["seconds"] if frozen else 0) + (max(others) if parallel == 2 else sum(others))
    decoding = 2 * 4 * 30 * (1 if parallel == 2 else 2)
    assert 0.95 * 7200 < wall + 600 + decoding < 0.98 * 7200
    for name, one in plan.items():
        number = one["updates"] / one["interval"]
        assert one["updates"] / rates[name] + number * VALIDATIONS[name] < one["seconds"] and 11 < number <= 12


def test_slow_validations_are_fewer():
    """At 300 seconds each, four take a quarter of the time."""
    plan = make_plan(3.0, Speeds(0.0, {"at": 1.0}, {"at": 300.0}, None, 1, ["at"]))["at"]
    assert plan["updates"] / plan["interval"] == pytest.approx(plan["seconds"] // 1200, abs=0.02)


def test_a_budget_that_is_too_small_names_one_that_is_enough():
    words = r"HOURS 0\.1: masked_lm would have 0 updates at 4\.00 per second; valid: about (0\.\d) hours"
    speeds = Speeds(60.0, RATES, VALIDATIONS, "masked_lm", 1, [*RATES])
    with pytest.raises(ValueError, match=words) as error:
        make_plan(0.1, speeds)
    needed = float(re.search(words, str(error.value))[1])
    assert min(one["updates"] for one in make_plan(needed, speeds).values()) >= 100


def test_speed_and_time_are_read_from_what_the_commands_leave(tmp_path):
    log, benchmarks = tmp_path / "sga.log", tmp_path / "benchmarks"
    lines = [f'2026-01-01 | INFO | train_inner | {{"epoch": 1, "ups": "{rate}"}}' for rate in (0.1, 2.0, 2.2, 2.1)]
    log.write_text("\n".join(["a line", *lines]))
    assert updates_per_second(log) == 2.1
    log.write_text(lines[0])
    with pytest.raises(ValueError, match=r"sga\.log: tells no speed"):
        updates_per_second(log)
    clock = '2026-01-01 23:59:{} | INFO | fairseq_cli.train | begin validation on "valid" subset\n{} | INFO | valid | {{}}\n'
    log.write_text(clock.format("10", "2026-01-01 23:59:13") + clock.format("50", "2026-01-02 00:00:15"))
    assert validation_seconds(log) == 26.0
    log.write_text(clock.format("10", "no time"))
    with pytest.raises(ValueError, match=r"sga\.log: tells no validation"):
        validation_seconds(log)
    benchmarks.mkdir()
    for name, seconds in (("text", "1.5"), ("speed-sga", "30")):
        (benchmarks / f"{name}.tsv").write_text(f"s\th:m:s\n{seconds}\t0:00:01\n")
    assert spent_seconds(benchmarks) == 31.5


def test_the_command_writes_and_shows_the_plan(tmp_path, capsys):
    for name, rate in RATES.items():
        start, end = "2026-01-01 10:00:00", f"2026-01-01 10:00:{VALIDATIONS[name] - 1:02.0f}"
        valid = [f"{start} | INFO | fairseq_cli.train | begin validation on", f"{end} | INFO | valid | {{}}"]
        (tmp_path / f"{name}.log").write_text("\n".join([f'{{"epoch": 1, "ups": "{rate}"}}'] * 3 + valid))
    output = tmp_path / "plan.json"
    line = ["make", "--hours", "2", "--systems", *RATES, "--frozen", "masked_lm", "--speed", str(tmp_path)]
    assert main([*line, "--benchmarks", str(tmp_path), "--output", str(output)]) == 0
    plan = json.loads(output.read_text())
    assert plan["systems"] == make_plan(2.0, Speeds(0.0, RATES, VALIDATIONS, "masked_lm", 1, [*RATES]))
    assert main(["show", str(output)]) == 0
    assert "| masked_lm | " in capsys.readouterr().out
