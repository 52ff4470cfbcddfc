"""The encoder and the masked LM of VECO files in every layout equal stock fairseq's and transformers' on the same weights."""

import pytest
import torch

from fairseq_plugins.checkpoints import CheckpointError, load, read_masked_lm
from fairseq_plugins.checkpoints.encoders import read_encoder
from fairseq_plugins.checkpoints.layouts import expected_shapes, family_layout
from fairseq_plugins.checkpoints.veco import read_veco_folder
from fairseq_plugins.masked_lm.model import MaskedLM, MaskedLMSizes
from fairseq_plugins.understanding.encoder import load_text_encoder
from tests import nlu_builders, veco_builders
from tests.nlu_builders import HEADS, LAYERS, PAD, PIECES, WIDTH
from tests.unit.checkpoints import builders as masked_lms
from tests.veco_builders import ROWS


@pytest.fixture
def hf():
    """The package, imported by the tests that need it: that takes seconds."""
    import transformers

    return transformers


def stock_layers(model, tokens):
    """Every layer of stock fairseq's own encoder, (B, S, C)."""
    actual = model.encoder(tokens, return_all_hiddens=True)
    return [state.transpose(0, 1) for state in actual["encoder_states"]]


def assert_layers_equal(path, expected, tokens, atol=0.0):
    """At every token of every layer; the layers differ from each other."""
    with torch.no_grad():
        actual = load_text_encoder(path)(tokens)
    kept = tokens.ne(PAD)
    assert len(actual) == len(expected) == LAYERS + 1
    for number, (ours, theirs) in enumerate(zip(actual, expected)):
        torch.testing.assert_close(ours[kept], theirs[kept], rtol=0, atol=atol, msg=f"layer {number}")
    assert all((a[kept] - b[kept]).abs().max() > 0.1 for a, b in zip(expected, expected[1:]))


def dropped(actual, start):
    """Reasons of the dropped names with that start."""
    return {name: actual.report.reasons[name] for name in actual.report.dropped if name.startswith(start)}


# ---- fairseq's layout. ----


@torch.no_grad()
def test_the_released_layout_equals_stock_fairseq(tmp_path):
    model = veco_builders.released(tmp_path)
    tokens = nlu_builders.tokens(ROWS)
    assert_layers_equal(tmp_path, stock_layers(model, tokens), tokens)
    actual = read_encoder(tmp_path)
    assert actual.layout == family_layout("xlmr", scale_embedding=True, **veco_builders.sizes_of_tiny())
    assert {name: tuple(tensor.shape) for name, tensor in actual.tensors.items()} == expected_shapes(actual.layout)
    assert set(actual.report.loaded) | set(actual.report.dropped) == set(veco_builders.released_state(model))
    decoder = set(dropped(actual, "decoder.").values())
    assert decoder == {"decoder, unused by an encoder", "format counter of fairseq"}
    assert dropped(actual, "classification_heads.") == {"classification_heads.nli.dense.weight": "head of another task"}
    assert list(dropped(actual, "encoder.")) == ["encoder.version", "encoder.output_projection.weight"]
    assert actual.entries == ("<s>", "<pad>", "</s>", "<unk>", *PIECES, "<mask>") and actual.languages is None


@torch.no_grad()
def test_one_that_was_pretrained_here_is_not_scaled_and_keeps_its_head_out(tmp_path):
    model = veco_builders.pretrained(tmp_path / "checkpoint_last.pt")
    tokens = nlu_builders.tokens(ROWS)
    assert_layers_equal(tmp_path / "checkpoint_last.pt", stock_layers(model, tokens), tokens)
    actual = read_encoder(tmp_path / "checkpoint_last.pt")
    assert actual.layout == family_layout("xlmr", **veco_builders.sizes_of_tiny())
    heads = dropped(actual, "lm_head.")
    assert heads.pop("lm_head.mask_row") == "place of <mask>, no weight"
    assert len(heads) == 6 and set(heads.values()) == {"head of the masked LM, unused by an encoder"}


@pytest.mark.parametrize("arch", [None, "transformer", "transformer_wmt_en_de_big", "my_model"])
@pytest.mark.parametrize("kind", ["released", "last layers", "pretrained"])
def test_tensors_tell_a_veco_where_the_architecture_does_not(tmp_path, arch, kind):
    model = veco_builders.stock(scaled=kind != "pretrained")
    state = veco_builders.pretrained_state(model) if kind == "pretrained" else veco_builders.released_state(model)
    if kind == "last layers":
        renamed = {name.replace("decoder.layers.1.", "decoder.layers.0."): tensor for name, tensor in state.items()}
        state = {name: tensor for name, tensor in renamed.items() if not name.startswith("decoder.layers.1.")}
    elif kind == "pretrained":  # trained further on one side: the head alone tells
        state["decoder.layers.0.fc1.weight"] = state["decoder.layers.0.fc1.weight"] + 1
    file = veco_builders.write(tmp_path / "model.pt", model, state, arch=arch)
    layout = read_encoder(file).layout
    assert (layout.family, layout.scale_embedding) == ("xlmr", kind != "pretrained")


@pytest.mark.parametrize("kind", ["released", "pretrained"])
def test_without_any_options_the_layout_tells_whether_embeddings_are_scaled(tmp_path, caplog, kind):
    model = veco_builders.stock(scaled=kind == "released")
    state = veco_builders.released_state(model) if kind == "released" else veco_builders.pretrained_state(model)
    torch.save({"model": state}, tmp_path / "model.pt")
    with pytest.raises(CheckpointError, match="number of attention heads"):
        read_encoder(tmp_path)
    layout = read_encoder(tmp_path, heads=HEADS).layout
    assert (layout.family, layout.scale_embedding) == ("xlmr", kind == "released")
    assert f"its options lack no_scale_embedding: {kind != 'released'} is taken" in caplog.text


@pytest.mark.parametrize("arch", ["bart_base", "mbart_large"])
def test_a_post_norm_bart_stays_one(tmp_path, arch):
    """Even where its decoder started from its encoder."""
    model = veco_builders.stock(scaled=False)
    file = veco_builders.write(tmp_path / "model.pt", model, model.state_dict(), arch=arch)
    layout = read_encoder(file).layout
    assert (layout.family, layout.scale_embedding) == ("mbart", False)


def test_what_may_be_a_bart_or_a_fine_tuned_veco_is_refused(tmp_path):
    """They differ in the scale of the embeddings, which nothing tells."""
    model = nlu_builders.stock_model(PIECES, arch="transformer", **veco_builders.SHAPE)
    lost = ("arch", "no_scale_embedding")
    file = veco_builders.write(tmp_path / "model.pt", model, model.state_dict(), without=lost)
    with pytest.raises(CheckpointError, match="neither arch nor no_scale_embedding.*fit BART.*fine-tuned VECO"):
        read_encoder(file)
    stated = veco_builders.write(tmp_path / "model.pt", model, model.state_dict(), arch="transformer")
    assert read_encoder(stated).layout.family == "mbart"


# ---- Hugging Face's layout. ----


@torch.no_grad()
def test_the_folder_equals_transformers(tmp_path, hf):
    model = nlu_builders.huggingface(hf, "xlmr", tmp_path, ROWS)
    names = veco_builders.add_cross_attention(tmp_path)
    tokens = nlu_builders.tokens(ROWS)
    theirs = model.roberta(tokens, attention_mask=tokens.ne(PAD).long(), output_hidden_states=True)
    assert_layers_equal(tmp_path, list(theirs.hidden_states), tokens, atol=1e-5)
    actual = read_encoder(tmp_path)
    assert actual.layout == family_layout("xlmr", **veco_builders.sizes_of_tiny())
    cross = {name for name in names if "cross_attention" in name}
    assert len(cross) == 10 * LAYERS
    assert {actual.report.reasons[name] for name in cross} == {"cross-attention of a VECO, unused by an encoder"}
    assert (set(actual.report.loaded) | set(actual.report.dropped)) - {"(added to the positions)"} == set(names)


@pytest.mark.parametrize("flag", ["is_decoder", "add_cross_attention"])
def test_a_decoder_is_refused_unless_it_is_a_veco(tmp_path, flag):
    state = veco_builders.folder_state()
    plain = {name: tensor for name, tensor in state.items() if "cross_attention" not in name}
    with pytest.raises(CheckpointError, match=rf"{flag} = True, expected false without the cross_attention"):
        read_encoder(veco_builders.write_folder(tmp_path / "plain", plain, **{flag: True}))
    assert read_encoder(veco_builders.write_folder(tmp_path / "veco", state, **{flag: True})).layout.layers == 12


def test_cross_attention_in_one_word_is_the_same(tmp_path, caplog):
    """Encoder and whole state; a file that states to be a decoder is taken for a VECO with a warning."""
    state = veco_builders.folder_state()
    one_word = {name.replace("cross_attention", "crossattention"): tensor for name, tensor in state.items()}
    assert one_word.keys() != state.keys()
    paths = [veco_builders.write_folder(tmp_path / name, one) for name, one in (("two", state), ("one", one_word))]
    for read in (read_encoder, read_veco_folder):
        two, one = (read(path) for path in paths)
        masked_lms.assert_same(one.tensors, two.tensors)
        assert len(one.report.dropped) == len(two.report.dropped)
    assert "is_decoder" not in caplog.text
    read_encoder(veco_builders.write_folder(tmp_path / "flag", one_word, is_decoder=True))
    assert "is_decoder = true with crossattention.*: taken to be a VECO" in caplog.text
    both = {
        **state,
        **{name: tensor for name, tensor in one_word.items() if ".layer.3.crossattention.self.key" in name},
    }
    with pytest.raises(CheckpointError, match="two tensors for .*encoder_attn.k_proj"):
        read_veco_folder(veco_builders.write_folder(tmp_path / "both", both))


# ---- As a masked LM. ----


@torch.no_grad()
def test_one_that_was_pretrained_here_is_a_masked_lm(tmp_path):
    model = veco_builders.pretrained(tmp_path / "checkpoint_last.pt")
    actual = read_masked_lm(tmp_path / "checkpoint_last.pt")
    assert actual.sizes == {**veco_builders.sizes_of_tiny(), "padding_idx": PAD}
    lm = MaskedLM(MaskedLMSizes(**actual.sizes)).eval()
    load(lm, actual.tensors)
    tokens = nlu_builders.tokens(ROWS)
    head = veco_builders.head(model.encoder.embed_tokens.weight)
    hidden = stock_layers(model, tokens)[-1]
    hidden = torch.nn.functional.linear(hidden, head["lm_head.dense.weight"], head["lm_head.dense.bias"])
    norm = head["lm_head.layer_norm.weight"], head["lm_head.layer_norm.bias"]
    hidden = torch.nn.functional.layer_norm(torch.nn.functional.gelu(hidden), (WIDTH,), *norm)
    expected = torch.nn.functional.linear(hidden, head["lm_head.weight"], head["lm_head.bias"])
    kept = tokens.ne(PAD)
    torch.testing.assert_close(lm(tokens)[kept], expected[kept], rtol=0, atol=1e-5)
    assert set(actual.report.loaded) | set(actual.report.dropped) == set(veco_builders.pretrained_state(model))


def test_one_for_generation_is_no_masked_lm(tmp_path):
    veco_builders.released(tmp_path / "released")
    with pytest.raises(CheckpointError, match="is a VECO for generation, without the head of a masked LM.*lm_head"):
        read_masked_lm(tmp_path / "released")
    model = veco_builders.stock()
    scaled = veco_builders.write(tmp_path / "model.pt", model, veco_builders.pretrained_state(model))
    with pytest.raises(CheckpointError, match="no_scale_embedding = False, expected True"):
        read_masked_lm(scaled)
