"""Frozen: no gradients, no dropout unless asked for, checkpoints without the weights, refusal of other weights."""

import copy

import pytest
import torch
from torch import nn

from fairseq_plugins.common.frozen import Frozen


class Model(nn.Module):
    """A trained layer over a frozen one."""

    def __init__(self, fingerprint="aa11", **options):
        super().__init__()
        module = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.BatchNorm1d(4))
        self.frozen = Frozen(module, fingerprint, "weights of the test", **options)
        self.top = nn.Linear(4, 2)


def test_no_gradient_reaches_the_weights_but_it_passes_through():
    model = Model()
    model.frozen.requires_grad_(True)  # frozen stays frozen
    assert [name for name, p in model.named_parameters() if p.requires_grad] == ["top.weight", "top.bias"]
    inputs = torch.randn(5, 3, requires_grad=True)
    model.eval()
    model.top(model.frozen.module(inputs)).sum().backward()
    assert all(parameter.grad is None for parameter in model.frozen.parameters())
    assert bool((inputs.grad != 0).any())


@pytest.mark.parametrize("wanted", [False, True])
def test_training_mode_reaches_the_module_only_when_its_dropout_is_wanted(wanted):
    model = Model(train_dropout=wanted)
    model.train()
    assert model.top.training
    assert model.frozen.module[1].training is wanted
    model.eval()
    assert not model.frozen.module[1].training
    assert not model.training


def test_the_state_holds_the_trained_part_and_an_empty_marker_and_loads_strictly():
    first, second = Model(), Model()
    state = first.state_dict()
    (marker,) = {name for name in state if not name.startswith("top.")}
    assert "aa11" in marker and state[marker].numel() == 0
    kept = {name: tensor.clone() for name, tensor in second.frozen.module.state_dict().items()}
    assert second.load_state_dict(state, strict=True) == ([], [])
    assert torch.equal(second.top.weight, first.top.weight)
    for name, tensor in second.frozen.module.state_dict().items():
        assert torch.equal(tensor, kept[name])


def test_other_weights_and_states_of_unknown_origin_are_refused():
    with pytest.raises(ValueError, match="is aa11, that of weights of the test is bb22"):
        Model("bb22").load_state_dict(Model("aa11").state_dict())
    state = Model().state_dict()
    bare = {name: tensor for name, tensor in state.items() if name.startswith("top.")}
    part = {**state, "frozen.module.0.weight": torch.zeros(4, 3)}
    for wrong, word in ((bare, "fingerprint.aa11"), ({**state, "other": torch.zeros(1)}, "other"), (part, "0.bias")):
        with pytest.raises(RuntimeError, match=word):
            Model().load_state_dict(wrong)


def test_saved_weights_are_in_the_state_dict_and_load():
    full, other = Model(save_weights=True), Model(save_weights=True)
    state = full.state_dict()
    assert "frozen.module.0.weight" in state and any("aa11" in name for name in state)
    assert not torch.equal(other.frozen.module[0].weight, full.frozen.module[0].weight)
    other.load_state_dict(state)
    assert torch.equal(other.frozen.module[0].weight, full.frozen.module[0].weight)


def test_copies_share_the_weights_and_own_the_trained_part():
    model = Model()
    twin = copy.deepcopy(model)
    assert twin.frozen.module[0].weight.data_ptr() == model.frozen.module[0].weight.data_ptr()
    assert twin.top.weight.data_ptr() != model.top.weight.data_ptr()
    assert sorted(twin.state_dict()) == sorted(model.state_dict())


def test_weights_of_another_shape_are_named():
    """A full checkpoint whose dictionary has an entry less, for example."""
    state = Model(save_weights=True).state_dict()
    state["frozen.module.0.weight"] = torch.zeros(5, 3)
    with pytest.raises(ValueError, match=r"0.weight of shape \(5, 3\), expected \(4, 3\) .*dict.txt"):
        Model(save_weights=True).load_state_dict(state)
