"""Hugging Face folders as transformers of January 2020 wrote them: no ``model_type``, and a ``pad_token_id`` that is none."""

import pytest
import torch

from fairseq_plugins.checkpoints import CheckpointError, read_masked_lm
from fairseq_plugins.checkpoints.encoders import read_encoder
from fairseq_plugins.checkpoints.fitting import check_rows
from fairseq_plugins.checkpoints.veco import veco_state_from_folder
from tests import nlu_builders, veco_builders
from tests.unit.checkpoints import builders as masked_lms

READERS = {
    "encoder": lambda path: read_encoder(path).tensors,
    "masked LM": lambda path: read_masked_lm(path).tensors,
    "state": lambda path: veco_state_from_folder(path).tensors,
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
    found = READERS[reader](path)
    masked_lms.assert_same(found, expected)
    assert {len(table) for table in positions(found)} == {12}
    assert ("has no model_type: its tensors are roberta.*, so xlm-roberta is taken" in caplog.text) == (
        "model_type" in old
    )
    assert ("pad_token_id = 0 in config.json: row 1 is taken for <pad>" in caplog.text) == ("pad_token_id" in old)


def plain(folder, **config):
    """An XLM-R, without cross-attention."""
    state = masked_lms.huggingface_state(masked_lms.masked_lm_tensors())
    return masked_lms.write_huggingface(folder, state, **config)


@pytest.mark.parametrize("prefix", ["bert.", ""])
def test_other_names_do_not_make_up_for_the_model_type(tmp_path, prefix):
    state = masked_lms.huggingface_state(masked_lms.masked_lm_tensors(), prefix)
    path = masked_lms.write_huggingface(tmp_path / "x", state, model_type=None)
    for reader in ("encoder", "masked LM"):
        with pytest.raises(CheckpointError, match="model_type = None, expected one of"):
            READERS[reader](path)


@pytest.mark.parametrize(
    ("stated", "first", "model_type", "message"),
    [
        (0, ["<s>", "</s>", "<pad>"], "xlm-roberta", r"<pad> in row 0 \(pad_token_id\), the tokenizer .* in row 2"),
        (5, FAIRSEQ, "roberta", r"<pad> in row 5 \(pad_token_id\), the tokenizer beside it in row 1"),
    ],
)
def test_a_contradiction_is_refused(tmp_path, stated, first, model_type, message):
    path = plain(tmp_path / "x", model_type=model_type, pad_token_id=stated)
    tokenizer(path, first)
    for reader in ("encoder", "masked LM"):
        with pytest.raises(CheckpointError, match=message):
            READERS[reader](path)


def test_a_tokenizer_may_not_have_it_elsewhere_where_the_configuration_says_one(tmp_path):
    path = plain(tmp_path / "x")
    tokenizer(path, ["<pad>", "<s>", "</s>", "<unk>"])
    with pytest.raises(CheckpointError, match=r"<pad> in row 1 \(pad_token_id\), the tokenizer beside it in row 0"):
        read_encoder(path)


def test_another_row_on_which_both_agree_stays(tmp_path):
    """Positions then begin at row 1. Generation and filling, which need fairseq's rows, refuse it by name."""
    path = plain(tmp_path / "x", pad_token_id=0)
    tokenizer(path, ["<pad>", "<s>", "</s>", "<unk>"])
    assert read_masked_lm(path).sizes["padding_idx"] == 0
    stored = masked_lms.masked_lm_tensors()["sentence_encoder.embed_positions.weight"]
    table = torch.cat([torch.zeros(2, 8), stored[1:]])
    assert torch.equal(read_encoder(path).tensors["embed_positions.weight"], table)
    with pytest.raises(ValueError, match="has <pad> in row 0; valid here: 1, as in every fairseq dictionary"):
        check_rows(read_masked_lm(path), str(path))
    veco = veco_builders.write_folder(tmp_path / "veco", pad_token_id=0)
    (veco / "tokenizer.json").write_text((path / "tokenizer.json").read_text())
    with pytest.raises(CheckpointError, match="pad_token_id = 0, expected 1"):
        veco_state_from_folder(veco)


@pytest.mark.parametrize("model_type", ["xlm-roberta", "roberta", "camembert"])
def test_a_zero_counts_as_not_said_in_every_model_of_that_code(tmp_path, model_type):
    """All of them have the constant 1 in their embeddings."""
    said, unsaid = (
        plain(tmp_path / name, model_type=model_type, **more) for name, more in (("a", {}), ("b", {"pad_token_id": 0}))
    )
    tables = [read_encoder(path).tensors["embed_positions.weight"] for path in (said, unsaid)]
    assert torch.equal(*tables) and read_masked_lm(unsaid).sizes["padding_idx"] == 1
