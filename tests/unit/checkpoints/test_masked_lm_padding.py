"""Hugging Face folders as transformers of January 2020 wrote them: no ``model_type``, and a ``pad_token_id`` that is none."""

import pytest

from fairseq_plugins.checkpoints import CheckpointError, read_masked_lm
from fairseq_plugins.checkpoints.encoders import read_encoder
from fairseq_plugins.checkpoints.veco import read_veco_folder
from tests import nlu_builders, veco_builders
from tests.unit.checkpoints import builders as masked_lms

READERS = {
    "encoder": lambda path: read_encoder(path).tensors,
    "masked LM": lambda path: read_masked_lm(path).tensors,
    "state": lambda path: read_veco_folder(path).tensors,
}
ROWS = masked_lms.SIZES["vocab_size"]
FAIRSEQ = ["<s>", "<pad>", "</s>", "<unk>"]
OLD = {"model_type": None, "pad_token_id": 0}
"""What the configuration of those weeks lacks, and what it has for every model."""


def tokenizer(folder, first=FAIRSEQ):
    """A tokenizer.json whose first entries are these."""
    entries = [*first, *(f"p{number}" for number in range(ROWS - 5)), "<mask>"]
    vocabulary = [[entry, 0.0] for entry in entries]
    nlu_builders.write_json(folder / "tokenizer.json", {"model": {"type": "Unigram", "vocab": vocabulary}})


def dictionary(folder):
    """A dict.txt for every row but that of ``<mask>``."""
    nlu_builders.write_dict(folder / "dict.txt", [f"p{number}" for number in range(ROWS - 5)])


BESIDE = {"nothing": lambda path: None, "tokenizer": tokenizer, "dict.txt": dictionary}


def positions(tensors):
    """Every table of positions."""
    return [tensor for name, tensor in tensors.items() if name.endswith("embed_positions.weight")]


@pytest.mark.parametrize("reader", list(READERS))
@pytest.mark.parametrize("beside", list(BESIDE))
@pytest.mark.parametrize("old", [["model_type"], ["pad_token_id"], ["model_type", "pad_token_id"]])
def test_a_veco_of_that_time_is_read_as_any_other(tmp_path, reader, beside, old, caplog):
    """Without model_type, with pad_token_id 0, and both: row 1 is that of <pad>, and no position is one off."""
    expected = READERS[reader](veco_builders.write_folder(tmp_path / "new"))
    path = veco_builders.write_folder(tmp_path / "old", **{name: OLD[name] for name in old})
    BESIDE[beside](path)
    actual = READERS[reader](path)
    masked_lms.assert_same(actual, expected)
    assert {len(table) for table in positions(actual)} == {12}
    assert ("has no model_type: xlm-roberta is taken" in caplog.text) == ("model_type" in old)
    assert ("pad_token_id = 0 in config.json: row 1 is taken for <pad>" in caplog.text) == ("pad_token_id" in old)


def plain(folder, **config):
    """An XLM-R, without cross-attention."""
    state = masked_lms.huggingface_state(masked_lms.masked_lm_tensors())
    return masked_lms.write_huggingface(folder, state, **config)


@pytest.mark.parametrize(
    ("stated", "first", "message"),
    [
        (0, ["<s>", "</s>", "<pad>"], "the tokenizer beside it has <pad> in row 2; expected 1"),
        (0, ["<pad>", "<s>", "</s>", "<unk>"], "the tokenizer beside it has <pad> in row 0; expected 1"),
        (5, FAIRSEQ, "pad_token_id = 5, expected 1"),
    ],
)
def test_another_row_is_refused(tmp_path, stated, first, message):
    path = plain(tmp_path / "x", pad_token_id=stated)
    tokenizer(path, first)
    for reader in ("encoder", "masked LM"):
        with pytest.raises(CheckpointError, match=message):
            READERS[reader](path)
