"""Test logs of fairseq-train and fairseq-validate: curves, resumed runs, tables, bad input."""

import json

import pytest

from fairseq_plugins.analysis import transfer_table
from fairseq_plugins.analysis.logs import Point, json_records, read_curves, read_log
from fairseq_plugins.analysis.training_curves import compare
from tests.unit.analysis.commands import read_cells, read_refusal, run, write_lines


def write_line(time, logger, text):
    return f"2026-01-01 {time} | INFO | {logger} | {text}"


def write_start(time):
    """Write the line with which fairseq-train begins."""
    return write_line(time, "fairseq_cli.train", "{'_name': None, 'common': {'seed': 1}}")


def write_valid(time, updates, loss, subset="valid"):
    numbers = {"loss": str(loss), "ppl": "2", "num_updates": str(updates)}
    stats = {f"{subset}_{name}": number for name, number in numbers.items()}
    return write_line(time, subset, json.dumps({"epoch": 1, **stats}))


def write_inner(time, updates, loss):
    stats = {"loss": str(loss), "num_updates": str(updates), "gb_free": "none"}
    return write_line(time, "train_inner", json.dumps({"epoch": 1, "update": 0.5, **stats}))


VALID = "epoch 001 | valid on '{}' subset | loss {} | num_updates 50 | best_loss 1"
INNER = "epoch 001:     50 / 2517 loss=12.5, ppl=6743.6, num_updates=50"
SIMPLE = [
    write_line("10:00:00", "fairseq.tasks.text_to_speech", "Please install tensorboardX"),
    write_start("10:00:00"),
    "    num_updates=7, no result",
    write_line("10:01:00", "train_inner", INNER),
    write_line("10:02:00", "valid", VALID.format("valid", 9.5)),
    write_line("10:02:00", "valid.de", VALID.format("valid.de", 8.5)),
    write_line("10:03:00", "train", "epoch 001 | loss 10.5 | ppl 1e3 | num_updates 60 | wall 180"),
]


def values(points):
    return [(point.updates, point.value) for point in points]


def test_simple_logs(tmp_path):
    curves = read_curves(write_lines(tmp_path / "x.log", *SIMPLE))
    assert curves["train_inner.loss"] == [Point(50, 1.0, 12.5)]
    assert curves["valid.loss"] == [Point(50, 2.0, 9.5)]
    assert curves["valid.de.loss"] == [Point(50, 2.0, 8.5)]
    assert curves["train.loss"] == [Point(60, 3.0, 10.5)]
    assert curves["train.ppl"][0].value == 1000.0


def test_json_logs(tmp_path):
    lines = [
        write_inner("10:00:00", 50, 7.5),
        write_valid("10:00:30", 50, 6.5),
        write_valid("10:00:30", 50, 5.5, "valid_a.de"),
        write_line("10:00:31", "x", '{"other": 1}'),
        write_line("10:00:31", "valid", '{"valid_num_updates": "6'),
        "{'",
    ]
    path = write_lines(tmp_path / "x.log", *lines)
    assert {name: values(points) for name, points in read_curves(path).items()} == {
        "train_inner.loss": [(50, 7.5)],
        "valid.loss": [(50, 6.5)],
        "valid.ppl": [(50, 2.0)],
        "valid_a.de.loss": [(50, 5.5)],
        "valid_a.de.ppl": [(50, 2.0)],
    }
    first_keys = [next(iter(record)) for record in json_records(path)]
    assert first_keys == ["epoch"] * 3 + ["other"]


def test_logs_of_hydra_and_of_log_file(tmp_path):
    numbers = '{"epoch": 1, "valid_loss": "5", "valid_num_updates": "9"}'
    lines = [
        "[2026-01-01 10:00:00,123][fairseq_cli.train][INFO] - {'_name': None, 'common': {}}",
        f"[2026-01-01 10:00:30,123][valid][INFO] - {numbers}",
        f"[2026-01-01 10:01:00,123][train_inner][INFO] - {INNER}",
    ]
    curves = read_curves(write_lines(tmp_path / "hydra.log", *lines))
    assert curves["valid.loss"] == [Point(9, 0.5, 5.0)]
    assert curves["train_inner.loss"] == [Point(50, 1.0, 12.5)]
    bare = [line.partition(" - ")[2] for line in lines[1:]]
    curves = read_curves(write_lines(tmp_path / "bare.log", *bare))
    assert curves["valid.loss"] == [Point(9, None, 5.0)]
    assert curves["train_inner.loss"] == [Point(50, None, 12.5)]


def test_a_resumed_run_is_one_curve(tmp_path):
    """The second attempt resumes from update 200; update 400 of the first is not its history."""
    log = write_lines(
        tmp_path / "x.log",
        write_start("10:00:00"),
        write_valid("10:10:00", 100, 9.0),
        write_valid("10:20:00", 200, 8.0),
        write_valid("10:30:00", 300, 7.0),
        write_valid("10:40:00", 400, 6.0),
        write_line("10:50:00", "x", "saving"),
        write_line("12:00:00", "x", "y"),
        write_start("12:00:09"),
        write_valid("12:10:09", 300, 5.5),
        write_inner("12:11:09", 310, 1.0),
    )
    curves = read_curves(log)
    assert curves["valid.loss"] == [
        Point(100, 10.0, 9.0),
        Point(200, 20.0, 8.0),
        Point(300, 50.0, 5.5),  # 40 minutes of the first attempt, 10 of the second, no pause
    ]
    assert curves["train_inner.loss"] == [Point(310, 51.0, 1.0)]


def make_points(*pairs, pace=0.5):
    return [Point(updates, pace and pace * updates, value) for updates, value in pairs]


def test_a_comparison_of_curves_by_hand():
    plain = make_points((10, 5.0), (20, 4.0), (30, 3.5), (40, 3.6))
    restored = make_points((10, 4.0), (20, 3.4), (30, 3.0), (40, 3.0), pace=1.0)
    runs = {"plain": plain, "restored": restored}
    rows, threshold = compare(runs, "lower", None)
    assert threshold == 3.5, "the worse of the best values 3.5 and 3.0"
    assert rows[0][1:] == (4, plain[2], plain[2], 1.0, 1.0)
    assert rows[1][1:] == (4, restored[2], restored[1], 20 / 30, 20 / 15)
    rows, _ = compare(runs, "lower", 3.2)
    assert rows[0].reached is None
    assert rows[1].reached == restored[2] and rows[1].updates_ratio is None
    rows, threshold = compare(runs, "higher", None)
    assert threshold == 4.0 and [row.reached.updates for row in rows] == [10, 10]
    untimed = make_points((10, 3.0), pace=None)
    rows, _ = compare({"timed": plain, "untimed": untimed}, "lower", None)
    assert rows[1].updates_ratio == pytest.approx(1 / 3) and rows[1].minutes_ratio is None


def write_run(path, *results):
    lines = [write_valid(time, updates, loss) for time, updates, loss in results]
    return write_lines(path, write_start("10:00:00"), *lines)


def test_the_command_compares_runs_from_their_first_stage(tmp_path, capsys):
    """The run "staged" has an earlier stage of 60 updates in 20 minutes."""
    stage = write_run(tmp_path / "stage", ("10:10:00", 50, 9), ("10:20:00", 60, 8))
    plain = write_run(tmp_path / "plain", ("10:10:00", 100, 5), ("10:20:00", 200, 4))
    staged = write_run(tmp_path / "staged", ("10:05:00", 100, 4), ("10:20:00", 200, 3))
    runs = [f"plain={plain}", f"staged={staged}", "--earlier", f"staged={stage}"]
    files = ["--tsv", tmp_path / "x.tsv", "--plot", tmp_path / "x.svg"]
    content = run("training-curves", tmp_path / "x", *runs, *files, "--against", "wall")
    out = capsys.readouterr().out
    assert read_cells(out, "plain") == [["plain", "2", "4", "200", "200", "1.00", "20.0", "1.00"]]
    assert read_cells(out, "staged") == [["staged", "2", "3", "260", "160", "0.80", "25.0", "1.25"]]
    assert content["reach"] == 4.0
    assert content["curves"] == {
        "plain": [[100, 10.0, 5.0], [200, 20.0, 4.0]],
        "staged": [[160, 25.0, 4.0], [260, 40.0, 3.0]],
    }
    assert content["rows"][1]["reached"] == {"updates": 160, "minutes": 25.0, "value": 4.0}
    table = (tmp_path / "x.tsv").read_text(encoding="utf-8").splitlines()
    assert table[1] == "plain\t100\t10.0\t5.0"


def test_bad_options_of_curves_are_refused(tmp_path, capsys):
    log = write_lines(tmp_path / "x.log", *SIMPLE)
    bare = write_lines(tmp_path / "bare.log", VALID.format("valid", 2))
    message = read_refusal(capsys, "training-curves", f"a={log}", "--metric", "valid.bleu")
    assert f"--metric valid.bleu: {log}" in message and "train.loss, train.ppl, " in message
    message = read_refusal(capsys, "training-curves", f"a={bare}", "--against", "wall")
    assert f"--against wall: the lines of {bare}" in message


def write_log(path, subsets):
    lines = [write_line("00:00:00", "fairseq_cli.validate", "loading model(s)"), "no { JSON"]
    for subset, numbers in subsets.items():
        progress = {"epoch": 1, "update": 0.5, next(iter(numbers)): "1"}
        lines.append(write_line("00:00:01", "valid", json.dumps(progress)))
        stats = {f"{subset}_{name}": str(value) for name, value in numbers.items()}
        lines.append(write_line("00:00:02", subset, json.dumps({"epoch": 1, **stats})))
    return write_lines(path, *lines)


LOGS = {
    "a1": {"test.en": {"loss": 1, "accuracy": 60}, "test.de": {"loss": 1, "accuracy": 40}},
    "a2": {"test.en": {"loss": 1, "accuracy": 70}, "test.de": {"loss": 1, "accuracy": 42}},
    "b": {"test.en": {"accuracy": 90}, "test.fr": {"accuracy": 10}},
    "tags": {"test.en": {"accuracy": 99, "f1": 50}},
    "twice": {"test.en": {"accuracy": 1}, "valid.en": {"accuracy": 2}},
    "negative": {"test.en": {"f1": -7.5}},
}


@pytest.fixture
def logs(tmp_path):
    return {name: write_log(tmp_path / f"{name}.log", content) for name, content in LOGS.items()}


def test_the_last_numbers_of_every_subset_count(logs, tmp_path):
    joined = tmp_path / "joined"
    with open(logs["a2"], "rb") as first, open(logs["a1"], "rb") as second:
        joined.write_bytes(first.read() + second.read())
    for path, name in ((joined, "a1"), (logs["a1"], "a1"), (logs["negative"], "negative")):
        assert read_log(str(path)) == LOGS[name]


def test_averages_are_over_the_languages_that_all_models_have(logs):
    files = ("A", "a1"), ("A", "a2"), ("B", "b")
    scores = transfer_table.read_scores([(model, "xnli", logs[name]) for model, name in files], {})
    assert scores.languages("xnli") == ["en", "de", "fr"] and scores.common("xnli") == ["en"]
    assert scores.average("A", "xnli") == [60.0, 70.0] and scores.average("B", "xnli") == [90.0]
    assert scores.average("B", "xnli", ["en"]) == []
    assert "without de, fr" in transfer_table.render(scores, [])


def test_the_tables_of_a_model(logs, tmp_path, capsys):
    runs = [f"A/xnli={logs['a1']}", f"A/xnli={logs['a2']}", f"A/ner={logs['tags']}"]
    files = ["--tsv", tmp_path / "t.tsv", "--plot", tmp_path / "t.svg"]
    line = ["--log", *runs, "--trained-on", "en", *files]
    content = run("transfer-table", tmp_path / "t", *line)
    assert read_cells(capsys.readouterr().out, "A") == [
        ["A", "53.0 ± 4.2", "50.0"],  # xnli: (60 + 40) / 2 and (70 + 42) / 2; ner by f1
        ["A", "41.0 ± 1.4", ""],  # without the language of the training
        ["A", "65.0 ± 7.1", "41.0 ± 1.4", "53.0 ± 4.2"],
        ["A", "50.0", "50.0"],
    ]
    table = (tmp_path / "t.tsv").read_text(encoding="utf-8").splitlines()
    assert table[1:3] == ["A\txnli\taccuracy\ten\t1\t60", "A\txnli\taccuracy\ten\t2\t70"]
    assert content[-1]["values"] == [50.0]
    plot = (tmp_path / "t.svg").read_text(encoding="utf-8")
    assert "xnli: accuracy" in plot and "ner: f1" in plot


def test_bad_options_of_tables_are_refused(logs, capsys):
    for line, message in (
        ([f"A={logs['a1']}"], "--log must look like MODEL/TASK=FILE"),
        ([f"A/x={logs['a1']}", "--metric", "x=f1"], "--metric x=f1: valid: accuracy, loss"),
        ([f"A/x={logs['a1']}", f"A/x={logs['b']}"], "A/x, test.de, test.en"),
        ([f"A/x={logs['twice']}"], "two subsets of language en"),
    ):
        assert message in read_refusal(capsys, "transfer-table", "--log", *line)
