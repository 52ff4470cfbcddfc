"""read_encoder recognises every source, accounts for every tensor, and refuses what it does not know."""

import argparse
import json
import re

import pytest
import safetensors.torch
import torch

from fairseq_plugins.checkpoints import CheckpointError
from fairseq_plugins.checkpoints.encoders import read_encoder
from fairseq_plugins.checkpoints.layouts import FAMILIES, SIZES, expected_shapes, family_layout, layout_from
from tests import deltalm_builders, nlu_builders
from tests.nlu_builders import LANGUAGES, PIECES, tags
from tests.unit.checkpoints import builders as layouts
from tests.unit.checkpoints.builders import put, without

SYMBOLS = [*PIECES, *tags(LANGUAGES), "<mask>"]


def tensors_of(path):
    """Every tensor of the weights file, by its own name."""
    file = (
        path
        if path.is_file()
        else next(f for name in ("model.safetensors", "pytorch_model.bin", "model.pt") if (f := path / name).is_file())
    )
    if file.suffix == ".safetensors":
        return safetensors.torch.load_file(file)
    content = torch.load(file, weights_only=False)
    return content.get("model") or content.get("weights") or content


def change(path, edit):
    """Edit a pickled checkpoint."""
    content = torch.load(path, weights_only=False)
    edit(content)
    torch.save(content, path)
    return path


@pytest.mark.parametrize("family", FAMILIES)
def test_every_tensor_is_accounted_for(tmp_path, family):
    path, symbols = nlu_builders.write_any(family, tmp_path)
    found = read_encoder(path, heads=nlu_builders.heads_of(family))
    sizes = dict(vocab_size=len(symbols) + 4, layers=2, embed_dim=16, ffn_dim=24, heads=2)
    positions = 40 if family in ("xlmr", "deltalm") else nlu_builders.POSITIONS
    assert found.layout == family_layout(family, **sizes, max_positions=positions)
    assert {name: tuple(tensor.shape) for name, tensor in found.tensors.items()} == expected_shapes(found.layout)
    names = tensors_of(path)
    assert set(found.report.loaded) | set(found.report.dropped) == set(names)
    assert not set(found.report.loaded) & set(found.report.dropped)
    assert all(found.report.reasons[name] for name in found.report.dropped)
    assert all(tensor.dtype == torch.float32 for tensor in found.tensors.values())
    decoders = [name for name in names if re.match(r"(?:model\.)?(?:decoder|tgt_embedding)\.", name)]
    assert bool(decoders) == (family in ("mbart", "nllb", "deltalm"))
    assert {found.report.reasons[name] for name in decoders} <= {
        "decoder, unused by an encoder",
        "format counter of fairseq",
    }
    for name, source in found.sources.items():
        if name in found.tensors and name not in ("embed_tokens.weight", "embed_positions.weight"):
            assert torch.equal(found.tensors[name], names[source])


def test_what_a_stock_mbart_states_decides(tmp_path):
    """Stock mbart_* architectures are post-norm unless told otherwise."""
    options = {"encoder_normalize_before": False, "no_scale_embedding": True, "layernorm_embedding": False}
    nlu_builders.mbart_cc25(tmp_path, **options, activation_fn="relu")
    layout = read_encoder(tmp_path).layout
    assert (layout.normalize_before, layout.scale_embedding, layout.layernorm_embedding) == (False, False, False)
    assert layout.activation == "relu"


@pytest.mark.parametrize(
    ("option", "stated", "field"),
    [
        ("layernorm_embedding", False, "layernorm_embedding"),
        ("encoder_normalize_before", False, "normalize_before"),
        ("encoder_learned_pos", False, "learned_positions"),
    ],
)
def test_tensors_count_where_the_options_say_otherwise(tmp_path, caplog, option, stated, field):
    """As in files whose options are not those of the training."""
    nlu_builders.mbart_cc25(tmp_path)
    expected = read_encoder(tmp_path).layout
    assert not caplog.messages
    read = read_encoder(change(tmp_path / "model.pt", _set(**{option: stated}))).layout
    assert read == expected and getattr(read, field) is not stated
    assert f"its options say {option} = {stated}, its tensors {not stated}: the tensors count" in caplog.text


@pytest.mark.parametrize(
    ("build", "arch", "activation"),
    [
        (nlu_builders.mbart_cc25, "mbart_large", "gelu"),
        (nlu_builders.mbart_cc25, "bart_base", "gelu"),
        (nlu_builders.mbart_cc25, "transformer_wmt_en_de", "relu"),
        (nlu_builders.mbart_cc25, "my_model", "gelu"),
        (nlu_builders.nllb_fairseq, "transformer", "relu"),
        (nlu_builders.nllb_fairseq, "my_model", "relu"),
    ],
)
def test_an_activation_that_is_not_stated_is_that_of_the_architecture(tmp_path, caplog, build, arch, activation):
    build(tmp_path)

    def leave_out(content):
        options = content["args"] or content["cfg"]["model"]
        del options.activation_fn
        options.arch = arch

    assert read_encoder(change(tmp_path / "model.pt", leave_out)).layout.activation == activation
    assert f"lack activation_fn: {activation} is taken, as for --arch {arch}" in caplog.text


def test_infoxlm_and_xlmr_of_fairseq(tmp_path):
    tensors = layouts.masked_lm_tensors()
    path = layouts.write_fairseq(tmp_path / "model.pt", layouts.old_state(layouts.current_state(tensors)))
    found = read_encoder(path)
    assert torch.equal(found.tensors["layers.11.fc2.weight"], tensors["sentence_encoder.layers.11.fc2.weight"])
    assert not any(name.startswith("lm_head") for name in found.tensors)
    assert found.languages is None and found.entries == ()


def test_an_encoder_without_its_head_is_enough(tmp_path):
    """XLMRobertaModel, as people save it, has no masked-LM head."""
    state = layouts.huggingface_state(layouts.masked_lm_tensors(), prefix="")
    folder = layouts.write_huggingface(tmp_path, {name: one for name, one in state.items() if "lm_head" not in name})
    assert read_encoder(folder).layout.layers == 12


@pytest.mark.parametrize("block", ["interleaved", "vanilla"])
def test_a_fine_tuned_deltalm_tells_its_heads_and_languages(tmp_path, block):
    args = deltalm_builders.with_defaults(deltalm_builders.arguments(decoder_block=block))
    model = deltalm_builders.build(args)
    task = {"_name": "translation_multi_simple_epoch", "langs": ["de", "en"], "lang_tok_style": "multilingual"}
    saved = {"cfg": {"model": args, "task": task}, "model": model.state_dict()}
    torch.save(saved, tmp_path / "model.pt")
    found = read_encoder(tmp_path)
    assert (found.layout.family, found.layout.heads, found.languages) == ("deltalm", 2, ("de", "en"))
    assert set(found.report.loaded) | set(found.report.dropped) == set(model.state_dict())


# ---- Refused. ----


def _set(**changes):
    def edit(content):
        for name, value in changes.items():
            setattr(content["args"], name, value)

    return edit


def _tensors(edit):
    return lambda content: edit(content["model"])


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (_tensors(put("encoder.layers.1.adapter.weight", 2)), r"unknown tensors encoder\.layers\.1\.adapter\.weight"),
        (_tensors(without("encoder.layers.1.fc2.weight")), r"missing tensors: layers\.1\.fc2\.weight"),
        (_tensors(put("encoder.layers.0.moe_layer.gate.weight", 2)), "mixture of experts"),
        (_tensors(put("encoder.layer_norm.bias", 3)), r"wrong shapes: layer_norm\.bias \(3,\) instead of \(16,\)"),
        (_set(encoder_layers=3), "options say layers = 3, its tensors 2"),
        (_set(max_source_positions=99), "options say max_positions = 99, its tensors 30"),
        (_set(no_token_positional_embeddings=True), "no_token_positional_embeddings"),
        (_set(encoder_attention_heads=None), "does not tell the number of attention heads"),
        (_set(encoder_attention_heads=5), "heads = 5, expected a divisor of the width 16"),
        (lambda content: content.pop("model"), "holds the entries"),
    ],
)
def test_a_damaged_or_other_mbart_is_refused(tmp_path, edit, message):
    nlu_builders.mbart_cc25(tmp_path)
    with pytest.raises(CheckpointError, match=message):
        read_encoder(change(tmp_path / "model.pt", edit))


def test_other_transformers_are_refused(tmp_path):
    post_norm = nlu_builders.stock_model(PIECES, arch="transformer")
    path = nlu_builders.stock_checkpoint(tmp_path / "model.pt", post_norm, {"_name": "translation"})
    with pytest.raises(CheckpointError, match="norms after the blocks and sinusoidal positions"):
        read_encoder(path)
    torch.save({"model": {"decoder.embed_tokens.weight": torch.ones(2, 2)}, "args": argparse.Namespace()}, path)
    with pytest.raises(CheckpointError, match="of no known layout"):
        read_encoder(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"model_type": "t5"},
            "model_type = 't5', expected one of bert, camembert, m2m_100, mbart, roberta, xlm-roberta",
        ),
        ({"hidden_act": "relu"}, "hidden_act = 'relu', expected 'gelu'"),
        ({"position_embedding_type": "relative_key"}, "expected 'absolute'"),
        ({"is_decoder": True}, "is_decoder = true"),
        ({"layer_norm_eps": 0}, "layer_norm_eps"),
        ({"layer_norm_eps": 1}, "layer_norm_eps"),
        ({"type_vocab_size": 3}, "options say segments = 3, its tensors 2"),
        ({"num_hidden_layers": 5}, "options say layers = 5"),
    ],
)
def test_another_configuration_is_refused(tmp_path, changes, message):
    folder, _ = nlu_builders.write_bert(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    nlu_builders.write_json(folder / "config.json", {**config, **changes})
    with pytest.raises(CheckpointError, match=message):
        read_encoder(folder)


def _mbart_folder(folder, **config):
    """Hugging Face's names, from a stock model."""
    norms = {"encoder_normalize_before": True, "decoder_normalize_before": True}
    model = nlu_builders.stock_model(SYMBOLS, arch="mbart_large", **norms)
    state = {f"model.{name}": one for name, one in model.state_dict().items() if not name.endswith("version")}
    del state["model.encoder.embed_tokens.weight"], state["model.decoder.output_projection.weight"]
    state["model.shared.weight"] = model.encoder.embed_tokens.weight.detach()
    state["final_logits_bias"] = torch.zeros(1, len(SYMBOLS) + 4)
    torch.save({name: one.clone() for name, one in state.items()}, folder / "pytorch_model.bin")
    stated = {"model_type": "mbart", "d_model": 16, "encoder_layers": 2, "encoder_attention_heads": 2}
    nlu_builders.write_json(folder / "config.json", {**stated, "scale_embedding": True, **config})
    return list(state)


def test_a_shared_embedding_is_the_encoders(tmp_path):
    names = _mbart_folder(tmp_path)
    found = read_encoder(tmp_path)
    assert found.sources["embed_tokens.weight"] == "model.shared.weight"
    assert set(found.report.loaded) | set(found.report.dropped) == set(names)
    file, own = tmp_path / "pytorch_model.bin", "model.encoder.embed_tokens.weight"
    state = torch.load(file)
    torch.save({**state, own: state["model.shared.weight"].clone()}, file)
    assert read_encoder(tmp_path).report.reasons["model.shared.weight"] == "equal to model.encoder.embed_tokens.weight"
    torch.save({**state, own: state["model.shared.weight"] + 1}, file)
    with pytest.raises(CheckpointError, match=r"model\.shared\.weight and model\.encoder\.embed_tokens\.weight differ"):
        read_encoder(tmp_path)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"pad_token_id": 0}, "pad_token_id = 0, expected 1"),
        ({"eos_token_id": 3}, "eos_token_id = 3, expected 2"),
        ({"activation_function": "silu"}, "activation_function = 'silu', expected one of gelu, relu"),
        ({"max_position_embeddings": 7}, "options say max_positions = 7, its tensors 30"),
    ],
)
def test_another_mbart_folder_is_refused(tmp_path, config, message):
    _mbart_folder(tmp_path, **config)
    with pytest.raises(CheckpointError, match=message):
        read_encoder(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": None}, "lacks layers"),
        ({"depth": 2}, "has unknown depth"),
        ({"layers": "2"}, "has layers = '2', expected int"),
    ],
)
def test_a_stored_layout_that_is_none_is_refused(change, message):
    stored = {"family": "xlmr", **dict.fromkeys(SIZES, 2), **change}
    with pytest.raises(CheckpointError, match=message):
        layout_from({name: value for name, value in stored.items() if value is not None}, "here")
