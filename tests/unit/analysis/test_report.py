"""Test the reports of analyses: tables, names, JSON and TSV files, plots."""

import json
import math
import re
import sys

import pytest

from fairseq_plugins.__main__ import main
from fairseq_plugins.analysis import plots, report, transfer_table
from fairseq_plugins.analysis.plots import Bars, HeatMap
from tests.unit.analysis.commands import read_refusal


def test_tables_are_markdown_that_lines_up():
    rows = [["en × de", 1000, 0.51234], ["fr", 9, "none"]]
    assert report.table(["text", "n", "CKA"], rows).splitlines() == [
        "| text    |    n |    CKA |",
        "| ------- | ---: | -----: |",
        "| en × de | 1000 | 0.5123 |",
        "| fr      |    9 |   none |",
    ]


def test_outputs_are_checked_before_the_work(tmp_path, capsys, monkeypatch):
    calls = []
    monkeypatch.setattr(transfer_table, "work", calls.append)
    line = ["transfer-table", "--log", "m/t="]
    assert "folder" in read_refusal(capsys, *line, "--json", tmp_path / "no" / "x")
    assert "--plot x.pdf" in read_refusal(capsys, *line, "--plot", "x.pdf")
    assert main([*line, "--tsv", str(tmp_path / "x")]) == 0
    assert len(calls) == 1
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "--plot needs matplotlib" in read_refusal(capsys, *line, "--plot", "x.svg")
    assert len(calls) == 1


def test_files_hold_missing_values_and_json_no_nan(tmp_path):
    path = tmp_path / "x"
    report.write_json(str(path), {"‖σ‖": [1.5, None]})
    assert json.loads(path.read_text(encoding="utf-8")) == {"‖σ‖": [1.5, None]}
    with pytest.raises(ValueError, match="Out of range float"):
        report.write_json(str(tmp_path / "y"), math.nan)
    assert not (tmp_path / "y").exists()
    report.write_tsv(str(path), ["a", "b"], [["x", None], [1, 0.5]])
    assert path.read_text(encoding="utf-8") == "a\tb\nx\t\n1\t0.5\n"


BARS = [Bars("one", [47.0, None, 12.34], [(45.0, 49.0), None, None])]
BARS.append(Bars("two", [None, 5.0, 6.0]))
MAP = HeatMap("layer 1", ["en", "de"], ["fr", "es", "ru"], [[0.25, None, 1.0], [-0.1, 0.5, 0.75]])


@pytest.mark.cases(
    "draw arguments labels",
    (
        plots.draw_bars,
        (["low", "high", "all"], BARS, "F1, %", "title"),
        ["low", "high", "all", "F1, %", "title", "one", "two", "47.0", "12.3", "5.00", "6.00"],
    ),
    (
        plots.draw_heat_maps,
        ([MAP] * 3, "across", "down", "title"),
        ["0.25", "1.00", "-0.10", "0.50", "layer 1", "ru", "de", "across", "down", "title"],
    ),
)
def test_plots_have_their_labels_and_equal_numbers_give_equal_bytes(
    draw, arguments, labels, tmp_path
):
    for name in ("x", "y"):
        draw(str(tmp_path / f"{name}.svg"), *arguments)
    content = (tmp_path / "x.svg").read_text(encoding="utf-8")
    assert (tmp_path / "y.svg").read_text(encoding="utf-8") == content
    assert not re.search(r"\d{4}-\d\d-\d\dT|Matplotlib v", content)
    texts = re.findall(r">([^<>\n]+)</text>", content)
    assert set(labels) <= set(texts) and "nan" not in texts


def test_paths_have_names():
    assert report.named_paths(["b=x=1", "a=y"], "--text", "a=FILE") == {"b": "x=1", "a": "y"}
    with pytest.raises(ValueError, match="--text a=y: a is there twice"):
        report.named_paths(["a=x", "a=y"], "--text", "a=FILE")
