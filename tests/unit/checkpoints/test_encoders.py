"""Test reading encoders: sources are recognised, tensors accounted for, unknown ones refused."""

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
from tests.unit.checkpoints.builders import edit_checkpoint, put

SYMBOLS = [*PIECES, *tags(LANGUAGES), "<mask>"]
WEIGHTS = ("model.safetensors", "pytorch_model.bin", "model.pt")
DECODER_REASONS = {"decoder, unused by an encoder", "format counter of fairseq"}


def tensors_of(path):
    """Return every tensor of a weights file or a folder, by its name there."""
    file = path
    if path.is_dir():
        file = next(path / name for name in WEIGHTS if (path / name).is_file())
    if file.suffix == ".safetensors":
        return safetensors.torch.load_file(file)
    content = torch.load(file, weights_only=False)
    return content.get("model") or content.get("weights") or content


def assert_accounted(report, names):
    """Assert that every tensor was loaded, or dropped for a reason, and none was both."""
    assert sorted(report.loaded + report.dropped) == sorted(names)
    assert all(report.reasons[name] for name in report.dropped)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_tensor_is_accounted_for(tmp_path, family):
    path, symbols = nlu_builders.write_any(family, tmp_path)
    actual = read_encoder(path, heads=nlu_builders.heads_of(family))
    sizes = dict(vocab_size=len(symbols) + 4, layers=2, embed_dim=16, ffn_dim=24, heads=2)
    positions = 40 if family in ("xlmr", "deltalm") else nlu_builders.POSITIONS
    assert actual.layout == family_layout(family, **sizes, max_positions=positions)
    shapes = {name: tuple(tensor.shape) for name, tensor in actual.tensors.items()}
    assert shapes == expected_shapes(actual.layout)
    assert all(tensor.dtype == torch.float32 for tensor in actual.tensors.values())
    tensors = tensors_of(path)
    assert_accounted(actual.report, tensors)
    decoders = [name for name in tensors if re.match(r"(model\.)?(decoder|tgt_embedding)\.", name)]
    assert bool(decoders) == (family in ("mbart", "nllb", "deltalm"))
    assert {actual.report.reasons[name] for name in decoders} <= DECODER_REASONS
    fitted = ("embed_tokens.weight", "embed_positions.weight")
    for name, source in actual.sources.items():
        if name in actual.tensors and name not in fitted:
            assert torch.equal(actual.tensors[name], tensors[source])


@pytest.mark.cases(
    "build activation", (nlu_builders.mbart_cc25, "gelu"), (nlu_builders.nllb_fairseq, "relu")
)
def test_the_family_decides_an_activation_that_is_not_stated(tmp_path, caplog, build, activation):
    def remove_activation(content):
        del (content["args"] or content["cfg"]["model"]).activation_fn

    build(tmp_path)
    path = edit_checkpoint(tmp_path / "model.pt", remove_activation)
    assert read_encoder(path).layout.activation == activation
    assert "activation_fn" in caplog.text


@pytest.mark.parametrize("block", ["interleaved", "vanilla"])
def test_a_fine_tuned_deltalm_states_heads_and_languages(tmp_path, block):
    arguments = deltalm_builders.arguments(decoder_block=block)
    options = deltalm_builders.with_defaults(arguments)
    state = deltalm_builders.build(options).state_dict()
    task = {"_name": "translation_multi_simple_epoch", "langs": ["de", "en"]}
    task["lang_tok_style"] = "multilingual"
    torch.save({"cfg": {"model": options, "task": task}, "model": state}, tmp_path / "model.pt")
    actual = read_encoder(tmp_path)
    assert (actual.layout.family, actual.layout.heads) == ("deltalm", 2)
    assert actual.languages == ("de", "en")
    assert_accounted(actual.report, state)


# ---- Refused. ----


def set_options(**options):
    return lambda content: vars(content["args"]).update(options)


def edit_model(edit):
    return lambda content: edit(content["model"])


@pytest.mark.cases(
    "edit message",
    (edit_model(put("encoder.layers.1.adapter.weight", 2)), r"encoder\.layers\.1\.adapter\.weight"),
    (edit_model(put("encoder.layers.0.moe_layer.gate.weight", 2)), "mixture of experts"),
    (edit_model(put("encoder.layer_norm.bias", 3)), r"layer_norm\.bias \(3,\) instead of \(16,\)"),
    (edit_model(lambda model: model.update({7: torch.ones(1)})), "of type int, expected text"),
    (set_options(encoder_layers=3), "layers = 3, its tensors 2"),
    (set_options(no_token_positional_embeddings=True), "no_token_positional_embeddings"),
    (set_options(encoder_attention_heads=None), "number of attention heads"),
    (lambda content: content.update(args=[1, 2]), "number of attention heads"),
    (lambda content: content.pop("model"), "holds the entries"),
)
def test_a_damaged_or_unknown_mbart_is_refused(tmp_path, edit, message):
    nlu_builders.mbart_cc25(tmp_path)
    with pytest.raises(CheckpointError, match=message):
        read_encoder(edit_checkpoint(tmp_path / "model.pt", edit))


@pytest.mark.cases(
    "changes message",
    ({"model_type": "canine"}, "model_type = 'canine', expected one of bert, camembert"),
    ({"model_type": "modernbert"}, "rotary positions .*mmBERT.*, expected one of bert"),
    ({"model_type": ["bert"]}, r"model_type = \['bert'\]"),
    ({"hidden_act": []}, r"hidden_act = \[\], expected 'gelu'"),
    ({"is_decoder": True}, "is_decoder = True"),
    ({"layer_norm_eps": 0}, "layer_norm_eps"),
    ({"type_vocab_size": 3}, "segments = 3, its tensors 2"),
)
def test_a_configuration_that_is_not_berts_is_refused(tmp_path, changes, message):
    folder, _ = nlu_builders.write_bert(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    nlu_builders.write_json(folder / "config.json", {**config, **changes})
    with pytest.raises(CheckpointError, match=message):
        read_encoder(folder)


def write_mbart_folder(folder, **changes):
    """Write a stock mBART in Hugging Face's layout; return its state."""
    norms = {"encoder_normalize_before": True, "decoder_normalize_before": True}
    model = nlu_builders.stock_model(SYMBOLS, arch="mbart_large", **norms)
    state = {f"model.{name}": tensor.clone() for name, tensor in model.state_dict().items()}
    for name in ("encoder.version", "decoder.version", "decoder.output_projection.weight"):
        del state[f"model.{name}"]
    state["model.shared.weight"] = state.pop("model.encoder.embed_tokens.weight")
    state["final_logits_bias"] = torch.zeros(1, len(SYMBOLS) + 4)
    torch.save(state, folder / "pytorch_model.bin")
    config = {"model_type": "mbart", "d_model": 16, "encoder_layers": 2, "scale_embedding": True}
    config["encoder_attention_heads"] = 2
    nlu_builders.write_json(folder / "config.json", {**config, **changes})
    return state


def test_a_shared_embedding_is_the_encoders(tmp_path):
    state = write_mbart_folder(tmp_path)
    actual = read_encoder(tmp_path)
    assert actual.sources["embed_tokens.weight"] == "model.shared.weight"
    assert_accounted(actual.report, state)
    file, words = tmp_path / "pytorch_model.bin", "model.encoder.embed_tokens.weight"
    torch.save({**state, words: state["model.shared.weight"].clone()}, file)
    assert read_encoder(tmp_path).report.reasons["model.shared.weight"] == f"equal to {words}"
    torch.save({**state, words: state["model.shared.weight"] + 1}, file)
    with pytest.raises(CheckpointError, match=rf"model\.shared\.weight and {words} differ"):
        read_encoder(tmp_path)
    write_mbart_folder(tmp_path, activation_function="silu")
    with pytest.raises(CheckpointError, match="activation_function = 'silu', expected 'gelu' or"):
        read_encoder(tmp_path)
