"""Test what a checkpoint of SGA holds and refuses, and what survives updates and averages."""

import pytest
import torch

from fairseq_plugins import checkpoints
from fairseq_plugins.checkpoints.average import average_checkpoints
from tests import builders


def test_frozen_weights_are_bit_equal_after_updates_with_weight_decay(device):
    model = builders.sga_model().to(device).train()
    frozen = {name for name, _ in model.named_parameters() if name.startswith("frozen.")}
    assert len(frozen) == 5 + 16 * builders.LAYERS + 4
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5)
    for _ in range(2):
        losses = builders.forward_losses(model, builders.sample(device))
        sum(loss.sum() for loss in losses.values()).backward()
        optimizer.step()
        optimizer.zero_grad()
    parameters = model.named_parameters()
    unchanged = {name for name, parameter in parameters if torch.equal(parameter, before[name])}
    assert unchanged == frozen


def test_an_average_over_two_frozen_models_is_refused(tmp_path):
    files = [tmp_path / "1.pt", tmp_path / "9.pt"]
    for file in files:
        model = builders.sga_model(builders.masked_lm(int(file.stem)))
        extra = {"args": None, "cfg": {}, "extra_state": {}, "optimizer_history": []}
        torch.save({"model": model.state_dict(), **extra}, file)
    with pytest.raises(checkpoints.CheckpointError, match="fingerprint"):
        average_checkpoints(files)


def test_states_of_other_variants_and_frozen_models_are_refused():
    full, short = builders.sga_model(seed=2), builders.sga_model(no_denoising=True)
    with_lengths = builders.sga_model(alignment="mask_predict")
    for model, state in ((full, short), (short, full), (with_lengths, full), (full, with_lengths)):
        with pytest.raises(RuntimeError, match="denoiser_prompts|length_predictor"):
            model.load_state_dict(state.state_dict())
    stranger = builders.sga_model(builders.masked_lm(9))
    fingerprints = f"{full.frozen.fingerprint}.*{stranger.frozen.fingerprint}"
    with pytest.raises(ValueError, match=f"{fingerprints}.*--pretrained-mlm"):
        stranger.load_state_dict(full.state_dict())
