"""Test writing masked LMs: the same tensors are read back, damage and wrong tensors are refused."""

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
def test_the_tensors_that_were_written_are_read(tmp_path, dtype):
    folder = tmp_path / "new" / "folder"
    tensors = {**TENSORS, "lm_head.weight": TENSORS[WORDS]}
    digest = write_masked_lm(folder, MaskedLMSizes(**SIZES), tensors, dtype)
    actual = read_masked_lm(folder)
    assert actual.sizes == SIZES
    assert_same(actual.tensors, {name: TENSORS[name].to(dtype).float() for name in TENSORS})
    assert actual.fingerprint == digest
    assert (digest == fingerprint(TENSORS)) == (dtype == torch.float32)
    size = (folder / "model.safetensors").stat().st_size
    values = sum(tensor.numel() for tensor in TENSORS.values()) * dtype.itemsize
    assert values < size < values + 40_000  # the embedding is stored once


def test_a_flipped_bit_is_refused(tmp_path):
    """The file states the fingerprint of its tensors; a file of another program states none."""
    write_masked_lm(tmp_path, SIZES, TENSORS, torch.float16)
    file = tmp_path / "model.safetensors"
    content = file.read_bytes()
    first = 8 + int.from_bytes(content[:8], "little")
    for place in torch.randint(first, len(content), (20,)).tolist():
        file.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        for reader, path in (
            (read_masked_lm, tmp_path),
            (read_encoder, tmp_path),
            (read_checkpoint, file),
        ):
            with pytest.raises(CheckpointError, match=r"model\.safetensors: .*fingerprint"):
                reader(path)
    file.write_bytes(content)
    read_masked_lm(tmp_path)
    tensors = safetensors.torch.load_file(file)
    safetensors.torch.save_file(tensors, file, metadata={"format": "pt"})
    read_masked_lm(tmp_path)


def test_wrong_tensors_are_refused(tmp_path):
    bias = TENSORS["lm_head.bias"]
    for change, message in (
        ({"lm_head.bias": bias + 1e6}, r"not finite in torch\.float16: lm_head\.bias"),
        ({"lm_head.bias": bias[1:]}, r"lm_head\.bias \(22,\) instead of \(23,\)"),
        ({"extra": torch.ones(1)}, r"surplus tensors: extra \(1,\)"),
        ({"lm_head.weight": TENSORS[WORDS] + 1}, r"lm_head\.weight differs"),
    ):
        with pytest.raises(CheckpointError, match=message):
            write_masked_lm(tmp_path, SIZES, {**TENSORS, **change})
    assert list(tmp_path.iterdir()) == []
