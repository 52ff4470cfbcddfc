"""Tables, names, JSON files and plots of an analysis."""

import json
import math
import re
import sys

import pytest

from fairseq_plugins.__main__ import main
from fairseq_plugins.analysis import plots, report, transfer_table
from fairseq_plugins.analysis.plots import Bars, HeatMap
from tests.unit.analysis.commands import refused

BARS = [Bars("one", [47.0, None, 12.34], [(45.0, 49.0), None, None]), Bars("two", [None, 5.0, 6.0])]
MAP = HeatMap("layer 1", ["en", "de"], ["fr", "es", "ru"], [[0.25, None, 1.0], [-0.1, 0.5, 0.75]])


PLOTS = {
    "bars": (plots.draw_bars, ["low", "high", "all"], BARS, "F1, %", "title"),
    "maps": (plots.draw_heat_maps, [MAP] * 3, "across", "down", "title"),
}  # fmt: skip


def test_tables_are_markdown_that_lines_up():
    found = report.table(["text", "n", "CKA"], [["en × de", 1000, 0.51234], ["fr", 9, "none"]]).splitlines()
    assert found[:2] == ["| text    |    n |    CKA |", "| ------- | ---: | -----: |"]
    assert found[2:] == ["| en × de | 1000 | 0.5123 |", "| fr      |    9 |   none |"]


def test_outputs_are_checked_before_the_work(tmp_path, capsys, monkeypatch):
    worked = []
    monkeypatch.setattr(transfer_table, "work", worked.append)

    def said(option, path):
        return refused(capsys, "transfer-table", "--log", "m/t=", option, path)

    assert "its folder does not exist" in said("--json", tmp_path / "no" / "x")
    assert "--plot x.pdf: valid: a file that ends in .svg or .png" in said("--plot", "x.pdf")
    assert main(["transfer-table", "--log", "m/t=", "--tsv", str(tmp_path / "x")]) == 0
    assert len(worked) == 1
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "--plot needs matplotlib: pip install 'fairseq-plugins[plots]'" in said("--plot", "x.svg")
    assert len(worked) == 1


def test_json_is_strict(tmp_path):
    report.write_json(str(tmp_path / "x.json"), {"‖σ‖": [1.5, None]})
    assert json.loads((tmp_path / "x.json").read_text(encoding="utf-8")) == {"‖σ‖": [1.5, None]}
    with pytest.raises(ValueError, match="Out of range float"):
        report.write_json(str(tmp_path / "y.json"), math.nan)
    assert not (tmp_path / "y.json").exists()


@pytest.mark.cases(
    "kind expected",
    ("bars", ["low", "high", "all", "F1, %", "title", "one", "two", "47.0", "12.3", "5.00", "6.00"]),
    ("maps", ["0.25", "1.00", "-0.10", "0.50", "layer 1", "ru", "de", "across", "down", "title"]),
)
def test_plots_have_their_labels_and_the_same_numbers_give_the_same_bytes(kind, expected, tmp_path):
    drawn, *what = PLOTS[kind]
    for name in ("x", "y"):
        drawn(str(tmp_path / f"{name}.svg"), *what)
    found = (tmp_path / "x.svg").read_text(encoding="utf-8")
    assert (tmp_path / "y.svg").read_text(encoding="utf-8") == found
    assert not re.search(r"\d{4}-\d\d-\d\dT|Matplotlib v", found)
    texts = re.findall(r">([^<>\n]+)</text>", found)
    assert set(expected) <= set(texts) and "nan" not in texts


def test_tsv_and_named_paths(tmp_path):
    report.write_tsv(str(tmp_path / "x.tsv"), ["a", "b"], [["x", None], [1, 0.5]])
    assert (tmp_path / "x.tsv").read_text(encoding="utf-8") == "a\tb\nx\t\n1\t0.5\n"
    assert report.named_paths(["b=x=1", "a=y"], "--text", "as a=FILE") == {"b": "x=1", "a": "y"}
    with pytest.raises(ValueError, match="--text a=y: a is there twice; valid: as a=FILE"):
        report.named_paths(["a=x", "a=y"], "--text", "as a=FILE")
