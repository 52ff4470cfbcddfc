"""SGA with a cut target dictionary under the stock commands, each in a subprocess."""

import pytest
from fairseq.data import Dictionary

from .commands import hypotheses, last_line
from .conftest import COUNTS

TASK = "--task sga_translation -s en -t de"
SGA = "--arch sga_tiny --criterion sga_ctc --prompt-length 4 --ctc-blank-bias -9 --disable-validation"


@pytest.fixture(scope="module")
def cut_data(world, run_cli, path):
    """The data-bin of the world with a target dictionary that holds the words of its text alone."""
    line = f"cut_vocabulary --dict {world.root}/dict.txt --pieces {world.root}/train.de {world.root}/test.de --output {path}/cut"
    run_cli("data_prep", *line.split())
    line = f"-s en -t de --srcdict {world.root}/dict.txt --tgtdict {path}/cut/dict.txt --destdir {path}/bin"
    run_cli("preprocess", *(line + "".join(f" --{split}pref {world.root}/{split}" for split in COUNTS)).split())
    return path / "bin"


def test_train_decode_translate_export_and_serve(world, cut_data, train, decode, run_cli, tmp_path):
    more = f"--pretrained-mlm {world.masked_lm} --max-epoch 1 --save-full-model"
    train(cut_data, tmp_path / "run", f"{TASK} {SGA} {more}")
    words = Dictionary.load(str(cut_data / "dict.de.txt"))
    assert len(words) < world.pieces

    checkpoint, options = tmp_path / "run" / "checkpoint_last.pt", f"{TASK} --iter-decode-max-iter 2"
    generated = hypotheses(decode(cut_data, checkpoint, f"{options} --max-sentences 5"))
    assert len(generated) == COUNTS["test"] and any(generated.values())
    assert all(word in words for text in generated.values() for word in text.split())
    source = (world.root / "test.en").read_text(encoding="utf-8")
    batches = "--buffer-size 20 --max-sentences 7"
    assert (
        hypotheses(decode(cut_data, checkpoint, f"{options} {batches}", command="interactive", stdin=source))
        == generated
    )

    decoding = "--cpu --iter-decode-max-iter 2".split()
    translated = run_cli("fairseq_plugins", "translate", tmp_path / "run", *decoding, stdin=source)
    assert translated.stdout.splitlines() == [generated[str(number)] for number in range(COUNTS["test"])]
    run_cli("fairseq_plugins", "export", tmp_path / "run", tmp_path / "onnx", "--iter-decode-max-iter", 2)
    served = run_cli("fairseq_plugins_runtime.__main__", "translate", tmp_path / "onnx", stdin=source)
    assert served.stdout == translated.stdout
    lengths = {
        side: len((tmp_path / "onnx" / f"vocabulary.{side}.txt").read_text().splitlines())
        for side in ("source", "target")
    }
    assert lengths == {"source": world.pieces + 5, "target": len(words) + 1}


def test_an_entry_that_the_source_lacks_is_refused(world, cut_data, train, tmp_path):
    for file in cut_data.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    dictionary = tmp_path / "dict.de.txt"
    dictionary.write_text(dictionary.read_text(encoding="utf-8") + "elsewhere 1\n", encoding="utf-8")
    done = train(tmp_path, tmp_path / "run", f"{TASK} {SGA} --pretrained-mlm {world.masked_lm}", check=False)
    assert "dict.en.txt" in last_line(done) and "lacks its entry 'elsewhere'" in last_line(done)
    assert not list((tmp_path / "run").iterdir())
