"""The scripts of continued translation: which directions they train."""

import os
import subprocess
from pathlib import Path
from typing import Tuple

import pytest

from tests.contract.repository import ROOT


@pytest.mark.parametrize("names", [("en", "de", "fr"), ("en_XX", "de_DE", "fr_XX")])
@pytest.mark.parametrize(("kind", "wanted"), [("m2o", "10 20"), ("o2m", "01 02"), ("m2m", "01 02 10 12 20 21")])
def test_directions_of_each_kind(tmp_path: Path, names: Tuple[str, ...], kind: str, wanted: str) -> None:
    (tmp_path / "fairseq-train").write_text("#!/usr/bin/env bash\nprintf '%s\\n' \"$@\"\n", encoding="utf-8")
    (tmp_path / "fairseq-train").chmod(0o755)
    texts = ",".join(names)
    env = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "LANGS": texts, "TEXTS": texts}
    line = ["bash", "examples/mt_transfer/continue.sh", str(tmp_path), "mbart.pt", kind, "10"]
    words = subprocess.run(line, cwd=ROOT, env=env, capture_output=True, text=True, check=True).stdout.splitlines()
    pairs = [f"{names[int(source)]}-{names[int(target)]}" for source, target in wanted.split()]
    assert words[words.index("--lang-pairs") + 1].split(",") == pairs
