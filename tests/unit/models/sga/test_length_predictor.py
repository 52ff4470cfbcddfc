"""Length predictor, and what --alignment mask_predict adds to the model: parameters, positions, checkpoints."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fairseq_plugins.models.sga import SGAConfig, SGAModel
from fairseq_plugins.models.sga.length_predictor import LengthPredictor, length_nll
from tests import builders

PREDICTOR = ["length_predictor.projection.bias", "length_predictor.projection.weight"]


def _model(**options: Any) -> SGAModel:
    return builders.sga_model(alignment="mask_predict", **options)


@pytest.mark.parametrize("length_from", ["mean", "bos"])
def test_log_probabilities_of_the_mean_or_of_the_first_token(length_from: str, device: torch.device) -> None:
    """Padding counts neither in the sum nor in the number."""
    predictor = LengthPredictor(4, 6, length_from).double().to(device)
    builders.randomise(predictor, 3)
    hidden = torch.randn(2, 5, 4, dtype=torch.float64, device=device)
    padding = torch.tensor([[False] * 5, [False, False, True, True, True]], device=device)
    found = predictor(hidden, padding)
    (layer,) = predictor.children()
    read = {"mean": (hidden[0].mean(0), hidden[1, :2].mean(0)), "bos": (hidden[0, 0], hidden[1, 0])}[length_from]
    for row, vector in enumerate(read):
        expected = (layer.weight @ vector + layer.bias).log_softmax(-1)
        torch.testing.assert_close(found[row], expected)
    torch.testing.assert_close(found.exp().sum(1), torch.ones(2, dtype=torch.float64, device=device))


def test_column_j_is_j_plus_one_tokens_and_no_tokens_cost_nothing(device: torch.device) -> None:
    log_probs = torch.tensor([[-1.0, -2.0, -3.0]] * 4, device=device, requires_grad=True)
    losses = length_nll(log_probs, torch.tensor([1, 3, 0, 2], device=device))
    assert losses.tolist() == [1.0, 3.0, 0.0, 2.0]
    losses.sum().backward()
    assert log_probs.grad.tolist() == [[-1, 0, 0], [0, 0, -1], [0, 0, 0], [0, -1, 0]]


def test_half_precision_is_normalised_in_float32(device: torch.device) -> None:
    predictor = LengthPredictor(4, 6).bfloat16().to(device)
    hidden = torch.randn(1, 2, 4, device=device).bfloat16()
    assert predictor(hidden, torch.zeros(1, 2, dtype=torch.bool, device=device)).dtype == torch.float32


def test_prompts_semantic_projection_and_length_predictor_train_and_nothing_else() -> None:
    def trainable(model: SGAModel) -> set:
        return {name for name, parameter in model.named_parameters() if parameter.requires_grad}

    assert trainable(_model()) - trainable(builders.sga_model()) == set(PREDICTOR)
    assert trainable(builders.sga_model()) < trainable(_model())
    assert builders.sga_model().length_predictor is None


@pytest.mark.parametrize("length_from", ["mean", "bos"])
def test_the_encoder_unit_is_trained_by_the_length(length_from: str, device: torch.device) -> None:
    model = _model(length_from=length_from).to(device)
    tokens = builders.batch(builders.source_rows([6, 4]))["net_input"]["src_tokens"].to(device)
    length_nll(model.encode(tokens).length_log_probs, torch.tensor([3, 2], device=device)).sum().backward()
    assert bool((model.encoder_prompts.key.grad != 0).any())
    assert model.semantic.key.weight.grad is None  # the length reads h^L itself


@pytest.mark.parametrize("length_from", ["mean", "bos"])
def test_lengths_do_not_depend_on_the_batch(length_from: str, device: torch.device) -> None:
    model, rows = _model(length_from=length_from).double().to(device), builders.source_rows([7, 3, 5])
    batch = builders.batch(rows, extra=2)["net_input"]["src_tokens"].to(device)
    guidance = model.encode(batch)
    kept = guidance.select(torch.tensor([2, 0], device=device))
    torch.testing.assert_close(kept.length_log_probs, guidance.length_log_probs[[2, 0]])
    for row, source in enumerate(rows):
        alone = model.encode(source[None].to(device)).length_log_probs[0]
        torch.testing.assert_close(guidance.length_log_probs[row], alone, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("options", "longest"), [({}, 20), ({"ctc_upsample": 3}, 13), ({"no_denoising": True}, builders.POSITIONS)]
)
def test_the_longest_target_fits_into_the_positions_with_its_slots(options: Any, longest: int) -> None:
    """The source may fill all positions; </s> of the target, which has no slot, is counted by fairseq."""
    model = _model(**options)
    assert model.length_predictor.max_length == longest
    assert model.max_positions() == (builders.POSITIONS, longest + 1)
    assert builders.sga_model(**options).max_positions()[1] == builders.POSITIONS
    with pytest.raises(ValueError, match="max_length must be at least 1 token; got 0"):
        LengthPredictor(4, 0)


def test_tokens_are_duplicated_one_by_one() -> None:
    tokens = torch.tensor([[5, 6], [7, 1]])
    assert _model().duplicate(tokens).tolist() == [[5, 5, 6, 6], [7, 7, 1, 1]]
    assert _model(ctc_upsample=3).duplicate(tokens)[0].tolist() == [5, 5, 5, 6, 6, 6]


# ---- Checkpoints. ----


def test_a_checkpoint_holds_the_length_predictor_and_no_frozen_weights() -> None:
    state = _model().state_dict()
    assert set(PREDICTOR) <= set(state)
    assert [key for key in state if key.startswith("frozen.") and state[key].numel()] == []
    other = _model(seed=9)
    other.load_state_dict(state)
    assert all(torch.equal(value, other.state_dict()[key]) for key, value in state.items())
    with pytest.raises(RuntimeError, match="length_predictor"):
        builders.sga_model().load_state_dict(state)
    with pytest.raises(RuntimeError, match="length_predictor"):
        _model().load_state_dict(builders.sga_model().state_dict())
    with pytest.raises(ValueError, match="another frozen model"):
        builders.sga_model(builders.masked_lm(9), alignment="mask_predict").load_state_dict(state)


@pytest.mark.parametrize(("trained", "given"), [("mean", "bos"), ("bos", "mean")])
def test_a_length_predictor_that_was_trained_to_read_something_else_is_refused(trained: str, given: str) -> None:
    """--model-overrides "{'length_from': 'mean'}": the sizes are the same, so that nothing else would notice."""
    state = _model(length_from=trained).state_dict()
    assert (PREDICTOR[0] in state) == (trained == "mean"), "as in checkpoints before the option"
    with pytest.raises(ValueError, match=f"--length-from {given}: .* --length-from {trained}; valid: {trained}"):
        _model(length_from=given).load_state_dict(state)
    same = _model(length_from=trained, seed=9)
    same.load_state_dict(state)
    tokens = builders.source_rows([6])[0][None]
    expected = _model(length_from=trained).encode(tokens).length_log_probs
    assert torch.equal(same.encode(tokens).length_log_probs, expected)


def test_what_the_length_is_read_from_is_checked() -> None:
    with pytest.raises(ValueError, match="--length-from must be mean or bos; got last"):
        _model(length_from="last")
    with pytest.raises(ValueError, match="--length-from bos: only a model with --alignment mask_predict"):
        builders.sga_model(length_from="bos")


@pytest.mark.parametrize("length_from", ["mean", "bos"])
def test_other_slots_a_token_than_in_training_are_named(length_from: str) -> None:
    """--model-overrides "{'ctc_upsample': 3}": the lengths follow from it."""
    state = _model(length_from=length_from).state_dict()
    for slots, lengths in ((3, 13), (1, 40)):
        with pytest.raises(
            ValueError,
            match=f"--ctc-upsample {slots} leaves {lengths} lengths of the 40 .* has 20; .* valid: 2, as in its",
        ):
            _model(ctc_upsample=slots, length_from=length_from).load_state_dict(state)
    state = _model().state_dict()
    with pytest.raises(ValueError, match="valid: 11 to 13, as in its training"):
        _model(ctc_upsample=2).load_state_dict(_model(ctc_upsample=12).state_dict())
    _model(ctc_upsample=11).load_state_dict(_model(ctc_upsample=12).state_dict())  # three lengths each
    alone = _model(no_denoising=True)  # nothing is duplicated: all positions, whatever the slots
    _model(no_denoising=True, ctc_upsample=3).load_state_dict(alone.state_dict())
    with pytest.raises(RuntimeError, match="denoiser_prompts"):
        _model().load_state_dict(alone.state_dict())
    with pytest.raises(RuntimeError, match="size mismatch"):  # not by its slots
        _model().load_state_dict({**state, "length_predictor.projection.bias": torch.zeros(15)})


def test_a_full_checkpoint_needs_no_pretrained_file() -> None:
    written = _model(frozen_options={"save_weights": True})
    cfg = SGAConfig(
        pretrained_mlm="nowhere", alignment="mask_predict", save_full_model=True, prompt_length=3, encoder_layers=2,
        encoder_embed_dim=builders.WIDTH, encoder_ffn_embed_dim=builders.FFN, encoder_attention_heads=builders.HEADS,
        max_positions=builders.POSITIONS,
    )  # fmt: skip
    task = SimpleNamespace(source_dictionary=builders.dictionary(), from_checkpoint=True)
    read = SGAModel.build_model(cfg, task)
    read.load_state_dict(written.state_dict())
    tokens = builders.source_rows([6])[0][None]
    assert torch.equal(read.eval().encode(tokens).length_log_probs, written.encode(tokens).length_log_probs)
