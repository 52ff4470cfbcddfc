"""Test the shipped frozen models: small, as their cards say, with pieces that match."""

import json

import pytest
import sentencepiece

from examples import export_masked_lm
from fairseq_plugins import checkpoints
from fairseq_plugins.checkpoints.export import import_checkpoint
from fairseq_plugins.checkpoints.reading import read_checkpoint
from tests.conftest import ROOT

QUICKSTART = ROOT / "examples/quickstart/masked_lm"
MBART = ROOT / "examples/miniature/mbart/model"
MASKED_LMS = [
    (QUICKSTART, 5_000_000),
    (ROOT / "examples/sga/masked_lm", 10_500_000),
    (ROOT / "examples/miniature/masked_lm/model", 12_000_000),
]


def assert_small(folder, limit):
    assert sum(path.stat().st_size for path in folder.iterdir()) <= limit


def read_pieces(folder):
    """Return the pieces of the sentencepiece model, which are those of the dictionary."""
    model_file = str(folder / "sentencepiece.bpe.model")
    model = sentencepiece.SentencePieceProcessor(model_file=model_file)
    pieces = [model.id_to_piece(index) for index in range(3, model.get_piece_size())]
    lines = (folder / "dict.txt").read_text(encoding="utf-8").splitlines()
    assert [line.split(" ")[0] for line in lines] == pieces
    return pieces


def read_card(folder):
    return (folder / "README.md").read_text(encoding="utf-8").replace("\n", " ")


@pytest.mark.parametrize(("folder", "limit"), MASKED_LMS)
def test_card_size_and_dictionary_of_a_masked_lm(folder, limit):
    assert_small(folder, limit)
    model = checkpoints.read_masked_lm(folder)
    assert f"`{model.fingerprint}`" in read_card(folder)
    assert model.sizes["vocab_size"] == len(read_pieces(folder)) + 5


def test_export_keeps_the_function(tmp_path):
    files = QUICKSTART / "dict.txt", QUICKSTART / "sentencepiece.bpe.model"
    fingerprint = export_masked_lm.export(QUICKSTART, *files, tmp_path / "out")
    assert fingerprint == checkpoints.read_masked_lm(QUICKSTART).fingerprint


def test_card_size_and_dictionary_of_mbart(tmp_path):
    assert_small(MBART, 10_500_000)
    import_checkpoint(MBART, tmp_path / "mbart.pt")  # compares fingerprint and dictionary
    tensors = read_checkpoint(tmp_path / "mbart.pt")["model"]
    storages = {tensor.data_ptr(): tensor.numel() for tensor in tensors.values()}
    assert f"{sum(storages.values()):,}" in read_card(MBART)
    config = json.loads((MBART / "config.json").read_text(encoding="utf-8"))
    assert f"`{config['fingerprint']}`" in read_card(MBART)
    languages, special = 4, 5
    rows = len(read_pieces(MBART)) + languages + special
    assert len(tensors["encoder.embed_tokens.weight"]) == rows
