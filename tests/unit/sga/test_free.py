"""Length predictor, and what --alignment mask_predict adds to the model: parameters, positions, checkpoints."""

from contextlib import nullcontext

import pytest
import torch

from fairseq_plugins.common.options import check_rules
from fairseq_plugins.sga.free import LENGTH_RULES, length_nll
from fairseq_plugins.sga.variants import JoinedModelConfig
from tests import builders


def _model(**options):
    return builders.sga_model(alignment="mask_predict", **options)


def test_column_j_is_j_plus_one_tokens_and_no_tokens_cost_nothing(device):
    log_probs = torch.tensor([[-1.0, -2.0, -3.0]] * 4, device=device, requires_grad=True)
    losses = length_nll(log_probs, torch.tensor([1, 3, 0, 2], device=device))
    assert losses.tolist() == [1.0, 3.0, 0.0, 2.0]
    losses.sum().backward()
    assert log_probs.grad.tolist() == [[-1, 0, 0], [0, 0, -1], [0, 0, 0], [0, -1, 0]]


@pytest.mark.parametrize(("trained", "given"), [("mean", "bos"), ("bos", "mean")])
def test_a_length_predictor_that_was_trained_to_read_something_else_is_refused(trained, given):
    """--model-overrides "{'length_from': 'mean'}": the sizes are the same, so that nothing else would notice."""
    state = _model(length_from=trained).state_dict()
    assert ("length_predictor.projection.bias" in state) == (trained == "mean")
    with pytest.raises(
        ValueError, match=f"--length-from {given}: .* --length-from {trained}; valid: {trained}"
    ):
        _model(length_from=given).load_state_dict(state)
    with pytest.raises(
        ValueError, match="--length-from bos: only a model with --alignment mask_predict"
    ):
        check_rules(JoinedModelConfig(prompt_length=3, length_from="bos"), LENGTH_RULES)
    same = _model(length_from=trained, seed=9)
    same.load_state_dict(state)
    tokens = builders.source_rows([6])[0][None]
    expected = _model(length_from=trained).encode(tokens).length_log_probs
    assert torch.equal(same.encode(tokens).length_log_probs, expected)


@pytest.mark.parametrize(
    ("options", "longest"), [({}, 20), ({"ctc_upsample": 3}, 13), ({"no_denoising": True}, 40)]
)
def test_the_longest_target_fits_into_the_positions_with_its_slots(options, longest):
    """The source may fill all positions; </s> of the target, which has no slot, is counted by fairseq."""
    assert _model(**options).max_positions() == (builders.POSITIONS, longest + 1)
    assert builders.sga_model(**options).max_positions()[1] == builders.POSITIONS


@pytest.mark.cases(
    "trained given words",
    (
        2,
        3,
        "--ctc-upsample 3 leaves 13 lengths of the 40 .* has 20; .* valid: 2, as in its training",
    ),
    (
        2,
        1,
        "--ctc-upsample 1 leaves 40 lengths of the 40 .* has 20; .* valid: 2, as in its training",
    ),
    (40, 2, "has 1; .* valid: 21 to 40, as in its training"),
    (12, 11, None),  # three lengths each
)
@pytest.mark.parametrize("length_from", ["mean", "bos"])
def test_other_slots_per_token_than_in_training_are_named(length_from, trained, given, words):
    """--model-overrides "{'ctc_upsample': 3}": the lengths follow from it, but for a model without a denoiser."""
    states = [
        _model(ctc_upsample=trained, length_from=length_from, no_denoising=short)
        for short in (False, True)
    ]
    with pytest.raises(ValueError, match=words) if words else nullcontext():
        _model(ctc_upsample=given, length_from=length_from).load_state_dict(states[0].state_dict())
    alone = _model(ctc_upsample=given, length_from=length_from, no_denoising=True)
    alone.load_state_dict(states[1].state_dict())
    with pytest.raises(RuntimeError, match="denoiser_prompts|size mismatch"):
        _model(ctc_upsample=given, length_from=length_from).load_state_dict(alone.state_dict())
