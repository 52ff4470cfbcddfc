"""Run stock commands in forks of a process that has imported torch and fairseq.

This saves five seconds of a core per command. The process is multiprocessing's forkserver. It forks
before it does anything but import the stock libraries, so registries, patches, --user-dir, options,
generators and threads of the commands stay separate. Recipes in bash, torchrun and the commands of
this package start cold.
"""

import gc
import logging
import multiprocessing
import os
import re
import runpy
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

IMPORTED = [
    "fairseq",
    "fairseq.trainer",
    "fairseq.binarizer",
    "fairseq.model_parallel.megatron_trainer",
]


def run(module, arguments, files, cwd, env, timeout):
    """Run ``python -m module arguments``; ``files``: paths of standard input, output and error.

    Returns the exit status (negative: the signal), or None after ``timeout`` seconds, when the
    process and its children are killed.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    process = context.Process(target=_become, args=(module, arguments, files, cwd, env))
    with mock.patch.dict(os.environ, env):  # also hides GPUs from the forkserver
        process.start()
    process.join(timeout)
    if process.exitcode is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.join()
        return None
    return process.exitcode


def _become(module, arguments, files, cwd, env):
    """Behave like a process that ``python -m`` has just started."""
    import numpy as np

    gc.freeze()  # or the first collection would copy every page
    os.setsid()  # so that a timeout also ends data-loading workers
    for number, path in enumerate(files):
        file = os.open(path, os.O_RDWR)
        os.dup2(file, number)
        os.close(file)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # multiprocessing has closed it
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.path.insert(0, cwd)
    if "PRETEND" in env:
        from tests.pretend.cuda import answer

        answer()
    np.random.seed()  # or all processes without a seed would draw the same numbers
    # A command that sets up logging before it imports fairseq must not see fairseq's set-up.
    source = Path(find_spec(module).origin).read_text(encoding="utf-8")
    if re.search(r"^logging\.basicConfig", source, re.MULTILINE):
        logging.root.handlers.clear()
        logging.root.setLevel(logging.WARNING)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
