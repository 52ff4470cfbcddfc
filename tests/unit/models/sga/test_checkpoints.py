"""What a checkpoint of SGA holds, what it refuses, and what survives an update, a copy and an average."""

import copy
from pathlib import Path
from typing import Dict

import pytest
import torch
from torch import Tensor

from fairseq_plugins import checkpoints
from fairseq_plugins.checkpoints.average import average_checkpoints
from fairseq_plugins.models.sga import SGAModel
from tests import builders

SOURCES, TARGETS = [6, 3, 5], [4, 2, 3]


def _weights(model: SGAModel) -> Dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.frozen.named_parameters()}


def _sample() -> Dict[str, Tensor]:
    return builders.batch(builders.source_rows(SOURCES), builders.target_rows(TARGETS))


def _losses(model: SGAModel) -> Tensor:
    return torch.cat(list(builders.forward_losses(model, _sample()).values())).detach()


def test_frozen_weights_are_bit_equal_after_updates_with_weight_decay(device: torch.device) -> None:
    model = builders.sga_model().to(device).train()
    before = _weights(model)
    trained = {name: p.detach().clone() for name, p in model.named_parameters() if p.requires_grad}
    assert len(before) == 5 + 16 * builders.LAYERS + 4
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5)
    for _ in range(2):
        losses = builders.forward_losses(model, builders.to_device(_sample(), device))
        sum(loss.sum() for loss in losses.values()).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert [name for name, weight in _weights(model).items() if not torch.equal(weight, before[name])] == []
    changed = [name for name, p in model.named_parameters() if name in trained and not torch.equal(p, trained[name])]
    assert sorted(changed) == sorted(trained)


def test_dropout_of_the_frozen_part_is_off_unless_asked_for() -> None:
    for wanted in (False, True):
        lm = builders.masked_lm(dropout=0.5, attention_dropout=0.5)
        model = builders.sga_model(lm, frozen_options={"train_dropout": wanted})
        model.train()
        assert model.training
        assert torch.equal(_losses(model), _losses(model)) is not wanted
        model.eval()
        assert torch.equal(_losses(model), _losses(model))


def test_state_dict_is_the_trained_part_and_one_empty_marker() -> None:
    model = builders.sga_model(prompt_scale=True)
    state = model.state_dict()
    trained = [name for name, p in model.named_parameters() if p.requires_grad]
    markers = [name for name in state if name not in trained]
    assert sorted(set(state) - set(markers)) == sorted(trained)
    assert len(markers) == 1
    assert model.frozen.fingerprint in markers[0]
    assert state[markers[0]].numel() == 0


def test_state_dict_loads_back_strictly() -> None:
    first, second = builders.sga_model(seed=2), builders.sga_model(seed=3)
    assert not torch.equal(_losses(first), _losses(second))
    second.load_state_dict(first.state_dict(), strict=True)
    assert torch.equal(_losses(first), _losses(second))
    state = first.state_dict()
    del state["denoiser_prompts.key"]
    with pytest.raises(RuntimeError, match="denoiser_prompts.key"):
        second.load_state_dict(state, strict=True)


def test_a_model_without_denoising_and_a_full_one_do_not_mix_silently() -> None:
    full, short = builders.sga_model(), builders.sga_model(no_denoising=True)
    with pytest.raises(RuntimeError, match="denoiser_prompts"):
        full.load_state_dict(short.state_dict())
    with pytest.raises(RuntimeError, match="denoiser_prompts"):
        short.load_state_dict(full.state_dict())


def test_another_frozen_model_is_refused_and_both_are_named() -> None:
    first, second = builders.sga_model(builders.masked_lm(1)), builders.sga_model(builders.masked_lm(9))
    assert first.frozen.fingerprint != second.frozen.fingerprint
    with pytest.raises((ValueError, RuntimeError)) as error:
        second.load_state_dict(first.state_dict())
    for needed in (first.frozen.fingerprint, second.frozen.fingerprint, "tiny masked LM", "pretrained"):
        assert needed in str(error.value)


def test_full_checkpoints_hold_everything() -> None:
    model = builders.sga_model(frozen_options={"save_weights": True})
    state = model.state_dict()
    names = [name for name in state if name.startswith("frozen.")]
    assert len(names) > len(_weights(model))
    other = builders.sga_model(builders.masked_lm(9), seed=3, frozen_options={"save_weights": True})
    # As decoding builds it: of the right sizes, without weights of its own and hence without a fingerprint.
    other.frozen.fingerprint = ""
    other.load_state_dict(state)
    assert torch.equal(_losses(other), _losses(model))
    assert other.frozen.fingerprint == model.frozen.fingerprint
    small = builders.sga_model(seed=4)
    small.load_state_dict({name: t for name, t in state.items() if not name.startswith("frozen.module.")})
    assert torch.equal(_losses(small), _losses(model))


def test_copies_share_the_frozen_part(device: torch.device) -> None:
    """Exponential moving averages deep-copy the model: 2 GB for nothing otherwise."""
    model = builders.sga_model().to(device)
    twin = copy.deepcopy(model)
    pointers = {p.data_ptr() for p in model.frozen.parameters()}
    assert {p.data_ptr() for p in twin.frozen.parameters()} == pointers
    assert twin.encoder_prompts.key.data_ptr() != model.encoder_prompts.key.data_ptr()
    twin.encoder_prompts.key.data.add_(1.0)
    assert not torch.equal(twin.encoder_prompts.key, model.encoder_prompts.key)
    model.load_state_dict(twin.state_dict())
    assert torch.equal(twin.encoder_prompts.key, model.encoder_prompts.key)


def test_moving_average_arithmetic_on_a_state_dict_still_loads() -> None:
    """An average multiplies and adds every tensor, and halves its precision: the marker survives all of it."""
    model = builders.sga_model()
    state = {name: (0.5 * tensor.half() + 0.25 * tensor.half()).float() for name, tensor in model.state_dict().items()}
    twin = builders.sga_model(seed=3)
    twin.load_state_dict(state)
    torch.testing.assert_close(twin.encoder_prompts.key, 0.75 * model.encoder_prompts.key, rtol=1e-2, atol=1e-3)


def _save(model: SGAModel, path: Path) -> Path:
    torch.save({"model": model.state_dict(), "args": None, "cfg": {}, "extra_state": {}, "optimizer_history": []}, path)
    return path


def test_averaging_two_checkpoints(tmp_path: Path) -> None:
    models = [builders.sga_model(seed=seed) for seed in (2, 3)]
    files = [_save(model, tmp_path / f"{number}.pt") for number, model in enumerate(models)]
    averaged = builders.sga_model(seed=4)
    averaged.load_state_dict(average_checkpoints(files)["model"])
    for (name, first), second, mean in zip(models[0].named_parameters(), models[1].parameters(), averaged.parameters()):
        torch.testing.assert_close(mean, (first + second) / 2, msg=name)


def test_averaging_over_two_frozen_models_is_refused(tmp_path: Path) -> None:
    files = [_save(builders.sga_model(builders.masked_lm(seed)), tmp_path / f"{seed}.pt") for seed in (1, 9)]
    with pytest.raises(checkpoints.CheckpointError, match="fingerprint"):
        average_checkpoints(files)
