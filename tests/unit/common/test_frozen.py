"""Test frozen sub-models: no gradients, dropout by request, checkpoints without the weights."""

import copy

import pytest
import torch
from torch import nn

from fairseq_plugins.common.frozen import Frozen

WEIGHT = "frozen.module.0.weight"


class Model(nn.Module):
    """A trained layer over a frozen one."""

    def __init__(self, fingerprint="aa11", **options):
        super().__init__()
        module = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.BatchNorm1d(4))
        self.frozen = Frozen(module, fingerprint, "weights of the test", **options)
        self.top = nn.Linear(4, 2)


def test_gradients_pass_through_the_frozen_weights():
    model = Model()
    model.frozen.requires_grad_(True)  # has no effect
    trainable = [name for name, p in model.named_parameters() if p.requires_grad]
    assert trainable == ["top.weight", "top.bias"]
    inputs = torch.randn(5, 3, requires_grad=True)
    model.eval()
    model.top(model.frozen.module(inputs)).sum().backward()
    assert all(parameter.grad is None for parameter in model.frozen.parameters())
    assert bool((inputs.grad != 0).any())


@pytest.mark.parametrize("train_dropout", [False, True])
def test_frozen_dropout_acts_only_by_request(train_dropout):
    model = Model(train_dropout=train_dropout)
    model.train()
    assert model.top.training
    assert model.frozen.module[1].training is train_dropout
    model.eval()
    assert not model.frozen.module[1].training
    assert not model.training


def test_the_state_holds_the_trained_part_and_an_empty_marker():
    first, second = Model(), Model()
    state = first.state_dict()
    (marker,) = [name for name in state if not name.startswith("top.")]
    assert "aa11" in marker and state[marker].numel() == 0
    before = copy.deepcopy(second.frozen.module.state_dict())
    assert second.load_state_dict(state, strict=True) == ([], [])
    assert torch.equal(second.top.weight, first.top.weight)
    for name, tensor in second.frozen.module.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_states_that_do_not_fit_are_refused():
    """A full checkpoint has weights of another shape if its dictionary had an entry less."""
    state, full = Model().state_dict(), Model(save_weights=True).state_dict()
    unmarked = {name: tensor for name, tensor in state.items() if name.startswith("top.")}
    for wrong_state, message in (
        (unmarked, "fingerprint.aa11"),
        ({**state, "other": torch.zeros(1)}, "other"),
        ({**state, WEIGHT: torch.zeros(4, 3)}, "0.bias"),
    ):
        with pytest.raises(RuntimeError, match=message):
            Model().load_state_dict(wrong_state)
    with pytest.raises(ValueError, match="aa11, that of weights of the test is bb22"):
        Model("bb22").load_state_dict(Model("aa11").state_dict())
    with pytest.raises(ValueError, match=r"0.weight of shape \(5, 3\), expected \(4, 3\) "):
        Model(save_weights=True).load_state_dict({**full, WEIGHT: torch.zeros(5, 3)})


def test_saved_weights_are_in_the_state_dict_and_load():
    first, second = Model(save_weights=True), Model(save_weights=True)
    state = first.state_dict()
    assert WEIGHT in state and any("aa11" in name for name in state)
    assert not torch.equal(second.frozen.module[0].weight, first.frozen.module[0].weight)
    second.load_state_dict(state)
    assert torch.equal(second.frozen.module[0].weight, first.frozen.module[0].weight)


def test_copies_share_the_frozen_weights_only():
    model = Model()
    twin = copy.deepcopy(model)
    assert twin.frozen.module[0].weight.data_ptr() == model.frozen.module[0].weight.data_ptr()
    assert twin.top.weight.data_ptr() != model.top.weight.data_ptr()
    assert sorted(twin.state_dict()) == sorted(model.state_dict())
