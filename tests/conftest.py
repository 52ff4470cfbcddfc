"""Fixtures for every tier of the tests: the device, seeds, and the stock commands in a subprocess."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported; two test processes share two cores
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # no test may reach for the network

import logging
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Callable, List, Mapping, Optional, Union

import numpy as np
import pytest
import torch

# Some fairseq modules configure logging when imported, onto a stream that pytest shows after its closing line. pytest
# keeps its own record of every log line, so this process needs no other handler.
logging.basicConfig(level=logging.INFO, handlers=[logging.NullHandler()])

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "fairseq_plugins"
TAIL_LINES = 60

# What run_cli accepts: the stock commands, by the name a user types without "fairseq-".
STOCK_COMMANDS = ("eval_lm", "generate", "hydra_train", "interactive", "preprocess", "score", "train", "validate")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--device cpu|cuda``."""
    parser.addoption("--device", default="cpu", choices=("cpu", "cuda"), help="device of the unit tests (default cpu)")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse ``--device cuda`` where no GPU can be used."""
    if config.getoption("--device") == "cuda" and not torch.cuda.is_available():
        raise pytest.UsageError("--device cuda: this torch sees no GPU; valid here: --device cpu")


def pytest_collection_modifyitems(config: pytest.Config, items: List[pytest.Item]) -> None:
    """Skip ``cuda`` tests on the CPU and let the slow ones start first, so that two workers end together."""
    if config.getoption("--device") != "cuda":
        for item in items:
            if item.get_closest_marker("cuda") is not None:
                item.add_marker(pytest.mark.skip(reason="needs --device cuda"))
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Seed every generator before each test: a result never depends on the order of the tests."""
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> torch.device:
    """The device named by ``--device``."""
    return torch.device(request.config.getoption("--device"))


@pytest.fixture(scope="session")
def repo_root() -> Path:
    """The root of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def user_dir() -> str:
    """What to give as ``--user-dir``."""
    return str(PACKAGE)


def _module(command: str) -> str:
    """The module that ``python -m`` runs for a stock command ("fairseq-train", "train") or a module of ours."""
    name = command.replace("fairseq-", "", 1).replace("-", "_")
    if name in STOCK_COMMANDS:
        return f"fairseq_cli.{name}"
    if "." in command or (ROOT / command / "__main__.py").is_file():
        return command
    raise ValueError(f"run_cli: command {command!r} is unknown; valid: {', '.join(STOCK_COMMANDS)} or a module")


def _environment(device_name: str, env: Optional[Mapping[str, str]]) -> dict:
    result = dict(os.environ, OMP_NUM_THREADS="1", PYTHONUNBUFFERED="1", HF_HUB_OFFLINE="1")
    result["PYTHONPATH"] = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH", "")) if p)
    if device_name == "cpu":
        result["CUDA_VISIBLE_DEVICES"] = ""
    result.update(env or {})
    return result


@pytest.fixture(scope="session")
def run_cli(request: pytest.FixtureRequest) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Run a command line in a subprocess, as a user would, with this Python and the checkout on its path.

    ``run_cli("train", data_dir, "--user-dir", user_dir, "--cpu", ...)`` runs ``fairseq-train``; the other stock
    commands go by the same names, and a module of the checkout by its dotted name (``"data_prep.clean"``). Options:
    ``stdin`` (text), ``cwd``, ``env`` (added to the environment), ``timeout`` (seconds, default 300), ``check``
    (default True: a non-zero exit fails the test and shows the last lines). Returns the CompletedProcess, with text
    in ``stdout`` and ``stderr``. On ``--device cpu`` the GPU is hidden from the process.
    """
    device_name = request.config.getoption("--device")

    def run(
        command: str,
        *arguments: Union[str, int, float, Path],
        stdin: Optional[str] = None,
        cwd: Optional[Union[str, Path]] = None,
        env: Optional[Mapping[str, str]] = None,
        timeout: float = 300.0,
        check: bool = True,
    ) -> "subprocess.CompletedProcess[str]":
        line = [sys.executable, "-m", _module(command), *map(str, arguments)]
        process = subprocess.Popen(
            line,
            stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            cwd=str(cwd) if cwd is not None else None,
            env=_environment(device_name, env),
            start_new_session=True,  # so that a timeout also ends data-loading workers
        )
        try:
            stdout, stderr = process.communicate(stdin, timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            stdout, stderr = process.communicate()
            pytest.fail(f"still running after {timeout} s: {' '.join(line)}\n{_tail(stdout)}\n{_tail(stderr)}")
        if check and process.returncode != 0:
            pytest.fail(f"exit status {process.returncode}: {' '.join(line)}\n{_tail(stdout)}\n{_tail(stderr)}")
        return subprocess.CompletedProcess(line, process.returncode, stdout, stderr)

    return run


def _tail(text: str) -> str:
    return "\n".join(text.splitlines()[-TAIL_LINES:])
