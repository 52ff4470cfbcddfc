"""Test pretrained states in a translation model: layers, rows, logs, and refusals."""

import logging

import pytest
import torch

from tests import builders, veco_builders
from tests.unit.checkpoints.builders import put, without
from tests.veco_builders import copy_state

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

DEEP = 12  # two digits: layer 1 is not layer 11
WORDS = ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection")


def layer(state, side, number):
    start = f"{side}.layers.{number}."
    return {name[len(start) :]: state[name] for name in state if name.startswith(start)}


def assert_layers(model, state, side, numbers):
    """The model's layers are, bit for bit, these layers of the state."""
    assert len(getattr(model, side).layers) == len(numbers)
    for index, number in enumerate(numbers):
        expected, actual = layer(state, side, number), layer(model.state_dict(), side, index)
        assert actual.keys() == expected.keys()
        assert len(actual) == (26 if side == "decoder" else 16)
        assert all(torch.equal(tensor, expected[name]) for name, tensor in actual.items())


def assert_words(model, words):
    """Both embeddings and the output projection are these rows."""
    for name in WORDS:
        assert torch.equal(model.state_dict()[f"{name}.weight"], words), name


@pytest.mark.parametrize(("choice", "numbers"), [("1,2,11", [1, 2, 11]), ("every:5", [1, 6, 11])])
def test_the_chosen_layers_are_taken(choice, numbers):
    released = veco_builders.stock_state(DEEP)
    model = veco_builders.translator(encoder_layers=DEEP, keep_decoder_layers=choice)
    model.load_state_dict(dict(released))
    assert_layers(model, released, "decoder", numbers)
    assert_layers(model, released, "encoder", range(DEEP))
    assert_words(model, released["encoder.embed_tokens.weight"][:-1])  # <mask> has the last row
    name = "encoder.embed_positions.weight"
    assert torch.equal(model.state_dict()[name], released[name])


def test_a_state_of_a_run_is_taken_as_it_is(caplog):
    """Its layers are chosen and its rows cut; encoder and decoder differ after training."""
    caplog.set_level(logging.INFO)
    options = {"keep_encoder_layers": "1,3", "keep_decoder_layers": "last:2"}
    model = veco_builders.translator(**options)
    veco_builders.soften(model, 8)
    state = copy_state(model)
    resumed = veco_builders.translator(symbols={"checkpoint_kind": "run"}, **options)
    resumed.load_state_dict(dict(state))
    for name, tensor in resumed.state_dict().items():
        assert torch.equal(tensor, state[name]), name
    assert "pretrained state" not in caplog.text
    symbols = {"checkpoint_kind": "run", "pieces": builders.PIECES - 2}
    shorter = veco_builders.translator(symbols=symbols, embedding_mismatch="truncate", **options)
    shorter.load_state_dict(dict(state))
    for name in WORDS:
        assert f"pretrained state: {name}.weight: " in caplog.text


@pytest.mark.cases(
    "options layers message",
    ({}, DEEP, "12 decoder layers, the model 6; .* --keep-decoder-layers last:6"),
    ({"keep_decoder_layers": "last:3"}, 5, "5 encoder layers; valid: the model's 12"),
    ({"keep_decoder_layers": "1", "keep_encoder_layers": "last:2"}, 5, "model's 2, or .* 12"),
)
def test_other_numbers_of_layers_are_refused(options, layers, message, caplog):
    model = veco_builders.translator(encoder_layers=DEEP, **options)
    with pytest.raises(ValueError, match=message) as caught:
        model.load_state_dict(veco_builders.stock_state(layers))
    # fairseq's trainer may hide the error: it is in the log too.
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.getMessage() for record in errors] == [str(caught.value)]


@pytest.mark.cases(
    "change message",
    (without("decoder.layers.3.encoder_attn.q_proj.weight"), r"missing .*layers\.1\.encoder_attn"),
    (put("decoder.adapter.weight", 1), r"surplus tensors: decoder\.adapter"),
    (put("encoder.layers.1.fc1.bias", 3), r"encoder\.layers\.1\.fc1\.bias \(3,\)"),
    (
        put("decoder.embed_tokens.weight", builders.VOCAB, builders.WIDTH),
        r"another decoder\.embed_tokens\.weight",
    ),
)
def test_tensors_that_do_not_fit_are_named(change, message):
    state = veco_builders.stock_state()
    change(state)
    with pytest.raises(ValueError, match=message):
        veco_builders.translator(keep_decoder_layers="last:2").load_state_dict(state)


def test_a_state_of_the_pretraining_needs_unscaled_embeddings(caplog):
    caplog.set_level(logging.INFO)
    state = copy_state(veco_builders.random_pretrainer())
    options = {"keep_decoder_layers": "last:2"}
    with pytest.raises(ValueError, match=r"lm_head\.\*.* --no-scale-embedding"):
        veco_builders.translator(**options).load_state_dict(dict(state))
    model = veco_builders.translator(**options, no_scale_embedding=True)
    model.load_state_dict(dict(state))
    assert_layers(model, state, "decoder", [2, 3])
    assert (model.encoder.embed_scale, model.decoder.embed_scale) == (1.0, 1.0)
    assert "lm_head.bias (a head, which translation does not have)" in caplog.text


@pytest.mark.parametrize("trained", [False, True])
def test_cross_attention_that_was_never_trained_is_warned_of(trained, caplog):
    state = copy_state(veco_builders.pretrainer())
    if trained:
        state["decoder.layers.1.encoder_attn.out_proj.bias"][0] = 1e-7
    veco_builders.translator(no_scale_embedding=True).load_state_dict(state)
    assert ("--init-from-mlm" in caplog.text) != trained


@pytest.mark.cases(
    "change message",
    (lambda s: s["decoder.layers.3.fc1.bias"].add_(1), r"another decoder\.layers\.3\.fc1\.bias"),
    (lambda s: s["decoder.embed_tokens.weight"].add_(1), r"another decoder\.embed_tokens\.weight"),
    (without("lm_head.dense.weight"), "--restore-file: .*--init-from-mlm"),
)
def test_pretraining_refuses_states_that_are_not_tied(change, message, caplog):
    state = copy_state(veco_builders.random_pretrainer())
    change(state)
    with pytest.raises(ValueError, match=message) as caught:
        veco_builders.pretrainer().load_state_dict(state)
    assert str(caught.value) in caplog.text


# ---- A dictionary map. ----


KEPT_ROWS = [number % 3 == 1 for number in range(builders.PIECES)]


def cut_translator(kept_rows, **symbols):
    symbols = {"kept_rows": kept_rows, "pieces": sum(kept_rows), **symbols}
    return veco_builders.translator(symbols=symbols, keep_decoder_layers="last:2")


@pytest.mark.parametrize(("in_file", "in_data"), [(True, True), (True, False), (False, False)])
def test_a_dictionary_map_chooses_rows(in_file, in_data):
    """``<mask>`` keeps its row if file and dictionary have it."""
    released = veco_builders.stock_state(rows=4 + builders.PIECES + in_file)
    model = cut_translator(KEPT_ROWS, mask=in_data)
    model.load_state_dict(dict(released))
    rows = [*range(4), *(4 + number for number, is_kept in enumerate(KEPT_ROWS) if is_kept)]
    if in_data:
        rows.append(4 + builders.PIECES)
    words = released["encoder.embed_tokens.weight"][rows]
    assert_words(model, words)
    resumed = cut_translator(KEPT_ROWS, mask=in_data, checkpoint_kind="run")
    resumed.load_state_dict(copy_state(model))
    assert_words(resumed, words)


def test_a_map_may_list_mask_and_tags():
    """data_prep.cut_vocabulary writes such a map if dict.txt has them."""
    kept_rows = [*KEPT_ROWS, True, True, True]
    symbols = {"pieces": sum(KEPT_ROWS), "mask": True, "tags": ("[en]", "[de]")}
    released = veco_builders.stock_state(rows=4 + len(kept_rows))
    model = cut_translator(kept_rows, **symbols)
    model.load_state_dict(dict(released))
    rows = [*range(4), *(4 + number for number, is_kept in enumerate(kept_rows) if is_kept)]
    assert_words(model, released["encoder.embed_tokens.weight"][rows])


def test_a_truncated_map_is_refused_even_if_the_dictionary_has_all_rows():
    model = cut_translator([True] * (builders.PIECES - 2), pieces=builders.PIECES, mask=True)
    with pytest.raises(ValueError, match="--resized-dict-map has 23 lines"):
        model.load_state_dict(veco_builders.stock_state())
