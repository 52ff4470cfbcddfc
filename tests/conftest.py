"""Fixtures for every tier of the tests: the device, seeds, and the stock commands in a subprocess."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported; two test processes share two cores
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # no test may reach for the network

import contextlib
import logging
import random
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch

from tests import pretend, run_log, warm

# Some fairseq modules configure logging when imported, onto a stream that pytest shows after its closing line.
logging.basicConfig(level=logging.INFO, handlers=[logging.NullHandler()])

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "fairseq_plugins"
TAIL_LINES = 60
RUN_LOG = os.environ.pop("RUN_LOG", None)  # not for the commands that tests run

# What run_cli accepts: the stock commands, by the name a user types without "fairseq-".
STOCK_COMMANDS = ("eval_lm", "generate", "hydra_train", "interactive", "preprocess", "score", "train", "validate")


def pytest_addoption(parser):
    parser.addoption(
        "--device", default="cpu", choices=("cpu", "cuda", "pretend"), help="device of the tests (default cpu)"
    )
    parser.addoption("--cold", action="store_true", help="start every stock command anew, not from a warm process")


def pytest_configure(config):
    if config.getoption("--device") == "cuda" and not torch.cuda.is_available():
        raise pytest.UsageError("--device cuda: this torch sees no GPU; valid here: --device cpu")
    if config.getoption("--device") == "pretend" and pretend.SUPPORTED:
        pretend.device.install()
        if RUN_LOG:  # the workers of xdist are started with this environment
            os.environ.setdefault(pretend.commands.TABLE, tempfile.mkstemp(suffix=".jsonl")[1])


def pytest_collection_modifyitems(config, items):
    """Skip tests of another device and let the slow ones start first, so that two workers end together."""
    device_name = config.getoption("--device")
    for item in items:
        if device_name != "cuda" and item.get_closest_marker("cuda") is not None:
            item.add_marker(pytest.mark.skip(reason="needs a GPU: --device cuda"))
        if device_name != "pretend" and item.get_closest_marker("pretend") is not None:
            item.add_marker(pytest.mark.skip(reason="about the pretend device: --device pretend"))
        if device_name == "pretend":
            reason = pretend.NOT_PRETENDED.get(item.name) if pretend.SUPPORTED else pretend.UNSUPPORTED
            if reason:
                item.add_marker(pytest.mark.skip(reason=f"cannot run on the pretend device: {reason}"))
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_terminal_summary(terminalreporter, exitstatus, config):
    """Log a run that ended, where ``$RUN_LOG`` names a file. Workers of xdist have no summary."""
    if RUN_LOG and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        if config.option.keyword or config.option.markexpr:
            terminalreporter.write_line("not logged: a run with -k or -m")
        else:
            run_log.put(Path(RUN_LOG), run_log.finished(terminalreporter, config.getoption("--device")))


def pytest_generate_tests(metafunc):
    """``@pytest.mark.cases("option value", ("--a", 1), ("--b", 2))``: once for each row; of one name, rows are its values."""
    for mark in metafunc.definition.iter_markers("cases"):
        names, *rows = mark.args
        metafunc.parametrize(names.split() if " " in names else names, rows)


def seed_all():
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)


@pytest.fixture(autouse=True)
def _seeded():
    """Seed before each test: a result never depends on the order of the tests."""
    seed_all()


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef):
    """Seed before what several tests share, too: it is made before the fixture above runs."""
    if fixturedef.scope != "function":
        seed_all()


@pytest.fixture(scope="session")
def device(request):
    return torch.device(request.config.getoption("--device"))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A new folder, one for all tests of a file."""
    return tmp_path_factory.mktemp("module")


@pytest.fixture(scope="session")
def repo_root():
    return ROOT


@pytest.fixture(scope="session")
def user_dir():
    """What to give as ``--user-dir``."""
    return str(PACKAGE)


def _module(command):
    """The module that ``python -m`` runs for a stock command ("fairseq-train", "train") or a module of ours."""
    name = command.replace("fairseq-", "", 1).replace("-", "_")
    if name in STOCK_COMMANDS:
        return f"fairseq_cli.{name}"
    if "." in command or (ROOT / command / "__main__.py").is_file():
        return command
    raise ValueError(f"run_cli: command {command!r} is unknown; valid: {', '.join(STOCK_COMMANDS)} or a module")


def _environment(device_name, env):
    result = dict(os.environ, OMP_NUM_THREADS="1", PYTHONUNBUFFERED="1", HF_HUB_OFFLINE="1")
    result["PYTHONPATH"] = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH", "")) if p)
    if device_name != "cuda":
        result["CUDA_VISIBLE_DEVICES"] = ""
    if device_name == "pretend":
        result["PRETEND"] = "1"
    result.update(env or {})
    return result


@pytest.fixture(scope="session")
def run_cli(request, tmp_path_factory):
    """Run a command line in a subprocess, as a user would, with this Python and the checkout on its path.

    ``run_cli("train", data_dir, ...)`` runs ``fairseq-train``, ``run_cli("data_prep.clean", ...)`` a module of the checkout. With
    ``check`` a non-zero exit fails the test. Stock commands are forked from a warm process, unless ``--cold`` is given.
    """
    device_name = request.config.getoption("--device")
    cold = request.config.getoption("--cold")
    on_pretend = device_name == "pretend" and pretend.SUPPORTED

    def run(command, *arguments, stdin=None, cwd=None, env=None, timeout=300.0, check=True):
        module, given = _module(command), [str(argument) for argument in arguments]
        line = [sys.executable, "-m", module, *given]
        if on_pretend and module.startswith("fairseq_cli."):
            given = pretend.commands.on_gpu(module, given)
        where, variables = str(cwd) if cwd is not None else os.getcwd(), _environment(device_name, env)
        with contextlib.ExitStack() as stack:
            # Files, not pipes: nobody has to read while the command runs.
            files = [stack.enter_context(tempfile.NamedTemporaryFile()) for _ in range(3)]
            files[0].write((stdin or "").encode())
            files[0].seek(0)
            if cold or not module.startswith("fairseq_cli.") or any(name.startswith("PYTHON") for name in env or ()):
                status = _run_cold(line, files, where, variables, timeout)
            else:
                status = warm.run(module, given, [file.name for file in files], where, variables, timeout)
            stdout, stderr = (_text(file) for file in files[1:])
        if status is None or (check and status != 0):
            ended = f"still running after {timeout} s" if status is None else f"exit status {status}"
            last = [text for output in (stdout, stderr) for text in output.splitlines()[-TAIL_LINES:]]
            pytest.fail("\n".join([f"{ended}: {' '.join(line)}", *last]))
        if on_pretend and module == "fairseq_cli.train" and status == 0:
            half(given, cwd=cwd, env=env, timeout=timeout)
        return subprocess.CompletedProcess(line, status, stdout, stderr)

    half = pretend.commands.HalfPrecision(run, tmp_path_factory.mktemp, PACKAGE) if on_pretend else None
    return run


def _run_cold(line, files, cwd, env, timeout):
    """Exit status of a command line, None after a timeout. ``files``: its standard streams."""
    streams = dict(zip(("stdin", "stdout", "stderr"), files))
    # A session of its own, so that a timeout also ends data-loading workers.
    process = subprocess.Popen(line, **streams, cwd=cwd, env=env, start_new_session=True)
    try:
        return process.wait(timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


def _text(file):
    file.seek(0)
    return file.read().decode("utf-8").replace("\r\n", "\n")
