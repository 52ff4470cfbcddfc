"""Test lexicon.sh and nlu.sh, started from another folder."""

import signal
import sys

from data_prep.pieces.encode import apply_files
from data_prep.toy.corpus import generate
from tests.conftest import ROOT
from tests.csr_builders import write_raw
from tests.nlu_bins import model_and_dictionary, write

from .commands import finish, start, wait_until

LEXICON = """--source toy.en --target toy.de --out lexicon --dim 12 --window 3 --negative 3
    --min-count 2 --top 4 --iterations 30 --threads 1 --epochs"""


def start_script(folder, name, *arguments):
    line = ["bash", ROOT / "data_prep" / name, *arguments]
    return start(line, folder, PYTHON=sys.executable)


def test_a_terminated_lexicon_keeps_its_finished_steps(tmp_path):
    examples = list(generate(3, {"train": 60}))
    for language in ("en", "de"):
        write_raw(tmp_path / f"toy.{language}", *(example.texts[language] for example in examples))
    out = tmp_path / "lexicon"
    process = start_script(tmp_path, "lexicon.sh", *LEXICON.split(), 100000)
    wait_until(lambda: "epoch" in process.stdout.readline(), process)
    process.send_signal(signal.SIGTERM)
    assert finish(process)[0] == 128 + signal.SIGTERM
    names = sorted(path.name for path in out.rglob("*") if path.is_file())
    texts = ["de.txt", "de.txt.json", "en.txt", "en.txt.json"]
    assert names == [*texts, "words.de.json", "words.en.json"]

    status, output = finish(start_script(tmp_path, "lexicon.sh", *LEXICON.split(), 2))
    assert status == 0, output
    assert "INFO" not in output
    assert output.count("unchanged, skipped") == 2
    assert sorted(path.name for path in out.iterdir()) == ["de-en.tsv", "en-de", "en-de.tsv"]
    first = (out / "en-de.tsv").read_text(encoding="utf-8").split("\n")[0].split("\t")
    assert len(first) == 4
    assert first[3] == "1"
    assert -4 < float(first[2]) < 4


def test_nlu_writes_the_bytes_of_fairseq_preprocess(tmp_path, run_cli):
    model, dictionary = model_and_dictionary(tmp_path / "model")
    lines = ["the cat saw １２", "der Hund 🙂", "日本語の文 ½"]
    rows = [f"{line}\tclass{number % 2}" for number, line in enumerate(lines)]
    train = write(tmp_path / "train.tsv", *rows)
    unlabelled = write(tmp_path / "bad.tsv", "a\tclass0", "a")
    out = tmp_path / "bin" / "nlu"
    line = f"""sentences {out} --sentencepiece {model} --dict {dictionary} train.en={train}
        --text 1"""
    process = start_script(tmp_path, "nlu.sh", *line.split(), f"test.de={unlabelled}")
    status, output = finish(process)
    assert status == 1
    message = f"input test.de: {unlabelled}, line 2: 1 columns; valid: 2"
    assert message in output.splitlines()[-1]
    assert not (tmp_path / "bin").exists()
    status, output = finish(start_script(tmp_path, "nlu.sh", *line.split()))
    assert status == 0, output
    assert "| set      | rows |" in output
    assert "INFO" not in output

    text, pieces = write(tmp_path / "text.en", *lines), tmp_path / "pieces.en"
    apply_files("spm", model, [text], [pieces], dictionary, max_unknown=1.0)
    stock = tmp_path / "stock"
    line = f"""--only-source --source-lang en --trainpref {tmp_path / "pieces"}
        --srcdict {dictionary} --destdir {stock}"""
    run_cli("preprocess", *line.split())
    for part in ("bin", "idx"):
        expected = (stock / f"train.en-None.en.{part}").read_bytes()
        assert (out / f"input0/train.en.{part}").read_bytes() == expected
    words = dictionary.read_bytes()
    assert (stock / "dict.en.txt").read_bytes() == words
    assert (out / "input0/dict.txt").read_bytes() == words
