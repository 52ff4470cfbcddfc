"""Reading causal language models: the rename tables, vocabularies, and what is refused."""

import json

import pytest
import torch

from fairseq_plugins.checkpoints import CheckpointError
from fairseq_plugins.checkpoints.gpt import read_causal_lm
from fairseq_plugins.checkpoints.layouts import expected_shapes
from tests import gpt_builders

WIDTH = gpt_builders.WIDTH


def test_every_tensor_of_a_gpt2_has_its_place(tmp_path):
    """Eleven layers, so that layer 1 and layer 10 could be mixed up."""
    source = gpt_builders.tensors(11)
    actual = read_causal_lm(gpt_builders.write(tmp_path, source))
    tensors, start = actual.tensors, "transformer.h.10."
    assert set(tensors) == set(expected_shapes(actual.layout))
    assert torch.equal(tensors["embed_tokens.weight"], source["transformer.wte.weight"])
    assert torch.equal(tensors["embed_positions.weight"][2:], source["transformer.wpe.weight"])
    assert not tensors["embed_positions.weight"][:2].any()
    fused, bias = source[start + "attn.c_attn.weight"], source[start + "attn.c_attn.bias"]
    for number, name in enumerate("qkv"):
        columns = slice(number * WIDTH, (number + 1) * WIDTH)
        assert torch.equal(tensors[f"layers.10.self_attn.{name}_proj.weight"], fused[:, columns].t())
        assert torch.equal(tensors[f"layers.10.self_attn.{name}_proj.bias"], bias[columns])
    pairs = {"self_attn.out_proj": "attn.c_proj", "fc1": "mlp.c_fc", "fc2": "mlp.c_proj"}
    for ours, theirs in pairs.items():
        assert torch.equal(tensors[f"layers.10.{ours}.weight"], source[f"{start}{theirs}.weight"].t())
        assert torch.equal(tensors[f"layers.10.{ours}.bias"], source[f"{start}{theirs}.bias"])
    for ours, theirs in {"self_attn_layer_norm": "ln_1", "final_layer_norm": "ln_2"}.items():
        assert torch.equal(tensors[f"layers.10.{ours}.bias"], source[f"{start}{theirs}.bias"])
    assert torch.equal(tensors["layer_norm.weight"], source["transformer.ln_f.weight"])
    assert set(actual.report.loaded) | set(actual.report.dropped) == set(source)
    assert all("mask" in actual.report.reasons[name] for name in actual.report.dropped)


def test_the_layout_of_a_gpt2(tmp_path):
    """A tied output may be stored; names may come without ``transformer.``; half precision becomes float32."""
    source = {name.replace("transformer.", ""): tensor.half() for name, tensor in gpt_builders.tensors().items()}
    source["lm_head.weight"] = source["wte.weight"].clone()
    torch.save(source, tmp_path / "pytorch_model.bin")
    settings = gpt_builders.config(activation_function="gelu", layer_norm_epsilon=1e-3, n_inner=None)
    del settings["n_inner"]
    (tmp_path / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    actual = read_causal_lm(tmp_path)
    sizes = dict(layers=3, embed_dim=16, ffn_dim=24, heads=2, max_positions=20, vocab_size=gpt_builders.ROWS)
    wiring = dict(activation="gelu", epsilon=1e-3, normalize_before=True, final_norm=True, tied=True)
    assert {**vars(actual.layout), **sizes, **wiring} == vars(actual.layout)
    assert actual.entries == () and actual.tensors["layers.0.fc1.bias"].dtype == torch.float32


def stock(path, settings=None, **changes):
    """A checkpoint of transformer_lm, made of the tensors of a GPT-2 that was read."""
    folder = gpt_builders.write(path / "gpt")
    state = {f"decoder.{name}": tensor for name, tensor in read_causal_lm(folder).tensors.items()}
    state["decoder.output_projection.weight"] = state["decoder.embed_tokens.weight"].clone()
    state["decoder.version"] = torch.tensor([3.0])
    state.update(changes)
    torch.save({"args": settings or gpt_builders.stock_settings(), "model": state}, path / "lm.pt")
    return path / "lm.pt"


def test_stock_transformer_lm(tmp_path):
    actual = read_causal_lm(stock(tmp_path))
    assert actual.layout.tied and actual.layout.activation == "gelu" and actual.entries == ()
    other = torch.zeros(gpt_builders.ROWS, WIDTH)
    untied = read_causal_lm(stock(tmp_path, **{"decoder.output_projection.weight": other}))
    assert not untied.layout.tied and torch.equal(untied.tensors["output_projection.weight"], other)
    (tmp_path / "dict.txt").write_text("".join(f"w{n} 1\n" for n in range(40)), encoding="utf-8")
    with pytest.raises(CheckpointError, match="dict.txt: names 44 entries, the embedding has 29 rows"):
        read_causal_lm(tmp_path / "lm.pt")
    (tmp_path / "dict.txt").write_text("a 1\nb 1\n", encoding="utf-8")
    assert read_causal_lm(tmp_path / "lm.pt").entries == ("<s>", "<pad>", "</s>", "<unk>", "a", "b")


def test_names_of_the_rows(tmp_path):
    """tokenizer.json of a GPT-2: the symbol that ends a text is </s>; a dict.txt counts first."""
    folder = gpt_builders.write(tmp_path, pieces=0, eos_token_id=5, bos_token_id=5, pad_token_id=0)
    vocabulary = {f"w{number}": number for number in range(gpt_builders.ROWS)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    entries = read_causal_lm(folder).entries
    assert (entries[0], entries[1], entries[5], entries[6]) == ("<pad>", "w1", "</s>", "w6")
    assert "<s>" not in entries and len(entries) == gpt_builders.ROWS
    (folder / "dict.txt").write_text("x 1\n", encoding="utf-8")
    assert read_causal_lm(folder).entries == ("<s>", "<pad>", "</s>", "<unk>", "x")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "gpt_neo"}, "model_type = 'gpt_neo', expected one of gpt2"),
        ({"activation_function": "silu"}, "activation_function = 'silu', expected 'gelu_new' or 'gelu_"),
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx = True, expected False"),
        ({"layer_norm_epsilon": 1}, "layer_norm_epsilon = 1, expected a small number above 0"),
        ({"layer_norm_epsilon": "1e-5"}, "layer_norm_epsilon = '1e-5', expected a small number"),
        ({"n_layer": 5}, "its options say layers = 5, its tensors 3"),
    ],
)
def test_another_configuration(tmp_path, changes, message):
    with pytest.raises(CheckpointError, match=message):
        read_causal_lm(gpt_builders.write(tmp_path, **changes))


def test_other_tensors(tmp_path):
    for number, (name, message) in enumerate(
        {
            "transformer.h.0.crossattention.c_attn.weight": "has cross-attention",
            "transformer.h.0.attn.rotary": "unknown tensors transformer.h.0.attn.rotary",
            "transformer.h.3.ln_1.weight": "options say layers = 3, its tensors 4",
        }.items()
    ):
        source = {**gpt_builders.tensors(), name: torch.ones(WIDTH)}
        folder = gpt_builders.write(tmp_path / str(number), source)
        (folder / "config.json").write_text(json.dumps(gpt_builders.config()), encoding="utf-8")
        with pytest.raises(CheckpointError, match=message):
            read_causal_lm(folder)
    source = {**gpt_builders.tensors(), "lm_head.weight": torch.zeros(gpt_builders.ROWS, WIDTH)}
    with pytest.raises(CheckpointError, match="lm_head.weight and transformer.wte.weight differ"):
        read_causal_lm(gpt_builders.write(tmp_path / "untied", source))
