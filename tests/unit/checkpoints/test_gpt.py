"""Test reading causal LMs: layouts, vocabularies, refusals (test_gpt_msp.py compares logits)."""

import json

import pytest
import torch

from fairseq_plugins.checkpoints import CheckpointError
from fairseq_plugins.checkpoints.gpt import read_causal_lm
from tests import gpt_builders

WIDTH, ROWS = gpt_builders.WIDTH, gpt_builders.ROWS


def test_a_gpt2_without_prefix_in_half_precision_has_its_layout(tmp_path):
    """Accept a stored copy of the tied output."""
    tensors = gpt_builders.tensors()
    source = {name.replace("transformer.", ""): tensor.half() for name, tensor in tensors.items()}
    source["lm_head.weight"] = source["wte.weight"].clone()
    torch.save(source, tmp_path / "pytorch_model.bin")
    config = gpt_builders.config(activation_function="gelu", layer_norm_epsilon=1e-3)
    del config["n_inner"]
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    actual = read_causal_lm(tmp_path)
    sizes = dict(layers=3, embed_dim=16, ffn_dim=24, heads=2, max_positions=20, vocab_size=ROWS)
    wiring = dict(
        activation="gelu", epsilon=1e-3, normalize_before=True, final_norm=True, tied=True
    )
    assert {**vars(actual.layout), **sizes, **wiring} == vars(actual.layout)
    assert actual.entries == () and actual.tensors["layers.0.fc1.bias"].dtype == torch.float32
    assert sorted(actual.report.loaded + actual.report.dropped) == sorted(source)


def write_stock(folder, **tensors):
    """Write a checkpoint of transformer_lm with the tensors of a GPT-2."""
    gpt2 = read_causal_lm(gpt_builders.write(folder / "gpt"))
    state = {f"decoder.{name}": tensor for name, tensor in gpt2.tensors.items()}
    state["decoder.output_projection.weight"] = state["decoder.embed_tokens.weight"].clone()
    state["decoder.version"] = torch.tensor([3.0])
    state.update(tensors)
    torch.save({"args": gpt_builders.stock_settings(), "model": state}, folder / "lm.pt")
    return folder / "lm.pt"


def test_a_stock_transformer_lm_is_read(tmp_path):
    actual = read_causal_lm(write_stock(tmp_path))
    assert actual.layout.tied and actual.layout.activation == "gelu" and actual.entries == ()
    output = torch.zeros(ROWS, WIDTH)
    untied = read_causal_lm(write_stock(tmp_path, **{"decoder.output_projection.weight": output}))
    assert not untied.layout.tied
    assert torch.equal(untied.tensors["output_projection.weight"], output)
    (tmp_path / "dict.txt").write_text("a 1\nb 1\n", encoding="utf-8")
    entries = read_causal_lm(tmp_path / "lm.pt").entries
    assert entries == ("<s>", "<pad>", "</s>", "<unk>", "a", "b")
    (tmp_path / "dict.txt").write_text("".join(f"w{n} 1\n" for n in range(40)), encoding="utf-8")
    with pytest.raises(CheckpointError, match="dict.txt: names 44 entries, .* 29 rows"):
        read_causal_lm(tmp_path / "lm.pt")


def test_a_dictionary_counts_before_the_tokenizer(tmp_path):
    """The symbol that ends a text in GPT-2's tokenizer is </s>."""
    symbols = dict(eos_token_id=5, bos_token_id=5, pad_token_id=0)
    folder = gpt_builders.write(tmp_path, pieces=0, **symbols)
    vocabulary = {f"w{number}": number for number in range(ROWS)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    entries = read_causal_lm(folder).entries
    assert (entries[0], entries[1], entries[5], entries[6]) == ("<pad>", "w1", "</s>", "w6")
    assert "<s>" not in entries and len(entries) == ROWS
    (folder / "dict.txt").write_text("x 1\n", encoding="utf-8")
    assert read_causal_lm(folder).entries == ("<s>", "<pad>", "</s>", "<unk>", "x")


@pytest.mark.cases(
    "changes message",
    ({"model_type": "gpt_neo"}, "model_type = 'gpt_neo', expected one of gpt2"),
    ({"activation_function": "silu"}, "activation_function = 'silu', expected 'gelu_new'"),
    ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx = True"),
    ({"layer_norm_epsilon": 1}, "layer_norm_epsilon = 1,"),
    ({"layer_norm_epsilon": "1e-5"}, "layer_norm_epsilon = '1e-5'"),
    ({"n_layer": 5}, "layers = 5, its tensors 3"),
)
def test_another_configuration_is_refused(tmp_path, changes, message):
    with pytest.raises(CheckpointError, match=message):
        read_causal_lm(gpt_builders.write(tmp_path, **changes))


def test_unknown_tensors_are_refused(tmp_path):
    def assert_refused(tensors, message):
        folder = gpt_builders.write(tmp_path, {**gpt_builders.tensors(), **tensors})
        config = json.dumps(gpt_builders.config())
        (folder / "config.json").write_text(config, encoding="utf-8")
        with pytest.raises(CheckpointError, match=message):
            read_causal_lm(folder)

    vector = torch.ones(WIDTH)
    cross = {"transformer.h.0.crossattention.c_attn.weight": vector}
    assert_refused(cross, "has cross-attention")
    assert_refused({"transformer.h.0.attn.rotary": vector}, r"transformer\.h\.0\.attn\.rotary")
    assert_refused({"transformer.h.3.ln_1.weight": vector}, "layers = 3, its tensors 4")
    untied = {"lm_head.weight": torch.zeros(ROWS, WIDTH)}
    assert_refused(untied, r"lm_head\.weight and transformer\.wte\.weight differ")
