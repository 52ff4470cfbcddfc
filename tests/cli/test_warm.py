"""A command forked from the warm process meets what a new process would."""

import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, Optional, Tuple

import pytest

from tests.warm import WarmStarter

PROBE = """
import json, os, sys
import numpy as np
names = [name for name in sys.modules if name.split(".")[0] in ("fairseq_plugins", "fairseq_cli")]
print(json.dumps({"argv": sys.argv[1:], "stdin": sys.stdin.read(), "cwd": os.getcwd(), "probe": os.environ.get("PROBE"),
                  "home": "HOME" in os.environ, "modules": names, "draw": float(np.random.random()), "pid": os.getpid(),
                  "leader": os.getpid() == os.getsid(0), "name": __name__}))
print("an error", file=sys.stderr)
sys.exit(int(sys.argv[1]))
"""


def run(starter: WarmStarter, folder: Path, *arguments: str, module: str = "probe", timeout: float = 60.0) -> Tuple[
    Optional[int], str, str
]:  # fmt: skip
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        stdin.write("grüße".encode())
        stdin.seek(0)
        files = (stdin.fileno(), stdout.fileno(), stderr.fileno())
        environment = {"PATH": os.environ["PATH"], "PROBE": "1", "LC_ALL": "C.UTF-8"}
        status = starter.run(module, arguments, files, str(folder), environment, timeout)
        for file in (stdout, stderr):
            file.seek(0)
        return status, stdout.read().decode(), stderr.read().decode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working directory with modules to run."""
    (tmp_path / "probe.py").write_text(PROBE, encoding="utf-8")
    (tmp_path / "sleeper.py").write_text(
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen(['sleep', '60'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n",
        encoding="utf-8",
    )
    return tmp_path


def test_streams_folder_environment_and_status(warm_starter: WarmStarter, folder: Path) -> None:
    seen: Dict[int, Any] = {}
    for status in (0, 3):
        ended, stdout, stderr = run(warm_starter, folder, str(status), "a b")
        assert (ended, stderr) == (status, "an error\n")
        seen[status] = json.loads(stdout)
        assert seen[status]["argv"] == [str(status), "a b"]
    first = seen[0]
    assert (first["stdin"], first["cwd"], first["probe"]) == ("grüße", str(folder), "1")
    assert first["leader"] and first["name"] == "__main__" and not first["home"]
    assert first["modules"] == []  # neither ours nor a command: each command loads them itself
    assert first["draw"] != seen[3]["draw"] and first["pid"] != seen[3]["pid"]


def test_an_error_is_an_exit_status_with_its_traceback(warm_starter: WarmStarter, folder: Path) -> None:
    status, _, stderr = run(warm_starter, folder, "three")
    assert status == 1 and "ValueError: invalid literal" in stderr


def test_a_timeout_ends_the_command_and_its_children(warm_starter: WarmStarter, folder: Path) -> None:
    status, stdout, _ = run(warm_starter, folder, module="sleeper", timeout=2.0)
    assert status is None
    child = int(stdout)
    for _ in range(100):
        if not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1][:3]:
            break
        time.sleep(0.05)
    else:
        pytest.fail(f"process {child} still runs")
    assert run(warm_starter, folder, "0")[0] == 0
