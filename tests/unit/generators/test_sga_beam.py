"""n-best decoding: the beam searches the states of each sentence's last pass; scores, order, nat_ctc, errors."""

import math

import pytest
import torch
import torch.nn.functional as F

from fairseq_plugins.generators.sga_generator import BeamOptions, IterationOptions, SGAGenerator, beam_options
from fairseq_plugins.ops.ctc import linear_ctc_with_best
from fairseq_plugins.ops.ctc_prefix_beam import linear_prefix_beam
from tests import builders
from tests.unit.models.baselines.test_nat_ctc import build as build_nat

LENGTHS = [7, 4, 6, 5, 9, 3]
NO_TEXT = {builders.PAD, builders.EOS, builders.MASK}  # beside the blank, <s>


def generator(size=4, nbest=4, candidates=5, **options):
    """With the tiny dictionary."""
    passes = IterationOptions(**{"max_iter": 6, **options})
    return SGAGenerator(builders.dictionary(), passes, BeamOptions(size, candidates, nbest))


def model_of(device, **options):
    """Random weights with a likely blank: sentences converge after different numbers of passes."""
    lm = builders.masked_lm(5)
    lm.lm_head.bias.data[builders.BOS] += 2.0
    return builders.sga_model(lm, seed=6, **options).double().to(device)


def decode(chosen, model, rows, device, extra=0):
    return chosen.generate([model], builders.to_device(builders.batch(rows, extra=extra), device))


def last_states(model, source, max_iter):
    """(1, T, C) of the last pass, by a plain loop over one sentence."""
    guidance = model.encode(source[None])
    slots = model.slot_lengths(torch.tensor([len(source)], device=source.device))
    hidden = model.align(guidance, slots)
    tokens = F.linear(hidden, model.masked_lm.output_weight, model.masked_lm.output_bias).argmax(-1)
    for _ in range(max_iter):
        before = tokens
        hidden = model.denoise(tokens, guidance, slots)
        tokens = F.linear(hidden, model.masked_lm.output_weight, model.masked_lm.output_bias).argmax(-1)
        if torch.equal(before, tokens):
            break
    return hidden


@pytest.mark.parametrize("max_iter", [0, 1, 6])
def test_hypotheses_are_the_outputs_of_each_sentences_last_pass(max_iter, device):
    model, rows = model_of(device), builders.source_rows(LENGTHS)
    found = decode(generator(max_iter=max_iter), model, rows, device, extra=2)
    if max_iter == 6:
        assert len({sentence[0]["steps"] for sentence in found}) >= 3, "sentences should stop at different passes"
    for source, sentence in zip(rows, found):
        states, lengths = (
            last_states(model, source.to(device), max_iter),
            torch.tensor([2 * len(source)], device=device),
        )
        weight, bias = model.masked_lm.output_weight, model.masked_lm.output_bias
        expected = linear_prefix_beam(states, weight, bias, lengths, model.blank, 4, 5, excluded=NO_TEXT)
        assert len(sentence) == 4
        for number, hypothesis in enumerate(sentence):
            length = int(expected.lengths[0, number])
            assert hypothesis["tokens"].tolist() == (expected.labels[0, number, :length].tolist() or [builders.EOS])
            torch.testing.assert_close(hypothesis["score"], expected.scores[0, number], rtol=1e-9, atol=1e-9)
            assert hypothesis["ctc_score"] == hypothesis["score"]
            assert float(hypothesis["positional_scores"].sum()) == pytest.approx(float(hypothesis["score"]))
            assert len(hypothesis["positional_scores"]) == len(hypothesis["tokens"])
            empty = hypothesis["tokens"].tolist() == [builders.EOS]
            labels = hypothesis["tokens"][:0] if empty else hypothesis["tokens"]
            weight, bias = model.masked_lm.output_weight, model.masked_lm.output_bias
            count = torch.tensor([len(labels)], device=device)
            loss, _ = linear_ctc_with_best(states, weight, bias, labels[None], lengths, count, model.blank)
            torch.testing.assert_close(hypothesis["score"], -loss[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("blank", [builders.BOS, builders.MASK])
def test_special_symbols_are_in_no_hypothesis(blank, device):
    """fairseq strips them from the text; the likeliest tokens here."""
    lm = builders.masked_lm(5)
    special = sorted(NO_TEXT | {builders.BOS})
    lm.lm_head.bias.data[special] += 6.0
    lm.lm_head.bias.data[builders.UNK] += 4.0
    model = builders.sga_model(lm, seed=6, blank=blank).double().to(device)
    written = [
        set(hypothesis["tokens"].tolist())
        for sentence in decode(generator(6, 6, max_iter=1), model, builders.source_rows(LENGTHS), device)
        for hypothesis in sentence
    ]
    assert all(tokens == {builders.EOS} or not tokens & set(special) for tokens in written)
    assert sum(tokens != {builders.EOS} for tokens in written) > 20
    assert any(builders.UNK in tokens for tokens in written), "<unk> is text"


def test_a_sentence_with_few_outputs_has_few_hypotheses_and_the_empty_one_is_eos(device):
    """Three tokens a sentence, one slot each, one candidate beside the blank."""
    lm = builders.masked_lm(5)
    lm.lm_head.bias.data[builders.BOS] += 100.0
    model = builders.sga_model(lm, ctc_upsample=1, no_denoising=True).double().to(device)
    (sentence,) = decode(generator(30, 30, candidates=1), model, builders.source_rows([3]), device)
    assert 2 <= len(sentence) < 30
    assert sentence[0]["tokens"].tolist() == [builders.EOS]
    assert sentence[0]["positional_scores"].shape == (1,)
    assert all(math.isfinite(float(hypothesis["score"])) for hypothesis in sentence)


def test_nat_ctc_has_the_same_beam(device):
    model = build_nat().double().to(device)
    rows = builders.source_rows([6, 3])
    found = decode(generator(), model, rows, device)
    for source, sentence in zip(rows, found):
        lengths = torch.tensor([2 * len(source)], device=device)
        states = model.align(model.encode(source[None].to(device)), lengths)
        weight = model.decoder.output_projection.weight
        excluded = (NO_TEXT | {builders.BOS}) - {model.blank}
        expected = linear_prefix_beam(states, weight, None, lengths, model.blank, 4, 5, excluded=excluded)
        scores = torch.stack([hypothesis["score"] for hypothesis in sentence])
        torch.testing.assert_close(scores, expected.scores[0], rtol=1e-5, atol=1e-5)


def test_passes_and_history_are_those_of_the_best_path_and_nbest_cuts(device):
    model, rows = model_of(device), builders.source_rows(LENGTHS)
    plain = decode(generator(0, 1, retain_history=True), model, rows, device)
    whole, cut = (decode(generator(4, nbest, retain_history=True), model, rows, device) for nbest in (4, 2))
    for first, many, few in zip(plain, whole, cut):
        assert len(first) == 1 and "ctc_score" not in first[0]
        assert [h["tokens"].tolist() for h in few] == [h["tokens"].tolist() for h in many[:2]]
        for hypothesis in many:
            assert hypothesis["steps"] == first[0]["steps"]
            for one, other in zip(hypothesis["history"], first[0]["history"]):
                assert one["tokens"].tolist() == other["tokens"].tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((-1, None, 1, False), "--iter-decode-ctc-beam must be 0 .* got -1"),
        ((4, 0, 1, False), "--iter-decode-ctc-candidates must be at least 1 .* got 0"),
        ((0, 20, 1, False), "--iter-decode-ctc-candidates 20: .*--iter-decode-ctc-beam of at least 1; got 0"),
        ((3, None, 4, False), r"--nbest must lie in \[1, 3\] with --iter-decode-ctc-beam 3 .* got 4"),
        ((0, None, 2, False), r"--nbest must lie in \[1, 1\] with --iter-decode-ctc-beam 0 .* got 2"),
        ((3, None, 0, False), "--nbest must lie in .* got 0"),
        ((1, None, 1, True), "--iter-decode-ctc-beam of at least 2; got 1"),
    ],
)
def test_options_are_compared(options, message):
    with pytest.raises(ValueError, match=message):
        beam_options(*options)
    assert beam_options(0, None, 1, False) == BeamOptions(0, 20, 1)
    assert beam_options(2, 1, 2, True) == BeamOptions(2, 1, 2)
