"""read_encoder recognises every source, accounts for every tensor, and refuses what it does not know."""

import json
import re

import pytest
import safetensors.torch
import torch

from fairseq_plugins.checkpoints import CheckpointError
from fairseq_plugins.checkpoints.encoders import read_encoder
from fairseq_plugins.checkpoints.layouts import FAMILIES, expected_shapes, family_layout
from tests import deltalm_builders, nlu_builders
from tests.nlu_builders import LANGUAGES, PIECES, tags
from tests.unit.checkpoints.builders import put

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
    actual = read_encoder(path, heads=nlu_builders.heads_of(family))
    sizes = dict(vocab_size=len(symbols) + 4, layers=2, embed_dim=16, ffn_dim=24, heads=2)
    positions = 40 if family in ("xlmr", "deltalm") else nlu_builders.POSITIONS
    assert actual.layout == family_layout(family, **sizes, max_positions=positions)
    assert {name: tuple(tensor.shape) for name, tensor in actual.tensors.items()} == expected_shapes(actual.layout)
    names = tensors_of(path)
    assert set(actual.report.loaded) | set(actual.report.dropped) == set(names)
    assert not set(actual.report.loaded) & set(actual.report.dropped)
    assert all(actual.report.reasons[name] for name in actual.report.dropped)
    assert all(tensor.dtype == torch.float32 for tensor in actual.tensors.values())
    decoders = [name for name in names if re.match(r"(?:model\.)?(?:decoder|tgt_embedding)\.", name)]
    assert bool(decoders) == (family in ("mbart", "nllb", "deltalm"))
    assert {actual.report.reasons[name] for name in decoders} <= {
        "decoder, unused by an encoder",
        "format counter of fairseq",
    }
    for name, source in actual.sources.items():
        if name in actual.tensors and name not in ("embed_tokens.weight", "embed_positions.weight"):
            assert torch.equal(actual.tensors[name], names[source])


@pytest.mark.parametrize(
    ("build", "activation"), [(nlu_builders.mbart_cc25, "gelu"), (nlu_builders.nllb_fairseq, "relu")]
)
def test_an_activation_that_is_not_stated_is_that_of_the_family(tmp_path, caplog, build, activation):
    build(tmp_path)

    def leave_out(content):
        del (content["args"] or content["cfg"]["model"]).activation_fn

    assert read_encoder(change(tmp_path / "model.pt", leave_out)).layout.activation == activation
    assert "its options lack activation_fn: that of its family is taken" in caplog.text


@pytest.mark.parametrize("block", ["interleaved", "vanilla"])
def test_a_fine_tuned_deltalm_tells_its_heads_and_languages(tmp_path, block):
    args = deltalm_builders.with_defaults(deltalm_builders.arguments(decoder_block=block))
    model = deltalm_builders.build(args)
    task = {"_name": "translation_multi_simple_epoch", "langs": ["de", "en"], "lang_tok_style": "multilingual"}
    saved = {"cfg": {"model": args, "task": task}, "model": model.state_dict()}
    torch.save(saved, tmp_path / "model.pt")
    actual = read_encoder(tmp_path)
    assert (actual.layout.family, actual.layout.heads, actual.languages) == ("deltalm", 2, ("de", "en"))
    assert set(actual.report.loaded) | set(actual.report.dropped) == set(model.state_dict())


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
        (_tensors(put("encoder.layers.0.moe_layer.gate.weight", 2)), "mixture of experts"),
        (_tensors(put("encoder.layer_norm.bias", 3)), r"wrong shapes: layer_norm\.bias \(3,\) instead of \(16,\)"),
        (_set(encoder_layers=3), "options say layers = 3, its tensors 2"),
        (_set(no_token_positional_embeddings=True), "no_token_positional_embeddings"),
        (_set(encoder_attention_heads=None), "does not tell the number of attention heads"),
        (lambda content: content.pop("model"), "holds the entries"),
        (
            lambda content: content["model"].update({7: torch.ones(1)}),
            "the name of a tensor is of type int, expected text",
        ),
        (lambda content: content.update(args=[1, 2]), "does not tell the number of attention heads"),
    ],
)
def test_a_damaged_or_other_mbart_is_refused(tmp_path, edit, message):
    nlu_builders.mbart_cc25(tmp_path)
    with pytest.raises(CheckpointError, match=message):
        read_encoder(change(tmp_path / "model.pt", edit))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"model_type": "t5"},
            "model_type = 't5', expected one of bert, camembert, m2m_100, mbart, roberta, xlm-roberta",
        ),
        ({"model_type": ["bert"]}, r"model_type = \['bert'\], expected one of bert"),
        ({"hidden_act": "relu"}, "hidden_act = 'relu', expected 'gelu'"),
        ({"hidden_act": []}, r"hidden_act = \[\], expected 'gelu'"),
        ({"is_decoder": True}, "is_decoder = True, expected False"),
        ({"layer_norm_eps": 0}, "layer_norm_eps"),
        ({"type_vocab_size": 3}, "options say segments = 3, its tensors 2"),
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
    state = {f"model.{name}": tensor for name, tensor in model.state_dict().items() if not name.endswith("version")}
    del state["model.encoder.embed_tokens.weight"], state["model.decoder.output_projection.weight"]
    state["model.shared.weight"] = model.encoder.embed_tokens.weight.detach()
    state["final_logits_bias"] = torch.zeros(1, len(SYMBOLS) + 4)
    torch.save({name: tensor.clone() for name, tensor in state.items()}, folder / "pytorch_model.bin")
    stated = {"model_type": "mbart", "d_model": 16, "encoder_layers": 2, "encoder_attention_heads": 2}
    nlu_builders.write_json(folder / "config.json", {**stated, "scale_embedding": True, **config})
    return list(state)


def test_an_activation_that_the_encoder_does_not_have_is_refused(tmp_path):
    _mbart_folder(tmp_path, activation_function="silu")
    with pytest.raises(CheckpointError, match="activation_function = 'silu', expected 'gelu' or 'relu'"):
        read_encoder(tmp_path)


def test_a_shared_embedding_is_the_encoders(tmp_path):
    names = _mbart_folder(tmp_path)
    actual = read_encoder(tmp_path)
    assert actual.sources["embed_tokens.weight"] == "model.shared.weight"
    assert set(actual.report.loaded) | set(actual.report.dropped) == set(names)
    file, own = tmp_path / "pytorch_model.bin", "model.encoder.embed_tokens.weight"
    state = torch.load(file)
    torch.save({**state, own: state["model.shared.weight"].clone()}, file)
    assert read_encoder(tmp_path).report.reasons["model.shared.weight"] == "equal to model.encoder.embed_tokens.weight"
    torch.save({**state, own: state["model.shared.weight"] + 1}, file)
    with pytest.raises(CheckpointError, match=r"model\.shared\.weight and model\.encoder\.embed_tokens\.weight differ"):
        read_encoder(tmp_path)
