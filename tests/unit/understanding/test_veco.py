"""nlu_encoder with a VECO: the row of <mask>, and the encoder route equal to XLM-R's."""

import pytest
import torch

from fairseq_plugins.checkpoints import read_masked_lm
from fairseq_plugins.checkpoints.encoders import read_encoder
from fairseq_plugins.understanding.encoder import load_text_encoder
from tests import nlu_builders, veco_builders
from tests.nlu_builders import PIECES, from_file, reloaded, tokens_for
from tests.unit.checkpoints import builders as masked_lms
from tests.veco_builders import SYMBOLS

UNNAMED = {"unnamed_rows": "dictionary"}


def write(kind, path):
    if kind == "released":
        veco_builders.released(path)
    elif kind == "pretrained":
        veco_builders.pretrained(path / "model.pt")
    else:
        veco_builders.write_folder(path)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["released", "pretrained", "folder"])
def test_a_file_fills_the_model_and_is_needed_no_more(tmp_path, kind):
    write(kind, tmp_path / "veco")
    symbols = SYMBOLS if kind != "folder" else [*PIECES[:18], "<mask>"]
    model = from_file(tmp_path / "veco", symbols, **UNNAMED)
    tokens = tokens_for(model)
    expected = load_text_encoder(tmp_path / "veco")(tokens)[-1]
    assert torch.equal(model(tokens)[0], expected) and model.pooling == "first"
    assert model.encoder.layout.scale_embedding == (kind == "released")
    for file in (tmp_path / "veco").iterdir():
        file.unlink()
    again = reloaded(model, symbols, tmp_path / "own.pt")
    assert torch.equal(again(tokens)[0], expected)
    own = read_encoder(tmp_path / "own.pt")
    assert own.layout == model.encoder.layout


@torch.no_grad()
def test_without_cross_attention_it_is_xlmr_bit_for_bit(tmp_path):
    state = veco_builders.folder_state()
    plain = {name: one for name, one in state.items() if "cross_attention" not in name}
    veco = load_text_encoder(veco_builders.write_folder(tmp_path / "veco", state, is_decoder=True))
    xlmr = load_text_encoder(veco_builders.write_folder(tmp_path / "xlmr", plain))
    assert veco.layout == xlmr.layout
    tokens = nlu_builders.tokens(masked_lms.SIZES["vocab_size"])
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(veco(tokens), xlmr(tokens)))


def test_one_that_tells_the_row_of_its_mask_is_believed(tmp_path):
    """The task adds <mask> behind a dictionary that lacks it: as many entries, and each language one row off."""
    tagged = [*PIECES[:-2], "<mask>", "[de]", "[en]"]
    model = veco_builders.stock(tagged, scaled=False)
    place = 4 + tagged.index("<mask>")
    state = {**veco_builders.pretrained_state(model), "lm_head.mask_row": torch.empty(place, 0)}
    file = tmp_path / "checkpoint_last.pt"
    veco_builders.pretrained(file, model, model=state)
    found = read_encoder(file)
    assert found.mask_row == place and found.report.reasons["lm_head.mask_row"]
    found = from_file(file, tagged, **UNNAMED)
    assert torch.equal(found.encoder.embed_tokens.weight, model.encoder.embed_tokens.weight)
    added = [*PIECES[:-2], "[de]", "[en]", "<mask>"]
    with pytest.raises(ValueError, match=f"<mask> is entry {place + 2} of the dictionary, but row {place} of"):
        from_file(file, added, **UNNAMED)
    nlu_builders.write_dict(tmp_path / "dict.txt", tagged)
    assert read_encoder(file).entries[place] == "<mask>"
    nlu_builders.write_dict(tmp_path / "dict.txt", added)
    with pytest.raises(ValueError, match=rf"has <mask> in row {place}, where .*dict\.txt has '\[de\]'"):
        read_encoder(file)


@torch.no_grad()
def test_the_checkpoint_of_the_model_itself(tmp_path):
    """Encoder and masked LM of a VECO as it pre-trains: the route of its encoder, bit for bit."""
    args = veco_builders.arguments()
    model = veco_builders.pretrainer(args).eval()
    veco_builders.soften(model, seed=5)
    torch.save({"args": None, "cfg": {"model": args}, "model": model.state_dict()}, tmp_path / "model.pt")
    found = read_encoder(tmp_path / "model.pt")
    assert found.layout.layers == veco_builders.LAYERS and not found.layout.scale_embedding
    tokens = nlu_builders.tokens(found.layout.vocab_size)
    expected = model.encoder(tokens)["encoder_out"][0].transpose(0, 1)
    assert torch.equal(load_text_encoder(tmp_path / "model.pt")(tokens)[-1], expected)
    assert torch.equal(read_masked_lm(tmp_path / "model.pt").tensors["lm_head.bias"], model.lm_head.bias)
    names = [name for name in found.report.dropped if name.startswith("decoder.") and "encoder_attn" in name]
    assert len(names) == 10 * veco_builders.LAYERS
