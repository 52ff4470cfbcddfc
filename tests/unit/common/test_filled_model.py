"""Models that start from a pretrained file: a checkpoint of theirs makes it superfluous, whatever has become of the file."""

import copy
from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch
from fairseq import models

from tests import adapter_builders, builders, deltalm_builders, nlu_builders, veco_builders

NLU = {"encoder_family": "xlmr", **nlu_builders.SCRATCH}


MODELS = {
    "deltalm": ("pretrained_deltalm_checkpoint", deltalm_builders.arguments, deltalm_builders.task),
    "deltalm_mlm": ("init_from_mlm", deltalm_builders.arguments, deltalm_builders.task),
    "from_xlmr": (
        "pretrained_xlmr",
        lambda: deltalm_builders.arguments(arch="transformer_from_xlmr_tiny"),
        lambda: builders.task_of(builders.dictionary()),
    ),
    "adapter": ("adapter_backbone", lambda: adapter_builders.arguments(None), adapter_builders.task),
    "veco": ("init_from_mlm", veco_builders.arguments, veco_builders.task),
    "nlu": (
        "pretrained_encoder",
        lambda: nlu_builders.arguments(**NLU),
        lambda: nlu_builders.task_of(nlu_builders.PIECES),
    ),
}
"""Name -> option of the file, the other options, what the task has."""


@pytest.fixture(params=list(MODELS))
def case(request, tmp_path):
    """How to build a model whose pretrained file is damaged, with further options."""
    option, options, task = MODELS[request.param]
    path = tmp_path / "pretrained.pt"
    path.write_bytes(b"no checkpoint")

    def build(from_checkpoint=False, **more):
        args = Namespace(**{**vars(options()), option: str(path), **more})
        return models.build_model(args, task(), from_checkpoint)

    return SimpleNamespace(build=build, option="--" + option.replace("_", "-"), path=path)


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("purpose", ["decoding", "resuming"])
def test_a_checkpoint_makes_it_superfluous(case, tmp_path, there, purpose):
    if not there:
        case.path.unlink()
    run = tmp_path / "run"
    run.mkdir()
    more = {"from_checkpoint": True}
    if purpose == "resuming":
        more = {"save_dir": str(run), "restore_file": "checkpoint_last.pt"}
        torch.save({"model": {}, "args": Namespace(arch="any")}, run / "checkpoint_last.pt")
    model = case.build(**more)
    for one in (model, copy.deepcopy(model)):
        with pytest.raises(ValueError, match=rf"{case.option} .*pretrained\.pt: .*no checkpoint"):
            one(src_tokens=torch.tensor([[5, 6, 2]]), src_lengths=torch.tensor([3]), prev_output_tokens=None)
    model.load_state_dict({name: value.clone() for name, value in model.state_dict().items()})
    model.check_source()
