"""The table of language × task × model: hand-made logs, averages worked out by hand, mistakes."""

import json

import pytest

from fairseq_plugins.analysis import transfer_table
from fairseq_plugins.analysis.logs import read_log
from tests.unit.analysis.commands import refused, run, written


def write_log(path, subsets):
    """As fairseq-validate --log-format json prints it."""
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
    scores = transfer_table.read_scores(
        [("A", "xnli", logs["a1"]), ("A", "xnli", logs["a2"]), ("B", "xnli", logs["b"])], {}
    )
    assert scores.languages("xnli") == ["en", "de", "fr"] and scores.common("xnli") == ["en"]
    assert scores.average("A", "xnli") == [60.0, 70.0] and scores.average("B", "xnli") == [90.0]
    assert scores.average("B", "xnli", ["en"]) == []
    page = transfer_table.render(scores, [])
    assert "without de, fr" in page and "65.0 ± 7.1" in page


def test_the_page_of_one_model(logs, tmp_path, capsys):
    line = ["--log", f"A/xnli={logs['a1']}", f"A/xnli={logs['a2']}", f"A/ner={logs['tags']}", "--trained-on", "en"]
    content = run(transfer_table.main, tmp_path / "t", *line, "--tsv", tmp_path / "t.tsv", "--plot", tmp_path / "t.svg")
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--log", "A={a1}"], "--log must look like MODEL/TASK=FILE"),
        (["--log", "A/x={a1}", "--metric", "x=f1"], "--metric x=f1: valid: accuracy, loss"),
        (["--log", "A/x={a1}", "--metric", "y=f1"], "no log of that task; valid: x"),
        (["--log", "A/x={a1}", "A/x={b}"], "valid: those of the other seeds of A/x, test.de, test.en"),
        (["--log", "A/x={empty}"], "no numbers of a subset"),
        (["--log", "A/x={twice}"], "two subsets of language en"),
    ],
)
def test_mistakes(arguments, message, logs, tmp_path, capsys):
    (tmp_path / "empty.log").write_text("nothing\n")
    write_log(tmp_path / "twice.log", {"test.en": {"accuracy": 1}, "valid.en": {"accuracy": 2}})
    names = {**logs, "empty": tmp_path / "empty.log", "twice": tmp_path / "twice.log"}
    assert message in refused(capsys, transfer_table.main, *(text.format(**names) for text in arguments))
