"""What a checkpoint of SGA holds, what it refuses, and what survives an update, a copy and an average."""

import pytest
import torch

from fairseq_plugins import checkpoints
from fairseq_plugins.checkpoints.average import average_checkpoints
from tests import builders


def _weights(model):
    return {name: parameter.detach().clone() for name, parameter in model.frozen.named_parameters()}


def _losses(model):
    return torch.cat(list(builders.forward_losses(model, builders.sample()).values())).detach()


def test_frozen_weights_are_bit_equal_after_updates_with_weight_decay(device):
    model = builders.sga_model().to(device).train()
    before = _weights(model)
    trained = {name: p.detach().clone() for name, p in model.named_parameters() if p.requires_grad}
    assert len(before) == 5 + 16 * builders.LAYERS + 4
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5)
    for _ in range(2):
        losses = builders.forward_losses(model, builders.sample(device))
        sum(loss.sum() for loss in losses.values()).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert [name for name, weight in _weights(model).items() if not torch.equal(weight, before[name])] == []
    changed = [name for name, p in model.named_parameters() if name in trained and not torch.equal(p, trained[name])]
    assert sorted(changed) == sorted(trained)


def test_moving_average_arithmetic_on_a_state_dict_still_loads():
    """An average multiplies and adds every tensor, and halves its precision: the marker survives all of it."""
    model = builders.sga_model()
    state = {name: (0.5 * tensor.half() + 0.25 * tensor.half()).float() for name, tensor in model.state_dict().items()}
    twin = builders.sga_model(seed=3)
    twin.load_state_dict(state)
    torch.testing.assert_close(twin.encoder_prompts.key, 0.75 * model.encoder_prompts.key, rtol=1e-2, atol=1e-3)


def _save(model, path):
    torch.save({"model": model.state_dict(), "args": None, "cfg": {}, "extra_state": {}, "optimizer_history": []}, path)
    return path


def test_averaging_over_two_frozen_models_is_refused(tmp_path):
    files = [_save(builders.sga_model(builders.masked_lm(seed)), tmp_path / f"{seed}.pt") for seed in (1, 9)]
    with pytest.raises(checkpoints.CheckpointError, match="fingerprint"):
        average_checkpoints(files)


def test_what_does_not_fit_is_refused():
    """A full model, one without denoising, one with a length predictor, one around other frozen weights."""
    full, short = builders.sga_model(seed=2), builders.sga_model(no_denoising=True)
    free, other = builders.sga_model(alignment="mask_predict"), builders.sga_model(builders.masked_lm(9))
    for model, state in ((full, short), (short, full), (free, full), (full, free)):
        with pytest.raises(RuntimeError, match="denoiser_prompts|length_predictor"):
            model.load_state_dict(state.state_dict())
    words = f"{full.frozen.fingerprint}.*tiny masked LM.*{other.frozen.fingerprint}.*--pretrained-mlm"
    with pytest.raises(ValueError, match=words):
        other.load_state_dict(full.state_dict())
    again = builders.sga_model(seed=3)
    assert not torch.equal(_losses(again), _losses(full))
    again.load_state_dict(full.state_dict(), strict=True)
    assert torch.equal(_losses(again), _losses(full))
