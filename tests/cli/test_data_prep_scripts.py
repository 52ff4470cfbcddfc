"""lexicon.sh and nlu.sh, from another folder: a run that is killed and run again, the bytes of fairseq-preprocess, errors."""

import os
import signal
import subprocess
import sys
import time

from data_prep.pieces.encode import apply_files
from data_prep.toy.corpus import generate
from tests.conftest import ROOT
from tests.csr_builders import write_raw
from tests.nlu_bins import model_and_dictionary, write

from .commands import last_line

OPTIONS = "--dim 12 --window 3 --negative 3 --min-count 2 --top 4 --iterations 30 --threads 1".split()


def start(folder, script, *arguments):
    line = ["bash", str(ROOT / "data_prep" / script), *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(line, cwd=folder, env={**os.environ, "PYTHON": sys.executable}, **pipes)


def ended(process):
    stdout, stderr = process.communicate(timeout=300)
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def test_lexicon_killed_and_run_again(tmp_path):
    examples = list(generate(3, {"train": 60}))
    for language in ("en", "de"):
        write_raw(tmp_path / f"toy.{language}", *(example.texts[language] for example in examples))
    out = tmp_path / "lexicon"
    command = ["lexicon.sh", "--source", "toy.en", "--target", "toy.de", "--out", out, *OPTIONS, "--epochs"]
    started = start(tmp_path, *command, 100000)
    until = time.monotonic() + 240
    while "epoch" not in started.stderr.readline():
        assert time.monotonic() < until and started.poll() is None
    started.send_signal(signal.SIGTERM)
    assert ended(started).returncode == 128 + signal.SIGTERM
    left = sorted(path.name for path in out.rglob("*") if path.is_file())
    assert left == ["de.txt", "de.txt.json", "en.txt", "en.txt.json", "words.de.json", "words.en.json"]

    again = ended(start(tmp_path, *command, 2))
    assert again.returncode == 0, again.stderr
    assert "INFO" not in again.stderr and again.stderr.count("unchanged, skipped") == 2
    assert sorted(path.name for path in out.iterdir()) == ["de-en.tsv", "en-de", "en-de.tsv"]
    first = (out / "en-de.tsv").read_text(encoding="utf-8").split("\n")[0].split("\t")
    assert len(first) == 4 and first[3] == "1" and -4 < float(first[2]) < 4


def test_nlu_writes_what_fairseq_preprocess_writes(tmp_path, run_cli):
    model, dictionary = model_and_dictionary(tmp_path / "model")
    lines = ["the cat saw １２", "der Hund 🙂", "日本語の文 ½"]
    train = write(tmp_path / "train.tsv", *(f"{line}\tclass{number % 2}" for number, line in enumerate(lines)))
    bad = write(tmp_path / "bad.tsv", "a\tclass0", "a")
    out = tmp_path / "bin" / "nlu"
    command = f"nlu.sh sentences {out} --sentencepiece {model} --dict {dictionary} train.en={train} --text 1".split()
    failed = ended(start(tmp_path, *command, f"test.de={bad}"))
    assert failed.returncode == 1 and f"input test.de: {bad}, line 2: 1 columns; valid: 2" in last_line(failed)
    assert not (tmp_path / "bin").exists()
    done = ended(start(tmp_path, *command))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("| set      | rows |") and "INFO" not in done.stderr

    apply_files(
        "spm", model, [write(tmp_path / "text.en", *lines)], [tmp_path / "pieces.en"], dictionary, max_unknown=1.0
    )
    made = tmp_path / "made"
    line = f"--only-source --source-lang en --trainpref {tmp_path / 'pieces'} --srcdict {dictionary} --destdir {made}"
    run_cli("preprocess", *line.split())
    for part in ("bin", "idx"):
        assert (made / f"train.en-None.en.{part}").read_bytes() == (out / f"input0/train.en.{part}").read_bytes()
    assert (made / "dict.en.txt").read_bytes() == (out / "input0/dict.txt").read_bytes() == dictionary.read_bytes()
