"""Helpers of the command-line tests: options, processes, logs, checkpoints and hypotheses."""

import json
import os
import signal
import subprocess
import time

import torch

HOSTILE_NAME = """-a b 'c "d $(touch executed) `touch executed` {e} #f: g; touch executed"""
"""Name of a folder: a shell that reads it unquoted splits it or creates the file ``executed``."""

TIMEOUT = 300.0
"""Seconds until a test gives up waiting for a process."""


def transformer(layers=1, width=16, ffn=16, heads=2, sides="encoder decoder"):
    """Return options for the sizes of a transformer."""
    shape = {"layers": layers, "embed-dim": width, "ffn-embed-dim": ffn, "attention-heads": heads}
    return [f"--{side}-{name}={size}" for side in sides.split() for name, size in shape.items()]


def write_program(path, text):
    """Write an executable script, for example a stand-in for a stock command."""
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def start(line, folder, **environment):
    """Start a command as the leader of a process group; stdout has both its streams."""
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    line = [str(word) for word in line]
    return subprocess.Popen(line, cwd=folder, env=variables, start_new_session=True, **pipes)


def finish(process):
    """Wait for a started command; return its exit status and its output."""
    output, _ = process.communicate(timeout=TIMEOUT)
    return process.returncode, output


def kill(process):
    """Kill a started command with all its children."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def wait_until(condition, process=None):
    """Wait for a condition; AssertionError if the process ends before or the time is up."""
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert process is None or process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)


def output_of(process):
    """Return standard output and error of a process that has ended."""
    return process.stdout + process.stderr


def records(log):
    """Parse the lines that a command logged as JSON. ``log``: an ended process, or the text."""
    text = log if isinstance(log, str) else log.stderr + log.stdout
    lines = [line for line in text.splitlines() if ' | {"' in line]
    return [json.loads(line[line.index(' | {"') + 3 :]) for line in lines]


def logged(log, name):
    """Return every value that was logged under a name."""
    return [float(record[name]) for record in records(log) if record.get(name) is not None]


def last_line(process):
    """Return the last line that a user sees of a command that failed."""
    assert process.returncode != 0
    return str(process.stderr.strip().splitlines()[-1])


def checkpoint(path):
    """Load a checkpoint, or the last one of a folder."""
    file = path / "checkpoint_last.pt" if path.is_dir() else path
    return dict(torch.load(file, weights_only=False))


def model_of(path):
    """Load the model part of a checkpoint, or of the last one of a folder."""
    return dict(checkpoint(path)["model"])


def largest_difference(first, second):
    """Compare all tensors of two checkpoints with equal keys; return the largest difference."""
    first_model, second_model = model_of(first), model_of(second)
    assert first_model.keys() == second_model.keys()
    keys = [key for key, tensor in first_model.items() if tensor.numel()]
    differences = [first_model[key].double() - second_model[key].double() for key in keys]
    return max(difference.abs().max().item() for difference in differences)


def hypotheses(process, kind="D"):
    """Read printed lines ``D-3<TAB>score<TAB>text`` as ``{"3": text}``."""
    lines = [line for line in process.stdout.splitlines() if line.startswith(f"{kind}-")]
    rows = [line.split("\t") for line in lines]
    return {row[0][len(kind) + 1 :]: row[-1] for row in rows}
