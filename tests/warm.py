"""Stock commands in processes forked from one that has imported torch and fairseq: five seconds of a core less for each.

A process is forked before it has done anything but import the stock libraries, so what the tests are about stays apart:
registries, patches, --user-dir, options, generators, threads. Recipes in bash, torchrun and our own commands start cold.
"""

import json
import os
import runpy
import signal
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

SERVER_WAIT = 300.0  # seconds that the imports may take
REPLY_BYTES = 64


class WarmStarter:
    """Starts commands from a warm process, which is started with the first command and ends with this one.

    ``environment``: of the warm process; a command that needs other variables of Python itself must start cold.
    """

    def __init__(self, environment):
        self._environment = dict(environment)
        self._server = self._socket = None

    def run(self, module, arguments, files, cwd, env, timeout):
        """Run ``python -m module arguments``; ``files``: descriptors of standard input, output and error.

        Returns the exit status (negative: the signal); None after ``timeout`` seconds: the process and its children are killed.
        """
        connection = self._connected()
        request = json.dumps({"module": module, "arguments": list(arguments), "cwd": cwd, "env": dict(env)}).encode()
        socket.send_fds(connection, [len(request).to_bytes(8, "big")], list(files))
        connection.sendall(request)
        connection.settimeout(SERVER_WAIT)
        pid = int(self._reply(connection))
        connection.settimeout(timeout)
        try:
            return int(self._reply(connection))
        except socket.timeout:
            os.killpg(pid, signal.SIGKILL)
            connection.settimeout(SERVER_WAIT)
            self._reply(connection)
            return None

    def close(self):
        if self._server is not None and self._socket is not None:
            self._socket.close()
            self._server.wait()
        self._server = self._socket = None

    def _connected(self):
        if self._socket is None:
            self._socket, other = socket.socketpair()
            line = [sys.executable, "-m", "tests.warm", str(other.fileno())]
            self._server = subprocess.Popen(
                line, env=self._environment, stdin=subprocess.DEVNULL, pass_fds=[other.fileno()]
            )
            other.close()
        return self._socket

    @staticmethod
    def _reply(connection):
        reply = connection.recv(REPLY_BYTES).decode()
        if not reply:
            raise RuntimeError("the warm process of the command-line tests has ended; see its standard error")
        return reply.strip()


def serve(connection):
    """Fork for every request. Returns only in a child: the request that it has to run."""
    while True:
        head, files, _, _ = socket.recv_fds(connection, 8, 3)
        if not head:
            os._exit(0)
        size = int.from_bytes(head, "big")
        request = json.loads(b"".join(_pieces(connection, size)))
        pid = os.fork()
        if pid == 0:
            connection.close()
            _become(request, files)
            return request
        for file in files:
            os.close(file)
        connection.sendall(f"{pid}".ljust(REPLY_BYTES).encode())
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        connection.sendall(f"{status}".ljust(REPLY_BYTES).encode())


def _pieces(connection, size):
    pieces = []
    while size > 0:
        pieces.append(connection.recv(size))
        size -= len(pieces[-1])
    return pieces


def _become(request, files):
    """Take the place of a process that ``python -m`` has just started."""
    import numpy as np

    os.setsid()  # so that a timeout also ends data-loading workers
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.path[0] = request["cwd"]
    np.random.seed()  # as in a new process, else all would draw the same numbers without a seed


def _import_stock():
    import gc
    import importlib

    for name in ("fairseq", "fairseq.trainer", "fairseq.binarizer", "fairseq.model_parallel.megatron_trainer"):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # else a child's first collection would copy every page


def _keep_logging_for(module):
    """Forget the logging that fairseq's import set up, for a command that sets up its own before it imports fairseq.

    Others set it up when they run, too late to change what the import did.
    """
    import logging
    import re

    spec = find_spec(module)
    if spec is None or not spec.origin:
        return
    if re.search(r"^logging\.basicConfig", Path(spec.origin).read_text(encoding="utf-8"), re.MULTILINE):
        logging.root.handlers.clear()
        logging.root.setLevel(logging.WARNING)


if __name__ == "__main__":
    _import_stock()
    _request = serve(socket.socket(fileno=int(sys.argv[1])))
    _keep_logging_for(_request["module"])
    sys.argv = [_request["module"], *_request["arguments"]]
    runpy.run_module(_request["module"], run_name="__main__", alter_sys=True)
