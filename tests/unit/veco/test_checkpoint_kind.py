"""Test the kind of a checkpoint: its stored task and options, else --veco-checkpoint-kind."""

from argparse import Namespace

import pytest
import torch
from fairseq import models

from fairseq_plugins.analysis.sequence_models import read_sequence_model
from fairseq_plugins.checkpoints.encoders import read_encoder
from fairseq_plugins.veco.state import decide_kind, find_kind
from tests import builders, veco_builders
from tests.veco_builders import LAYERS, copy_state

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

WORDS = "encoder.embed_tokens.weight"
TAGS = ("[en]", "[de]")
OWN = {"embedding_mismatch": "error"}
TRANSLATION = "translation_from_pretrained_veco"


@pytest.mark.cases(
    "task options choice kind",
    ("", {}, None, "released"),
    ("cross_lingual_lm", {"arch": "veco_large", "keep_decoder_layers": None}, None, "released"),
    *(("", {}, choice, choice) for choice in ("released", "pretraining", "run")),
    ("veco_pretraining", OWN, None, "pretraining"),
    (TRANSLATION, {}, None, "run"),
    ("translation", OWN, None, "run"),  # another task, but an option that only this package stores
    ("", {"init_from_mlm": None}, None, "run"),
    ("", {"keep_decoder_layers": "18,19,20,21,22,23"}, None, "run"),  # the authors' fine-tuning
    # What is stored goes before the option: a restarted job has the option of its start.
    ("veco_pretraining", OWN, "run", "pretraining"),
    (TRANSLATION, OWN, "released", "run"),
)
def test_stored_task_then_stored_options_then_choice(task, options, choice, kind):
    assert decide_kind(task, options, choice) == kind


def write(path, state, task=None, args=None, **options):
    """Write a checkpoint with ``cfg``, or with the ``args`` of an old one. Returns its path."""
    content = {"args": None, "cfg": None, "model": state}
    if args is None:
        content["cfg"] = {"model": options, "task": {"_name": task} if task else {}}
    else:
        content["args"] = Namespace(**args)
    torch.save(content, path)
    return str(path)


def test_the_head_of_a_pretraining_states_the_kind_whatever_the_options(tmp_path):
    state = veco_builders.random_pretrainer().state_dict()
    symbols = {"checkpoint_kind": "run"}
    model = veco_builders.translator(symbols=symbols, no_scale_embedding=True)
    model.state_file = write(tmp_path / "model.pt", state)
    assert find_kind(model, state) == "pretraining"


def cut_translator(kind=None, tags=TAGS):
    """A translator of all layers, with a map that keeps two entries of three."""
    kept_rows = [number % 3 != 1 for number in range(builders.PIECES)]
    symbols = {"pieces": sum(kept_rows), "tags": tags, "kept_rows": kept_rows}
    return veco_builders.translator(
        symbols={**symbols, "checkpoint_kind": kind},
        keep_decoder_layers=f"last:{LAYERS}",
        embedding_mismatch="extend",
    )


def is_equal(model, state):
    return all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())


def test_equal_tensors_are_cut_as_the_file_says(tmp_path):
    """Values and shapes would not tell: all layers, as many rows as the dictionary has entries."""
    released = veco_builders.stock_state()
    kept_rows = [row for row in range(4 + builders.PIECES) if row < 4 or (row - 4) % 3 != 1]
    tags = [f"[x{number}]" for number in range(builders.VOCAB - len(kept_rows))]
    run_file = write(tmp_path / "run.pt", dict(released), task=TRANSLATION, **OWN)
    released_file = write(tmp_path / "released.pt", dict(released))
    for file, kind, is_cut in (
        (released_file, None, True),
        (released_file, "run", False),
        (run_file, None, False),
        (run_file, "released", False),
    ):
        model = cut_translator(kind, tags)
        model.state_file = file
        model.load_state_dict(dict(released))
        assert is_equal(model, released) != is_cut
        words = released[WORDS][kept_rows] if is_cut else released[WORDS]
        assert torch.equal(model.encoder.embed_tokens.weight[: len(words)], words)


def test_a_map_does_not_cut_again_before_anything_has_moved(tmp_path):
    """The first update of a warm-up changes nothing: decoder and encoder are still equal."""
    model = cut_translator()
    model.load_state_dict(veco_builders.stock_state())
    state = copy_state(model)
    resumed = cut_translator("released")  # the option of the run's start
    resumed.state_file = write(tmp_path / "last.pt", dict(state), task=TRANSLATION, **OWN)
    resumed.load_state_dict(dict(state))
    assert is_equal(resumed, state)
    # fairseq copies the model for its moving average, and loads that next.
    model.load_state_dict(dict(state))
    assert is_equal(model, state)


def test_the_options_of_a_decoded_model_state_the_kind():
    released = veco_builders.stock_state()
    for options, rows in (({"embedding_mismatch": "truncate"}, 30), ({}, 29)):
        args = veco_builders.arguments(decoder_layers=LAYERS, **options)
        task = veco_builders.task(pieces=rows - 4)
        model = models.build_model(args, task, from_checkpoint=True)
        model.load_state_dict(dict(released))
        assert torch.equal(model.encoder.embed_tokens.weight, released[WORDS][:rows])


def test_an_analysis_takes_layers_and_rows_as_they_are(tmp_path):
    released = veco_builders.stock_state()
    args = {**vars(veco_builders.arguments(decoder_layers=LAYERS)), "arch": "veco_tiny"}
    path = write(tmp_path / "model.pt", released, args=args)
    assert is_equal(read_sequence_model(path, read_encoder(path)).model, released)
