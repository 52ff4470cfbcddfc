"""Test nlu_encoder with a VECO: its weights, the row of <mask>, and the layout of XLM-R."""

import pytest
import torch

from fairseq_plugins.checkpoints import read_masked_lm
from fairseq_plugins.checkpoints.encoders import read_encoder
from fairseq_plugins.understanding.encoder import load_text_encoder
from tests import nlu_builders, veco_builders
from tests.nlu_builders import PIECES, from_file, reloaded, tokens_for
from tests.unit.checkpoints import builders as masked_lms

UNNAMED = {"unnamed_rows": "dictionary"}


def write(kind, path):
    """Write a VECO of a kind. Returns the symbols of its dictionary."""
    if kind == "folder":
        veco_builders.write_folder(path)
        return [*PIECES[:18], "<mask>"]
    if kind == "released":
        veco_builders.released(path)
    else:
        veco_builders.pretrained(path / "model.pt")
    return veco_builders.SYMBOLS


@torch.no_grad()
@pytest.mark.parametrize("kind", ["released", "pretrained", "folder"])
def test_a_file_fills_the_model_and_its_checkpoint_replaces_the_file(tmp_path, kind):
    symbols = write(kind, tmp_path / "veco")
    model = from_file(tmp_path / "veco", symbols, **UNNAMED)
    tokens = tokens_for(model)
    expected = load_text_encoder(tmp_path / "veco")(tokens)[-1]
    assert torch.equal(model(tokens)[0], expected) and model.pooling == "first"
    assert model.encoder.layout.scale_embedding == (kind == "released")
    for file in (tmp_path / "veco").iterdir():
        file.unlink()
    decoder = reloaded(model, symbols, tmp_path / "checkpoint.pt")
    assert torch.equal(decoder(tokens)[0], expected)
    assert read_encoder(tmp_path / "checkpoint.pt").layout == model.encoder.layout


@torch.no_grad()
def test_a_veco_without_cross_attention_is_an_xlmr_bit_for_bit(tmp_path):
    state = veco_builders.folder_state()
    plain = {name: tensor for name, tensor in state.items() if "cross_attention" not in name}
    veco_folder = veco_builders.write_folder(tmp_path / "veco", state, is_decoder=True)
    veco = load_text_encoder(veco_folder)
    xlmr = load_text_encoder(veco_builders.write_folder(tmp_path / "xlmr", plain))
    assert veco.layout == xlmr.layout
    tokens = nlu_builders.tokens(masked_lms.SIZES["vocab_size"])
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(veco(tokens), xlmr(tokens)))


def test_the_dictionary_must_have_mask_in_the_row_that_the_file_states(tmp_path):
    """A task that adds <mask> at the end would shift each language by a row."""
    symbols = [*PIECES[:-2], "<mask>", "[de]", "[en]"]
    shifted = [*PIECES[:-2], "[de]", "[en]", "<mask>"]
    model = veco_builders.stock(symbols, scaled=False)
    row = 4 + symbols.index("<mask>")
    state = veco_builders.pretrained_state(model)
    state["lm_head.mask_row"] = torch.empty(row, 0)
    file, dictionary = tmp_path / "checkpoint_last.pt", tmp_path / "dict.txt"
    veco_builders.pretrained(file, model, model=state)
    encoder = read_encoder(file)
    assert encoder.mask_row == row and encoder.report.reasons["lm_head.mask_row"]
    words = from_file(file, symbols, **UNNAMED).encoder.embed_tokens.weight
    assert torch.equal(words, model.encoder.embed_tokens.weight)
    with pytest.raises(ValueError, match=f"<mask> is entry {row + 2} .*, but row {row} of"):
        from_file(file, shifted, **UNNAMED)
    nlu_builders.write_dict(dictionary, symbols)
    assert read_encoder(file).entries[row] == "<mask>"
    nlu_builders.write_dict(dictionary, shifted)
    with pytest.raises(ValueError, match=rf"<mask> in row {row}, .*dict\.txt has '\[de\]'"):
        read_encoder(file)


@torch.no_grad()
def test_a_checkpoint_of_the_pretraining_is_an_encoder_and_a_masked_lm(tmp_path):
    args = veco_builders.arguments()
    model = veco_builders.pretrainer(args).eval()
    veco_builders.soften(model, seed=5)
    path = tmp_path / "model.pt"
    torch.save({"args": None, "cfg": {"model": args}, "model": model.state_dict()}, path)
    encoder = read_encoder(path)
    assert encoder.layout.layers == veco_builders.LAYERS and not encoder.layout.scale_embedding
    tokens = nlu_builders.tokens(encoder.layout.vocab_size)
    expected = model.encoder(tokens)["encoder_out"][0].transpose(0, 1)
    assert torch.equal(load_text_encoder(path)(tokens)[-1], expected)
    assert torch.equal(read_masked_lm(path).tensors["lm_head.bias"], model.lm_head.bias)
    cross_attention = [name for name in encoder.report.dropped if ".encoder_attn" in name]
    assert len(cross_attention) == 10 * veco_builders.LAYERS
