"""Test n-best decoding: the beam searches the last pass of each sentence; scores, order, errors."""

from argparse import Namespace

import pytest
import torch

from fairseq_plugins.sga.decoding import SGAGenerator
from fairseq_plugins.sga.extensions.prefix_beam import (
    BeamOptions,
    PrefixBeamGenerator,
    linear_prefix_beam,
)
from tests import builders
from tests.unit.baselines.test_nat_ctc import build as build_nat
from tests.unit.sga.decoding import ROWS, decode, history_tokens, likely_blank, output_tokens
from tests.unit.sga.test_decoding import run_passes

SPECIAL = {builders.BOS, builders.PAD, builders.EOS, builders.MASK}
BEAM = BeamOptions(4, 5, 4)


def search(model, states, lengths, weight, bias):
    """Return tokens and scores of a search over the last states of one sentence."""
    options = {"excluded": SPECIAL - {model.blank}}
    beam = linear_prefix_beam(states, weight, bias, lengths, model.blank, 4, 5, **options)
    rows = zip(beam.labels[0].tolist(), beam.lengths[0].tolist())
    return [row[:length] or [builders.EOS] for row, length in rows], beam.scores[0].cpu()


def tokens_of(hypotheses):
    return [hypothesis["tokens"].tolist() for hypothesis in hypotheses]


@pytest.mark.parametrize("max_iter", [0, 1, 6])
def test_hypotheses_are_the_outputs_of_the_last_pass(max_iter, device):
    model = likely_blank(device)
    sentences = decode(model, extra=2, max_iter=max_iter, beam=BEAM)
    if max_iter == 6:
        steps = {hypotheses[0]["steps"] for hypotheses in sentences}
        assert len(steps) >= 3, "sentences should stop after different passes"
    projection = model.masked_lm.output_weight, model.masked_lm.output_bias
    for source, hypotheses in zip(ROWS, sentences):
        states = run_passes(model, source.to(device), max_iter)[-1][0]
        slots = torch.tensor([2 * len(source)], device=device)
        tokens, scores = search(model, states, slots, *projection)
        assert tokens_of(hypotheses) == tokens
        for hypothesis, score in zip(hypotheses, scores):
            torch.testing.assert_close(hypothesis["score"], score, rtol=1e-9, atol=1e-9)
            assert hypothesis["ctc_score"] == hypothesis["score"]
            count = len(hypothesis["tokens"])
            shares = (score / count).expand(count)
            torch.testing.assert_close(hypothesis["positional_scores"], shares)


def test_a_bonus_is_in_the_score_and_makes_outputs_longer(device):
    model, lengths = likely_blank(device), []
    for bonus in (0.0, 2.0):
        sentences = decode(model, max_iter=0, beam=BEAM._replace(bonus=bonus))
        for hypotheses in sentences:
            for hypothesis in hypotheses:
                tokens = [token for token in hypothesis["tokens"].tolist() if token != builders.EOS]
                expected = hypothesis["ctc_score"] + bonus * len(tokens)
                torch.testing.assert_close(hypothesis["score"], expected)
            scores = [float(hypothesis["score"]) for hypothesis in hypotheses]
            assert scores == sorted(scores, reverse=True)
        lengths.append(sum(map(len, output_tokens(sentences))))
    assert lengths[1] > lengths[0]


@pytest.mark.parametrize("blank", [builders.BOS, builders.MASK])
def test_special_symbols_are_in_no_hypothesis_but_unk_is_text(blank, device):
    masked_lm = builders.masked_lm(5)
    masked_lm.lm_head.bias.data[sorted(SPECIAL)] += 6.0
    masked_lm.lm_head.bias.data[builders.UNK] += 4.0
    model = builders.sga_model(masked_lm, seed=6, blank=blank).double().to(device)
    outputs = []
    for hypotheses in decode(model, max_iter=1, beam=BeamOptions(6, 5, 6)):
        outputs += [set(tokens) for tokens in tokens_of(hypotheses) if tokens != [builders.EOS]]
    assert len(outputs) > 20
    assert not any(tokens & SPECIAL for tokens in outputs)
    assert any(builders.UNK in tokens for tokens in outputs)


def test_a_sentence_with_few_outputs_has_few_hypotheses_and_the_empty_one_is_eos(device):
    """The sentence has three slots, with one candidate beside the blank in each."""
    model = likely_blank(device, 100.0, ctc_upsample=1, no_denoising=True)
    (hypotheses,) = decode(model, builders.source_rows([3]), beam=BeamOptions(30, 1, 30))
    assert 2 <= len(hypotheses) < 30
    assert hypotheses[0]["tokens"].tolist() == [builders.EOS]
    assert hypotheses[0]["positional_scores"].shape == (1,)
    assert all(bool(hypothesis["score"].isfinite()) for hypothesis in hypotheses)


def test_nat_ctc_has_the_same_beam(device):
    model, rows = build_nat().double().to(device), builders.source_rows([6, 3])
    for source, hypotheses in zip(rows, decode(model, rows, beam=BEAM)):
        lengths = torch.tensor([2 * len(source)], device=device)
        states = model.align(model.encode(source[None].to(device)), lengths)
        _, expected = search(model, states, lengths, model.decoder.output_projection.weight, None)
        scores = torch.stack([hypothesis["score"] for hypothesis in hypotheses])
        torch.testing.assert_close(scores, expected, rtol=1e-5, atol=1e-5)


def test_the_beam_changes_neither_passes_nor_history_and_nbest_cuts_it(device):
    model = likely_blank(device)
    plain, beam, short = (
        decode(model, beam=options, retain_history=True)
        for options in (None, BEAM, BEAM._replace(nbest=2))
    )
    for (best_path,), hypotheses, short_list in zip(plain, beam, short):
        assert "ctc_score" not in best_path
        assert tokens_of(short_list) == tokens_of(hypotheses[:2])
        for hypothesis in hypotheses:
            assert hypothesis["steps"] == best_path["steps"]
            pairs = zip(history_tokens(hypothesis), history_tokens(best_path))
            assert all(ours == theirs for ours, theirs in pairs)


@pytest.mark.cases(
    "size candidates nbest reranker message",
    (-1, None, 1, None, "--iter-decode-ctc-beam must be 0 .* got -1"),
    (0, 20, 1, None, "--iter-decode-ctc-candidates 20: .*--iter-decode-ctc-beam .*; got 0"),
    (2, 0, 1, None, "--iter-decode-ctc-candidates .* got 0"),
    (3, None, 4, None, r"--nbest must lie in \[1, 3\] .* got 4"),
    (0, None, 2, None, r"--nbest must lie in \[1, 1\] .* got 2"),
    (1, None, 1, "at.pt", "--iter-decode-ctc-beam of at least 2; got 1"),
)
def test_wrong_options_are_named(size, candidates, nbest, reranker, message):
    task = builders.task(
        iter_decode_ctc_beam=size, iter_decode_ctc_candidates=candidates, rerank_at=reranker
    )
    with pytest.raises(ValueError, match=message):
        task.build_generator([], Namespace(nbest=nbest))


@pytest.mark.cases(
    "cfg nbest beam",
    ({}, 1, None),
    ({"iter_decode_ctc_beam": 3}, 2, BeamOptions(3, 20, 2)),
    (
        {
            "iter_decode_ctc_beam": 2,
            "iter_decode_ctc_candidates": 1,
            "iter_decode_ctc_bonus": 0.5,
        },
        1,
        BeamOptions(2, 1, 1, 0.5),
    ),
)
def test_the_task_builds_the_generator_with_a_beam(cfg, nbest, beam):
    generator = builders.task(**cfg).build_generator([], Namespace(nbest=nbest))
    if beam is None:
        assert type(generator) is SGAGenerator
    else:
        assert type(generator) is PrefixBeamGenerator and generator.beam == beam
