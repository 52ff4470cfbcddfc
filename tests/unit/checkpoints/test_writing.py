"""write_masked_lm: what is written is what is read."""

import pytest
import safetensors.torch
import torch

from fairseq_plugins.checkpoints import (
    CheckpointError,
    fingerprint,
    read_checkpoint,
    read_masked_lm,
    write_masked_lm,
)
from fairseq_plugins.checkpoints.encoders import read_encoder
from fairseq_plugins.masked_lm.model import MaskedLMSizes
from tests.unit.checkpoints.builders import SIZES, assert_same, masked_lm_tensors

TENSORS = masked_lm_tensors()
WORDS = "sentence_encoder.embed_tokens.weight"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_round_trip(tmp_path, dtype):
    given = {**TENSORS, "lm_head.weight": TENSORS[WORDS]}
    written = write_masked_lm(tmp_path / "made" / "here", MaskedLMSizes(**SIZES), given, dtype)
    actual = read_masked_lm(tmp_path / "made" / "here")
    assert actual.sizes == SIZES
    assert_same(actual.tensors, {name: tensor.to(dtype).float() for name, tensor in TENSORS.items()})
    assert actual.fingerprint == written
    assert (written == fingerprint(TENSORS)) == (dtype == torch.float32)
    size = (tmp_path / "made" / "here" / "model.safetensors").stat().st_size
    values = sum(tensor.numel() for tensor in TENSORS.values()) * dtype.itemsize
    assert values < size < values + 40_000  # the embedding is stored once


def test_a_flipped_bit_is_refused(tmp_path):
    """By whatever reads the file: it says what its tensors are."""
    write_masked_lm(tmp_path, SIZES, TENSORS, torch.float16)
    file = tmp_path / "model.safetensors"
    whole = file.read_bytes()
    first = 8 + int.from_bytes(whole[:8], "little")
    for place in torch.randint(first, len(whole), (20,)).tolist():
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        for read in (read_masked_lm, read_encoder, lambda folder: read_checkpoint(folder / file.name)):
            with pytest.raises(CheckpointError, match=r"model\.safetensors: .*fingerprint .* damaged"):
                read(tmp_path)
    file.write_bytes(whole)
    read_masked_lm(tmp_path)
    safetensors.torch.save_file(safetensors.torch.load_file(file), file, metadata={"format": "pt"})
    read_masked_lm(tmp_path)  # another program's: nothing to compare with


def test_what_cannot_be_written(tmp_path):
    bias = TENSORS["lm_head.bias"]
    for wrong, message in (
        ({"lm_head.bias": bias + 1e6}, r"values that are not finite in torch\.float16: lm_head\.bias"),
        ({"lm_head.bias": bias[1:]}, r"wrong shapes: lm_head\.bias \(22,\) instead of \(23,\)"),
        ({"extra": torch.ones(1)}, r"surplus tensors: extra \(1,\)"),
        ({"lm_head.weight": TENSORS[WORDS] + 1}, r"lm_head\.weight differs from the token embedding"),
    ):
        with pytest.raises(CheckpointError, match=message):
            write_masked_lm(tmp_path, SIZES, {**TENSORS, **wrong})
    assert list(tmp_path.iterdir()) == []
