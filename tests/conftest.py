"""Fixtures for every tier of the tests: the device, seeds, and commands in a subprocess."""

import os

# Set before torch is imported; two test processes share two cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # no test may use the network

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

# Some fairseq modules configure logging when imported, onto a stream that pytest shows after its
# closing line.
logging.basicConfig(level=logging.INFO, handlers=[logging.NullHandler()])

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "fairseq_plugins"
TAIL_LINES = 60
RUN_LOG = os.environ.pop("RUN_LOG", None)  # hidden from the commands that tests run

# The stock commands that run_cli accepts, without "fairseq-".
STOCK_COMMANDS = (
    "eval_lm",
    "generate",
    "hydra_train",
    "interactive",
    "preprocess",
    "score",
    "train",
    "validate",
)


def pytest_addoption(parser):
    parser.addoption(
        "--device",
        default="cpu",
        choices=("cpu", "cuda", "pretend"),
        help="device of the tests (default cpu)",
    )
    parser.addoption(
        "--cold",
        action="store_true",
        help="start every stock command anew, not from a warm process",
    )


def pytest_configure(config):
    if config.getoption("--device") == "cuda" and not torch.cuda.is_available():
        raise pytest.UsageError("--device cuda: this torch sees no GPU; valid here: --device cpu")
    if config.getoption("--device") == "pretend" and pretend.SUPPORTED:
        pretend.device.install()
        if RUN_LOG:  # the workers of xdist are started with this environment
            os.environ.setdefault(pretend.commands.TABLE, tempfile.mkstemp(suffix=".jsonl")[1])


def skip_reason(item, device_name):
    """Return why a test cannot run on the device, or None."""
    if device_name != "cuda" and item.get_closest_marker("cuda") is not None:
        return "it needs a GPU (--device cuda)"
    if device_name != "pretend" and item.get_closest_marker("pretend") is not None:
        return "it is about the pretend device (--device pretend)"
    if device_name != "pretend":
        return None
    return pretend.NOT_PRETENDED.get(item.name) if pretend.SUPPORTED else pretend.UNSUPPORTED


def pytest_collection_modifyitems(config, items):
    """Skip tests of other devices; run slow ones first, so that two workers end together."""
    device_name = config.getoption("--device")
    for item in items:
        reason = skip_reason(item, device_name)
        if reason:
            mark = pytest.mark.skip(reason=f"cannot run on --device {device_name}: {reason}")
            item.add_marker(mark)
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_terminal_summary(terminalreporter, exitstatus, config):
    """Log a finished run if ``$RUN_LOG`` names a file. Workers of xdist have no summary."""
    if not RUN_LOG or exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return
    if config.option.keyword or config.option.markexpr:
        terminalreporter.write_line("not logged: a run with -k or -m")
        return
    line = run_log.describe_run(terminalreporter, config.getoption("--device"))
    run_log.put(Path(RUN_LOG), line)


def pytest_generate_tests(metafunc):
    """Run a test once per row of ``@pytest.mark.cases("option value", ("--a", 1), ("--b", 2))``.

    With a single name the rows are its values.
    """
    for mark in metafunc.definition.iter_markers("cases"):
        names, *rows = mark.args
        metafunc.parametrize(names.split() if " " in names else names, rows)


def seed_all():
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)


@pytest.fixture(autouse=True)
def _seeded():
    """Seed before each test, so that results do not depend on the order of the tests."""
    seed_all()


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef):
    """Seed before shared fixtures, too: they are set up before the fixture above."""
    if fixturedef.scope != "function":
        seed_all()


@pytest.fixture(scope="session")
def device(request):
    return torch.device(request.config.getoption("--device"))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Make a new folder, shared by all tests of a file."""
    return tmp_path_factory.mktemp("module")


@pytest.fixture(scope="session")
def repo_root():
    return ROOT


@pytest.fixture(scope="session")
def user_dir():
    """Return the argument of ``--user-dir``."""
    return str(PACKAGE)


def _module(command):
    """Return the module of a stock command ("fairseq-train", "train") or of the checkout."""
    name = command.replace("fairseq-", "", 1).replace("-", "_")
    if name in STOCK_COMMANDS:
        return f"fairseq_cli.{name}"
    if "." in command or (ROOT / command / "__main__.py").is_file():
        return command
    valid = f"{', '.join(STOCK_COMMANDS)} or a module"
    raise ValueError(f"run_cli: command {command!r} is unknown; valid: {valid}")


def _environment(device_name, env):
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    variables = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
    }
    if device_name != "cuda":
        variables["CUDA_VISIBLE_DEVICES"] = ""
    if device_name == "pretend":
        variables["PRETEND"] = "1"
    return {**variables, **(env or {})}


@pytest.fixture(scope="session")
def run_cli(request, tmp_path_factory):
    """Run a command line in a subprocess with this Python and the checkout on its path.

    ``run_cli("train", data_dir, ...)`` runs ``fairseq-train``, ``run_cli("data_prep.clean", ...)``
    a module of the checkout. With ``check`` a non-zero exit fails the test. Stock commands are
    forked from a warm process, unless ``--cold`` is given.
    """
    device_name = request.config.getoption("--device")
    cold = request.config.getoption("--cold")
    on_pretend = device_name == "pretend" and pretend.SUPPORTED

    def run(command, *arguments, stdin=None, cwd=None, env=None, timeout=300.0, check=True):
        module = _module(command)
        arguments = [str(argument) for argument in arguments]
        line = [sys.executable, "-m", module, *arguments]
        is_stock = module.startswith("fairseq_cli.")
        if on_pretend and is_stock:
            arguments = pretend.commands.on_gpu(module, arguments)
        folder = str(cwd) if cwd is not None else os.getcwd()
        variables = _environment(device_name, env)
        changes_python = any(name.startswith("PYTHON") for name in env or ())
        with contextlib.ExitStack() as stack:
            # Files, not pipes: nobody has to read while the command runs.
            files = [stack.enter_context(tempfile.NamedTemporaryFile()) for _ in range(3)]
            files[0].write((stdin or "").encode())
            files[0].seek(0)
            if is_stock and not cold and not changes_python:
                names = [file.name for file in files]
                status = warm.run(module, arguments, names, folder, variables, timeout)
            else:
                status = _run_cold(line, files, folder, variables, timeout)
            stdout, stderr = (_text(file) for file in files[1:])
        if status is None or (check and status != 0):
            end = f"still running after {timeout} s" if status is None else f"exit status {status}"
            tails = [*stdout.splitlines()[-TAIL_LINES:], *stderr.splitlines()[-TAIL_LINES:]]
            pytest.fail("\n".join([f"{end}: {' '.join(line)}", *tails]))
        if on_pretend and module == "fairseq_cli.train" and status == 0:
            repeat_in_half_precision(arguments, cwd=cwd, env=env, timeout=timeout)
        return subprocess.CompletedProcess(line, status, stdout, stderr)

    if on_pretend:
        repeat_in_half_precision = pretend.commands.HalfPrecision(
            run, tmp_path_factory.mktemp, PACKAGE
        )
    return run


def _run_cold(line, files, cwd, env, timeout):
    """Run a command line with files as its standard streams.

    Returns its exit status, or None after ``timeout`` seconds.
    """
    streams = dict(zip(("stdin", "stdout", "stderr"), files))
    # A new session, so that a timeout also ends data-loading workers.
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
