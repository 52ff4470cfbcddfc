"""n-best decoding: the beam searches the states of each sentence's last pass; scores, order, nat_ctc, errors."""

from argparse import Namespace

import pytest
import torch

from fairseq_plugins.sga.decoding import SGAGenerator
from fairseq_plugins.sga.extensions.prefix_beam import BeamOptions, PrefixBeamGenerator, linear_prefix_beam
from tests import builders
from tests.unit.baselines.test_nat_ctc import build as build_nat
from tests.unit.sga.test_decoding import LENGTHS, decode, likely_blank, plain_passes

NO_TEXT = {builders.PAD, builders.EOS, builders.MASK}  # beside the blank, <s>
BEAM = BeamOptions(4, 5, 4)


def expected(model, states, lengths, weight, bias):
    """Tokens and scores of the search over the last states of one sentence."""
    excluded = (NO_TEXT | {builders.BOS}) - {model.blank}
    found = linear_prefix_beam(states, weight, bias, lengths, model.blank, 4, 5, excluded=excluded)
    rows = zip(found.labels[0].tolist(), found.lengths[0].tolist())
    return [row[:length] or [builders.EOS] for row, length in rows], found.scores[0].cpu()


@pytest.mark.parametrize("max_iter", [0, 1, 6])
def test_hypotheses_are_the_outputs_of_each_sentences_last_pass(max_iter, device):
    model, rows = likely_blank(device), builders.source_rows(LENGTHS)
    found = decode(model, rows, device, extra=2, max_iter=max_iter, beam=BEAM)
    if max_iter == 6:
        assert len({sentence[0]["steps"] for sentence in found}) >= 3, "sentences should stop at different passes"
    for source, sentence in zip(rows, found):
        states = plain_passes(model, source.to(device), max_iter)[-1][0]
        slots = torch.tensor([2 * len(source)], device=device)
        projection = model.masked_lm.output_weight, model.masked_lm.output_bias
        tokens, scores = expected(model, states, slots, *projection)
        assert [hypothesis["tokens"].tolist() for hypothesis in sentence] == tokens
        for hypothesis, score in zip(sentence, scores):
            torch.testing.assert_close(hypothesis["score"], score, rtol=1e-9, atol=1e-9)
            assert hypothesis["ctc_score"] == hypothesis["score"]
            shares = hypothesis["positional_scores"]
            torch.testing.assert_close(shares, (score / len(hypothesis["tokens"])).expand(len(hypothesis["tokens"])))


def test_a_bonus_is_in_the_score_and_makes_outputs_longer(device):
    model, rows, lengths = likely_blank(device), builders.source_rows(LENGTHS), []
    for bonus in (0.0, 2.0):
        found = decode(model, rows, device, max_iter=0, beam=BEAM._replace(bonus=bonus))
        for hypothesis in (hypothesis for sentence in found for hypothesis in sentence):
            count = 0 if hypothesis["tokens"].tolist() == [builders.EOS] else len(hypothesis["tokens"])
            torch.testing.assert_close(hypothesis["score"], hypothesis["ctc_score"] + bonus * count)
        assert all(float(a["score"]) >= float(b["score"]) for one in found for a, b in zip(one, one[1:]))
        lengths.append(sum(len(sentence[0]["tokens"]) for sentence in found))
    assert lengths[1] > lengths[0]


@pytest.mark.parametrize("blank", [builders.BOS, builders.MASK])
def test_special_symbols_are_in_no_hypothesis(blank, device):
    lm = builders.masked_lm(5)
    special = sorted(NO_TEXT | {builders.BOS})
    lm.lm_head.bias.data[special] += 6.0
    lm.lm_head.bias.data[builders.UNK] += 4.0
    model = builders.sga_model(lm, seed=6, blank=blank).double().to(device)
    sentences = decode(model, builders.source_rows(LENGTHS), device, max_iter=1, beam=BeamOptions(6, 5, 6))
    written = [set(hypothesis["tokens"].tolist()) for sentence in sentences for hypothesis in sentence]
    assert all(tokens == {builders.EOS} or not tokens & set(special) for tokens in written)
    assert sum(tokens != {builders.EOS} for tokens in written) > 20
    assert any(builders.UNK in tokens for tokens in written), "<unk> is text"


def test_a_sentence_with_few_outputs_has_few_hypotheses_and_the_empty_one_is_eos(device):
    """Three tokens per sentence, one slot each, one candidate beside the blank."""
    model = likely_blank(device, 100.0, ctc_upsample=1, no_denoising=True)
    (sentence,) = decode(model, builders.source_rows([3]), device, beam=BeamOptions(30, 1, 30))
    assert 2 <= len(sentence) < 30
    assert sentence[0]["tokens"].tolist() == [builders.EOS]
    assert sentence[0]["positional_scores"].shape == (1,)
    assert all(bool(hypothesis["score"].isfinite()) for hypothesis in sentence)


def test_nat_ctc_has_the_same_beam(device):
    model, rows = build_nat().double().to(device), builders.source_rows([6, 3])
    for source, sentence in zip(rows, decode(model, rows, device, beam=BEAM)):
        lengths = torch.tensor([2 * len(source)], device=device)
        states = model.align(model.encode(source[None].to(device)), lengths)
        _, scores = expected(model, states, lengths, model.decoder.output_projection.weight, None)
        found = torch.stack([hypothesis["score"] for hypothesis in sentence])
        torch.testing.assert_close(found, scores, rtol=1e-5, atol=1e-5)


def test_passes_and_history_are_those_of_the_best_path_and_nbest_cuts(device):
    model, rows = likely_blank(device), builders.source_rows(LENGTHS)
    beams = (None, BEAM, BeamOptions(4, 5, 2))
    for (plain,), many, few in zip(*(decode(model, rows, device, beam=one, retain_history=True) for one in beams)):
        assert "ctc_score" not in plain
        assert [h["tokens"].tolist() for h in few] == [h["tokens"].tolist() for h in many[:2]]
        for hypothesis in many:
            assert hypothesis["steps"] == plain["steps"]
            for one, other in zip(hypothesis["history"], plain["history"]):
                assert one["tokens"].tolist() == other["tokens"].tolist()


@pytest.mark.cases(
    "size candidates nbest reranker words",
    (-1, None, 1, None, "--iter-decode-ctc-beam must be 0 .* got -1"),
    (0, 20, 1, None, "--iter-decode-ctc-candidates 20: .*--iter-decode-ctc-beam of at least 1; got 0"),
    (2, 0, 1, None, "--iter-decode-ctc-candidates must be at least 1 .* got 0"),
    (3, None, 4, None, r"--nbest must lie in \[1, 3\] with --iter-decode-ctc-beam 3 .* got 4"),
    (0, None, 2, None, r"--nbest must lie in \[1, 1\] with --iter-decode-ctc-beam 0 .* got 2"),
    (1, None, 1, "at.pt", "--iter-decode-ctc-beam of at least 2; got 1"),
)
def test_options_are_compared(size, candidates, nbest, reranker, words):
    cfg = {"iter_decode_ctc_beam": size, "iter_decode_ctc_candidates": candidates, "rerank_at": reranker}
    with pytest.raises(ValueError, match=words):
        builders.task(**cfg).build_generator([], Namespace(nbest=nbest))


def test_the_task_builds_it():
    default = builders.task(iter_decode_ctc_beam=3).build_generator([], Namespace(nbest=2))
    assert type(default) is PrefixBeamGenerator and default.beam == BeamOptions(3, 20, 2)
    cfg = {"iter_decode_ctc_beam": 2, "iter_decode_ctc_candidates": 1, "iter_decode_ctc_bonus": 0.5}
    assert builders.task(**cfg).build_generator([], Namespace()).beam == BeamOptions(2, 1, 1, 0.5)
    assert type(builders.task().build_generator([], Namespace())) is SGAGenerator
