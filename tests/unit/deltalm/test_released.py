"""Test DeltaLM from a released file or a checkpoint; rows, positions, dictionaries, bad files."""

import argparse

import pytest
import torch

from fairseq_plugins.checkpoints import CheckpointError
from tests import builders, deltalm_builders
from tests.deltalm_builders import (
    KINDS,
    arguments,
    build,
    in_names_of_the_model,
    net_input,
    released_tensors,
    state_of,
    write_released,
)
from tests.unit.checkpoints.builders import assert_same, put, without

RELEASED, FROM_MLM = "pretrained_deltalm_checkpoint", "init_from_mlm"


@pytest.fixture(params=[RELEASED, FROM_MLM])
def source(request, tmp_path):
    """Return option, path and expected embeddings, for both kinds of file."""
    if request.param == RELEASED:
        path = write_released(tmp_path / "released.pt")
        return RELEASED, path, in_names_of_the_model(released_tensors())
    tensors = deltalm_builders.write_mlm(tmp_path)
    names = ("embed_tokens.weight", "embed_positions.weight")
    state = {f"{side}.{name}": tensors[name] for side in ("encoder", "decoder") for name in names}
    state["decoder.output_projection.weight"] = tensors["embed_tokens.weight"]
    return FROM_MLM, tmp_path, state


@pytest.mark.parametrize("kind", KINDS)
def test_a_released_file_fills_every_tensor(tmp_path, kind):
    path = write_released(tmp_path / "released.pt")
    args = arguments(kind, "deltalm_base", pretrained_deltalm_checkpoint=str(path))
    assert_same(state_of(build(args)), in_names_of_the_model(released_tensors()))
    assert (args.pretrained_deltalm_checkpoint, args.initialised_from) == (None, str(path))


def test_the_large_model_has_twelve_layers_and_no_norm_after_the_embedding(tmp_path):
    tensors = released_tensors(layers=12, blocks=11, embedding_norm=False)
    path = write_released(tmp_path / "large.pt", tensors)
    options = {RELEASED: str(path), "encoder_layers": 12, "decoder_layers": 11}
    model = build(arch="deltalm_large", **options)
    assert_same(state_of(model), in_names_of_the_model(tensors))
    with pytest.raises(ValueError, match="layernorm[-_]embedding"):
        build(arch="deltalm_base", **options)
    base = write_released(tmp_path / "base.pt")
    with pytest.raises(ValueError, match="layernorm[-_]embedding|emb_layer_norm"):
        build(arch="deltalm_large", **{RELEASED: str(base)})


CFG = {"model": {"_name": "deltalm_tiny", **deltalm_builders.SIZES}}


@pytest.mark.cases(
    "block options",
    ("interleaved", {"args": arguments(), "cfg": None}),
    ("vanilla", {"args": None, "cfg": CFG}),
)
def test_a_run_starts_from_the_checkpoint_of_another(tmp_path, block, options):
    first = deltalm_builders.random_model(seed=8, decoder_block=block)
    path = tmp_path / "checkpoint.pt"
    torch.save({"model": first.state_dict(), "extra_state": {}, **options}, path)
    second = build(pretrained_deltalm_checkpoint=str(path), decoder_block=block)
    assert_same(state_of(second), state_of(first))


# ---- Rows, positions and dictionaries, for both kinds of file. ----


def embeddings(model):
    sides = ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection")
    names = [f"{side}.weight" for side in sides]
    return {name: model.get_parameter(name).detach() for name in names}


SHORTER = dict(pieces=22, mask=False)


@pytest.mark.cases("tied mask", (True, True), (False, False), (True, False))
def test_extend_keeps_every_row_and_adds_random_rows(source, tied, mask):
    """Tags follow all symbols; without ``<mask>``, the last row of a masked LM is left out."""
    option, path, expected = source
    symbols = dict(tags=4, mask=mask)
    length = len(deltalm_builders.dictionary(**symbols))
    rows = builders.MASK if option == FROM_MLM and not mask else builders.VOCAB
    options = {"embedding_mismatch": "extend", "share_all_embeddings": tied}
    model = build(symbols=symbols, **{option: str(path)}, **options)
    for name, tensor in embeddings(model).items():
        assert tensor.shape == (length, builders.WIDTH)
        assert torch.equal(tensor[:rows], expected[name][:rows])
        new_rows = tensor[rows:]
        assert bool(new_rows.isfinite().all()) and float(new_rows.std(dim=1).min()) > 1e-3
        assert len(torch.unique(new_rows, dim=0)) == length - rows > 0


@pytest.mark.parametrize("tied", [True, False])
def test_truncate_keeps_the_first_rows(source, tied):
    option, path, expected = source
    options = {"embedding_mismatch": "truncate", "share_all_embeddings": tied}
    model = build(symbols=SHORTER, **{option: str(path)}, **options)
    for name, tensor in embeddings(model).items():
        assert torch.equal(tensor, expected[name][:26])


@pytest.mark.cases("symbols", dict(pieces=24), dict(pieces=24, tags=1), dict(mask=False, tags=1))
def test_mask_in_another_place_is_refused(tmp_path, symbols):
    """The last row of a masked LM belongs to ``<mask>``: no piece and no tag may get it."""
    deltalm_builders.write_mlm(tmp_path)
    if not symbols.get("mask", True):  # the dictionary proves that the last row is <mask>
        deltalm_builders.write_dictionary(tmp_path / "dict.txt")
    with pytest.raises(ValueError, match="<mask>|--embedding-mismatch"):
        build(symbols=symbols, init_from_mlm=str(tmp_path))


def test_different_embeddings_cannot_be_shared(tmp_path):
    tensors = released_tensors()
    tensors["tgt_embedding.embed_tokens.weight"] += 1.0
    option = {RELEASED: str(write_released(tmp_path / "released.pt", tensors))}
    with pytest.raises(ValueError, match="--share-all-embeddings"):
        build(**option)
    for share in (True, False):
        model = build(share_all_embeddings=False, share_decoder_input_output_embed=share, **option)
        assert_same(state_of(model), in_names_of_the_model(tensors))
        decoder = model.decoder
        assert (decoder.output_projection.weight is decoder.embed_tokens.weight) is share


def test_an_untied_output_projection_is_loaded(tmp_path):
    first = deltalm_builders.random_model(seed=8, share_all_embeddings=False)
    torch.save({"model": first.state_dict(), "args": arguments()}, tmp_path / "checkpoint.pt")
    option = {RELEASED: str(tmp_path / "checkpoint.pt")}
    assert_same(state_of(build(share_all_embeddings=False, **option)), state_of(first))
    with pytest.raises(ValueError, match="--share-(decoder-input-output-embed|all-embeddings)"):
        build(share_all_embeddings=False, share_decoder_input_output_embed=True, **option)


def test_positions_beyond_the_table_are_refused(source):
    option, path, _ = source
    for side in ("source", "target"):
        with pytest.raises(ValueError, match=f"--max-{side}-positions 41: .* 40 ") as error:
            build(**{option: str(path), f"max_{side}_positions": builders.POSITIONS + 1})
        assert str(path) in str(error.value)


@torch.no_grad()
def test_fewer_positions_are_the_first_rows(source):
    """Position 0 is the row after the padding row, whatever the number of positions."""
    option, path, expected = source
    model = build(**{option: str(path)}, max_source_positions=11, max_target_positions=7)
    for side, count in (("encoder", 11), ("decoder", 7)):
        rows = expected[f"{side}.embed_positions.weight"][: count + builders.PAD + 1]
        assert torch.equal(getattr(model, side).embed_positions.weight, rows)
    longer = build(**{option: str(path)})
    assert model.max_positions() == (11, 7)
    assert longer.max_positions() == (builders.POSITIONS, builders.POSITIONS)
    assert torch.equal(model.eval()(**net_input())[0], longer.eval()(**net_input())[0])


@pytest.mark.cases("symbols policy", ({}, "error"), (dict(tags=4), "extend"), (SHORTER, "truncate"))
def test_a_dictionary_in_another_order_is_refused(source, tmp_path, symbols, policy):
    option, path, _ = source
    options = {option: str(path), "embedding_mismatch": policy}
    deltalm_builders.write_dictionary(tmp_path / "dict.txt")
    build(symbols=symbols, **options)
    deltalm_builders.write_dictionary(tmp_path / "dict.txt", swapped=True)
    with pytest.raises(ValueError, match=r"dict\.txt.*p3.*p4|p4.*p3.*dict\.txt"):
        build(symbols=symbols, **options)


# ---- Damaged, foreign, incomplete and dangerous files. ----


@torch.no_grad()
def test_part_of_a_checkpoint_is_refused_even_if_the_file_is_absent(tmp_path):
    model = build(pretrained_deltalm_checkpoint=str(tmp_path / "gone.pt"))
    state = deltalm_builders.random_model(seed=8).state_dict()
    del state["decoder.layers.1.fc3.weight"]
    with pytest.raises(RuntimeError, match=r"decoder\.layers\.1\.fc3\.weight"):
        model.load_state_dict(state)
    with pytest.raises(ValueError, match="--pretrained-deltalm-checkpoint"):
        model(**net_input())


FC = "decoder.layers.1.ffn_1.fc2"
INTEGERS = torch.ones(16, dtype=torch.int8)


@pytest.mark.cases(
    "change name",
    (put("decoder.adapter.weight", 3), r"decoder\.adapter\.weight"),
    (put("encoder.layers.0.ffn_1.fc1.bias", 3), r"layers\.0\.ffn_1\.fc1"),
    (without("1.encoder_attn.q"), r"missing tensors: decoder\.layers\.1\.encoder_attn\.q_proj"),
    (without("encoder.layers.2."), r"encoder layers \[0, 1, 3\]"),
    (without("tgt_emb"), "embed_tokens|tgt_embedding"),
    (put(FC + ".weight", 16, 23), r"decoder\.layers\.1\.(ffn_1\.fc2|fc4)\.weight"),
    (lambda tensors: tensors.update({FC + ".bias": INTEGERS}), r"(ffn_1\.fc2|fc4)\.bias"),
    (without(""), "embed_tokens|no tensors"),
)
def test_unaccounted_tensors_are_refused_by_name(tmp_path, change, name):
    tensors = released_tensors()
    change(tensors)
    path = write_released(tmp_path / "released.pt", tensors)
    with pytest.raises(ValueError, match=name) as error:
        build(pretrained_deltalm_checkpoint=str(path))
    assert str(path) in str(error.value)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "file.pt"
    stock = argparse.Namespace(arch="transformer")
    vanilla = deltalm_builders.random_model(decoder_block="vanilla").state_dict()
    for content, message in (
        ({"tensors": {}}, r"file\.pt.*tensors"),
        ({"model": vanilla, "args": stock}, r"file\.pt .*--decoder-block vanilla"),
        ([1, 2], r"file\.pt.*list"),
    ):
        torch.save(content, path)
        with pytest.raises(ValueError, match=message):
            build(pretrained_deltalm_checkpoint=str(path))
    deltalm_builders.write_mlm(tmp_path / "mlm")
    with pytest.raises(CheckpointError, match="mlm"):
        build(pretrained_deltalm_checkpoint=str(tmp_path / "mlm" / "model.safetensors"))
