"""The call for a GPU, all of it at tiny size, on the pretend one."""

import json
import math
import os

import pytest

from benchmarks import gpu, trainings
from tests.cli.commands import logged

pytestmark = [pytest.mark.pretend, pytest.mark.slow]
UPDATES = 8
MEMORY = 100_000_000
ROWS = tuple(trainings.PRECISIONS)


def test_all_parts_and_again_without_a_step(run_cli, repo_root, tmp_path):
    path = os.pathsep.join(map(str, (repo_root / "tests" / "pretend" / "start", repo_root)))
    env = {"PYTHONPATH": path, "PRETEND_MEMORY": str(MEMORY)}
    line = f"--output {tmp_path} --size tiny --methods sga --updates {UPDATES} --at-most 64"
    done = run_cli("benchmarks.gpu", *line.split(), env=env, timeout=900)
    content = json.loads((tmp_path / "results" / "gpu-cuda.json").read_text(encoding="utf-8"))
    assert all((tmp_path / "results" / f"{name}-cuda.json").is_file() for name in gpu.TABLES)
    assert content["machine"]["device"] == "pretend"
    assert (tmp_path / "page.md").read_text(encoding="utf-8") in done.stdout

    steps = {kind: json.loads((tmp_path / "steps" / f"precision-sga-{kind}.json").read_text()) for kind in ROWS}
    losses = {kind: list(step["result"]["losses"].values()) for kind, step in steps.items()}
    assert all(len(found) == UPDATES and all(map(math.isfinite, found)) for found in losses.values())
    assert losses["fp16"] != losses["float32"] != losses["bf16"]
    log = (tmp_path / "logs" / "precision-sga-float32.log").read_text(encoding="utf-8")
    assert losses["float32"] == logged(log, "loss")
    assert [row["agrees"] for row in content["results"]["precision"]] == [True] * 3

    found = {row["precision"]: row for row in content["results"]["batch"]}
    for row in found.values():
        assert row["sentences"] in row["tried"] and row["sentences"] + 1 in row["tried"], "one more does not fit"
        assert 0.8 * MEMORY < row["peak"] <= MEMORY
    assert found["float32"]["sentences"] < min(found["fp16"]["sentences"], found["bf16"]["sentences"])

    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "logs").iterdir()}
    run_cli("benchmarks.gpu", *line.split(), env=env)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "logs").iterdir()} == before
