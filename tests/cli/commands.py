"""What the command-line tests share: options, logs, checkpoints and printed sentences of a command."""

import json

import torch

HOSTILE_NAME = """-a b 'c "d $(touch executed) `touch executed` {e} #f: g; touch executed"""
"""Of a folder: a shell that meets it unquoted splits it, or leaves a file ``executed``."""


def transformer(layers=1, width=16, ffn=16, heads=2, sides="encoder decoder"):
    shape = {"layers": layers, "embed-dim": width, "ffn-embed-dim": ffn, "attention-heads": heads}
    return [f"--{side}-{name}={value}" for side in sides.split() for name, value in shape.items()]


def records(done):
    """What a command logged as JSON. ``done``: a process that has ended, or the text."""
    text = done if isinstance(done, str) else done.stderr + done.stdout
    return [json.loads(line[line.index(' | {"') + 3 :]) for line in text.splitlines() if ' | {"' in line]


def logged(done, name):
    """Every value that was logged under a name."""
    return [float(record[name]) for record in records(done) if record.get(name) is not None]


def last_line(done):
    """What a user sees last of a command that failed."""
    assert done.returncode != 0
    return str(done.stderr.strip().splitlines()[-1])


def checkpoint(path):
    """A checkpoint, or the last one of a folder."""
    return dict(torch.load(path / "checkpoint_last.pt" if path.is_dir() else path, weights_only=False))


def model_of(path):
    """The model part of a checkpoint, or of the last one of a folder."""
    return dict(checkpoint(path)["model"])


def largest_difference(first, second):
    """Over all tensors of two checkpoints with equal keys."""
    left, right = model_of(first), model_of(second)
    assert left.keys() == right.keys()
    return max((left[key].double() - right[key].double()).abs().max().item() for key in left if left[key].numel())


def hypotheses(done, kind="D"):
    """Printed lines ``D-3<TAB>score<TAB>text`` -> ``{"3": text}``."""
    rows = [line.split("\t") for line in done.stdout.splitlines() if line.startswith(f"{kind}-")]
    return {row[0][len(kind) + 1 :]: row[-1] for row in rows}
