"""Test the benchmarks that need no trained model and no CTranslate2, at tiny size."""

import gc
import importlib
import json
import os
import re

import pytest

from benchmarks import report, results

STACK = "--vocab 500 --layers 2 --width 32 --heads 2"
ON_GPU = {
    "vocab_losses": "--tokens 256 --vocab 500 --width 32 --rounds 1",
    "sga_training_step": f"{STACK} --sentences 4 --length 12 --rounds 1",
    "decoding": f"{STACK} --sentences 2 --batch 2",
    "free_decoding": f"{STACK} --sentences 2 --batch 2",
    "deltalm": f"{STACK} --decoding-vocab 500 --batch 2 --sentences 4 --rounds 1",
    "veco": f"{STACK} --pairs 4 --chunk 8 --rounds 1",
}
ON_CPU = {
    **ON_GPU,
    "data_path": "--tokens 2000 --batch-tokens 1024 --vocab 500 --rounds 1",
    "nlu_data_path": "--rows 50 --vocab 100 --rounds 1",
    "csr_data_path": "--rows 60 --vocab 100 --max-tokens 256 --rounds 1",
    "veco_data_path": "--texts 60 --vocab 100 --tokens-per-sample 128 --max-tokens 256 --rounds 1",
}


@pytest.fixture
def few_objects():
    """Hide older objects from the garbage collection before each timed call, to save seconds."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.slow
@pytest.mark.usefixtures("few_objects")
@pytest.mark.parametrize("name", ON_CPU)
def test_a_benchmark_stores_its_rows_and_prints_their_table(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    device = ["--device", "cpu"] if name in ON_GPU else []
    benchmark = importlib.import_module(f"benchmarks.{name}")
    benchmark.main([*ON_CPU[name].split(), *device])
    content = json.loads((tmp_path / f"{name}-cpu.json").read_text(encoding="utf-8"))
    assert content["options"]["rounds"] == 1
    assert "device" not in content["options"]
    assert capsys.readouterr().out == benchmark.render(content) + "\n"
    assert benchmark.render(content) in report.section(name, benchmark)
    page = results.PAGE.read_text(encoding="utf-8").partition(f"## {name}\n")[2]
    assert list_headings(benchmark.render(content)) == list_headings(page.partition("\n## ")[0])


def list_headings(text):
    """Return the headings of the tables in a text, without sizes that an option sets."""
    lines = text.split("\n")
    headings = [line for line, rule in zip(lines, lines[1:]) if rule.startswith("| ---")]
    return [re.sub(r"batch \d+", "batch", line) for line in headings]


@pytest.mark.pretend
@pytest.mark.slow
@pytest.mark.parametrize("name", ON_GPU)
def test_a_benchmark_runs_on_a_gpu(name, run_cli, repo_root, tmp_path):
    path = os.pathsep.join(map(str, (repo_root / "tests" / "pretend" / "start", repo_root)))
    env = {"PYTHONPATH": path, report.FOLDER: str(tmp_path)}
    run_cli(f"benchmarks.{name}", "--device", "cuda", *ON_GPU[name].split(), env=env)
    content = json.loads((tmp_path / f"{name}-cuda.json").read_text(encoding="utf-8"))
    assert content["machine"]["device"] == "pretend"


def test_the_page_has_every_benchmark_with_results(repo_root):
    files = {path.stem.partition("-")[0] for path in report.RESULTS.glob("*.json")}
    assert files == {*results.BENCHMARKS}
    modules = (repo_root / "benchmarks").glob("*.py")
    published = {path.stem for path in modules if "report.publish" in path.read_text()}
    assert published == {*results.BENCHMARKS}
