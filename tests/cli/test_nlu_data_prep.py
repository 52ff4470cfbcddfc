"""The bash script of data_prep.nlu: the bytes of fairseq-preprocess, and errors that leave nothing behind."""

import os
import subprocess
import sys

from data_prep.spm import apply
from tests.nlu_bins import model_and_dictionary, write

from .commands import last_line


def test_the_script_writes_what_fairseq_preprocess_writes(repo_root, tmp_path, run_cli):
    def script(*arguments):
        line = ["bash", str(repo_root / "data_prep/nlu.sh"), *map(str, arguments)]
        env = {**os.environ, "PYTHON": sys.executable}
        return subprocess.run(line, cwd=repo_root.parent, env=env, capture_output=True, text=True, timeout=300)

    model, dictionary = model_and_dictionary(tmp_path / "model")
    lines = ["the cat saw １２", "der Hund 🙂", "日本語の文 ½"]
    train = write(tmp_path / "train.tsv", *(f"{line}\tclass{number % 2}" for number, line in enumerate(lines)))
    bad = write(tmp_path / "bad.tsv", "a\tclass0", "a")
    options = ["--sentencepiece", model, "--dict", dictionary, f"train.en={train}", "--text", "1"]
    out = tmp_path / "bin" / "nlu"
    failed = script("sentences", out, *options, f"test.de={bad}")
    assert failed.returncode == 1 and f"input test.de: {bad}, line 2: 1 columns; valid: 2" in last_line(failed)
    assert not (tmp_path / "bin").exists()
    done = script("sentences", out, *options)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("| set      | rows |") and "INFO" not in done.stderr

    text = write(tmp_path / "text.en", *lines)
    apply(model, [text], [tmp_path / "pieces.en"], dictionary, max_unknown=1.0)
    made = tmp_path / "made"
    line = f"--only-source --source-lang en --trainpref {tmp_path / 'pieces'} --srcdict {dictionary} --destdir {made}"
    run_cli("preprocess", *line.split())
    for part in ("bin", "idx"):
        assert (made / f"train.en-None.en.{part}").read_bytes() == (out / f"input0/train.en.{part}").read_bytes()
    assert (made / "dict.en.txt").read_bytes() == (out / "input0/dict.txt").read_bytes() == dictionary.read_bytes()
