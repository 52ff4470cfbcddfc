"""The shipped frozen models: readable, small, described truly, with matching pieces."""

from pathlib import Path

import pytest
import sentencepiece

from examples import export_masked_lm
from fairseq_plugins import checkpoints
from fairseq_plugins.checkpoints.export import import_checkpoint
from fairseq_plugins.checkpoints.reading import read_checkpoint

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
FOLDER = EXAMPLES / "quickstart" / "masked_lm"
LIMITS = {
    FOLDER: 5_000_000,
    EXAMPLES / "sga" / "masked_lm": 10_500_000,
    EXAMPLES / "miniature" / "masked_lm" / "model": 12_000_000,
}


def entries_of(folder):
    """Those of the dictionary, which are the pieces of its model."""
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.bpe.model"))
    entries = [line.split(" ")[0] for line in (folder / "dict.txt").read_text(encoding="utf-8").splitlines()]
    assert entries == [pieces.id_to_piece(index) for index in range(3, pieces.get_piece_size())]
    return entries


@pytest.mark.parametrize("folder", LIMITS, ids=lambda folder: folder.parent.name)
def test_card_size_and_dictionary_are_true(folder):
    assert sum(path.stat().st_size for path in folder.iterdir()) <= LIMITS[folder]
    found = checkpoints.read_masked_lm(folder)
    assert f"`{found.fingerprint}`" in (folder / "README.md").read_text(encoding="utf-8")
    entries = entries_of(folder)
    assert found.sizes["vocab_size"] == len(entries) + 5


def test_export_keeps_the_function(tmp_path):
    files = FOLDER / "dict.txt", FOLDER / "sentencepiece.bpe.model"
    fingerprint = export_masked_lm.export(FOLDER, *files, tmp_path / "out")
    assert fingerprint == checkpoints.read_masked_lm(FOLDER).fingerprint


MBART = EXAMPLES / "miniature" / "mbart" / "model"
LANGUAGES = ["[en]", "[de]", "[fr]", "[es]"]


def test_mbarts_card_size_and_dictionary_are_true(tmp_path):
    assert sum(path.stat().st_size for path in MBART.iterdir()) <= 10_500_000
    import_checkpoint(MBART, tmp_path / "mbart.pt")  # compares fingerprint and dictionary
    tensors = read_checkpoint(tmp_path / "mbart.pt")["model"]
    card = (MBART / "README.md").read_text(encoding="utf-8")
    storages = {tensor.data_ptr(): tensor.numel() for tensor in tensors.values()}
    assert f"{sum(storages.values()):,}" in card.replace("\n", " ")
    config = (MBART / "config.json").read_text(encoding="utf-8")
    fingerprint = config.split('"fingerprint": "')[1].split('"')[0]
    assert f"`{fingerprint}`" in card
    entries = entries_of(MBART)
    assert len(tensors["encoder.embed_tokens.weight"]) == 4 + len(entries) + len(LANGUAGES) + 1
