"""Test the frozen phase of veco_pretraining: only cross-attention moves, with every optimizer."""

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

DDP = {"ddp_backend": "pytorch_ddp", "find_unused_parameters": False}
make_task = maker("veco_pretraining", monolingual="en", **DDP)


@pytest.fixture(scope="module")
def folder(path):
    builders.write_dictionary(path, "en")
    return path


class TinyModel(nn.Module):
    """A backbone with cross-attention; both have gradients unless the backbone is frozen."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.before, self.encoder_attn, self.after = (nn.Linear(3, 3) for _ in range(3))
        self.frozen = False
        self.frozen_updates = []

    def forward(self, inputs):
        self.frozen_updates.append(self.frozen)
        return self.after(self.encoder_attn(self.before(inputs)))

    def freeze_backbone(self, frozen):
        self.frozen = frozen
        for name, parameter in self.named_parameters():
            parameter.requires_grad_("encoder_attn" in name or not frozen)

    def set_num_updates(self, updates):
        """Do nothing; the stock step calls it."""


def criterion(model, sample):
    return (model(sample) - 1).square().sum(), 1, {}


ADAM = {
    "lr": [0.1],
    "adam_betas": "(0.9, 0.98)",
    "adam_eps": 1e-8,
    "weight_decay": 0.1,
    "use_old_adam": True,
    "fp16_adam_stats": False,
    "tpu": False,
}


def adam(model, kind="fp32"):
    """Stock Adam, or that of ``--fp16``, flat unless ``--fp16-no-flatten-grads``."""
    parameters = list(model.parameters())
    if kind == "fp32":
        return FairseqAdam(OmegaConf.create(ADAM), parameters)
    if kind == "flat fp16":
        row = nn.Parameter(torch.cat([parameter.data.view(-1) for parameter in parameters]))
        row.grad = torch.zeros_like(row)
        copies, masters = {None: row}, [row]
    else:
        copies = masters = FP16Optimizer.build_fp32_params(None, parameters, flatten=False)
    common = {"bf16": True, "fp16_scale_window": 1}
    cfg = OmegaConf.create({"optimizer": ADAM, "common": common})
    return FP16Optimizer(cfg, parameters, FairseqAdam(cfg.optimizer, masters), copies)


def train(task, model, optimizer, updates, fills_gradients=False):
    """Train for some updates; ``legacy_ddp`` fills missing gradients with zeros."""
    for number in updates:
        optimizer.zero_grad()
        sample = torch.randn(5, 3, generator=torch.Generator().manual_seed(number))
        task.train_step(sample, model, criterion, optimizer, number)
        for parameter in model.parameters():
            if fills_gradients and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        optimizer.multiply_grads(0.5)
        optimizer.clip_grad_norm(0.0)
        task.optimizer_step(optimizer, model, number)


def copy_values(model):
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("kind", ["fp32", "fp16", "flat fp16"])
def test_only_cross_attention_moves_in_the_frozen_phase_and_all_after_it(folder, kind):
    """Compare each optimizer with fp32: ``--fp16`` has a row of gradients of its own."""
    task = make_task(folder, freeze_backbone_updates=3)
    model, reference = TinyModel(), TinyModel()
    optimizer, start = adam(model, kind), copy_values(model)
    train(task, model, optimizer, range(3))
    train(task, reference, adam(reference), range(3))
    frozen, expected = copy_values(model), copy_values(reference)
    for name, value in frozen.items():
        assert torch.equal(value, start[name]) == ("encoder_attn" not in name), name
        torch.testing.assert_close(value, expected[name], msg=name)
    assert not model.frozen
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.1]
    train(task, model, optimizer, [3])
    assert model.frozen_updates == [True] * 3 + [False]
    for name, value in copy_values(model).items():
        assert not torch.equal(value, frozen[name])


def test_several_processes_train_as_one(folder):
    """Zero gradients of frozen parameters leave no trace in the optimizer."""
    task = make_task(folder, freeze_backbone_updates=3)
    model, reference = TinyModel(), TinyModel()
    train(task, model, adam(model), range(5), fills_gradients=True)
    train(task, reference, adam(reference), range(5))
    expected = copy_values(reference)
    assert all(torch.equal(value, expected[name]) for name, value in copy_values(model).items())


@pytest.mark.cases(
    "backend finds_unused processes is_refused",
    ("pytorch_ddp", False, 2, True),
    ("c10d", False, 2, True),
    ("fully_sharded", True, 2, True),
    ("slowmo", True, 2, True),
    ("pytorch_ddp", True, 2, False),
    ("legacy_ddp", False, 2, False),
    ("pytorch_ddp", False, 1, False),
)
def test_backends_that_cannot_freeze_are_refused(
    folder, monkeypatch, backend, finds_unused, processes, is_refused
):
    monkeypatch.setattr(models, "build_model", lambda *_: TinyModel())
    monkeypatch.setattr(distributed, "get_global_world_size", lambda: processes)

    def build(objectives="is,cs", from_checkpoint=False, **options):
        ddp = {"ddp_backend": backend, "find_unused_parameters": finds_unused}
        task = make_task(folder, **ddp, **options)
        task.build_model(Namespace(), from_checkpoint=from_checkpoint)
        CrossSequenceMLMCriterion(task, CrossSequenceMLMConfig(objectives=objectives))

    build()
    # Without CS-MLM cross-attention has no gradient at any time.
    for option, value in (("objectives", "is"), ("freeze_backbone_updates", 5)):
        build(from_checkpoint=True, **{option: value})  # fairseq-validate shares no gradients
        message = f"--{option.replace('_', '-')} {value} .*--ddp-backend {backend}"
        with pytest.raises(ValueError, match=message) if is_refused else nullcontext():
            build(**{option: value})


def test_models_that_do_not_fit_are_refused(folder, monkeypatch):
    task = make_task(folder, tokens_per_sample=24)
    short, long = (
        veco_builders.arguments(max_source_positions=count, max_target_positions=count)
        for count in (20, 24)
    )
    task.build_model(long)
    with pytest.raises(ValueError, match="--tokens-per-sample 24: .* 20"):
        task.build_model(short)
    monkeypatch.setattr(models, "build_model", lambda *_: nn.Linear(1, 1))
    with pytest.raises(ValueError, match="--freeze-backbone-updates 5 .* Linear"):
        make_task(folder, freeze_backbone_updates=5).build_model(Namespace())
    make_task(folder).build_model(Namespace())
