"""``python -m fairseq_plugins_runtime serve``: a process that starts, serves a model folder, ends, or says why it does not."""

import contextlib
import re
import signal
import socket
import subprocess
import sys

import httpx
import pytest

from tests.runtime.folders import write_folder

SECONDS = 60
COMMAND = [sys.executable, "-m", "fairseq_plugins_runtime", "serve"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("serve") / "model")


@contextlib.contextmanager
def started(*line):
    """Yields the process and its address."""
    process = subprocess.Popen([*COMMAND, *map(str, line)], stderr=subprocess.PIPE, text=True)
    try:
        said = ""
        while (found := re.search(r"http://\S+", said)) is None:
            said = process.stderr.readline()
            assert said, f"ended with {process.wait(SECONDS)}"
        yield process, found.group(0)
    finally:
        process.kill()
        process.wait(SECONDS)
        process.stderr.close()


def translate(url):
    return httpx.post(url + "/translate", data={"q": "eins drei", "source": "de", "target": "en"}, timeout=SECONDS)


def test_serves_until_a_signal_and_again_after_a_kill(folder):
    with started(folder, "--port", "0", "--threads", "1") as (process, url):
        port = url.rpartition(":")[2]
        assert url.startswith("http://127.0.0.1:")
        assert translate(url).json() == {"translatedText": "one three"}
        process.kill()
        process.wait(SECONDS)
        with pytest.raises(httpx.ConnectError):
            translate(url)
    with started(folder, "--port", port, "--threads", "1", "--max-texts", "1") as (process, url):
        assert translate(url).json() == {"translatedText": "one three"}
        refused = httpx.post(url + "/translate", json={"q": ["eins", "zwei"], "source": "de", "target": "en"})
        assert refused.status_code == 400 and "at most 1" in refused.json()["error"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) in (0, -signal.SIGTERM)
        with pytest.raises(httpx.ConnectError):
            translate(url)


def refused(line, code="import sys; from fairseq_plugins_runtime.serve import main; main(sys.argv[1:])"):
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, line)], capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == 2 and "Traceback" not in done.stderr
    return done.stderr


def test_what_cannot_be_served_is_named(folder, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert port in refused([folder, "--port", port])
    assert str(tmp_path / "none") in refused([tmp_path / "none", "--port", "0"])
    assert "de to en" in refused([folder, folder, "--port", "0"])
    assert "--max-body" in refused([folder, "--max-body", "0"])
    missing = (
        "import sys; sys.modules['uvicorn'] = None; from fairseq_plugins_runtime.serve import main; main(sys.argv[1:])"
    )
    assert "pip install fastapi uvicorn python-multipart" in refused([folder], missing)
