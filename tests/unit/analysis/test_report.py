"""Tables, names, JSON files and plots of an analysis."""

import argparse
import json
import math
import re
import sys
from typing import Any, List

import pytest

from fairseq_plugins.analysis import plots, report
from fairseq_plugins.analysis.plots import Bars, Curve, HeatMap, Line, Panel

LINES = [
    Line("K", [0.1, 0.5]),
    Line("K", [0.0, 0.1], ":", "floor"),
    Line("Q", [0.2, 0.3]),
    Line("Q", [0.1, 0.1], ":", "floor"),
]
CURVES = [Curve("plain", [10.0, 30.0], [5.0, 4.0]), Curve("restored", list(range(50)), [3.0] * 50)]
BARS = [Bars("one", [47.0, None, 12.34], [(45.0, 49.0), None, None]), Bars("two", [None, 5.0, 6.0])]
MAP = HeatMap("layer 1", ["en", "de"], ["fr", "es", "ru"], [[0.25, None, 1.0], [-0.1, 0.5, 0.75]])


def draw(path, kind):
    """Draw a plot of a kind; the file's text."""
    if kind == "lines":
        plots.draw_lines(
            str(path), [Panel("one", "CKA", LINES, (0.0, 1.0)), Panel("two", "d", LINES[:1])], [1, 2], "layer", "title"
        )
    elif kind == "curves":
        plots.draw_curves(str(path), CURVES, "updates", "loss", "title", 3.5)
    elif kind == "bars":
        plots.draw_bars(str(path), ["low", "high", "all"], BARS, "F1, %", "title")
    else:
        plots.draw_heat_maps(str(path), [MAP] * 3, "across", "down", "title")
    return path.read_text(encoding="utf-8")


def test_tables_are_markdown_that_lines_up():
    found = report.table(["text", "n", "CKA"], [["en × de", 1000, 0.51234], ["fr", 9, "none"]]).splitlines()
    assert found == [
        "| text    |    n |    CKA |",
        "| ------- | ---: | -----: |",
        "| en × de | 1000 | 0.5123 |",
        "| fr      |    9 |   none |",
    ]
    assert report.table(["a", "b"], [["x", "yyyy"]], text_columns=2).splitlines()[1] == "| --- | ---- |"


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["a/mbart", "b/m2m"], ["mbart", "m2m"]),
        (["runs/a/model.pt", "runs/b/model.pt"], ["a/model.pt", "b/model.pt"]),
        (["x/a/model.pt", "y/a/model.pt"], ["x/a/model.pt", "y/a/model.pt"]),
        (["a/model.pt", "a/model.pt"], ["model.pt", "model.pt"]),
        (["model.pt", "a/model.pt"], ["model.pt", "a/model.pt"]),
    ],
)
def test_names_are_as_short_as_tells_them_apart(paths, names):
    assert report.short_names(paths) == names


def test_outputs_are_checked_before_the_work(tmp_path, capsys):
    parser = argparse.ArgumentParser()
    report.add_output_options(parser, tsv="the table")
    worked: List[Any] = []
    for line in (
        ["--json", str(tmp_path / "no" / "x")],
        ["--plot", "x.pdf"],
        ["--plot", str(tmp_path / "no" / "x.svg")],
        ["--tsv", str(tmp_path / "no" / "x")],
    ):
        with pytest.raises(SystemExit):
            report.command(lambda: parser, worked.append)(line)
    assert worked == []
    assert report.command(lambda: parser, worked.append)(["--json", str(tmp_path / "x")]) == 0
    assert len(worked) == 1


def test_a_missing_matplotlib_is_told_before_the_work(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(plots.MissingLibrary, match=r"--plot needs matplotlib: pip install 'fairseq-plugins\[plots\]'"):
        plots.check("x.svg")


def test_json_is_strict(tmp_path):
    report.write_json(str(tmp_path / "x.json"), {"‖σ‖": [1.5, None]})
    assert json.loads((tmp_path / "x.json").read_text(encoding="utf-8")) == {"‖σ‖": [1.5, None]}
    with pytest.raises(ValueError, match="Out of range float"):
        report.write_json(str(tmp_path / "y.json"), math.nan)
    assert not (tmp_path / "y.json").exists()


@pytest.mark.parametrize("kind", ["lines", "curves", "bars", "maps"])
def test_the_same_numbers_give_the_same_bytes(kind, tmp_path):
    found = draw(tmp_path / "x.svg", kind)
    assert draw(tmp_path / "y.svg", kind) == found
    assert not re.search(r"\d{4}-\d\d-\d\dT|Matplotlib v", found)


def test_lines_have_labels_and_one_entry_a_label(tmp_path):
    found = draw(tmp_path / "x.svg", "lines")
    texts = re.findall(r">([^<>\n]+)</text>", found)
    for text in ("one", "two", "CKA", "d", "title"):
        assert texts.count(text) == 1
    assert texts.count("layer") == 2
    assert [text for text in texts if text in ("K", "Q", "floor")] == ["K", "Q", "floor"], "the legend, in order"


def test_curves_have_labels_and_the_value_to_reach(tmp_path):
    found = draw(tmp_path / "x.svg", "curves")
    texts = re.findall(r">([^<>\n]+)</text>", found)
    assert [text for text in texts if text in ("plain", "restored", "3.5")][-3:] == ["plain", "restored", "3.5"]
    assert {"updates", "loss", "title"} <= set(texts)
    without = tmp_path / "y.svg"
    plots.draw_curves(str(without), CURVES[:1], "updates", "loss", "title")
    assert found.count("<use") - without.read_text(encoding="utf-8").count("<use") < 20, "no markers on a long curve"


def test_bars_have_numbers_and_missing_ones_none(tmp_path):
    found = draw(tmp_path / "x.svg", "bars")
    texts = re.findall(r">([^<>\n]+)</text>", found)
    assert [text for text in texts if text in ("47.0", "12.3", "5.00", "6.00", "nan")] == [
        "47.0",
        "12.3",
        "5.00",
        "6.00",
    ]
    assert [text for text in texts if text in ("one", "two")] == ["one", "two"], "one entry of the legend a label"
    assert {"low", "high", "all", "F1, %", "title"} <= set(texts)
    assert found.count("stroke: #404040") == 1, "one interval"


def test_tsv_and_named_paths(tmp_path):
    report.write_tsv(str(tmp_path / "x.tsv"), ["a", "b"], [["x", None], [1, 0.5]])
    assert (tmp_path / "x.tsv").read_text(encoding="utf-8") == "a\tb\nx\t\n1\t0.5\n"
    assert report.named_paths(["b=x=1", "a=y"], "--text", "as a=FILE") == {"b": "x=1", "a": "y"}
    for wrong in (["x"], ["=x"], ["x="]):
        with pytest.raises(ValueError, match="--text .*: no NAME=FILE; valid: as a=FILE"):
            report.named_paths(wrong, "--text", "as a=FILE")
    with pytest.raises(ValueError, match="--text a=y: a is there twice; valid: as a=FILE"):
        report.named_paths(["a=x", "a=y"], "--text", "as a=FILE")


def test_maps_show_their_numbers_and_leave_empty_cells_empty(tmp_path):
    texts = re.findall(r">([^<>\n]+)</text>", draw(tmp_path / "x.svg", "maps"))
    for number in ("0.25", "1.00", "-0.10", "0.50", "0.75"):
        assert texts.count(number) >= 3
    assert texts.count("nan") == 0
    assert texts.count("layer 1") == texts.count("ru") == texts.count("de") == 3
