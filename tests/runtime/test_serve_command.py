"""Test ``python -m fairseq_plugins_runtime serve``: its start, its end, and its errors."""

import contextlib
import re
import signal
import socket
import subprocess
import sys

import httpx
import pytest

from tests.runtime.folders import write_folder
from tests.runtime.serving import SECONDS

COMMAND = [sys.executable, "-m", "fairseq_plugins_runtime", "serve"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("serve") / "model")


@contextlib.contextmanager
def start_service(*words):
    """Start a service; yield its process and its address."""
    process = subprocess.Popen([*COMMAND, *map(str, words)], stderr=subprocess.PIPE, text=True)
    try:
        line = ""
        while (address := re.search(r"http://\S+", line)) is None:
            line = process.stderr.readline()
            assert line, f"ended with {process.wait(SECONDS)}"
        yield process, address.group(0)
    finally:
        process.kill()
        process.wait(SECONDS)
        process.stderr.close()


def translate(url, q="eins drei"):
    fields = {"q": q, "source": "de", "target": "en"}
    return httpx.post(url + "/translate", json=fields, timeout=SECONDS)


def test_serves_until_a_signal_and_again_after_a_kill(folder):
    with start_service(folder, "--port", "0", "--threads", "1") as (process, url):
        port = url.rpartition(":")[2]
        assert url.startswith("http://127.0.0.1:")
        assert translate(url).json() == {"translatedText": "one three"}
        process.kill()
        process.wait(SECONDS)
        with pytest.raises(httpx.ConnectError):
            translate(url)
    options = ["--port", port, "--threads", "1", "--max-texts", "1"]
    with start_service(folder, *options) as (process, url):
        assert translate(url).json() == {"translatedText": "one three"}
        answer = translate(url, ["eins", "zwei"])
        assert answer.status_code == 400 and "at most 1" in answer.json()["error"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) in (0, -signal.SIGTERM)
        with pytest.raises(httpx.ConnectError):
            translate(url)


def serve_error(*words, before="pass"):
    """Run a command line that fails, after a Python statement ``before``; return its error."""
    code = f"""
import sys
{before}
from fairseq_plugins_runtime.serve import main
main(sys.argv[1:])
"""
    command = [sys.executable, "-c", code, *map(str, words)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert process.returncode == 2 and "Traceback" not in process.stderr
    return process.stderr


def test_bad_ports_folders_limits_and_missing_packages_are_refused(folder, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        assert port in serve_error(folder, "--port", port)
    assert str(tmp_path / "none") in serve_error(tmp_path / "none", "--port", "0")
    assert "de to en" in serve_error(folder, folder, "--port", "0")
    assert "--max-body" in serve_error(folder, "--max-body", "0")
    error = serve_error(folder, before="sys.modules['uvicorn'] = None")
    assert "pip install fastapi uvicorn python-multipart" in error
