"""DeltaLM without its pretrained file, and with files that are damaged, foreign, incomplete or dangerous."""

import argparse

import pytest
import torch

from fairseq_plugins.checkpoints import CheckpointError
from tests import deltalm_builders
from tests.deltalm_builders import build, net_input, released_tensors, write_released
from tests.unit.checkpoints.builders import put, without


@torch.no_grad()
def test_an_absent_file_is_no_reason_to_accept_part_of_a_checkpoint(tmp_path):
    model = build(pretrained_deltalm_checkpoint=str(tmp_path / "gone.pt"))
    state = deltalm_builders.random_model(seed=8).state_dict()
    del state["decoder.layers.1.fc3.weight"]
    with pytest.raises(RuntimeError, match=r"decoder\.layers\.1\.fc3\.weight"):
        model.load_state_dict(state)
    with pytest.raises(ValueError, match="--pretrained-deltalm-checkpoint"):
        model(**net_input())


FC = "decoder.layers.1.ffn_1.fc2"


@pytest.mark.cases(
    "change name",
    (put("decoder.adapter.weight", 3), r"decoder\.adapter\.weight"),
    (put("encoder.layers.0.ffn_1.fc1.bias", 3), r"layers\.0\.ffn_1\.fc1"),
    (without(FC + ".bias"), r"decoder\.layers\.1\.(ffn_1\.fc2|fc4)\.bias"),
    (without("1.encoder_attn.q"), r"missing tensors: decoder\.layers\.1\.encoder_attn\.q_proj\.weight"),
    (without("encoder.layers.2."), r"encoder layers \[0, 1, 3\]"),
    (without("tgt_emb"), "embed_tokens|tgt_embedding"),
    (put(FC + ".weight", 16, 23), r"decoder\.layers\.1\.(ffn_1\.fc2|fc4)\.weight"),
    (lambda t: t.update({FC + ".bias": torch.ones(16, dtype=torch.int8)}), r"(ffn_1\.fc2|fc4)\.bias"),
    (without(""), "embed_tokens|no tensors"),
)
def test_unaccounted_tensors_are_refused_by_name(tmp_path, change, name):
    tensors = released_tensors()
    change(tensors)
    path = write_released(tmp_path / "released.pt", tensors)
    with pytest.raises(ValueError, match=name) as error:
        build(pretrained_deltalm_checkpoint=str(path))
    assert str(path) in str(error.value)


def test_other_layouts_are_refused(tmp_path):
    path = tmp_path / "file.pt"
    stock = argparse.Namespace(arch="transformer")
    vanilla = deltalm_builders.random_model(decoder_block="vanilla").state_dict()
    for content, message in (
        ({"tensors": {}}, "tensors"),
        ({"model": vanilla, "args": stock}, "vanilla decoder blocks; give --decoder-block vanilla"),
        ([1, 2], "list"),
    ):
        torch.save(content, path)
        with pytest.raises(ValueError, match=message) as error:
            build(pretrained_deltalm_checkpoint=str(path))
        assert str(path) in str(error.value)
    path.write_bytes(b"no checkpoint")
    with pytest.raises(CheckpointError, match=r"file\.pt"):
        build(pretrained_deltalm_checkpoint=str(path))
    deltalm_builders.write_mlm(tmp_path / "mlm")
    with pytest.raises(CheckpointError, match=r"mlm"):
        build(pretrained_deltalm_checkpoint=str(tmp_path / "mlm" / "model.safetensors"))
