"""The evidence holds together: outputs, ledgers, pages, plots, and the figures that other pages quote from them.

Whoever changes one of them alone turns a test red. Whoever changes several so that they fit meets the scores: a sample of the
outputs is scored again, another one at each commit, where the references are at hand. They are not part of the repository.
"""

import lzma
import re

import matplotlib
import pytest

from benchmarks import report, trained_plot
from benchmarks import results as benchmarks
from data_prep.files import sha256
from examples.recipes import archive, results
from examples.recipes.results import PAGES, RESULTS
from examples.recipes.systems import list_names
from tests import what_was_run
from tests.contract import evidence
from tests.contract.evidence import DATA, NAMES, draw, read_evidence
from tests.contract.repository import ROOT, listed_files

LISTED = "examples/results/.*|docs/results/[^/]+_analysis/.*|benchmarks/results/.*|tests/cluster/log.jsonl|tests/run_log.jsonl"


def needs_the_pinned_matplotlib():
    """Another one draws other bytes."""
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    if f"matplotlib=={matplotlib.__version__}" not in constraints:
        pytest.skip("plots have the bytes of the matplotlib in constraints.txt")


# ---- Every file is listed, with its hash. ----


def test_outputs_are_those_of_the_ledgers():
    assert [line for name in NAMES for line in evidence.wrong_outputs(name)] == []


def test_archives_have_the_one_form_that_their_members_give():
    for path in sorted(RESULTS.glob(f"*{archive.ENDING}")):
        assert lzma.decompress(path.read_bytes()) == archive.tar_of(archive.read(path)), path.name


def test_what_cannot_be_made_again_has_its_hash_listed():
    """Ledgers, archives, plots of analyses and measurements. After new ones: make evidence."""
    lines = (ROOT / "examples" / "evidence.sha256").read_text(encoding="utf-8").splitlines()
    listed = {path: value for value, path in (line.split("  ", 1) for line in lines)}
    assert listed == {name: sha256(ROOT / name) for name in listed_files() if re.fullmatch(LISTED, name)}


def test_the_models_of_the_checkout_are_those_of_the_runs():
    assets = [(name, *asset) for name in NAMES for asset in read_evidence(name)[1].get("assets")["hashes"].items()]
    here = {path: sha256(ROOT / path) for path in {path for _, path, _ in assets if "{" not in path}}
    assert [(name, path) for name, path, value in assets if here.get(path, value) != value] == []


# ---- Pages and plots are made of them. ----


def test_pages_and_plots_are_made_of_the_ledgers():
    """A page that says "unchanged since" while its code has changed is another one, too."""
    needs_the_pinned_matplotlib()
    made = {path: text.encode() for path, text in results.everything().items()}
    made[benchmarks.PAGE] = benchmarks.render().encode()
    committed = {path: path.read_bytes() for path in (*PAGES.glob("*.*"), results.INDEX)}
    assert committed == made, "make results"


def test_what_was_run_is_made_of_the_logs():
    made = what_was_run.pages()
    assert {path: path.read_text(encoding="utf-8") for path in made} == made, "make results"


def test_every_study_has_a_finding_in_figures_of_its_tables():
    for name in NAMES:
        study, page = read_evidence(name)[0], (PAGES / f"{name}.md").read_text(encoding="utf-8")
        assert study.finding and study.cannot_tell, name
        assert results.unknown_figures(study, page) == set(), name


def test_every_ledger_has_its_study_and_its_archive():
    files = [path.name.removesuffix(archive.ENDING) for path in RESULTS.glob(f"*{archive.ENDING}")]
    archives = {name for name in files if not name.endswith(results.ANALYSIS)}
    assert {name.removesuffix(results.ANALYSIS) for name in files} == archives
    assert {*NAMES} == archives <= {*list_names(results.STUDIES)}
    assert len(list(RESULTS.iterdir())) == len(files) + len(NAMES)


def test_other_plots_are_made_of_what_is_listed(tmp_path, monkeypatch):
    needs_the_pinned_matplotlib()
    committed = {path.name: path.read_bytes() for path in trained_plot.FOLDER.iterdir()}
    monkeypatch.setattr(trained_plot, "FOLDER", tmp_path)
    for content in report.load("trained"):
        trained_plot.draw(content)
    assert committed == {path.name: path.read_bytes() for path in tmp_path.iterdir()}, "make results"


# ---- Numbers fit together, without the references too. ----


def test_scores_do_not_contradict_each_other():
    assert [line for name in NAMES for line in evidence.wrong_numbers(name)] == []


# ---- A sample is scored again. ----


def test_outputs_are_worth_what_the_ledgers_say():
    if not DATA.is_dir():
        pytest.skip("needs ../shared/data, the references, which are not part of the repository")
    sample = draw(evidence.scored_texts(), 4)
    assert [line for text in sample for line in evidence.wrong_scores(*text)] == []


# ---- Other pages quote them. ----


def test_figures_of_other_pages_stand_on_the_pages_that_they_name():
    missing = []
    for name, text, pages in evidence.quotations():
        there = [results.find_figures(page.read_text(encoding="utf-8")) for page in pages]
        unknown = results.find_figures(text).difference(*there)
        missing += [f"{name}: {figure}: {text[:60]}" for figure in sorted(unknown)]
    assert missing == []
