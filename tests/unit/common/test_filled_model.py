"""Test that a checkpoint of a run replaces the pretrained file that the run started from."""

import copy
from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch
from fairseq import models

from tests import adapter_builders, builders, deltalm_builders, nlu_builders, veco_builders


def nlu_arguments():
    return nlu_builders.arguments(**{"encoder_family": "xlmr", **nlu_builders.SCRATCH})


MODELS = {
    "deltalm": (
        "pretrained_deltalm_checkpoint",
        deltalm_builders.arguments,
        deltalm_builders.task,
    ),
    "deltalm_mlm": ("init_from_mlm", deltalm_builders.arguments, deltalm_builders.task),
    "from_xlmr": (
        "pretrained_xlmr",
        lambda: deltalm_builders.arguments(arch="transformer_from_xlmr_tiny"),
        lambda: builders.task_of(builders.dictionary()),
    ),
    "adapter": (
        "adapter_backbone",
        lambda: adapter_builders.arguments(None),
        adapter_builders.task,
    ),
    "veco": ("init_from_mlm", veco_builders.arguments, veco_builders.task),
    "nlu": (
        "pretrained_encoder",
        nlu_arguments,
        lambda: nlu_builders.task_of(nlu_builders.PIECES),
    ),
}
"""Name -> option of the pretrained file, functions that make the other options and the task."""


@pytest.fixture(params=list(MODELS))
def case(request, tmp_path):
    """Return how to build a model whose pretrained file is damaged, and the option and file."""
    option, make_options, make_task = MODELS[request.param]
    path = tmp_path / "pretrained.pt"
    path.write_bytes(b"no checkpoint")

    def build(from_checkpoint=False, **options):
        args = Namespace(**{**vars(make_options()), option: str(path), **options})
        return models.build_model(args, make_task(), from_checkpoint)

    return SimpleNamespace(build=build, option="--" + option.replace("_", "-"), path=path)


@pytest.mark.parametrize("is_missing", [True, False])
@pytest.mark.parametrize("purpose", ["decoding", "resuming"])
def test_a_checkpoint_replaces_the_pretrained_file(case, tmp_path, is_missing, purpose):
    if is_missing:
        case.path.unlink()
    if purpose == "decoding":
        model = case.build(from_checkpoint=True)
    else:
        checkpoint = tmp_path / "checkpoint_last.pt"
        torch.save({"model": {}, "args": Namespace(arch="any")}, checkpoint)
        model = case.build(save_dir=str(tmp_path), restore_file=checkpoint.name)
    inputs = {"src_tokens": torch.tensor([[5, 6, 2]]), "src_lengths": torch.tensor([3])}
    for random_model in (model, copy.deepcopy(model)):
        with pytest.raises(ValueError, match=rf"{case.option} .*pretrained\.pt: "):
            random_model(**inputs, prev_output_tokens=None)
    model.load_state_dict({name: tensor.clone() for name, tensor in model.state_dict().items()})
    model.check_source()
