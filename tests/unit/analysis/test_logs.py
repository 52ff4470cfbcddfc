"""Logs of fairseq-train and fairseq-validate: curves, resumed runs, tables by hand, mistakes."""

import json

import pytest

from fairseq_plugins.analysis import transfer_table
from fairseq_plugins.analysis.logs import Point, json_records, read_curves, read_log
from fairseq_plugins.analysis.training_curves import compare
from tests.unit.analysis.commands import refused, run, written

DAY = "2026-01-01 "
START = " | INFO | fairseq_cli.train | {'_name': None, 'common': {'_name': None, 'seed': 1}}"


def valid(time, updates, loss, subset="valid"):
    stats = {"epoch": 1, f"{subset}_loss": str(loss), f"{subset}_ppl": "2", f"{subset}_num_updates": str(updates)}
    return f"{DAY}{time} | INFO | {subset} | {json.dumps(stats)}"


def inner(time, updates, loss):
    stats = {"epoch": 1, "update": 0.5, "loss": str(loss), "num_updates": str(updates), "gb_free": "none"}
    return f"{DAY}{time} | INFO | train_inner | {json.dumps(stats)}"


SIMPLE = [
    DAY + "10:00:00 | INFO | fairseq.tasks.text_to_speech | Please install tensorboardX",
    DAY + "10:00:00" + START,
    "    num_updates=7, no result",
    DAY + "10:01:00 | INFO | train_inner | epoch 001:     50 / 2517 loss=12.751, ppl=6743.6, num_updates=50, lr=0.0002",
    DAY + "10:02:00 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 9.5 | num_updates 50 | best_loss 9.5",
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


def test_json_logs(tmp_path):
    lines = [inner("10:00:00", 50, 7.5), valid("10:00:30", 50, 6.5), valid("10:00:30", 50, 5.5, "valid_a.de")]
    rest = ('x | {"other": 1}', 'valid | {"valid_num_updates": "6')
    lines += [*(f"{DAY}10:00:31 | INFO | {text}" for text in rest), "{'"]
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
    bare = [line.partition(" - ")[2] for line in hydra[1:]]
    found = read_curves(written(tmp_path / "bare.log", *bare))
    assert found == {"valid.loss": [Point(9, None, 5.0)], "train_inner.loss": [Point(50, None, 3.0)]}


def test_a_resumed_run_is_one_curve(tmp_path):
    """The first attempt logged up to 400; the second resumed from 200 and is stopped at 300: 400 never was in its history."""
    lines = [DAY + "10:00:00" + START]
    lines += [valid(f"10:{updates // 10:02}:00", updates, 10 - updates / 100) for updates in (100, 200, 300, 400)]
    lines += [DAY + "10:50:00 | INFO | x | saving", DAY + "12:00:00 | INFO | x | y", DAY + "12:00:09" + START]
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
    kept = run("training-curves", tmp_path / "x", *line)
    out = capsys.readouterr().out
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in out.splitlines() if row.startswith("| ")]
    assert rows[0] == ["run", "points", "best", "at updates", "updates to 4", "ratio", "minutes to 4", "ratio"]
    assert rows[2] == ["plain", "2", "4", "200", "200", "1.00", "20.0", "1.00"]
    assert rows[3] == ["restored", "2", "3", "200", "100", "0.50", "5.0", "0.25"]
    assert kept["reach"] == 4.0 and kept["curves"]["restored"] == [[100, 5.0, 4.0], [200, 20.0, 3.0]]
    assert kept["rows"][1]["reached"] == {"updates": 100, "minutes": 5.0, "value": 4.0}
    assert (tmp_path / "x.tsv").read_text(encoding="utf-8").splitlines()[1] == "plain\t100\t10.0\t5.0"


def test_a_run_is_counted_from_its_first_stage(tmp_path, capsys):
    first = written(tmp_path / "1", DAY + "09:00:00" + START, valid("09:10:00", 50, 9), inner("09:30:00", 60, 8))
    second = written(tmp_path / "2", DAY + "10:00:00" + START, valid("10:10:00", 100, 5), valid("10:20:00", 200, 4))
    line = [f"plain={second}", f"restored={second}", "--earlier"]
    kept = run("training-curves", tmp_path / "x", *line, f"restored={first}")["curves"]
    assert kept == {"plain": [[100, 10.0, 5.0], [200, 20.0, 4.0]], "restored": [[160, 40.0, 5.0], [260, 50.0, 4.0]]}
    assert "| restored | 2 | 4 | 260 | 260 | 1.30 | 50.0 | 2.50 |" in " ".join(capsys.readouterr().out.split())


def test_mistakes_of_curves(tmp_path, capsys):
    log = written(tmp_path / "x.log", *SIMPLE)
    bare = written(tmp_path / "bare.log", "epoch 001 | valid on 'valid' subset | loss 2 | num_updates 51")
    message = refused(capsys, "training-curves", f"a={log}", "--metric", "valid.bleu")
    assert f"--metric valid.bleu: {log} has none; valid: train.loss, train.ppl, " in message
    message = refused(capsys, "training-curves", f"a={bare}", "--against", "wall")
    assert f"--against wall: the lines of {bare} have no times" in message


def write_log(path, subsets):
    lines = ["2026-01-01 00:00:00 | INFO | fairseq_cli.validate | loading model(s) from model.pt", "no { JSON"]
    for subset, numbers in subsets.items():
        lines.append(f'2026-01-01 00:00:01 | INFO | valid | {{"epoch": 1, "update": 0.5, "{list(numbers)[0]}": "1"}}')
        stats = {f"{subset}_{name}": str(value) for name, value in numbers.items()}
        lines.append(f"2026-01-01 00:00:02 | INFO | {subset} | {json.dumps({'epoch': 1, **stats})}")
    return written(path, *lines)


@pytest.fixture
def logs(tmp_path):
    first = {"test.en": {"loss": 1, "accuracy": 60}, "test.de": {"loss": 1, "accuracy": 40}}
    second = {"test.en": {"loss": 1, "accuracy": 70}, "test.de": {"loss": 1, "accuracy": 42}}
    other = {"test.en": {"accuracy": 90}, "test.fr": {"accuracy": 10}}
    tags = {"test.en": {"accuracy": 99, "f1": 50}}
    made = {"a1": first, "a2": second, "b": other, "tags": tags}
    return {name: write_log(tmp_path / f"{name}.log", subsets) for name, subsets in made.items()}


def test_every_subset_is_read_and_of_one_that_comes_again_the_last_numbers_count(logs, tmp_path):
    both = tmp_path / "both"
    both.write_text("".join(open(logs[name], encoding="utf-8").read() for name in ("a2", "a1")), encoding="utf-8")
    first = {"test.en": {"loss": 1.0, "accuracy": 60.0}, "test.de": {"loss": 1.0, "accuracy": 40.0}}
    assert read_log(str(both)) == read_log(logs["a1"]) == first
    assert read_log(write_log(tmp_path / "c", {"test.en": {"f1": -7.5}})) == {"test.en": {"f1": -7.5}}


def test_averages_are_over_the_languages_that_all_models_have(logs):
    files = ("A", "a1"), ("A", "a2"), ("B", "b")
    scores = transfer_table.read_scores([(model, "xnli", logs[name]) for model, name in files], {})
    assert scores.languages("xnli") == ["en", "de", "fr"] and scores.common("xnli") == ["en"]
    assert scores.average("A", "xnli") == [60.0, 70.0] and scores.average("B", "xnli") == [90.0]
    assert scores.average("B", "xnli", ["en"]) == []
    page = transfer_table.render(scores, [])
    assert "without de, fr" in page and "65.0 ± 7.1" in page


def test_the_page_of_one_model(logs, tmp_path, capsys):
    line = ["--log", f"A/xnli={logs['a1']}", f"A/xnli={logs['a2']}", f"A/ner={logs['tags']}", "--trained-on", "en"]
    content = run("transfer-table", tmp_path / "t", *line, "--tsv", tmp_path / "t.tsv", "--plot", tmp_path / "t.svg")
    page = capsys.readouterr().out
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in page.splitlines() if row.startswith("| A")]
    assert rows[0] == ["A", "53.0 ± 4.2", "50.0"], "xnli: (60 + 40) / 2 and (70 + 42) / 2; ner by f1"
    assert rows[1] == ["A", "41.0 ± 1.4", ""], "without the language of the training"
    assert rows[2] == ["A", "65.0 ± 7.1", "41.0 ± 1.4", "53.0 ± 4.2"]
    lines = (tmp_path / "t.tsv").read_text().splitlines()
    assert lines[1:3] == ["A\txnli\taccuracy\ten\t1\t60", "A\txnli\taccuracy\ten\t2\t70"]
    assert content[-1]["values"] == [50.0]
    text = (tmp_path / "t.svg").read_text()
    assert "xnli: accuracy" in text and "ner: f1" in text


def test_mistakes_of_tables(logs, tmp_path, capsys):
    twice = write_log(tmp_path / "twice.log", {"test.en": {"accuracy": 1}, "valid.en": {"accuracy": 2}})
    for arguments, message in (
        ([f"A={logs['a1']}"], "--log must look like MODEL/TASK=FILE"),
        ([f"A/x={logs['a1']}", "--metric", "x=f1"], "--metric x=f1: valid: accuracy, loss"),
        ([f"A/x={logs['a1']}", f"A/x={logs['b']}"], "valid: those of the other seeds of A/x, test.de, test.en"),
        ([f"A/x={twice}"], "two subsets of language en"),
    ):
        assert message in refused(capsys, "transfer-table", "--log", *arguments)
