"""Test tables of renames: full names, the first match, every tensor accounted for."""

import pytest
import torch

from fairseq_plugins.checkpoints import CheckpointError
from fairseq_plugins.checkpoints.renaming import NameTable, rename_tensors, stack_renames

TABLE = NameTable(
    renames={
        r"layers\.(\d+)\.in_(weight|bias)": (r"l.\1.q.\2", r"l.\1.k.\2"),
        r"layers\.(\d+)\.(.+)": r"l.\1.\2",
        r"word": "words",
    },
    dropped={r"layers\.0\.fc": "never reached", r"version": "counter"},
    refused={r"layers\.\d+\.gate": "is a mixture of experts"},
)


def test_every_tensor_has_one_place():
    rows = torch.arange(12.0).reshape(4, 3)
    tensors = {"layers.10.in_weight": rows, "layers.0.fc": rows[:1], "version": rows[0]}
    renamed = rename_tensors(tensors, TABLE, "here", "a stack")
    assert torch.equal(renamed.tensors["l.10.q.weight"], rows[:2])
    assert torch.equal(renamed.tensors["l.10.k.weight"], rows[2:])
    assert renamed.sources == {
        "l.10.q.weight": "layers.10.in_weight",
        "l.10.k.weight": "layers.10.in_weight",
        "l.0.fc": "layers.0.fc",
    }
    assert list(renamed.tensors) == list(renamed.sources)
    assert renamed.dropped == {"version": "counter"}


@pytest.mark.cases(
    "names message",
    (["word", "wordy", "a word"], r"here: unknown tensors wordy \(3, 2\), a word .*a stack"),
    (["layers.1.gate"], r"here: is a mixture of experts .*layers\.1\.gate.*a stack"),
    (["layers.1.in_bias"], r"layers\.1\.in_bias has shape \(3, 2\); .* multiple of 2"),
    (["layers.1.fc", "layers.1.fc\n"], "unknown tensors"),
)
def test_tensors_that_the_table_does_not_know_are_refused(names, message):
    tensors = {name: torch.ones(3, 2) for name in names}
    with pytest.raises(CheckpointError, match=message):
        rename_tensors(tensors, TABLE, "here", "a stack")


def test_two_tensors_for_one_name_are_refused():
    table = NameTable(renames={"a|b": "c"})
    with pytest.raises(CheckpointError, match="two tensors for c, one of them b"):
        rename_tensors(dict.fromkeys("ab", torch.ones(1)), table, "here", "letters")


@pytest.mark.parametrize("layer", [1, 10])
def test_layers_of_a_stack_keep_their_numbers(layer):
    names = (f"layers.{layer}.self_attn.in_proj_bias", f"layers.{layer}.fc1.weight")
    tensors = {f"encoder.{name}": torch.ones(3) for name in (*names, "emb_layer_norm.bias")}
    table = NameTable(renames=stack_renames(r"encoder\.", "side."))
    renamed = rename_tensors(tensors, table, "here", "an encoder").tensors
    attention = [f"side.layers.{layer}.self_attn.{name}_proj.bias" for name in "qkv"]
    feed_forward, norm = f"side.layers.{layer}.fc1.weight", "side.layernorm_embedding.bias"
    assert list(renamed) == [*attention, feed_forward, norm]
