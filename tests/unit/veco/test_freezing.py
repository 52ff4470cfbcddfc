"""Task veco_pretraining: in the frozen phase cross-attention alone moves, with every optimizer; what cannot freeze is named."""

from argparse import Namespace
from contextlib import nullcontext

import pytest
import torch
from fairseq import models
from fairseq.distributed import utils as distributed
from fairseq.optim.adam import FairseqAdam
from fairseq.optim.fp16_optimizer import FP16Optimizer
from omegaconf import OmegaConf
from torch import nn

from fairseq_plugins.veco.criterion import CrossSequenceMLMConfig, CrossSequenceMLMCriterion
from tests import builders, veco_builders
from tests.unit.common.making import maker

setup = maker("veco_pretraining", monolingual="en", ddp_backend="pytorch_ddp", find_unused_parameters=False)


@pytest.fixture(scope="module")
def folder(path):
    builders.write_dictionary(path, "en")
    return path


class Fake(nn.Module):
    """A backbone and cross-attention, so to say; the backbone's gradient is not zero while it is not frozen."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.before, self.encoder_attn, self.after = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)
        self.frozen = False
        self.seen = []

    def forward(self, inputs):
        self.seen.append(self.frozen)
        return self.after(self.encoder_attn(self.before(inputs)))

    def freeze_backbone(self, frozen):
        self.frozen = frozen
        for name, parameter in self.named_parameters():
            parameter.requires_grad_("encoder_attn" in name or not frozen)

    def set_num_updates(self, updates):
        """Asked for by the stock step."""


def criterion(model, sample):
    return (model(sample) - 1).square().sum(), 1, {}


ADAM = {"lr": [0.1], "adam_betas": "(0.9, 0.98)", "adam_eps": 1e-8, "weight_decay": 0.1, "use_old_adam": True}
ADAM.update(fp16_adam_stats=False, tpu=False)


def adam(model, kind="fp32"):
    """Stock Adam, or that of ``--fp16`` on parameters of any type; flat is its way unless ``--fp16-no-flatten-grads``."""
    parameters = list(model.parameters())
    if kind == "fp32":
        return FairseqAdam(OmegaConf.create(ADAM), parameters)
    if kind == "flat fp16":
        row = nn.Parameter(torch.cat([parameter.data.view(-1) for parameter in parameters]))
        row.grad = torch.zeros_like(row)
        copies, masters = {None: row}, [row]
    else:
        copies = masters = FP16Optimizer.build_fp32_params(None, parameters, flatten=False)
    cfg = OmegaConf.create({"optimizer": ADAM, "common": {"bf16": True, "fp16_scale_window": 1}})
    return FP16Optimizer(cfg, parameters, FairseqAdam(cfg.optimizer, masters), copies)


def update(task, model, optimizer, number, processes=1):
    optimizer.zero_grad()
    sample = torch.randn(5, 3, generator=torch.Generator().manual_seed(number))
    task.train_step(sample, model, criterion, optimizer, number)
    for parameter in model.parameters() if processes > 1 else ():  # as legacy_ddp
        parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    optimizer.multiply_grads(0.5)
    optimizer.clip_grad_norm(0.0)
    task.optimizer_step(optimizer, model, number)


def values(model):
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("kind", ["fp32", "fp16", "flat fp16"])
def test_only_cross_attention_moves_in_the_frozen_phase_and_everything_after_it(folder, kind):
    """With each optimizer as with that of fp32: the row of gradients of ``--fp16`` is filled in the right places."""
    task = setup(folder, freeze_backbone_updates=3)
    model, plain = Fake(), Fake()
    optimizer, expected = adam(model, kind), adam(plain)
    start = values(model)
    for number in range(3):
        update(task, model, optimizer, number)
        update(task, plain, expected, number)
    frozen, reference = values(model), values(plain)
    for name, value in frozen.items():
        assert torch.equal(value, start[name]) == ("encoder_attn" not in name), name
        torch.testing.assert_close(value, reference[name], msg=name)
    assert not model.frozen and all(parameter.requires_grad for parameter in model.parameters())
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.1]
    update(task, model, optimizer, 3)
    assert model.seen == [True] * 3 + [False]
    assert not any(torch.equal(value, frozen[name]) for name, value in values(model).items())


def test_after_the_frozen_phase_several_processes_train_as_one(folder):
    task = setup(folder, freeze_backbone_updates=3)
    model, plain = Fake(), Fake()
    optimizer, expected = adam(model), adam(plain)
    for number in range(5):
        update(task, model, optimizer, number, processes=2)
        update(task, plain, expected, number)
    assert all(torch.equal(value, values(plain)[name]) for name, value in values(model).items())


@pytest.mark.cases(
    "backend finds processes fails",
    *((backend, False, 2, True) for backend in ("pytorch_ddp", "c10d")),
    *((backend, True, 2, True) for backend in ("fully_sharded", "slowmo")),
    *(("pytorch_ddp", True, 2, False), ("legacy_ddp", False, 2, False), ("pytorch_ddp", False, 1, False)),
)
def test_ways_of_training_that_cannot_freeze(folder, monkeypatch, backend, finds, processes, fails):
    monkeypatch.setattr(models, "build_model", lambda *_: Fake())
    monkeypatch.setattr(distributed, "get_global_world_size", lambda: processes)

    def build(objectives="is,cs", from_checkpoint=False, **options):
        task = setup(folder, ddp_backend=backend, find_unused_parameters=finds, **options)
        task.build_model(Namespace(), from_checkpoint=from_checkpoint)
        CrossSequenceMLMCriterion(task, CrossSequenceMLMConfig(objectives=objectives))

    build()
    # Without CS-MLM cross-attention has no gradient at any time.
    for option, value in (("objectives", "is"), ("freeze_backbone_updates", 5)):
        build(from_checkpoint=True, **{option: value})  # by fairseq-validate, whose processes share no gradients
        message = f"--{option.replace('_', '-')} {value} .*--ddp-backend {backend}: give --ddp-backend"
        with pytest.raises(ValueError, match=message) if fails else nullcontext():
            build(**{option: value})


def test_models_that_do_not_fit_are_refused(folder, monkeypatch):
    task = setup(folder, tokens_per_sample=24)
    with pytest.raises(ValueError, match="--tokens-per-sample 24: the model has 20 positions.*valid: at most 20"):
        task.build_model(veco_builders.arguments(max_source_positions=20, max_target_positions=20))
    task.build_model(veco_builders.arguments(max_source_positions=24, max_target_positions=24))
    monkeypatch.setattr(models, "build_model", lambda *_: nn.Linear(1, 1))
    with pytest.raises(ValueError, match="--freeze-backbone-updates 5 needs a VECO --arch; Linear cannot"):
        setup(folder, freeze_backbone_updates=5).build_model(Namespace())
    setup(folder).build_model(Namespace())
