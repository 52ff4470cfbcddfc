"""Decoding equals a plain loop over one sentence; batch = single, empty hypotheses, evaluation mode, errors."""

from argparse import Namespace

import pytest
import torch
import torch.nn.functional as F

from fairseq_plugins.sga.decoding import IterationOptions, SGAGenerator
from fairseq_plugins.sga.extensions.prefix_beam import BeamOptions, PrefixBeamGenerator
from tests import builders

LENGTHS = [7, 4, 6, 5, 9, 3]


def likely_blank(device, bias=2.0, **options):
    """Random weights: sentences converge after different numbers of passes."""
    lm = builders.masked_lm(5)
    lm.lm_head.bias.data[builders.BOS] += bias
    return builders.sga_model(lm, seed=6, **options).double().to(device)


def decode(model, rows, device, extra=0, max_iter=9, beam=None, **options):
    iterations = IterationOptions(max_iter, **options)
    if beam is None:
        generator = SGAGenerator(builders.dictionary(), iterations)
    else:
        generator = PrefixBeamGenerator(builders.dictionary(), iterations, beam)
    return generator.generate([model], builders.to_device(builders.batch(rows, extra=extra), device))


def plain_passes(model, source, max_iter, adaptive=True):
    """States, tokens and log-probabilities of the alignment and of every pass, until nothing changes (Eq. 6)."""
    guidance = model.encode(source[None])
    slots = model.slot_lengths(torch.tensor([len(source)], device=source.device))

    def written(hidden):
        best = F.linear(hidden, model.masked_lm.output_weight, model.masked_lm.output_bias).log_softmax(-1).max(-1)
        return hidden, best.indices[0], best.values[0]

    found = [written(model.align(guidance, slots))]
    while len(found) <= max_iter and not (adaptive and len(found) > 1 and torch.equal(found[-1][1], found[-2][1])):
        found.append(written(model.denoise(found[-1][1][None], guidance, slots)))
    return found


def kept(tokens, blank):
    tokens = tokens.tolist()
    return [n for n, token in enumerate(tokens) if token != blank and (n == 0 or token != tokens[n - 1])]


@pytest.mark.parametrize("beam", [None, BeamOptions(3, 5, 2)])
@pytest.mark.parametrize("max_iter", [0, 3])
def test_a_penalty_of_the_blank_is_a_lower_bias_in_every_pass(max_iter, beam, device):
    def outputs(bias, blank_bias=0.0, **options):
        model = likely_blank(device, bias, ctc_blank_bias=blank_bias)
        found = decode(model, builders.source_rows(LENGTHS), device, max_iter=max_iter, beam=beam, **options)
        hypotheses = [one for sentence in found for one in sentence]
        return [one["tokens"].tolist() for one in hypotheses], torch.stack([one["score"] for one in hypotheses])

    expected = outputs(0.5)
    for tokens, scores in (outputs(8.0, blank_penalty=7.5), outputs(5.0, blank_bias=3.0, blank_penalty=7.5)):
        assert tokens == expected[0] != outputs(8.0)[0]
        torch.testing.assert_close(scores, expected[1])


@pytest.mark.parametrize(("max_iter", "adaptive"), [(9, True), (1, True), (0, True), (3, False)])
def test_decoding_equals_a_plain_loop(max_iter, adaptive, device):
    """The loop does all passes of a sentence whose outputs come in a cycle."""
    model, cycles = likely_blank(device), 0
    for source in builders.source_rows(LENGTHS):
        loop = plain_passes(model, source.to(device), max_iter, adaptive)
        expected = [tokens[kept(tokens, model.blank)].tolist() for _, tokens, _ in loop]
        options = {"max_iter": max_iter, "adaptive": adaptive}
        ((found,),) = decode(model, [source], device, retain_history=True, **options)
        assert found["tokens"].tolist() == expected[-1]
        tokens, log_probs = (part.cpu() for part in loop[-1][1:])
        torch.testing.assert_close(found["score"], log_probs.mean(), rtol=1e-9, atol=1e-9)
        positional = log_probs[kept(tokens, model.blank)]
        torch.testing.assert_close(found["positional_scores"], positional, rtol=1e-9, atol=1e-9)
        assert [entry["tokens"].tolist() for entry in found["history"]] == expected[: found["steps"] + 1]
        cycles += found["steps"] < len(loop) - 1
        assert found["steps"] == len(loop) - 1 or (max_iter == 9 and not torch.equal(tokens, loop[-2][1].cpu()))
        assert "history" not in decode(model, [source], device, **options)[0][0]
    assert (cycles > 0) == (max_iter == 9), "a sentence of this test should go round"


@pytest.mark.parametrize("options", [{}, {"fill_blanks": True}, {"no_denoising": True}, {"ctc_upsample": 3}])
def test_a_sentence_decodes_the_same_alone_and_in_any_batch(options, device):
    model, rows = likely_blank(device, **options), builders.source_rows(LENGTHS)
    together, padded = decode(model, rows, device), decode(model, rows[::-1], device, extra=3)[::-1]
    steps = {sentence[0]["steps"] for sentence in together}
    assert steps == {0} if options.get("no_denoising") else len(steps) >= (1 if options else 3)
    for row, source in enumerate(rows):
        alone = decode(model, [source], device)[0][0]
        for (found,) in (together[row], padded[row]):
            assert found["tokens"].tolist() == alone["tokens"].tolist()
            assert found["steps"] == alone["steps"]
            for key in ("score", "positional_scores"):
                torch.testing.assert_close(found[key], alone[key], rtol=1e-9, atol=1e-9)


def test_nothing_but_blanks_is_an_empty_sentence_as_in_stock(device):
    """``</s>`` alone: fairseq's BLEU scorer crashes on a hypothesis without tokens."""
    for (hypothesis,) in decode(likely_blank(device, 100.0), builders.source_rows([4, 6]), device):
        assert hypothesis["tokens"].tolist() == [builders.EOS]
        assert hypothesis["positional_scores"].shape == (1,)
        assert bool(hypothesis["score"].isfinite())


def test_errors_name_what_is_wrong(device):
    model = builders.sga_model().to(device)
    sample = builders.to_device(builders.batch(builders.source_rows([4])), device)
    one = torch.zeros(1, 1, dtype=torch.int64, device=device)
    for models, more, message in (([model] * 2, {}, "one model.*2"), ([model], {"prefix_tokens": one}, "prefix")):
        with pytest.raises(ValueError, match=message):
            SGAGenerator(builders.dictionary(), IterationOptions(1)).generate(models, sample, **more)


@pytest.mark.parametrize("alignment", ["ctc", "mask_predict"])
def test_decoding_is_in_evaluation_mode_and_without_gradient(alignment, device):
    lm = builders.masked_lm(5, dropout=0.5, attention_dropout=0.5)
    model = builders.sga_model(lm, alignment=alignment, frozen_options={"train_dropout": True}).to(device)
    sample, results = builders.to_device(builders.batch(builders.source_rows([7, 5])), device), []
    for _ in range(2):
        model.train()
        made = builders.task().build_generator([model], Namespace(iter_decode_max_iter=9))
        results.append(made.generate([model], sample))
    first, second = ([sentence[0]["tokens"].tolist() for sentence in result] for result in results)
    assert first == second
    assert not results[0][0][0]["score"].requires_grad
