"""n-best decoding: the beam searches the states of each sentence's last pass; scores, order, nat_ctc, errors."""

import math
from typing import Any, Dict, List

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_plugins.generators.sga_generator import BeamOptions, IterationOptions, SGAGenerator, beam_options
from fairseq_plugins.models.sga import SGAModel
from fairseq_plugins.ops.ctc import linear_ctc_with_best
from fairseq_plugins.ops.ctc_prefix_beam import linear_prefix_beam
from tests import builders
from tests.unit.models.baselines.test_nat_ctc import build as build_nat

LENGTHS = [7, 4, 6, 5, 9, 3]
NO_TEXT = {builders.PAD, builders.EOS, builders.MASK}  # beside the blank, <s>


def generator(size: int = 4, nbest: int = 4, candidates: int = 5, **options: Any) -> SGAGenerator:
    """With the tiny dictionary."""
    passes = IterationOptions(**{"max_iter": 6, **options})
    return SGAGenerator(builders.dictionary(), passes, BeamOptions(size, candidates, nbest))


def model_of(device: torch.device, **options: Any) -> SGAModel:
    """Random weights with a likely blank: sentences converge after different numbers of passes."""
    lm = builders.masked_lm(5)
    lm.lm_head.bias.data[builders.BOS] += 2.0
    return builders.sga_model(lm, seed=6, **options).double().to(device)


def decode(chosen: SGAGenerator, model: Any, rows: List[Tensor], device: torch.device, extra: int = 0) -> Any:
    return chosen.generate([model], builders.to_device(builders.batch(rows, extra=extra), device))


def last_states(model: SGAModel, source: Tensor, max_iter: int) -> Tensor:
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
def test_hypotheses_are_the_outputs_of_each_sentences_last_pass(max_iter: int, device: torch.device) -> None:
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


def test_scores_are_log_probabilities_of_distinct_outputs_sorted(device: torch.device) -> None:
    model, rows = model_of(device), builders.source_rows(LENGTHS)
    for source, sentence in zip(rows, decode(generator(6, 6), model, rows, device)):
        texts = [tuple(hypothesis["tokens"].tolist()) for hypothesis in sentence]
        assert len(set(texts)) == len(texts) == 6
        scores = [float(hypothesis["score"]) for hypothesis in sentence]
        assert scores == sorted(scores, reverse=True)
        assert max(scores) < 0 and sum(math.exp(score) for score in scores) < 1.0
        states, lengths = last_states(model, source.to(device), 6), torch.tensor([2 * len(source)], device=device)
        for hypothesis in sentence:
            assert float(hypothesis["positional_scores"].sum()) == pytest.approx(float(hypothesis["score"]))
            assert hypothesis["ctc_score"] == hypothesis["score"]
            empty = hypothesis["tokens"].tolist() == [builders.EOS]
            labels = hypothesis["tokens"][:0] if empty else hypothesis["tokens"]
            weight, bias = model.masked_lm.output_weight, model.masked_lm.output_bias
            count = torch.tensor([len(labels)], device=device)
            loss, _ = linear_ctc_with_best(states, weight, bias, labels[None], lengths, count, model.blank)
            torch.testing.assert_close(hypothesis["score"], -loss[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("blank", [builders.BOS, builders.MASK])
def test_special_symbols_are_in_no_hypothesis(blank: int, device: torch.device) -> None:
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


def test_nbest_cuts_and_the_beam_decides(device: torch.device) -> None:
    model, rows = model_of(device), builders.source_rows(LENGTHS)
    whole = decode(generator(5, 5), model, rows, device)
    cut = decode(generator(5, 2), model, rows, device)
    for many, few in zip(whole, cut):
        assert [h["tokens"].tolist() for h in few] == [h["tokens"].tolist() for h in many[:2]]


def test_without_a_beam_everything_is_as_before(device: torch.device) -> None:
    model, rows = model_of(device), builders.source_rows(LENGTHS)
    plain = decode(SGAGenerator(builders.dictionary(), IterationOptions(6)), model, rows, device)
    zero = decode(generator(0, 1), model, rows, device)
    for first, second in zip(plain, zero):
        assert len(first) == len(second) == 1
        assert "ctc_score" not in first[0]
        assert first[0]["tokens"].tolist() == second[0]["tokens"].tolist()
        assert first[0]["score"] == second[0]["score"]


def test_passes_and_history_are_those_of_the_best_path(device: torch.device) -> None:
    model, rows = model_of(device), builders.source_rows(LENGTHS)
    plain = decode(generator(0, 1, retain_history=True), model, rows, device)
    for first, sentence in zip(plain, decode(generator(retain_history=True), model, rows, device)):
        for hypothesis in sentence:
            assert hypothesis["steps"] == first[0]["steps"]
            for one, other in zip(hypothesis["history"], first[0]["history"]):
                assert one["tokens"].tolist() == other["tokens"].tolist()


def test_a_sentence_with_few_outputs_has_few_hypotheses_and_the_empty_one_is_eos(device: torch.device) -> None:
    """Three tokens a sentence, one slot each, one candidate beside the blank."""
    lm = builders.masked_lm(5)
    lm.lm_head.bias.data[builders.BOS] += 100.0
    model = builders.sga_model(lm, ctc_upsample=1, no_denoising=True).double().to(device)
    (sentence,) = decode(generator(30, 30, candidates=1), model, builders.source_rows([3]), device)
    assert 2 <= len(sentence) < 30
    assert sentence[0]["tokens"].tolist() == [builders.EOS]
    assert sentence[0]["positional_scores"].shape == (1,)
    assert all(math.isfinite(float(hypothesis["score"])) for hypothesis in sentence)


def test_nat_ctc_has_the_same_beam(device: torch.device) -> None:
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


def test_more_slots_a_token_give_other_outputs_within_fewer_positions(device: torch.device) -> None:
    """--model-overrides "{'ctc_upsample': 3}": the prompts fit any number of slots."""
    rows = builders.source_rows(LENGTHS)
    models = [model_of(device, ctc_upsample=slots) for slots in (2, 3)]
    assert models[0].state_dict().keys() == models[1].state_dict().keys()
    models[1].load_state_dict(models[0].state_dict())
    texts = [[s[0]["tokens"].tolist() for s in decode(generator(0, 1), model, rows, device)] for model in models]
    assert texts[0] != texts[1]
    assert [model.max_positions()[0] for model in models] == [builders.POSITIONS // 2, builders.POSITIONS // 3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": -1}, "--iter-decode-ctc-beam must be 0 .* got -1"),
        ({"candidates": 0}, "--iter-decode-ctc-candidates must be at least 1 .* got 0"),
        ({"size": 3, "nbest": 4}, r"--nbest must lie in \[1, 3\] with --iter-decode-ctc-beam 3 .* got 4"),
        ({"size": 0, "nbest": 2}, r"--nbest must lie in \[1, 1\] with --iter-decode-ctc-beam 0 .* got 2"),
    ],
)
def test_bad_options_are_named(options: Dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        generator(**{"size": 5, "nbest": 1, **options})


def test_candidates_are_those_of_a_beam() -> None:
    assert beam_options(0, None, 1, False) == BeamOptions(0, 20, 1)
    assert beam_options(4, None, 2, True) == BeamOptions(4, 20, 2)
    assert beam_options(4, 7, 2, False) == BeamOptions(4, 7, 2)
    with pytest.raises(
        ValueError, match="--iter-decode-ctc-candidates 20: .*--iter-decode-ctc-beam of at least 1; got 0"
    ):
        beam_options(0, 20, 1, False)
    for candidates in (0, -3):
        with pytest.raises(ValueError, match=f"--iter-decode-ctc-candidates must be at least 1 .* got {candidates}"):
            beam_options(4, candidates, 1, False)
    with pytest.raises(ValueError, match="--iter-decode-ctc-beam of at least 2; got 1"):
        beam_options(1, None, 1, True)


def test_a_reranker_needs_something_to_choose_from() -> None:
    reranker: Any = object()
    with pytest.raises(ValueError, match="--iter-decode-ctc-beam of at least 2; got 1"):
        SGAGenerator(builders.dictionary(), IterationOptions(1), BeamOptions(1), reranker)
