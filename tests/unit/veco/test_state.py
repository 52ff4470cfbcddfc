"""Pretrained states in a translation model: layers, rows, scale, what is dropped and said, and what is refused."""

import logging

import pytest
import torch
from fairseq import models

from tests import builders, veco_builders
from tests.unit.checkpoints.builders import put, without

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

DEEP = 12  # two digits: layer 1 is not layer 11


def deep(**options):
    return veco_builders.translator(encoder_layers=DEEP, **options)


def pretrained_here(**options):
    """A state of pre-training, whose dictionary ends with ``<mask>``."""
    model = veco_builders.random_pretrainer(**options)
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def layer(state, side, number):
    start = f"{side}.layers.{number}."
    return {name[len(start) :]: tensor for name, tensor in state.items() if name.startswith(start)}


def assert_layers(model, before, side, numbers):
    """The model's layers are, bit for bit, these layers of the state."""
    state = model.state_dict()
    assert len(getattr(model, side).layers) == len(numbers)
    for place, number in enumerate(numbers):
        expected = layer(before, side, number)
        actual = layer(state, side, place)
        assert actual.keys() == expected.keys() and len(actual) == (26 if side == "decoder" else 16)
        assert [name for name, tensor in actual.items() if not torch.equal(tensor, expected[name])] == []


@pytest.mark.parametrize(("choice", "numbers"), [("1,2,11", [1, 2, 11]), ("last:2", [10, 11]), ("every:5", [1, 6, 11])])
def test_chosen_layers_by_anchored_names(choice, numbers):
    released = veco_builders.stock_state(DEEP)
    model = deep(keep_decoder_layers=choice)
    model.load_state_dict(dict(released))
    assert_layers(model, released, "decoder", numbers)
    assert_layers(model, released, "encoder", list(range(DEEP)))
    words = released["encoder.embed_tokens.weight"][:-1]  # the last row is that of <mask>
    for name in ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection"):
        assert torch.equal(model.state_dict()[f"{name}.weight"], words)
    assert torch.equal(model.encoder.embed_positions.weight, released["encoder.embed_positions.weight"])


def test_a_state_of_a_run_is_taken_as_it_is(caplog):
    """Resuming and decoding: the layers were chosen, the rows cut, and training parted encoder and decoder."""
    model = veco_builders.translator(keep_encoder_layers="1,3", keep_decoder_layers="last:2")
    veco_builders.soften(model, 8)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    map_rows = dict(keep_encoder_layers="1,3", keep_decoder_layers="last:2")
    again = veco_builders.translator(symbols={"checkpoint_kind": "run"}, **map_rows)
    with caplog.at_level(logging.INFO):
        again.load_state_dict(dict(state))
    assert [name for name, tensor in again.state_dict().items() if not torch.equal(tensor, state[name])] == []
    assert "pretrained state" not in caplog.text
    symbols = {"checkpoint_kind": "run", "pieces": builders.PIECES - 2}
    shorter = veco_builders.translator(symbols=symbols, embedding_mismatch="truncate", **map_rows)
    with caplog.at_level(logging.INFO):
        shorter.load_state_dict(dict(state))
    for name in ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection"):
        assert f"pretrained state: {name}.weight: " in caplog.text


@pytest.mark.cases(
    "options layers message",
    ({}, DEEP, r"12 decoder layers, the model 6; write --keep-decoder-layers .* --keep-decoder-layers last:6"),
    ({"keep_decoder_layers": "last:3"}, 5, r"5 encoder layers; valid: the model's 12"),
    ({"keep_decoder_layers": "1", "keep_encoder_layers": "last:2"}, 5, r"valid: the model's 2, or a stack .* 12"),
)
def test_other_numbers_of_layers_are_refused(options, layers, message, caplog):
    with pytest.raises(ValueError, match=message) as caught:
        deep(**options).load_state_dict(veco_builders.stock_state(layers))
    # fairseq's trainer may hide the error: it is in the log too.
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR] == [str(caught.value)]


@pytest.mark.cases(
    "change message",
    (without("decoder.layers.3.encoder_attn.q_proj.weight"), r"missing tensors: decoder\.layers\.1\.encoder_attn"),
    (put("decoder.adapter.weight", 1), r"surplus tensors: decoder\.adapter"),
    (put("encoder.layers.1.fc1.bias", 3), r"encoder\.layers\.1\.fc1\.bias \(3,\) instead"),
    (put("decoder.embed_tokens.weight", builders.VOCAB, builders.WIDTH), r"another decoder\.embed_tokens\.weight"),
)
def test_what_does_not_fit_is_named(change, message):
    state = veco_builders.stock_state()
    change(state)
    with pytest.raises(ValueError, match=message):
        veco_builders.translator(keep_decoder_layers="last:2").load_state_dict(state)


def test_a_model_pretrained_here_needs_unscaled_embeddings(caplog):
    state = pretrained_here()
    with pytest.raises(ValueError, match=r"has lm_head\.\*.* write --no-scale-embedding"):
        veco_builders.translator(keep_decoder_layers="last:2").load_state_dict(dict(state))
    model = veco_builders.translator(keep_decoder_layers="last:2", no_scale_embedding=True)
    with caplog.at_level(logging.INFO):
        model.load_state_dict(dict(state))
    assert_layers(model, state, "decoder", [2, 3])
    assert (model.encoder.embed_scale, model.decoder.embed_scale) == (1.0, 1.0)
    assert "lm_head.bias (a head, which translation does not have)" in caplog.text


def test_a_map_cut_short_is_refused_also_where_the_rows_are_the_dictionarys():
    """A whole dictionary and a map that lost its end: without the map there is nothing amiss."""
    released = veco_builders.stock_state()
    symbols = {"pieces": builders.PIECES, "mask": True, "kept_rows": [True] * (builders.PIECES - 2)}
    model = veco_builders.translator(symbols=symbols, keep_decoder_layers="last:2")
    with pytest.raises(ValueError, match=r"--resized-dict-map has 23 lines.*; no map where the rows are"):
        model.load_state_dict(dict(released))


def test_a_map_may_list_mask_and_tags():
    """As data_prep.cut_vocabulary writes it of a dict.txt that has them: their rows stay where they are listed."""
    map_rows = [*kept_rows(), True, True, True]
    symbols = dict(kept_rows=map_rows, pieces=sum(map_rows) - 3, mask=True, tags=("[en]", "[de]"))
    rows = [*range(4), *(4 + number for number, stays in enumerate(map_rows) if stays)]
    released = veco_builders.stock_state(rows=4 + len(map_rows))
    model = veco_builders.translator(symbols=symbols, keep_decoder_layers="last:2")
    model.load_state_dict(dict(released))
    assert torch.equal(model.encoder.embed_tokens.weight, released["encoder.embed_tokens.weight"][rows])


def kept_rows(count=builders.PIECES):
    return [number % 3 == 1 for number in range(count)]


def cut_translator(map_rows, **symbols):
    task = veco_builders.task(kept_rows=map_rows, pieces=sum(map_rows), **symbols)
    return models.build_model(veco_builders.arguments(keep_decoder_layers="last:2"), task)


@pytest.mark.parametrize(("mask_row", "mask"), [(True, True), (True, False), (False, False)])
def test_the_dictionary_map_chooses_rows(mask_row, mask):
    """The four special rows stay; that of ``<mask>`` stays where the file and the dictionary have it."""
    released = veco_builders.stock_state(rows=4 + builders.PIECES + mask_row)
    map_rows = kept_rows()
    model = cut_translator(map_rows, mask=mask)
    model.load_state_dict(dict(released))
    ids = [0, 1, 2, 3] + [4 + number for number, stays in enumerate(map_rows) if stays] + [4 + builders.PIECES] * mask
    words = released["encoder.embed_tokens.weight"][ids]
    for name in ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection"):
        assert torch.equal(model.state_dict()[f"{name}.weight"], words)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    again = cut_translator(map_rows, mask=mask, checkpoint_kind="run")  # the same map: the rows are the model's
    again.load_state_dict(state)
    assert torch.equal(again.encoder.embed_tokens.weight, words)


@pytest.mark.cases(
    "change message",
    (lambda s: s["decoder.layers.3.fc1.bias"].add_(1), r"another decoder\.layers\.3\.fc1\.bias than the encoder's"),
    (lambda s: s["decoder.embed_tokens.weight"].add_(1), r"another decoder\.embed_tokens\.weight than encoder"),
    (without("lm_head.dense.weight"), r"--restore-file: .* no masked-LM head .*--init-from-mlm"),
)
def test_pretraining_refuses_states_that_are_not_tied(change, message, caplog):
    state = pretrained_here()
    change(state)
    with pytest.raises(ValueError, match=message) as caught:
        veco_builders.pretrainer().load_state_dict(state)
    assert str(caught.value) in caplog.text


@pytest.mark.parametrize("trained", [False, True])
def test_cross_attention_that_was_never_trained_is_warned_of(trained, caplog):
    state = {name: tensor.clone() for name, tensor in veco_builders.pretrainer().state_dict().items()}
    if trained:
        state["decoder.layers.1.encoder_attn.out_proj.bias"][0] = 1e-7
    with caplog.at_level(logging.WARNING):
        veco_builders.translator(no_scale_embedding=True).load_state_dict(state)
    assert ("--init-from-mlm" in caplog.text) != trained
