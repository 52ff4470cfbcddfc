"""DeltaLM from a released file or a checkpoint, and what both kinds of file share: embeddings, positions, dictionaries."""

import re

import pytest
import torch

from tests import builders, deltalm_builders
from tests.deltalm_builders import KINDS, arguments, build, net_input, released_tensors, state_of, write_released
from tests.unit.checkpoints.builders import assert_same

RELEASED, FROM_MLM = "pretrained_deltalm_checkpoint", "init_from_mlm"


@pytest.fixture(params=[RELEASED, FROM_MLM])
def source(request, tmp_path):
    """Option, path and expected state of the four embeddings, for both kinds of file."""
    if request.param == RELEASED:
        path = write_released(tmp_path / "released.pt")
        return RELEASED, path, deltalm_builders.in_names_of_the_model(released_tensors())
    tensors = deltalm_builders.write_mlm(tmp_path)
    names = ("embed_tokens.weight", "embed_positions.weight")
    state = {f"{side}.{name}": tensors[name] for side in ("encoder", "decoder") for name in names}
    return FROM_MLM, tmp_path, {**state, "decoder.output_projection.weight": tensors["embed_tokens.weight"]}


@pytest.mark.parametrize("kind", KINDS)
def test_a_released_file_fills_every_tensor(tmp_path, kind):
    path = write_released(tmp_path / "released.pt")
    states = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        args = arguments(kind, "deltalm_base", pretrained_deltalm_checkpoint=str(path))
        states.append(state_of(build(args)))
        assert (args.pretrained_deltalm_checkpoint, args.initialised_from) == (None, str(path))
    for state in states:
        assert_same(state, deltalm_builders.in_names_of_the_model(released_tensors()))


def test_twelve_layers_and_no_norm_after_the_embedding(tmp_path):
    tensors = released_tensors(layers=12, blocks=11, embedding_norm=False)
    path = write_released(tmp_path / "large.pt", tensors)
    model = build(arch="deltalm_large", pretrained_deltalm_checkpoint=str(path), encoder_layers=12, decoder_layers=11)
    assert_same(state_of(model), deltalm_builders.in_names_of_the_model(tensors))
    with pytest.raises(ValueError, match="layernorm[-_]embedding"):
        build(arch="deltalm_base", pretrained_deltalm_checkpoint=str(path), encoder_layers=12, decoder_layers=11)
    with pytest.raises(ValueError, match="layernorm[-_]embedding|emb_layer_norm"):
        build(arch="deltalm_large", pretrained_deltalm_checkpoint=str(write_released(tmp_path / "base.pt")))


@pytest.mark.parametrize("form", ["args", "cfg"])
@pytest.mark.parametrize("block", ["interleaved", "vanilla"])
def test_a_checkpoint_of_a_run_can_be_the_start_of_another(tmp_path, form, block):
    first = deltalm_builders.random_model(seed=8, decoder_block=block)
    args = arguments() if form == "args" else None
    cfg = None if form == "args" else {"model": {"_name": "deltalm_tiny", **deltalm_builders.SIZES}}
    torch.save({"model": first.state_dict(), "args": args, "cfg": cfg, "extra_state": {}}, tmp_path / "checkpoint.pt")
    second = build(pretrained_deltalm_checkpoint=str(tmp_path / "checkpoint.pt"), decoder_block=block)
    assert_same(state_of(second), state_of(first))


def embeddings(model):
    names = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "decoder.output_projection.weight")
    return {name: model.get_parameter(name).detach() for name in names}


SHORTER = dict(pieces=22, mask=False)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("mask", [True, False])
def test_extend_keeps_every_row_and_adds_random_ones(source, caplog, kind, tied, mask):
    """Tags behind all symbols; in a dictionary without ``<mask>``, also behind the rows of a masked LM but its last."""
    option, path, expected = source
    caplog.set_level("INFO")
    options = {option: str(path), "embedding_mismatch": "extend", "share_all_embeddings": tied}
    symbols = dict(tags=4, mask=mask)
    length = len(deltalm_builders.dictionary(**symbols))
    known = builders.MASK if option == FROM_MLM and not mask else builders.VOCAB
    models = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        models.append(build(kind=kind, symbols=symbols, **options))
    for name, tensor in embeddings(models[0]).items():
        assert tensor.shape == (length, builders.WIDTH)
        assert torch.equal(tensor[:known], expected[name][:known])
        added = tensor[known:]
        assert bool(added.isfinite().all()) and float(added.std(dim=1).min()) > 1e-3
        assert len(torch.unique(added, dim=0)) == length - known > 0
        assert torch.equal(embeddings(models[1])[name], tensor)
        assert not torch.equal(embeddings(models[2])[name], tensor)
    assert re.search(r"--embedding-mismatch extend", caplog.text)
    assert re.search(rf"\b{length - known}\b", caplog.text)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tied", [True, False])
def test_truncate_keeps_the_first_rows(source, caplog, kind, tied):
    option, path, expected = source
    caplog.set_level("INFO")
    options = {option: str(path), "embedding_mismatch": "truncate", "share_all_embeddings": tied}
    model = build(kind=kind, symbols=SHORTER, **options)
    for name, tensor in embeddings(model).items():
        assert torch.equal(tensor, expected[name][:26])
    assert re.search(r"\b26 of (29|30) rows.*--embedding-mismatch truncate", caplog.text)


@pytest.mark.cases("symbols", dict(pieces=24), dict(pieces=24, tags=1), dict(mask=False, tags=1))
def test_mask_in_another_place_is_refused(tmp_path, symbols):
    """Its row is the last one of a masked LM: ``<mask>`` would get that of a piece, a tag that of ``<mask>``."""
    deltalm_builders.write_mlm(tmp_path)
    if not symbols.get("mask", True):  # only the dictionary beside the file proves that its last row is <mask>
        deltalm_builders.write_dictionary(tmp_path / "dict.txt")
    with pytest.raises(ValueError, match="<mask>|--embedding-mismatch"):
        build(symbols=symbols, init_from_mlm=str(tmp_path))


def different_sides(path):
    tensors = released_tensors()
    tensors["tgt_embedding.embed_tokens.weight"] = 1.0 + tensors["tgt_embedding.embed_tokens.weight"]
    write_released(path, tensors)
    return deltalm_builders.in_names_of_the_model(tensors)


@pytest.mark.parametrize("kind", KINDS)
def test_different_embeddings_cannot_be_shared(tmp_path, kind):
    expected = different_sides(tmp_path / "released.pt")
    options = {RELEASED: str(tmp_path / "released.pt"), "kind": kind}
    with pytest.raises(ValueError, match="--share-all-embeddings"):
        build(**options)
    for share in (True, False):
        model = build(share_all_embeddings=False, share_decoder_input_output_embed=share, **options)
        assert_same(state_of(model), expected)
        assert (model.decoder.output_projection.weight is model.decoder.embed_tokens.weight) is share


def test_an_output_projection_of_its_own(tmp_path):
    first = deltalm_builders.random_model(seed=8, share_all_embeddings=False)
    assert not torch.equal(first.decoder.output_projection.weight, first.decoder.embed_tokens.weight)
    torch.save({"model": first.state_dict(), "args": arguments()}, tmp_path / "checkpoint.pt")
    option = {RELEASED: str(tmp_path / "checkpoint.pt")}
    assert_same(state_of(build(share_all_embeddings=False, **option)), state_of(first))
    with pytest.raises(ValueError, match="--share-(decoder-input-output-embed|all-embeddings)"):
        build(share_all_embeddings=False, share_decoder_input_output_embed=True, **option)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("side", ["source", "target"])
def test_positions_beyond_the_table_are_refused(source, side, kind):
    option, path, _ = source
    with pytest.raises(ValueError) as error:
        build(kind=kind, **{option: str(path), f"max_{side}_positions": builders.POSITIONS + 1})
    for word in (f"--max-{side}-positions", str(builders.POSITIONS + 1), str(builders.POSITIONS), str(path)):
        assert word in str(error.value)


@torch.no_grad()
def test_fewer_positions_are_the_first_rows(source):
    """Position 0 is the row after the padding's, whatever the number of positions."""
    option, path, expected = source
    model = build(**{option: str(path)}, max_source_positions=11, max_target_positions=7)
    for side, count in (("encoder", 11), ("decoder", 7)):
        found = getattr(model, side).embed_positions.weight
        assert torch.equal(found, expected[f"{side}.embed_positions.weight"][: count + builders.PAD + 1])
    whole = build(**{option: str(path)})
    assert model.max_positions() == (11, 7) and whole.max_positions() == (builders.POSITIONS, builders.POSITIONS)
    assert torch.equal(model.eval()(**net_input())[0], whole.eval()(**net_input())[0])


@pytest.mark.parametrize(("symbols", "policy"), [({}, "error"), (dict(tags=4), "extend"), (SHORTER, "truncate")])
def test_a_dictionary_in_another_order_is_refused(source, tmp_path, symbols, policy):
    option, path, _ = source
    options = {option: str(path), "embedding_mismatch": policy}
    deltalm_builders.write_dictionary(tmp_path / "dict.txt")
    build(symbols=symbols, **options)
    deltalm_builders.write_dictionary(tmp_path / "dict.txt", swapped=True)
    with pytest.raises(ValueError, match="p3.*p4|p4.*p3") as error:
        build(symbols=symbols, **options)
    assert "dict.txt" in str(error.value)
