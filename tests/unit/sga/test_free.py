"""Test the length predictor of --alignment mask_predict: loss, positions, checkpoints."""

from contextlib import nullcontext

import pytest
import torch

from fairseq_plugins.common.options import check_rules
from fairseq_plugins.sga.free import LENGTH_RULES, length_nll
from fairseq_plugins.sga.variants import JoinedModelConfig
from tests import builders


def build_model(**options):
    return builders.sga_model(alignment="mask_predict", **options)


def test_column_j_is_j_plus_one_tokens_and_no_tokens_cost_nothing(device):
    log_probs = torch.tensor([[-1.0, -2.0, -3.0]] * 4, device=device, requires_grad=True)
    losses = length_nll(log_probs, torch.tensor([1, 3, 0, 2], device=device))
    assert losses.tolist() == [1.0, 3.0, 0.0, 2.0]
    losses.sum().backward()
    assert log_probs.grad.tolist() == [[-1, 0, 0], [0, 0, -1], [0, 0, 0], [0, -1, 0]]


@pytest.mark.cases("trained option", ("mean", "bos"), ("bos", "mean"))
def test_a_length_predictor_trained_on_other_states_is_refused(trained, option):
    """The shapes are the same, so that strict loading alone would not notice."""
    state = build_model(length_from=trained).state_dict()
    with pytest.raises(ValueError, match=f"--length-from {option}: .*; valid: {trained}"):
        build_model(length_from=option).load_state_dict(state)
    loaded = build_model(length_from=trained, seed=9)
    loaded.load_state_dict(state)
    tokens = builders.source_rows([6])[0][None]
    expected = build_model(length_from=trained).encode(tokens).length_log_probs
    assert torch.equal(loaded.encode(tokens).length_log_probs, expected)


def test_other_alignments_refuse_length_from():
    with pytest.raises(ValueError, match="--length-from bos: .*--alignment mask_predict"):
        check_rules(JoinedModelConfig(prompt_length=3, length_from="bos"), LENGTH_RULES)


@pytest.mark.cases(
    "options longest", ({}, 20), ({"ctc_upsample": 3}, 13), ({"no_denoising": True}, 40)
)
def test_the_longest_target_fits_into_the_positions_with_its_slots(options, longest):
    """The source may fill all positions; fairseq counts </s> of the target, which has no slot."""
    assert build_model(**options).max_positions() == (builders.POSITIONS, longest + 1)
    assert builders.sga_model(**options).max_positions()[1] == builders.POSITIONS


@pytest.mark.cases(
    "trained upsample message",
    (2, 3, "--ctc-upsample 3 .*; .* valid: 2, as in its training"),
    (2, 1, "--ctc-upsample 1 .*; .* valid: 2, as in its training"),
    (40, 2, "valid: 21 to 40, as in its training"),
    (12, 11, None),  # three lengths each
)
@pytest.mark.parametrize("length_from", ["mean", "bos"])
def test_other_slots_per_token_than_in_training_are_named(length_from, trained, upsample, message):
    """The number of lengths follows from --ctc-upsample, unless a model has no denoiser."""

    def build(ctc_upsample, no_denoising=False):
        options = {"ctc_upsample": ctc_upsample, "no_denoising": no_denoising}
        return build_model(length_from=length_from, **options)

    with pytest.raises(ValueError, match=message) if message else nullcontext():
        build(upsample).load_state_dict(build(trained).state_dict())
    short = build(upsample, no_denoising=True)
    short.load_state_dict(build(trained, no_denoising=True).state_dict())
    with pytest.raises(RuntimeError, match="denoiser_prompts|size mismatch"):
        build(upsample).load_state_dict(short.state_dict())
