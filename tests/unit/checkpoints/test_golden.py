"""A checkpoint that was made once still loads and decodes as it did; and the same model through an export and back."""

import re
from pathlib import Path

import pytest

from fairseq_plugins.__main__ import main
from fairseq_plugins.sga.model import SGAModel

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
FORMAT_1 = GOLDEN / "format1"
EXPORT = ("export", "--format", "safetensors")
PATH = re.compile(rb"/(?:work|root|home|tmp|opt|mnt|scratch|Users|var)/[\w./-]*")


def test_files_are_small_and_name_no_machine():
    files = [path for path in GOLDEN.rglob("*") if path.is_file()]
    assert max(path.stat().st_size for path in files) < 50_000
    assert [(path.name, PATH.findall(path.read_bytes())) for path in files if PATH.search(path.read_bytes())] == []


def decode(run_cli, user_dir, data, checkpoint):
    """Outputs of ``fairseq-interactive`` for ``source.en``."""
    options = ["--user-dir", user_dir, "--task", "sga_translation", "-s", "en", "-t", "de", "--iter-decode-max-iter", 3]
    options += ["--path", checkpoint, "--cpu", "--buffer-size", 10, "--max-sentences", 4]
    source = (FORMAT_1 / "source.en").read_text(encoding="utf-8")
    done = run_cli("interactive", data, *options, stdin=source)
    return [line.split("\t")[-1] for line in done.stdout.splitlines() if line.startswith("D-")]


def test_format_1_translates_in_python():
    """The options of the task come from the checkpoint: newer ones have their defaults."""
    model = SGAModel.from_pretrained(str(FORMAT_1), "checkpoint.pt", str(FORMAT_1))
    rows = [model.encode(line) for line in (FORMAT_1 / "source.en").read_text(encoding="utf-8").splitlines()]
    options = {"iter_decode_max_iter": 3}
    actual = [model.decode(sentence[0]["tokens"]).split() for sentence in model.generate(rows, **options)]
    expected = (FORMAT_1 / "expected.de").read_text(encoding="utf-8").splitlines()
    # fairseq-interactive leaves <mask> out of the text.
    assert [[word for word in words if word != "<mask>"] for words in actual] == [line.split() for line in expected]


@pytest.mark.slow
def test_format_1_decodes_as_it_did_itself_and_exported(tmp_path, run_cli, user_dir):
    expected = (FORMAT_1 / "expected.de").read_text(encoding="utf-8").splitlines()
    assert decode(run_cli, user_dir, FORMAT_1, FORMAT_1 / "checkpoint.pt") == expected
    assert main([*EXPORT, str(FORMAT_1 / "checkpoint.pt"), str(tmp_path / "folder")]) == 0
    assert main(["import", str(tmp_path / "folder"), str(tmp_path / "model.pt")]) == 0
    assert decode(run_cli, user_dir, tmp_path / "folder", tmp_path / "model.pt") == expected
