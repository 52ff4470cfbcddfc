"""Test decoding against a plain loop over one sentence; batch = single, empty outputs, errors."""

from argparse import Namespace

import pytest
import torch
import torch.nn.functional as F

from fairseq_plugins.sga.decoding import IterationOptions, SGAGenerator
from fairseq_plugins.sga.extensions.prefix_beam import BeamOptions
from tests import builders
from tests.unit.sga.decoding import (
    ROWS,
    check_batch_equals_single,
    decode,
    history_tokens,
    likely_blank,
    output_tokens,
)


def run_passes(model, source, max_iter, adaptive=True):
    """Return states, tokens and log-probabilities of every pass, until nothing changes (Eq. 6)."""
    guidance = model.encode(source[None])
    slots = model.slot_lengths(torch.tensor([len(source)], device=source.device))

    def read(hidden):
        logits = F.linear(hidden, model.masked_lm.output_weight, model.masked_lm.output_bias)
        best = logits.log_softmax(-1).max(-1)
        return hidden, best.indices[0], best.values[0]

    passes = [read(model.align(guidance, slots))]
    while len(passes) <= max_iter:
        tokens = passes[-1][1]
        if adaptive and len(passes) > 1 and torch.equal(tokens, passes[-2][1]):
            break
        passes.append(read(model.denoise(tokens[None], guidance, slots)))
    return passes


def collapsed_slots(tokens, blank):
    """Return the slots whose tokens the collapse leaves."""
    slots, previous = [], None
    for slot, token in enumerate(tokens.tolist()):
        if token not in (blank, previous):
            slots.append(slot)
        previous = token
    return slots


@pytest.mark.cases("max_iter adaptive", (9, True), (1, True), (0, True), (3, False))
def test_decoding_equals_a_plain_loop(max_iter, adaptive, device):
    """The loop runs all passes of a sentence whose outputs come in a cycle."""
    model, cycles = likely_blank(device), 0
    options = {"max_iter": max_iter, "adaptive": adaptive}
    for source in ROWS:
        passes = run_passes(model, source.to(device), max_iter, adaptive)
        expected = [
            tokens[collapsed_slots(tokens, model.blank)].tolist() for _, tokens, _ in passes
        ]
        ((hypothesis,),) = decode(model, [source], retain_history=True, **options)
        assert hypothesis["tokens"].tolist() == expected[-1]
        tokens, log_probs = (part.cpu() for part in passes[-1][1:])
        scores = log_probs[collapsed_slots(tokens, model.blank)]
        close = {"rtol": 1e-9, "atol": 1e-9}
        torch.testing.assert_close(hypothesis["score"], log_probs.mean(), **close)
        torch.testing.assert_close(hypothesis["positional_scores"], scores, **close)
        steps = hypothesis["steps"]
        assert history_tokens(hypothesis) == expected[: steps + 1]
        if steps < len(passes) - 1:
            cycles += 1
            assert not torch.equal(tokens, passes[-2][1].cpu())
        assert "history" not in decode(model, [source], **options)[0][0]
    assert (cycles > 0) == (max_iter == 9), "outputs of a sentence should come in a cycle"


@pytest.mark.parametrize("beam", [None, BeamOptions(3, 5, 2)])
@pytest.mark.parametrize("max_iter", [0, 3])
def test_a_blank_penalty_equals_a_lower_bias_in_every_pass(max_iter, beam, device):
    def outputs(bias, blank_bias=0.0, **options):
        model = likely_blank(device, bias, ctc_blank_bias=blank_bias)
        sentences = decode(model, max_iter=max_iter, beam=beam, **options)
        hypotheses = [hypothesis for sentence in sentences for hypothesis in sentence]
        tokens = [hypothesis["tokens"].tolist() for hypothesis in hypotheses]
        return tokens, torch.stack([hypothesis["score"] for hypothesis in hypotheses])

    tokens, scores = outputs(0.5)
    assert tokens != outputs(8.0)[0]
    for penalised_tokens, penalised_scores in (
        outputs(8.0, blank_penalty=7.5),
        outputs(5.0, blank_bias=3.0, blank_penalty=7.5),
    ):
        assert penalised_tokens == tokens
        torch.testing.assert_close(penalised_scores, scores)


@pytest.mark.parametrize(
    "options", [{}, {"fill_blanks": True}, {"no_denoising": True}, {"ctc_upsample": 3}]
)
def test_a_sentence_decodes_the_same_alone_and_in_any_batch(options, device):
    model = likely_blank(device, **options)
    batch = check_batch_equals_single(lambda rows, extra: decode(model, rows, extra))
    steps = {sentence[0]["steps"] for sentence in batch}
    if options.get("no_denoising"):
        assert steps == {0}
    elif not options:
        assert len(steps) >= 3, "sentences should stop after different passes"


def test_an_output_of_blanks_is_eos_alone(device):
    """fairseq's BLEU scorer crashes on a hypothesis without tokens."""
    for (hypothesis,) in decode(likely_blank(device, 100.0), ROWS[:2]):
        assert hypothesis["tokens"].tolist() == [builders.EOS]
        assert hypothesis["positional_scores"].shape == (1,)
        assert bool(hypothesis["score"].isfinite())


def test_ensembles_and_prefixes_are_refused(device):
    model = builders.sga_model().to(device)
    sample = builders.to_device(builders.batch(ROWS[:1]), device)
    generator = SGAGenerator(builders.dictionary(), IterationOptions(1))
    with pytest.raises(ValueError, match="one model.*2"):
        generator.generate([model, model], sample)
    with pytest.raises(ValueError, match="prefix"):
        generator.generate([model], sample, prefix_tokens=torch.zeros(1, 1, device=device).long())


@pytest.mark.parametrize("alignment", ["ctc", "mask_predict"])
def test_decoding_is_in_evaluation_mode_and_without_gradient(alignment, device):
    masked_lm = builders.masked_lm(5, dropout=0.5, attention_dropout=0.5)
    model = builders.sga_model(
        masked_lm, alignment=alignment, frozen_options={"train_dropout": True}
    ).to(device)
    sample, outputs = builders.to_device(builders.batch(ROWS[:2]), device), []
    for _ in range(2):
        model.train()
        generator = builders.task().build_generator([model], Namespace(iter_decode_max_iter=9))
        sentences = generator.generate([model], sample)
        assert not sentences[0][0]["score"].requires_grad
        outputs.append(output_tokens(sentences))
    assert outputs[0] == outputs[1]
