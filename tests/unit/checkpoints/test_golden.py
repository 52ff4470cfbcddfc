"""Test that a checkpoint of format 1 still loads and decodes as when it was made."""

import re
from pathlib import Path

import pytest

from fairseq_plugins.__main__ import main
from fairseq_plugins.sga.model import SGAModel

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
FORMAT_1 = GOLDEN / "format1"
LOCAL_PATH = re.compile(rb"/(?:work|root|home|tmp|opt|mnt|scratch|Users|var)/[\w./-]*")


def read_lines(name):
    return (FORMAT_1 / name).read_text(encoding="utf-8").splitlines()


def test_files_are_small_and_have_no_local_paths():
    contents = {path.name: path.read_bytes() for path in GOLDEN.rglob("*") if path.is_file()}
    assert max(map(len, contents.values())) < 50_000
    assert [name for name, content in contents.items() if LOCAL_PATH.search(content)] == []


def test_format_1_translates_in_python():
    """Options that the checkpoint lacks have their defaults."""
    model = SGAModel.from_pretrained(str(FORMAT_1), "checkpoint.pt", str(FORMAT_1))
    rows = [model.encode(line) for line in read_lines("source.en")]
    hypotheses = model.generate(rows, iter_decode_max_iter=3)
    actual = [model.decode(sentence[0]["tokens"]).split() for sentence in hypotheses]
    # fairseq-interactive leaves <mask> out of the text.
    actual = [[word for word in words if word != "<mask>"] for words in actual]
    assert actual == [line.split() for line in read_lines("expected.de")]


@pytest.mark.slow
def test_format_1_decodes_as_before_also_after_an_export(tmp_path, run_cli, user_dir):
    def decode(data, checkpoint):
        line = (
            f"{data} --user-dir {user_dir} --task sga_translation -s en -t de --path {checkpoint}"
        )
        line += " --iter-decode-max-iter 3 --cpu --buffer-size 10 --max-sentences 4"
        source = (FORMAT_1 / "source.en").read_text(encoding="utf-8")
        output = run_cli("interactive", *line.split(), stdin=source).stdout
        return [row.split("\t")[-1] for row in output.splitlines() if row.startswith("D-")]

    expected = read_lines("expected.de")
    folder, model = tmp_path / "folder", tmp_path / "model.pt"
    assert decode(FORMAT_1, FORMAT_1 / "checkpoint.pt") == expected
    export = ["export", "--format", "safetensors", str(FORMAT_1 / "checkpoint.pt"), str(folder)]
    assert main(export) == 0
    assert main(["import", str(folder), str(model)]) == 0
    assert decode(folder, model) == expected
