"""Curves from the logs of fairseq-train: JSON, simple, hydra and --log-file; resumed runs; the table by hand; mistakes."""

import json

import pytest

from fairseq_plugins.analysis import training_curves
from fairseq_plugins.analysis.logs import Point, json_records, read_curves
from fairseq_plugins.analysis.training_curves import compare
from tests.unit.analysis.commands import refused, run, written

DAY = "2026-01-01 "
START = " | INFO | fairseq_cli.train | {'_name': None, 'common': {'_name': None, 'seed': 1}}"


def valid(time, updates, loss, subset="valid"):
    """A validation as --log-format json prints it."""
    stats = {"epoch": 1, f"{subset}_loss": str(loss), f"{subset}_ppl": "2", f"{subset}_num_updates": str(updates)}
    return f"{DAY}{time} | INFO | {subset} | {json.dumps(stats)}"


def inner(time, updates, loss):
    """A line of training as --log-format json prints it."""
    stats = {"epoch": 1, "update": 0.5, "loss": str(loss), "num_updates": str(updates), "gb_free": "none"}
    return f"{DAY}{time} | INFO | train_inner | {json.dumps(stats)}"


SIMPLE = [
    DAY + "10:00:00 | INFO | fairseq.tasks.text_to_speech | Please install tensorboardX",
    DAY + "10:00:00" + START,
    "    num_updates=7, no result",
    DAY
    + "10:01:00 | INFO | train_inner | epoch 001:     50 / 2517 loss=12.751, ppl=6743.6, num_updates=50, lr=0.0002, wall=0",
    DAY
    + "10:02:00 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 9.5 | ppl 700 | num_updates 50 | best_loss 9.5",
    DAY + "10:02:00 | INFO | valid.de | epoch 001 | valid on 'valid.de' subset | loss 8.5 | num_updates 50",
    DAY + "10:03:00 | INFO | train | epoch 001 | loss 10.5 | ppl 1e3 | num_updates 60 | wall 180",
]


def values(points):
    return [(point.updates, point.value) for point in points]


def test_simple_logs(tmp_path):
    found = read_curves(written(tmp_path / "x.log", *SIMPLE))
    assert found["train_inner.loss"] == [Point(50, 1.0, 12.751)]
    assert found["valid.loss"] == [Point(50, 2.0, 9.5)] and found["valid.de.loss"] == [Point(50, 2.0, 8.5)]
    assert found["train.loss"] == [Point(60, 3.0, 10.5)] and found["train.ppl"][0].value == 1000.0
    assert set(found) == {
        "train_inner.loss", "train_inner.ppl", "train_inner.lr", "train_inner.wall", "valid.loss", "valid.ppl",
        "valid.best_loss", "valid.de.loss", "train.loss", "train.ppl", "train.wall",
    }  # fmt: skip


def test_json_logs(tmp_path):
    lines = [inner("10:00:00", 50, 7.5), valid("10:00:30", 50, 6.5), valid("10:00:30", 50, 5.5, "valid_a.de")]
    lines += [
        DAY + '10:00:31 | INFO | x | {"other": 1}',
        DAY + '10:00:31 | INFO | valid | {"valid_num_updates": "6',
        "{'",
    ]
    found = read_curves(written(tmp_path / "x.log", *lines))
    assert {name: values(points) for name, points in found.items()} == {
        "train_inner.loss": [(50, 7.5)],
        "valid.loss": [(50, 6.5)],
        "valid.ppl": [(50, 2.0)],
        "valid_a.de.loss": [(50, 5.5)],
        "valid_a.de.ppl": [(50, 2.0)],
    }
    assert [sorted(record)[:1] for record in json_records(tmp_path / "x.log")] == [["epoch"]] * 3 + [["other"]]


def test_logs_of_hydra_and_of_log_file(tmp_path):
    hydra = [
        "[2026-01-01 10:00:00,123][fairseq_cli.train][INFO] - {'_name': None, 'common': {'_name': None}}",
        '[2026-01-01 10:00:30,123][valid][INFO] - {"epoch": 1, "valid_loss": "5", "valid_num_updates": "9"}',
        "[2026-01-01 10:01:00,123][train_inner][INFO] - epoch 001:     50 / 90 loss=3, num_updates=50",
    ]
    found = read_curves(written(tmp_path / "hydra.log", *hydra))
    assert found == {"valid.loss": [Point(9, 0.5, 5.0)], "train_inner.loss": [Point(50, 1.0, 3.0)]}
    bare = [line.partition(" - ")[2] for line in hydra[1:]] + [
        "epoch 001 | valid on 'dev' subset | loss 2 | num_updates 51"
    ]
    assert read_curves(written(tmp_path / "bare.log", *bare)) == {
        "valid.loss": [Point(9, None, 5.0)],
        "train_inner.loss": [Point(50, None, 3.0)],
        "dev.loss": [Point(51, None, 2.0)],
    }


def test_a_resumed_run_is_one_curve(tmp_path):
    """The first attempt logged up to 400; the second resumed from 200 and is stopped at 300: 400 never was in its history."""
    lines = [DAY + "10:00:00" + START]
    lines += [valid(f"10:{updates // 10:02}:00", updates, 10 - updates / 100) for updates in (100, 200, 300, 400)]
    lines += [
        DAY + "10:50:00 | INFO | fairseq.trainer | saving",
        DAY + "12:00:00 | INFO | x | y",
        DAY + "12:00:09" + START,
    ]
    lines += [valid("12:10:09", 300, 5.5), inner("12:11:09", 310, 1.0)]
    found = read_curves(written(tmp_path / "x.log", *lines))
    assert values(found["valid.loss"]) == [(100, 9.0), (200, 8.0), (300, 5.5)]
    assert [point.minutes for point in found["valid.loss"]] == [10.0, 20.0, 50.0], "40 minutes, then 10: no pause"
    assert found["train_inner.loss"] == [Point(310, 51.0, 1.0)]


def points(*pairs, minutes=0.5):
    return [Point(updates, None if minutes is None else minutes * updates, value) for updates, value in pairs]


def test_the_table_by_hand():
    plain = points((10, 5.0), (20, 4.0), (30, 3.5), (40, 3.6))
    restored = points((10, 4.0), (20, 3.4), (30, 3.0), (40, 3.0), minutes=1.0)
    both = {"plain": plain, "restored": restored}
    rows, wanted = compare(both, "lower", None)
    assert wanted == 3.5, "the worst of 3.5 and 3.0"
    assert rows[0][1:] == (4, plain[2], plain[2], 1.0, 1.0)
    assert rows[1][1:] == (4, restored[2], restored[1], 20 / 30, 20 / 15)
    rows, _ = compare(both, "lower", 3.2)
    assert rows[0].reached is None and rows[1].reached == restored[2] and rows[1].updates_ratio is None
    rows, wanted = compare(both, "higher", None)
    assert wanted == 4.0 and [row.reached.updates for row in rows] == [10, 10]
    rows, _ = compare({"timed": plain, "not": points((10, 3.0), minutes=None)}, "lower", None)
    assert rows[1].updates_ratio == pytest.approx(1 / 3) and rows[1].minutes_ratio is None


def test_the_command(tmp_path, capsys):
    plain = written(tmp_path / "a", DAY + "10:00:00" + START, valid("10:10:00", 100, 5), valid("10:20:00", 200, 4))
    other = written(tmp_path / "b", DAY + "10:00:00" + START, valid("10:05:00", 100, 4), valid("10:20:00", 200, 3))
    files = ["--tsv", tmp_path / "x.tsv", "--plot", tmp_path / "x.svg"]
    line = [f"plain={plain}", f"restored={other}", *files, "--against", "wall"]
    kept = run(training_curves.main, tmp_path / "x", *line)
    out = capsys.readouterr().out
    assert "valid.loss (lower is better)" in out
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in out.splitlines() if row.startswith("| ")]
    assert rows[0] == ["run", "points", "best", "at updates", "updates to 4", "ratio", "minutes to 4", "ratio"]
    assert rows[2] == ["plain", "2", "4", "200", "200", "1.00", "20.0", "1.00"]
    assert rows[3] == ["restored", "2", "3", "200", "100", "0.50", "5.0", "0.25"]
    assert kept["reach"] == 4.0 and kept["curves"]["restored"] == [[100, 5.0, 4.0], [200, 20.0, 3.0]]
    assert kept["rows"][1]["reached"] == {"updates": 100, "minutes": 5.0, "value": 4.0}
    assert (tmp_path / "x.tsv").read_text(encoding="utf-8").splitlines()[1] == "plain\t100\t10.0\t5.0"
    run(training_curves.main, tmp_path / "x", *line, "--reach", "1")
    assert "never" in capsys.readouterr().out


def test_a_run_is_counted_from_its_first_stage(tmp_path, capsys):
    first = written(tmp_path / "1", DAY + "09:00:00" + START, valid("09:10:00", 50, 9), inner("09:30:00", 60, 8))
    second = written(tmp_path / "2", DAY + "10:00:00" + START, valid("10:10:00", 100, 5), valid("10:20:00", 200, 4))
    line = [f"plain={second}", f"restored={second}", "--earlier"]
    kept = run(training_curves.main, tmp_path / "x", *line, f"restored={first}")["curves"]
    assert kept == {"plain": [[100, 10.0, 5.0], [200, 20.0, 4.0]], "restored": [[160, 40.0, 5.0], [260, 50.0, 4.0]]}
    assert "| restored | 2 | 4 | 260 | 260 | 1.30 | 50.0 | 2.50 |" in " ".join(capsys.readouterr().out.split())
    bare = written(tmp_path / "bare", "epoch 001 | valid on 'valid' subset | loss 2 | num_updates 51")
    for more, message in (
        ([f"restored={bare}", "--against", "wall"], f"{second} or {bare} have no times"),
        ([f"other={first}"], f"--earlier other={first}: no run of that name; valid: plain, restored"),
    ):
        assert message in refused(capsys, training_curves.main, *line, *more)


def test_mistakes(tmp_path, capsys):
    log = written(tmp_path / "x.log", *SIMPLE)
    empty = written(tmp_path / "empty.log", "nothing", DAY + "10:00:00 | INFO | x | num_updates")
    bare = written(tmp_path / "bare.log", "epoch 001 | valid on 'valid' subset | loss 2 | num_updates 51")
    for line, message in (
        (
            [f"a={log}", "--metric", "valid.bleu"],
            f"--metric valid.bleu: {log} has none; valid: train.loss, train.ppl, ",
        ),
        (["x.log"], "NAME=LOG x.log: no NAME=LOG; valid: as plain=run1/train.log"),
        ([f"a={tmp_path}"], f"{tmp_path}: no such file"),
        ([f"a={empty}"], "no numbers of a training; valid: what fairseq-train prints"),
        ([f"a={bare}", "--against", "wall"], f"--against wall: the lines of {bare} have no times"),
    ):
        assert message in refused(capsys, training_curves.main, *line)
