"""Test reading VECOs: layers equal those of stock fairseq and transformers."""

import pytest
import torch

from fairseq_plugins.checkpoints import CheckpointError, read_masked_lm
from fairseq_plugins.checkpoints.encoders import read_encoder
from fairseq_plugins.checkpoints.layouts import expected_shapes, family_layout
from fairseq_plugins.checkpoints.veco import read_veco_folder
from fairseq_plugins.understanding.encoder import load_text_encoder
from tests import nlu_builders, veco_builders
from tests.nlu_builders import HEADS, LAYERS, PAD, PIECES
from tests.unit.checkpoints.builders import assert_same, edited, without
from tests.veco_builders import ROWS


def stock_layers(model, tokens):
    """Return every layer of stock fairseq's encoder, (B, S, C)."""
    states = model.encoder(tokens, return_all_hiddens=True)["encoder_states"]
    return [state.transpose(0, 1) for state in states]


def assert_layers_equal(path, expected, tokens, atol=0.0):
    """Compare every layer at every token; the layers must differ from each other."""
    with torch.no_grad():
        actual = load_text_encoder(path)(tokens)
    mask = tokens.ne(PAD)
    assert len(actual) == len(expected) == LAYERS + 1
    for number, (ours, theirs) in enumerate(zip(actual, expected)):
        message = f"layer {number}"
        torch.testing.assert_close(ours[mask], theirs[mask], rtol=0, atol=atol, msg=message)
    for lower, upper in zip(expected, expected[1:]):
        assert (lower[mask] - upper[mask]).abs().max() > 0.1


def reasons_of(report, prefix):
    """Return name -> reason for the dropped tensors with a prefix."""
    return {name: report.reasons[name] for name in report.dropped if name.startswith(prefix)}


def is_scaled(path, **options):
    """Return whether an encoder of XLM-R's family scales its embeddings."""
    layout = read_encoder(path, **options).layout
    assert layout.family == "xlmr"
    return layout.scale_embedding


# ---- fairseq's layout. ----


@torch.no_grad()
def test_the_released_layout_equals_stock_fairseq(tmp_path):
    model, tokens = veco_builders.released(tmp_path), nlu_builders.tokens(ROWS)
    assert_layers_equal(tmp_path, stock_layers(model, tokens), tokens)
    actual = read_encoder(tmp_path)
    sizes = veco_builders.sizes_of_tiny()
    assert actual.layout == family_layout("xlmr", scale_embedding=True, **sizes)
    shapes = {name: tuple(tensor.shape) for name, tensor in actual.tensors.items()}
    assert shapes == expected_shapes(actual.layout)
    report = actual.report
    assert set(report.loaded) | set(report.dropped) == set(veco_builders.released_state(model))
    decoder_reasons = {"decoder, unused by an encoder", "format counter of fairseq"}
    assert set(reasons_of(report, "decoder.").values()) == decoder_reasons
    assert actual.entries == ("<s>", "<pad>", "</s>", "<unk>", *PIECES, "<mask>")
    assert actual.languages is None


@torch.no_grad()
def test_a_pretrained_veco_is_not_scaled_and_has_a_masked_lm(tmp_path):
    path = tmp_path / "checkpoint_last.pt"
    model, tokens = veco_builders.pretrained(path), nlu_builders.tokens(ROWS)
    assert_layers_equal(path, stock_layers(model, tokens), tokens)
    actual, sizes = read_encoder(path), veco_builders.sizes_of_tiny()
    assert actual.layout == family_layout("xlmr", **sizes)
    assert len(reasons_of(actual.report, "lm_head.")) == 7
    masked_lm = read_masked_lm(path)
    assert masked_lm.sizes == {**sizes, "padding_idx": PAD, "epsilon": 1e-5}
    state, report = veco_builders.pretrained_state(model), masked_lm.report
    for name, tensor in masked_lm.tensors.items():
        assert torch.equal(tensor, state[name.replace("sentence_encoder", "encoder")]), name
    assert set(report.loaded) | set(report.dropped) == set(state)


@pytest.mark.parametrize("arch", [None, "transformer", "my_model"])
def test_tensors_identify_a_veco_if_the_architecture_does_not(tmp_path, arch):
    def is_scaled_with(model, state):
        return is_scaled(veco_builders.write(tmp_path / "model.pt", model, state, arch=arch))

    scaled, unscaled = veco_builders.stock(), veco_builders.stock(scaled=False)
    released = veco_builders.released_state(scaled)
    assert is_scaled_with(scaled, released)
    last_layer = edited(released, without("decoder.layers.0."))
    for name in [name for name in last_layer if name.startswith("decoder.layers.1.")]:
        last_layer[name.replace(".1.", ".0.")] = last_layer.pop(name)
    assert is_scaled_with(scaled, last_layer)
    pretrained = veco_builders.pretrained_state(unscaled)
    pretrained["decoder.layers.0.fc1.weight"] = pretrained["decoder.layers.0.fc1.weight"] + 1
    assert not is_scaled_with(unscaled, pretrained), "the head alone identifies it"


@pytest.mark.parametrize("scaled", [True, False])
def test_the_layout_states_the_scale_of_embeddings_without_options(tmp_path, caplog, scaled):
    model = veco_builders.stock(scaled=scaled)
    make_state = veco_builders.released_state if scaled else veco_builders.pretrained_state
    torch.save({"model": make_state(model)}, tmp_path / "model.pt")
    with pytest.raises(CheckpointError, match="number of attention heads"):
        read_encoder(tmp_path)
    assert is_scaled(tmp_path, heads=HEADS) == scaled
    assert f"no_scale_embedding: {not scaled}" in caplog.text


@pytest.mark.parametrize("arch", ["bart_base", "mbart_large"])
def test_a_post_norm_bart_is_no_veco(tmp_path, arch):
    """Its decoder may have started from its encoder."""
    model = veco_builders.stock(scaled=False)
    path = veco_builders.write(tmp_path / "model.pt", model, model.state_dict(), arch=arch)
    layout = read_encoder(path).layout
    assert (layout.family, layout.scale_embedding) == ("mbart", False)


def test_a_bart_that_may_be_a_fine_tuned_veco_is_refused(tmp_path):
    """They differ in the scale of the embeddings, which the file does not state."""
    model = nlu_builders.stock_model(PIECES, arch="transformer", **veco_builders.SHAPE)
    path, state = tmp_path / "model.pt", model.state_dict()
    veco_builders.write(path, model, state, without=("arch", "no_scale_embedding"))
    with pytest.raises(CheckpointError, match="neither arch nor no_scale_embedding"):
        read_encoder(path)
    veco_builders.write(path, model, state, arch="transformer")
    assert read_encoder(path).layout.family == "mbart"


def test_a_veco_for_generation_is_no_masked_lm(tmp_path):
    veco_builders.released(tmp_path / "released")
    with pytest.raises(CheckpointError, match="is a VECO for generation.*lm_head"):
        read_masked_lm(tmp_path / "released")
    model = veco_builders.stock()
    state = veco_builders.pretrained_state(model)
    with pytest.raises(CheckpointError, match="no_scale_embedding = False, expected True"):
        read_masked_lm(veco_builders.write(tmp_path / "model.pt", model, state))


# ---- Hugging Face's layout. ----


@torch.no_grad()
def test_the_folder_equals_transformers(tmp_path):
    import transformers  # takes seconds

    model = nlu_builders.huggingface(transformers, "xlmr", tmp_path, ROWS)
    names = veco_builders.add_cross_attention(tmp_path)
    tokens = nlu_builders.tokens(ROWS)
    mask = tokens.ne(PAD).long()
    expected = model.roberta(tokens, attention_mask=mask, output_hidden_states=True).hidden_states
    assert_layers_equal(tmp_path, list(expected), tokens, atol=1e-5)
    actual = read_encoder(tmp_path)
    assert actual.layout == family_layout("xlmr", **veco_builders.sizes_of_tiny())
    cross = {name for name in names if "cross_attention" in name}
    assert len(cross) == 10 * LAYERS
    reason = "cross-attention of a VECO, unused by an encoder"
    assert {actual.report.reasons[name] for name in cross} == {reason}
    reported = set(actual.report.loaded) | set(actual.report.dropped)
    assert reported - {"(added to the positions)"} == set(names)


@pytest.mark.parametrize("flag", ["is_decoder", "add_cross_attention"])
def test_a_decoder_is_refused_unless_it_is_a_veco(tmp_path, flag):
    state = veco_builders.folder_state()
    plain = {name: tensor for name, tensor in state.items() if "cross_attention" not in name}
    with pytest.raises(CheckpointError, match=rf"{flag} = True"):
        read_encoder(veco_builders.write_folder(tmp_path / "plain", plain, **{flag: True}))
    veco = veco_builders.write_folder(tmp_path / "veco", state, **{flag: True})
    assert read_encoder(veco).layout.layers == 12


def test_cross_attention_in_one_word_is_the_same(tmp_path, caplog):
    """Warn of a file that states to be a decoder, as Hugging Face's own decoders do."""
    state = veco_builders.folder_state()
    one_word = {name.replace("cross_attention", "crossattention"): state[name] for name in state}
    assert one_word.keys() != state.keys()
    veco = veco_builders.write_folder(tmp_path / "veco", state)
    renamed = veco_builders.write_folder(tmp_path / "renamed", one_word)
    for reader in (read_encoder, read_veco_folder):
        actual, expected = reader(renamed), reader(veco)
        assert_same(actual.tensors, expected.tensors)
        assert len(actual.report.dropped) == len(expected.report.dropped)
    assert "is_decoder" not in caplog.text
    read_encoder(veco_builders.write_folder(tmp_path / "flag", one_word, is_decoder=True))
    assert "is_decoder = true with crossattention" in caplog.text
    name = next(name for name in one_word if ".layer.3.crossattention.self.key" in name)
    twice = {**state, name: one_word[name]}
    with pytest.raises(CheckpointError, match="two tensors for .*encoder_attn.k_proj"):
        read_veco_folder(veco_builders.write_folder(tmp_path / "twice", twice))
