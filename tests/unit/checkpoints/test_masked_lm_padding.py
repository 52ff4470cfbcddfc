"""Test Hugging Face folders of January 2020: without model_type, with a wrong pad_token_id."""

import pytest

from fairseq_plugins.checkpoints import CheckpointError, read_masked_lm
from fairseq_plugins.checkpoints.encoders import read_encoder
from fairseq_plugins.checkpoints.veco import read_veco_folder
from tests import nlu_builders, veco_builders
from tests.unit.checkpoints import builders as masked_lms

PIECES = [f"p{number}" for number in range(masked_lms.SIZES["vocab_size"] - 5)]
FAIRSEQ = ["<s>", "<pad>", "</s>", "<unk>"]
MODEL_TYPE, PADDING = {"model_type": None}, {"pad_token_id": 0}


def write_tokenizer(folder, first=FAIRSEQ):
    """Write a tokenizer.json whose first entries are ``first``."""
    vocabulary = [[entry, 0.0] for entry in [*first, *PIECES, "<mask>"]]
    content = {"model": {"type": "Unigram", "vocab": vocabulary}}
    nlu_builders.write_json(folder / "tokenizer.json", content)


def write_dictionary(folder):
    nlu_builders.write_dict(folder / "dict.txt", PIECES)


@pytest.mark.cases(
    "changes write_entries",
    (MODEL_TYPE, None),
    (PADDING, write_tokenizer),
    ({**MODEL_TYPE, **PADDING}, None),
    ({**MODEL_TYPE, **PADDING}, write_dictionary),
)
def test_a_veco_of_that_time_has_padding_in_row_1(tmp_path, changes, write_entries, caplog):
    """A row of padding that is one off would shift the positions."""
    current = veco_builders.write_folder(tmp_path / "current")
    folder = veco_builders.write_folder(tmp_path / "2020", **changes)
    if write_entries:
        write_entries(folder)
    for reader in (read_encoder, read_masked_lm, read_veco_folder):
        caplog.clear()
        actual = reader(folder).tensors
        masked_lms.assert_same(actual, reader(current).tensors)
        tables = [
            table for name, table in actual.items() if name.endswith("embed_positions.weight")
        ]
        assert {len(table) for table in tables} == {12}
        assert ("has no model_type" in caplog.text) == ("model_type" in changes)
        assert ("pad_token_id = 0" in caplog.text) == ("pad_token_id" in changes)


@pytest.mark.cases(
    "padding first message",
    (0, ["<s>", "</s>", "<pad>"], "<pad> in row 2; expected 1"),
    (0, ["<pad>", "<s>", "</s>", "<unk>"], "<pad> in row 0; expected 1"),
    (5, FAIRSEQ, "pad_token_id = 5, expected 1"),
)
def test_padding_in_another_row_is_refused(tmp_path, padding, first, message):
    state = masked_lms.huggingface_state(masked_lms.masked_lm_tensors())
    folder = masked_lms.write_huggingface(tmp_path / "xlmr", state, pad_token_id=padding)
    write_tokenizer(folder, first)
    for reader in (read_encoder, read_masked_lm):
        with pytest.raises(CheckpointError, match=message):
            reader(folder)
