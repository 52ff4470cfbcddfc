"""Test SGA with a smaller target dictionary under the stock commands."""

import pytest
from fairseq.data import Dictionary

from .commands import hypotheses, last_line
from .conftest import COUNTS

TASK = "--task sga_translation -s en -t de"
SGA = """--arch sga_tiny --criterion sga_ctc --prompt-length 4 --ctc-blank-bias -9
    --disable-validation"""


@pytest.fixture(scope="module")
def cut_data(world, run_cli, path):
    """Binarize en-de with a target dictionary of the words of its German text."""
    words = world.root / "dict.txt"
    line = f"""cut_vocabulary --dict {words} --output {path}/cut
        --pieces {world.root}/train.de {world.root}/test.de"""
    run_cli("data_prep", *line.split())
    prefixes = " ".join(f"--{split}pref {world.root}/{split}" for split in COUNTS)
    line = f"-s en -t de --srcdict {words} --tgtdict {path}/cut/dict.txt --destdir {path}/bin"
    run_cli("preprocess", *f"{line} {prefixes}".split())
    return path / "bin"


def test_train_decode_translate_export_and_serve(world, cut_data, train, decode, run_cli, tmp_path):
    run, folder = tmp_path / "run", tmp_path / "onnx"
    more = f"--pretrained-mlm {world.masked_lm} --max-epoch 1 --save-full-model"
    train(cut_data, run, f"{TASK} {SGA} {more}")
    words = Dictionary.load(str(cut_data / "dict.de.txt"))
    assert len(words) < world.pieces

    file, line = run / "checkpoint_last.pt", f"{TASK} --iter-decode-max-iter 2"
    generated = hypotheses(decode(cut_data, file, f"{line} --max-sentences 5"))
    assert len(generated) == COUNTS["test"]
    assert any(generated.values())
    assert all(word in words for text in generated.values() for word in text.split())
    source = (world.root / "test.en").read_text(encoding="utf-8")
    line = f"{line} --buffer-size 20 --max-sentences 7"
    interactive = decode(cut_data, file, line, command="interactive", stdin=source)
    assert hypotheses(interactive) == generated

    passes = ["--iter-decode-max-iter", 2]
    translated = run_cli("fairseq_plugins", "translate", run, "--cpu", *passes, stdin=source)
    lines = translated.stdout.splitlines()
    assert lines == [generated[str(number)] for number in range(COUNTS["test"])]
    run_cli("fairseq_plugins", "export", run, folder, *passes)
    runtime = run_cli("fairseq_plugins_runtime.__main__", "translate", folder, stdin=source)
    assert runtime.stdout == translated.stdout
    for side, length in (("source", world.pieces + 5), ("target", len(words) + 1)):
        vocabulary = (folder / f"vocabulary.{side}.txt").read_text(encoding="utf-8")
        assert len(vocabulary.splitlines()) == length


def test_an_entry_missing_in_the_source_is_refused(world, cut_data, train, tmp_path):
    for file in cut_data.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    with open(tmp_path / "dict.de.txt", "a", encoding="utf-8") as file:
        file.write("elsewhere 1\n")
    line = f"{TASK} {SGA} --pretrained-mlm {world.masked_lm}"
    message = last_line(train(tmp_path, tmp_path / "run", line, check=False))
    assert "dict.en.txt" in message
    assert "'elsewhere'" in message
    assert not list((tmp_path / "run").iterdir())
