"""The kind of a checkpoint: its stored task and options, else --veco-checkpoint-kind; never its rows or tensors' values."""

from argparse import Namespace

import pytest
import torch
from fairseq import models

from fairseq_plugins.analysis.sequence_models import read_sequence_model
from fairseq_plugins.checkpoints.encoders import read_encoder
from fairseq_plugins.veco.state import decide_kind, find_kind
from tests import builders, veco_builders
from tests.veco_builders import LAYERS

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

WORDS = "encoder.embed_tokens.weight"
TAGS = ("[en]", "[de]")
OWN = {"embedding_mismatch": "error"}
TRANSLATION = "translation_from_pretrained_veco"


@pytest.mark.cases(
    "task options choice kind",
    ("", {}, None, "released"),
    ("", {"arch": "veco_large", "keep_decoder_layers": None}, None, "released"),
    ("cross_lingual_lm", {"arch": "veco_large"}, None, "released"),
    *(("", {}, choice, choice) for choice in ("released", "pretraining", "run")),
    ("veco_pretraining", OWN, None, "pretraining"),
    (TRANSLATION, {}, None, "run"),
    ("translation", OWN, None, "run"),  # another task, but an option that this package alone stores
    ("", {"init_from_mlm": None}, None, "run"),
    ("", {"keep_decoder_layers": "18,19,20,21,22,23"}, None, "run"),  # the authors' fine-tuning
    # What is stored goes before the option: a restarted job has the option of its start.
    ("veco_pretraining", OWN, "run", "pretraining"),
    (TRANSLATION, OWN, "released", "run"),
)
def test_the_stored_task_then_the_options_then_the_choice(task, options, choice, kind):
    assert decide_kind(task, options, choice) == kind


def saved(path, state, task=None, args=None, **options):
    """A checkpoint in the form of fairseq today, or with the ``args`` of an old one. Returns its path."""
    cfg = None if args is not None else {"model": options, "task": {"_name": task} if task else {}}
    old = None if args is None else Namespace(**args)
    torch.save({"args": old, "cfg": cfg, "model": state}, path)
    return str(path)


@pytest.mark.cases(
    "entries kind",
    ({}, "released"),
    ({"task": TRANSLATION, **OWN}, "run"),
    ({"task": "translation", **OWN}, "run"),
    ({"args": {"arch": "veco_large", "task": "cross_lingual_lm"}}, "released"),
    ({"args": {"arch": "veco_large", "keep_decoder_layers": "1,2"}}, "run"),
)
def test_a_file_states_its_kind(tmp_path, entries, kind):
    model = veco_builders.translator(decoder_layers=2)
    model.state_file = saved(tmp_path / "model.pt", veco_builders.stock_state(), **entries)
    assert find_kind(model, {}) == kind


def test_the_head_of_a_pretraining_states_it_whatever_the_options(tmp_path):
    state = veco_builders.random_pretrainer().state_dict()
    for choice in (None, "released", "run"):
        model = veco_builders.translator(symbols={"checkpoint_kind": choice}, no_scale_embedding=True)
        model.state_file = saved(tmp_path / "model.pt", dict(state))
        assert find_kind(model, state) == "pretraining"


def cut(kind=None, tags=TAGS, **options):
    """A translator of all layers, with a map that keeps two entries of three."""
    stays = [number % 3 != 1 for number in range(builders.PIECES)]
    symbols = {"pieces": sum(stays), "tags": tags, "kept_rows": stays, "checkpoint_kind": kind}
    options.update(keep_decoder_layers=f"last:{LAYERS}", embedding_mismatch="extend")
    return veco_builders.translator(symbols=symbols, **options)


def unmoved(model, state):
    return [name for name, tensor in model.state_dict().items() if not torch.equal(tensor, state[name])] == []


def test_equal_tensors_are_cut_or_not_as_the_file_says(tmp_path):
    """Rows as many as the dictionary has entries, and all layers: values and shapes would not tell."""
    dropped_count = sum(number % 3 == 1 for number in range(builders.PIECES))
    tags = [f"[x{number}]" for number in range(dropped_count + 1)]
    released = veco_builders.stock_state()
    own_file, foreign_file = (
        saved(tmp_path / name, dict(released), **entries)
        for name, entries in (("own.pt", {"task": TRANSLATION, **OWN}), ("foreign.pt", {}))
    )
    for file, kind, is_cut in (
        (foreign_file, None, True),
        (foreign_file, "run", False),
        (own_file, None, False),
        (own_file, "released", False),
    ):
        model = cut(kind, tags)
        model.state_file = file
        model.load_state_dict(dict(released))
        assert unmoved(model, released) != is_cut
        rows = [row for row in range(4 + builders.PIECES) if row < 4 or (row - 4) % 3 != 1]
        words = released[WORDS][rows] if is_cut else released[WORDS]
        assert torch.equal(model.encoder.embed_tokens.weight[: len(words)], words)


@pytest.mark.parametrize("unscaled", [False, True])
def test_a_map_does_not_cut_again_before_anything_has_moved(tmp_path, unscaled):
    """The first update of a warm-up has the learning rate 0: decoder and encoder are still equal."""
    model = cut(no_scale_embedding=unscaled)
    model.load_state_dict(veco_builders.random_pretrainer().state_dict() if unscaled else veco_builders.stock_state())
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    again = cut("released", no_scale_embedding=unscaled)  # the option of the run's start
    again.state_file = saved(tmp_path / "checkpoint_last.pt", dict(state), task=TRANSLATION, **OWN)
    again.load_state_dict(dict(state))
    assert unmoved(again, state)


def test_what_is_loaded_into_a_filled_model_is_of_its_run():
    """fairseq copies the model for its moving average, and loads that next."""
    model = cut()
    model.load_state_dict(veco_builders.stock_state())
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.load_state_dict(dict(state))
    assert unmoved(model, state)


def test_a_model_that_is_decoded_is_what_its_options_say():
    released = veco_builders.stock_state()
    for options, kind, rows in (({"embedding_mismatch": "truncate"}, "run", 30), ({}, "released", 29)):
        args = veco_builders.arguments(decoder_layers=LAYERS, **options)
        task = veco_builders.task(pieces=rows - 4)
        model = models.build_model(args, task, from_checkpoint=True)
        model.load_state_dict(dict(released))
        assert kind == "run" or len(released[WORDS]) == rows + 1
        assert torch.equal(model.encoder.embed_tokens.weight, released[WORDS][:rows])


def test_an_analysis_takes_layers_and_rows_as_they_are(tmp_path):
    released = veco_builders.stock_state()
    options = {**vars(veco_builders.arguments(decoder_layers=LAYERS)), "arch": "veco_tiny"}
    path = saved(tmp_path / "model.pt", released, args=options)
    assert unmoved(read_sequence_model(path, read_encoder(path)).model, released)
