"""nlu_encoder with a VECO: named architectures, dictionaries, and the encoder route equal to XLM-R's."""

import pytest
import torch
from fairseq import models

from fairseq_plugins.checkpoints import read_masked_lm
from fairseq_plugins.checkpoints.encoders import read_encoder
from fairseq_plugins.checkpoints.layouts import EncoderLayout
from fairseq_plugins.models.nlu import load_text_encoder
from tests import nlu_builders, veco_builders
from tests.nlu_builders import KINDS, PIECES, arguments, build, from_file, reloaded, saved, tokens_for
from tests.unit.checkpoints import builders as masked_lms
from tests.veco_builders import SYMBOLS

SIZES = {
    "veco_encoder_tiny": (4, 256, 1024, 4),
    "veco_encoder_base": (12, 768, 3072, 12),
    "veco_encoder_large": (24, 1024, 4096, 16),
}
OPTIONS = ("encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_heads")
TINY = {"encoder_layers": 2, "encoder_embed_dim": 16, "encoder_ffn_embed_dim": 24, "encoder_heads": 2}

UNNAMED = {"unnamed_rows": "dictionary"}


def named(kind, arch, **options):
    """Options with that architecture, before it has filled the rest."""
    found = arguments(kind, **options)
    setattr(found, "_name" if kind == "omegaconf" else "arch", arch)
    return found


def filled(args):
    """The family and sizes after the architecture."""
    models.ARCH_CONFIG_REGISTRY[getattr(args, "_name", None) or args.arch](args)
    return [args.encoder_family, *(getattr(args, name) for name in OPTIONS)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("arch", list(SIZES))
def test_an_architecture_fills_what_is_open(kind, arch):
    none = dict.fromkeys(OPTIONS)
    assert filled(named(kind, arch, encoder_family=None, **none)) == ["xlmr", *SIZES[arch]]
    given = filled(named(kind, arch, **{**none, "encoder_heads": 2, "encoder_layers": 3}, encoder_family="bert"))
    assert given == ["bert", 3, *SIZES[arch][1:3], 2]


def test_from_scratch_both_ways_build_the_same():
    built = [build(named(kind, "veco_encoder_tiny"), SYMBOLS) for kind in KINDS]
    shapes = [{name: tuple(one.shape) for name, one in model.state_dict().items()} for model in built]
    assert shapes[0] == shapes[1]
    expected = EncoderLayout("xlmr", len(SYMBOLS) + 4, 4, 256, 1024, 4, max_positions=512)
    assert built[0].encoder.layout == built[1].encoder.layout == expected
    assert built[0].pooling == "first"


@pytest.mark.parametrize("kind", KINDS)
def test_the_file_must_have_the_sizes_of_the_architecture(tmp_path, kind):
    veco_builders.released(tmp_path)
    path = str(tmp_path)
    message = r"other sizes than the --arch and the command line: --encoder-layers 24 \(valid here: 2\)"
    with pytest.raises(ValueError, match=message):
        build(named(kind, "veco_encoder_large", pretrained_encoder=path, encoder_heads=2), SYMBOLS)
    with pytest.raises(ValueError, match="heads = 16 was given, but the file says encoder_attention_heads = 2"):
        build(named(kind, "veco_encoder_large", pretrained_encoder=path), SYMBOLS)
    fits = build(named(kind, "veco_encoder_large", pretrained_encoder=path, **TINY), SYMBOLS)
    assert fits.encoder.layout == read_encoder(path).layout
    nlu_builders.mbart_cc25(tmp_path / "mbart")
    with pytest.raises(ValueError, match=r"--encoder-family xlmr \(valid here: mbart\)"):
        build(named(kind, "veco_encoder_large", pretrained_encoder=str(tmp_path / "mbart"), **TINY))


def write(kind, path):
    """A VECO of that layout."""
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


# ---- Dictionaries: as with XLM-R. ----


def test_the_released_dictionary_lacks_the_mask(tmp_path):
    """Its last row is the mask's, which the task adds to the entries of dict.txt."""
    model = veco_builders.released(tmp_path)
    words = from_file(tmp_path, SYMBOLS).encoder.embed_tokens.weight
    assert torch.equal(words, model.encoder.embed_tokens.weight)
    swapped = [PIECES[1], PIECES[0], *PIECES[2:], "<mask>"]
    with pytest.raises(ValueError, match="its vocabulary has 'p0' as entry 4, the data's dictionary 'p1'"):
        from_file(tmp_path, swapped)
    with pytest.raises(ValueError, match="its vocabulary has 'p19' as entry 23, the data's dictionary '<mask>'"):
        from_file(tmp_path, [*PIECES[:-1], "<mask>", PIECES[-1]])


def test_one_that_was_pretrained_here_has_its_datas_dictionary(tmp_path, caplog):
    """The same in a model that went on from it."""
    model = veco_builders.pretrained(tmp_path / "checkpoint_last.pt")
    found = from_file(tmp_path / "checkpoint_last.pt", SYMBOLS, **UNNAMED)
    assert torch.equal(found.encoder.embed_tokens.weight, model.encoder.embed_tokens.weight)
    assert "its rows are taken to be the dictionary's (--unnamed-rows dictionary)" in caplog.text
    own = saved(found, tmp_path / "own.pt")
    again = from_file(own, SYMBOLS, **UNNAMED)
    assert torch.equal(again.encoder.embed_tokens.weight, model.encoder.embed_tokens.weight)


def test_one_that_tells_the_row_of_its_mask_is_believed(tmp_path):
    """The task adds <mask> behind a dictionary that lacks it: as many entries, and each language one row off."""
    tagged = [*PIECES[:-2], "<mask>", "[de]", "[en]"]
    model = veco_builders.stock(tagged, scaled=False)
    place = 4 + tagged.index("<mask>")
    state = {**veco_builders.pretrained_state(model), "lm_head.mask_row": torch.empty(place, 0)}
    file = tmp_path / "checkpoint_last.pt"
    veco_builders.pretrained(file, model, model=state)
    found = read_encoder(file)
    assert (found.mask_row, found.mask_last) == (place, False) and found.report.reasons["lm_head.mask_row"]
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


def test_the_mask_of_a_folder_is_its_last_row(tmp_path):
    """As of every XLM-R, where no tokenizer's file beside it tells."""
    path = veco_builders.write_folder(tmp_path)
    with pytest.raises(ValueError, match="<mask> is entry 4 of the dictionary, but row 22, the last one"):
        from_file(path, ["<mask>", *PIECES[:18]], **UNNAMED)


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


def test_a_fine_tuned_generation_model_gets_a_row_for_the_mask(tmp_path):
    options = {**veco_builders.SHAPE, "no_scale_embedding": True}
    model = nlu_builders.stock_model(PIECES, arch="transformer", **options)
    veco_builders.write(tmp_path / "model.pt", model, model.state_dict(), arch="veco_tiny")
    nlu_builders.write_dict(tmp_path / "dict.txt", PIECES)
    words = from_file(tmp_path, SYMBOLS).encoder.embed_tokens.weight
    assert torch.equal(words[:-1], model.encoder.embed_tokens.weight)
    assert torch.allclose(words[-1], words[:-1].mean(0), atol=1e-6)
