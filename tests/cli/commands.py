"""What the command-line tests share: options, logs, checkpoints and printed sentences of a command."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import torch


def transformer(
    layers: int = 1, width: int = 16, ffn: int = 16, heads: int = 2, sides: str = "encoder decoder"
) -> List[str]:
    """Sizes as options."""
    shape = {"layers": layers, "embed-dim": width, "ffn-embed-dim": ffn, "attention-heads": heads}
    return [f"--{side}-{name}={value}" for side in sides.split() for name, value in shape.items()]


def records(done: Any) -> List[Dict[str, Any]]:
    """What a command logged as JSON. ``done``: a process that has ended, or the text."""
    text = done if isinstance(done, str) else done.stderr + done.stdout
    return [json.loads(line[line.index(' | {"') + 3 :]) for line in text.splitlines() if ' | {"' in line]


def logged(done: Any, name: str) -> List[float]:
    """Every value that was logged under a name."""
    return [float(record[name]) for record in records(done) if record.get(name) is not None]


def last_line(done: Any) -> str:
    """What a user sees last of a command that failed."""
    assert done.returncode != 0
    return str(done.stderr.strip().splitlines()[-1])


def checkpoint(path: Path) -> Dict[str, Any]:
    """A checkpoint, or the last one of a folder."""
    return dict(torch.load(path / "checkpoint_last.pt" if path.is_dir() else path, weights_only=False))


def model_of(path: Path) -> Dict[str, torch.Tensor]:
    """The model part of a checkpoint, or of the last one of a folder."""
    return dict(checkpoint(path)["model"])


def largest_difference(first: Path, second: Path) -> float:
    """Over all tensors of two checkpoints with equal keys."""
    left, right = model_of(first), model_of(second)
    assert left.keys() == right.keys()
    return max((left[key].double() - right[key].double()).abs().max().item() for key in left if left[key].numel())


def hypotheses(done: Any, kind: str = "D") -> Dict[str, str]:
    """Printed lines ``D-3<TAB>score<TAB>text`` -> ``{"3": text}``."""
    rows = [line.split("\t") for line in done.stdout.splitlines() if line.startswith(f"{kind}-")]
    return {row[0][len(kind) + 1 :]: row[-1] for row in rows}


def bash(root: Path, *command: Any, **env: Any) -> Any:
    """Run a script of the checkout with this Python; its process, ended without an error."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    given = {**os.environ, "PATH": path, "PYTHON": sys.executable, "OMP_NUM_THREADS": "1"}
    given.update({name: str(value) for name, value in env.items()})
    line = ["bash", *map(str, command)]
    done = subprocess.run(line, cwd=root, env=given, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done
