"""Tables of renames: whole names, the first pattern that matches, and nothing unaccounted for."""

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


def rename(**tensors):
    return rename_tensors(
        {name.replace("__", "."): tensor for name, tensor in tensors.items()}, TABLE, "here", "a stack"
    )


def test_every_tensor_has_one_place():
    rows = torch.arange(12.0).reshape(4, 3)
    renamed = rename(layers__10__in_weight=rows, layers__0__fc=rows[:1], version=rows[0])
    assert list(renamed.tensors) == ["l.10.q.weight", "l.10.k.weight", "l.0.fc"]
    assert torch.equal(renamed.tensors["l.10.q.weight"], rows[:2])
    assert torch.equal(renamed.tensors["l.10.k.weight"], rows[2:])
    assert renamed.sources == {
        "l.10.q.weight": "layers.10.in_weight",
        "l.10.k.weight": "layers.10.in_weight",
        "l.0.fc": "layers.0.fc",
    }
    assert renamed.dropped == {"version": "counter"}


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["word", "wordy", "a word"], r"here: unknown tensors wordy \(3, 2\), a word \(3, 2\); expected a stack"),
        (["layers.1.gate"], r"here: is a mixture of experts \(it holds layers.1.gate\); expected a stack"),
        (["layers.1.in_bias"], r"layers.1.in_bias has shape \(3, 2\); its rows must be a multiple of 2"),
        (["layers.1.fc", "layers.1.fc\n"], "unknown tensors"),
    ],
)
def test_whatever_the_table_does_not_know_is_refused(names, message):
    with pytest.raises(CheckpointError, match=message):
        rename_tensors({name: torch.ones(3, 2) for name in names}, TABLE, "here", "a stack")


def test_two_tensors_for_one_name_are_refused():
    table = NameTable(renames={"a|b": "c"})
    with pytest.raises(CheckpointError, match="two tensors for c, one of them b; expected letters"):
        rename_tensors(dict.fromkeys("ab", torch.ones(1)), table, "here", "letters")


@pytest.mark.parametrize("layer", [1, 10])
def test_a_stack_keeps_the_number_of_its_layers(layer):
    names = {
        f"encoder.layers.{layer}.self_attn.in_proj_bias": "qkv",
        f"encoder.layers.{layer}.fc1.weight": "fc1",
        "encoder.emb_layer_norm.bias": "norm",
    }
    table = NameTable(renames=stack_renames(r"encoder\.", "side."))
    tensors = dict.fromkeys(names, torch.ones(3))
    renamed = rename_tensors(tensors, table, "here", "an encoder").tensors
    attention = [f"side.layers.{layer}.self_attn.{name}_proj.bias" for name in "qkv"]
    assert [*renamed] == [*attention, f"side.layers.{layer}.fc1.weight", "side.layernorm_embedding.bias"]
