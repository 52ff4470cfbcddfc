"""The probes' results: what each defect does with its patch on and with only that patch switched off."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

import pytest


@pytest.fixture(scope="session")
def probes(tmp_path_factory: pytest.TempPathFactory, repo_root: Path, user_dir: str) -> Dict[str, Dict[str, Any]]:
    """``probes[patch]["on" | "off"]``: what ``probes.py`` saw. One subprocess for all (about half a minute)."""
    folder = tmp_path_factory.mktemp("probes")
    output = folder / "results.json"
    environment = {name: value for name, value in os.environ.items() if name != "FAIRSEQ_PLUGINS_DISABLE_PATCHES"}
    environment.update(
        PYTHONPATH=str(repo_root), PROBES_USER_DIR=user_dir, CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1"
    )
    script = Path(__file__).with_name("probes.py")
    done = subprocess.run(
        [sys.executable, str(script), str(folder), str(output)],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    results: Dict[str, Dict[str, Any]] = json.loads(output.read_text())
    assert "error" not in results["prepare"], results["prepare"]
    return results
