"""Test that outputs, ledgers, pages, plots and quoted figures agree.

Changing one of them alone turns a test red. Against consistent changes of several, a sample of the
outputs is scored again, a different one at each commit, if the references are available. They are
not part of the repository.
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

LISTED = "|".join(
    [
        "examples/results/.*",
        "docs/results/[^/]+_analysis/.*",
        "benchmarks/results/.*",
        "tests/cluster/log.jsonl",
        "tests/run_log.jsonl",
    ]
)


@pytest.fixture
def _pinned_matplotlib():
    """Skip with another matplotlib, which writes other bytes."""
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    if f"matplotlib=={matplotlib.__version__}" not in constraints:
        pytest.skip("plots have the bytes of the matplotlib in constraints.txt")


# ---- Every file is listed, with its hash. ----


def test_outputs_are_those_of_the_ledgers():
    assert [line for name in NAMES for line in evidence.wrong_outputs(name)] == []


def test_archives_have_the_form_that_their_members_determine():
    for path in sorted(RESULTS.glob(f"*{archive.ENDING}")):
        assert lzma.decompress(path.read_bytes()) == archive.tar_of(archive.read(path)), path.name


def test_files_that_cannot_be_made_again_have_their_hash_listed():
    """Check ledgers, archives, plots and measurements. Run `make evidence` after new ones."""
    lines = (ROOT / "examples" / "evidence.sha256").read_text(encoding="utf-8").splitlines()
    listed = {path: value for value, path in (line.split("  ", 1) for line in lines)}
    names = [name for name in listed_files() if re.fullmatch(LISTED, name)]
    assert listed == {name: sha256(ROOT / name) for name in names}


def test_the_models_of_the_checkout_are_those_of_the_runs():
    wrong = []
    for name in NAMES:
        for path, value in read_evidence(name)[1].get("assets")["hashes"].items():
            if "{" not in path and sha256(ROOT / path) != value:
                wrong.append((name, path))
    assert wrong == []


# ---- Pages and plots are made of them. ----


@pytest.mark.usefixtures("_pinned_matplotlib")
def test_pages_and_plots_are_made_from_the_ledgers():
    """Include pages that say "unchanged since" although their code has changed."""
    pages = {path: text.encode() for path, text in results.everything().items()}
    pages[benchmarks.PAGE] = benchmarks.render().encode()
    committed = {path: path.read_bytes() for path in (*PAGES.glob("*.*"), results.INDEX)}
    assert committed == pages, "make results"


def test_the_page_of_runs_is_made_from_the_logs():
    pages = what_was_run.pages()
    assert {path: path.read_text(encoding="utf-8") for path in pages} == pages, "make results"


def test_the_finding_of_every_study_quotes_figures_of_its_tables():
    for name in NAMES:
        study = read_evidence(name)[0]
        page = (PAGES / f"{name}.md").read_text(encoding="utf-8")
        assert study.finding and study.cannot_tell, name
        assert results.unknown_figures(study, page) == set(), name


def test_every_ledger_has_its_study_and_its_archive():
    files = [path.name.removesuffix(archive.ENDING) for path in RESULTS.glob(f"*{archive.ENDING}")]
    archives = {name for name in files if not name.endswith(results.ANALYSIS)}
    assert {name.removesuffix(results.ANALYSIS) for name in files} == archives
    assert {*NAMES} == archives <= {*list_names(results.STUDIES)}
    assert len(list(RESULTS.iterdir())) == len(files) + len(NAMES)


@pytest.mark.usefixtures("_pinned_matplotlib")
def test_other_plots_are_made_from_listed_files(tmp_path, monkeypatch):
    committed = {path.name: path.read_bytes() for path in trained_plot.FOLDER.iterdir()}
    monkeypatch.setattr(trained_plot, "FOLDER", tmp_path)
    for content in report.load("trained"):
        trained_plot.draw(content)
    assert committed == {path.name: path.read_bytes() for path in tmp_path.iterdir()}, (
        "make results"
    )


# ---- Numbers fit together, without the references too. ----


def test_scores_do_not_contradict_each_other():
    assert [line for name in NAMES for line in evidence.wrong_numbers(name)] == []


# ---- A sample is scored again. ----


def test_a_sample_of_outputs_has_the_scores_of_the_ledgers():
    if not DATA.is_dir():
        pytest.skip("needs ../shared/data, the references, which are not part of the repository")
    sample = draw(evidence.scored_texts(), 4)
    assert [line for text in sample for line in evidence.wrong_scores(*text)] == []


# ---- Other pages quote them. ----


def test_quoted_figures_stand_on_the_quoted_pages():
    missing = []
    for name, text, pages in evidence.quotations():
        figures = [results.find_figures(page.read_text(encoding="utf-8")) for page in pages]
        unknown = results.find_figures(text).difference(*figures)
        missing += [f"{name}: {figure}: {text[:60]}" for figure in sorted(unknown)]
    assert missing == []
