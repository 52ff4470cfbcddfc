"""Test guidance that starts from TLM: slots first read the source like the frozen model."""

import pytest
import torch

from fairseq_plugins.sga.tlm_start import TLMProjection
from tests import builders
from tests.reference.loops import attend, embed, feed_forward, sublayer

SOURCES = [5, 3, 4]


def tlm_model(**options):
    """Build a model without prompts whose W_K and W_V are zero."""
    options = {"prompt_length": 0, "slot_positions": "continue", **options}
    model = builders.sga_model(seed=5, guidance_start="tlm", **options)
    for parameter in model.semantic.parameters():
        parameter.data.zero_()
    return model.double()


def test_the_projections_start_at_zero():
    semantic = TLMProjection(builders.WIDTH, builders.HEADS)
    assert not any(bool(parameter.any()) for parameter in semantic.parameters())


def joint_states(model, source, slots):
    """Encode [source; slots] by loops; the source does not see the slots. Return their states."""
    encoder, first = model.masked_lm.sentence_encoder, builders.PAD + 1
    tokens = [*source.tolist(), *[model.mask] * slots]
    states = embed(encoder, tokens, range(first, first + len(tokens)))

    for layer in encoder.layers:

        def attention(xs, layer=layer):
            visible = [xs[: len(source)]] * len(source) + [xs] * slots
            return attend(layer.self_attn, xs, visible, builders.HEADS)

        states = sublayer(layer.self_attn_layer_norm, states, attention)
        states = sublayer(
            layer.final_layer_norm,
            states,
            lambda xs, layer=layer: feed_forward(layer.fc1, layer.fc2, xs),
        )
    return torch.stack(states[len(source) :])


@torch.no_grad()
def test_the_start_is_the_frozen_model_over_source_and_slots():
    """Compare without prompts, low-rank updates and W; slots continue the source's positions."""
    model = tlm_model()
    sources = builders.source_rows(SOURCES)
    sample = builders.batch(sources, extra=2)["net_input"]
    guidance, slots = model.encode(sample["src_tokens"]), model.slot_lengths(sample["src_lengths"])
    states = model.unit_states(
        model.blank_sentence(slots), slots, model.alignment_prompts, guidance
    )
    for row, source in enumerate(sources):
        expected = joint_states(model, source, int(slots[row]))
        torch.testing.assert_close(states[row, : slots[row]], expected, rtol=0, atol=1e-10)


def test_the_projections_are_added_and_trained():
    """K_s^l = k_l(h^(l-1)) + W_K h^l: the frozen part is constant, W_K and W_V get gradients."""
    model = tlm_model(prompt_length=2)
    frozen = model.encode(builders.batch(builders.source_rows(SOURCES))["net_input"]["src_tokens"])
    with torch.no_grad():
        for linear in (model.semantic.key, model.semantic.value):
            linear.weight.normal_()
    states, padding_mask = model.encoder_states(
        builders.batch(builders.source_rows(SOURCES))["net_input"]["src_tokens"]
    )
    guidance = model.guide(states, padding_mask)
    for layer, (before, after) in enumerate(zip(frozen.prefix, guidance.prefix)):
        for start, trained, projected in zip(
            before, after, model.semantic.project(states[layer + 1])
        ):
            torch.testing.assert_close(trained - start, projected)
    losses = builders.forward_losses(model, builders.sample("cpu"))
    losses["alignment"].sum().backward()
    assert model.semantic.key.weight.grad.abs().max() > 0
    assert model.masked_lm.sentence_encoder.layers[0].self_attn.k_proj.weight.grad is None


@pytest.mark.parametrize("start", ["xavier", "tlm"])
@torch.no_grad()
def test_slots_that_continue_give_a_batch_what_single_sentences_get(start):
    """The offset of a sentence is its own length, not that of the padded batch."""
    model = (
        tlm_model(prompt_length=2)
        if start == "tlm"
        else builders.sga_model(slot_positions="continue").double()
    )
    sources = builders.source_rows(SOURCES)
    together = builders.forward_losses(
        model, builders.batch(sources, builders.target_rows([4, 2, 1]), extra=3)
    )
    for row, (source, target) in enumerate(zip(sources, builders.target_rows([4, 2, 1]))):
        alone = builders.forward_losses(model, builders.batch([source], [target]))
        for name in together:
            torch.testing.assert_close(together[name][row], alone[name][0], rtol=1e-10, atol=1e-10)
