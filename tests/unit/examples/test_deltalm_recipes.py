"""The YAML files of DeltaLM's recipes name the sides of the data that the scripts beside them make."""

import subprocess

import pytest
import yaml

from tests.contract.repository import ROOT

FOLDER = ROOT / "examples" / "deltalm"


@pytest.mark.parametrize("task", sorted(path.stem for path in FOLDER.glob("*.yaml")))
def test_sides(task: str) -> None:
    script = f'task={task}; . examples/deltalm/settings.sh; echo "$source $target $max_source $max_target"'
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    source, target, longest_source, longest_target = done.stdout.split()
    found = yaml.safe_load((FOLDER / f"{task}.yaml").read_text(encoding="utf-8"))["task"]
    assert (found["source_lang"], found["target_lang"]) == (source, target)
    assert (found["max_source_positions"], found["max_target_positions"]) == (int(longest_source), int(longest_target))
