"""data_prep/lexicon.sh, from another folder: a run that is killed and run again."""

import os
import signal
import subprocess
import sys
import time

from data_prep.toy.corpus import generate
from tests.csr_builders import write_raw

OPTIONS = "--dim 12 --window 3 --negative 3 --min-count 2 --top 4 --iterations 30 --threads 1".split()


def test_killed_and_run_again(repo_root, tmp_path):
    def start(*arguments):
        line = ["bash", str(repo_root / "data_prep/lexicon.sh"), *map(str, arguments)]
        env = {**os.environ, "PYTHON": sys.executable}
        return subprocess.Popen(line, cwd=tmp_path, env=env, text=True, stderr=subprocess.PIPE)

    examples = list(generate(3, {"train": 60}))
    for language in ("en", "de"):
        write_raw(tmp_path / f"toy.{language}", *(example.texts[language] for example in examples))
    out = tmp_path / "lexicon"
    command = ["--source", "toy.en", "--target", "toy.de", "--out", out, *OPTIONS, "--epochs"]
    started = start(*command, 100000)
    until = time.monotonic() + 240
    while "epoch" not in started.stderr.readline():
        assert time.monotonic() < until and started.poll() is None
    started.send_signal(signal.SIGTERM)
    started.communicate(timeout=60)
    assert started.returncode == 128 + signal.SIGTERM
    left = sorted(path.name for path in out.rglob("*") if path.is_file())
    assert left == ["de.txt", "de.txt.json", "en.txt", "en.txt.json", "words.de.json", "words.en.json"]

    again = start(*command, 2)
    _, log = again.communicate(timeout=300)
    assert again.returncode == 0, log
    assert "INFO" not in log and log.count("unchanged, skipped") == 2
    assert sorted(path.name for path in out.iterdir()) == ["de-en.tsv", "en-de", "en-de.tsv"]
    first = (out / "en-de.tsv").read_text(encoding="utf-8").split("\n")[0].split("\t")
    assert len(first) == 4 and first[3] == "1" and -4 < float(first[2]) < 4
