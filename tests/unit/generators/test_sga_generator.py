"""Decoding: per-sentence stopping, batch = single, options, hypotheses, errors."""

from argparse import Namespace
from typing import List

import pytest
import torch
import torch.nn.functional as F

from fairseq_plugins.generators.sga_generator import IterationOptions, SGAGenerator
from fairseq_plugins.models.sga import SGAModel
from fairseq_plugins.ops.ctc import BestPath
from tests import builders

FLOOR = 10


class Countdown(SGAModel):
    """An SGA model whose denoiser converges after as many passes as the source says.

    Source <s> n ... </s>, n = FLOOR + k: the alignment writes n in the first slot, a blank, 5 5 and 6; every denoising pass
    lowers the first slot by one down to FLOOR. So pass k + 1 is the first that changes nothing.
    """

    def reset(self):
        """Forget the passes seen."""
        self.rows: List[int] = []

    def align(self, guidance, lengths):
        """One-hot rows of the first output."""
        tokens = torch.full((lengths.size(0), int(lengths.max())), self.blank, device=lengths.device)
        tokens[:, 0] = self.starts
        tokens[:, 2:4], tokens[:, 5] = 5, 6
        return F.one_hot(tokens, builders.VOCAB).double()

    def denoise(self, tokens, guidance, lengths):
        """One-hot rows, the first slot lowered by one."""
        self.rows.append(tokens.size(0))
        assert guidance.padding_mask.size(0) == guidance.prefix[0][0].size(0) == lengths.size(0) == tokens.size(0)
        assert tokens.size(1) == int(lengths.max()), "converged sentences leave no columns behind either"
        assert torch.equal((~guidance.padding_mask).sum(1) * 2, lengths), "guidance of another sentence"
        tokens = tokens.clone()
        tokens[:, 0] = (tokens[:, 0] - 1).clamp(min=FLOOR)
        return F.one_hot(tokens, builders.VOCAB).double()

    def best_path(self, hidden, lengths):
        """The one-hot's token; log-probability -0.5 in every slot."""
        padding = torch.arange(hidden.size(1), device=hidden.device) >= lengths[:, None]
        tokens = hidden.argmax(-1).masked_fill(padding, self.blank)
        return BestPath(tokens, tokens, torch.full(tokens.shape, -0.5, device=hidden.device).masked_fill(padding, 0.0))


def countdown(passes, device):
    """Model and sample; sentence k has its own length."""
    model = builders.sga_model().to(device)
    model.__class__ = Countdown
    model.reset()
    model.starts = torch.tensor([FLOOR + count for count in passes], device=device)
    lengths = [4 + (3 * number) % 5 for number in range(len(passes))]
    return model, builders.to_device(builders.batch(builders.source_rows(lengths)), device)


def generator(max_iter=9, **options):
    """With the tiny dictionary."""
    return SGAGenerator(builders.dictionary(), IterationOptions(max_iter=max_iter, **options))


def _tokens(hypotheses):
    assert all(len(sentence) == 1 for sentence in hypotheses)
    return [sentence[0]["tokens"].tolist() for sentence in hypotheses]


# ---- A real model. ----

LENGTHS = [7, 4, 6, 5, 9, 3]


def _random_model(device, **options):
    """Random weights with a likely blank: sentences converge after different numbers of passes."""
    lm = builders.masked_lm(5)
    lm.lm_head.bias.data[builders.BOS] += 2.0
    return builders.sga_model(lm, seed=6, **options).double().to(device)


def _decode(model, rows, device, extra=0, **options):
    sample = builders.to_device(builders.batch(rows, extra=extra), device)
    return generator(**options).generate([model], sample)


@pytest.mark.parametrize("options", [{}, {"fill_blanks": True}, {"no_denoising": True}, {"ctc_upsample": 3}])
def test_a_sentence_decodes_the_same_alone_and_in_any_batch(options, device):
    model, rows = _random_model(device, **options), builders.source_rows(LENGTHS)
    together = _decode(model, rows, device)
    padded = _decode(model, rows[::-1], device, extra=3)[::-1]
    steps = [sentence[0]["steps"] for sentence in together]
    if not options:
        assert len(set(steps)) >= 3, "the sentences of this test should stop at different passes"
        assert any(len(sentence[0]["tokens"]) for sentence in together)
    if options.get("no_denoising"):
        assert set(steps) == {0}
    for row, source in enumerate(rows):
        alone = _decode(model, [source], device)[0][0]
        for batch in (together, padded):
            assert batch[row][0]["tokens"].tolist() == alone["tokens"].tolist()
            assert batch[row][0]["steps"] == alone["steps"]
            torch.testing.assert_close(batch[row][0]["score"], alone["score"], rtol=1e-9, atol=1e-9)
            torch.testing.assert_close(
                batch[row][0]["positional_scores"], alone["positional_scores"], rtol=1e-9, atol=1e-9
            )


def test_decoding_equals_a_plain_loop(device):
    """T_0 from the alignment, T_i from T_(i-1), until nothing changes; then merge and drop blanks.

    The loop does all passes of a sentence whose outputs come in a cycle.
    """
    model, cycles = _random_model(device), 0
    for source in builders.source_rows(LENGTHS):
        guidance = model.encode(source[None].to(device))
        slots = model.slot_lengths(torch.tensor([len(source)], device=device))

        def best(hidden):
            return F.linear(hidden, model.masked_lm.output_weight, model.masked_lm.output_bias).argmax(-1)

        tokens, steps = best(model.align(guidance, slots)), 0
        for _ in range(9):
            before, tokens, steps = tokens, best(model.denoise(tokens, guidance, slots)), steps + 1
            if torch.equal(before, tokens):
                break
        expected, last = [], None
        for token in tokens[0].tolist():
            if token != last and token != model.blank:
                expected.append(token)
            last = token
        found = _decode(model, [source], device)[0][0]
        assert found["tokens"].tolist() == expected
        if torch.equal(before, tokens):
            assert found["steps"] == steps
        else:
            cycles += found["steps"] < steps
    assert cycles, "a sentence of this test should go round"


def test_nothing_but_blanks_is_an_empty_sentence_as_in_stock(device):
    """``</s>`` alone: fairseq's BLEU scorer crashes on a hypothesis without tokens."""
    lm = builders.masked_lm(5)
    lm.lm_head.bias.data[builders.BOS] += 100.0
    model = builders.sga_model(lm).to(device)
    for hypothesis in _decode(model, builders.source_rows([4, 6]), device):
        assert hypothesis[0]["tokens"].tolist() == [builders.EOS]
        assert hypothesis[0]["positional_scores"].shape == (1,)
        assert bool(torch.as_tensor(hypothesis[0]["score"]).isfinite())


def test_errors_name_what_is_wrong(device):
    model, sample = countdown([0], device)
    with pytest.raises(ValueError, match="one model.*2"):
        generator().generate([model, model], sample)
    with pytest.raises(ValueError, match="prefix"):
        generator().generate([model], sample, prefix_tokens=torch.zeros(1, 1, dtype=torch.int64, device=device))
    with pytest.raises(ValueError, match="constraints"):
        generator().generate([model], sample, constraints=torch.zeros(1, 1, device=device))
    with pytest.raises(ValueError, match="--iter-decode-max-iter.*-1"):
        generator(-1)


@pytest.mark.parametrize(
    ("max_iter", "adaptive", "rows"),
    [(9, True, [5, 3, 2, 1, 1]), (3, True, [5, 3, 2]), (1, True, [5]), (0, True, []), (3, False, [5, 5, 5])],
)
def test_each_sentence_stops_when_its_own_output_no_longer_changes(max_iter, adaptive, rows, device):
    passes = [2, 0, 4, 1, 0]
    model, sample = countdown(passes, device)
    hypotheses = generator(max_iter, adaptive=adaptive, retain_history=True).generate([model], sample)
    done = [min(count + 1, max_iter) if adaptive else max_iter for count in passes]
    assert model.rows == rows
    assert [h[0]["steps"] for h in hypotheses] == done
    assert _tokens(hypotheses) == [[FLOOR + max(0, count - max_iter), 5, 6] for count in passes]
    for count, steps, (hypothesis,) in zip(passes, done, hypotheses):
        history = [entry["tokens"].tolist() for entry in hypothesis["history"]]
        assert history == [[FLOOR + max(0, count - step), 5, 6] for step in range(steps + 1)]
        assert float(hypothesis["score"]) == pytest.approx(-0.5)  # the mean over the slots
        assert hypothesis["positional_scores"].tolist() == [-0.5] * len(hypothesis["tokens"])
    assert "history" not in generator(1).generate([model], sample)[0][0]


@pytest.mark.parametrize("alignment", ["ctc", "mask_predict"])
def test_decoding_is_in_evaluation_mode_and_without_gradient(alignment, device):
    lm = builders.masked_lm(5, dropout=0.5, attention_dropout=0.5)
    model = builders.sga_model(lm, alignment=alignment, frozen_options={"train_dropout": True}).to(device)
    sample, results = builders.to_device(builders.batch(builders.source_rows([7, 5])), device), []
    for _ in range(2):
        model.train()
        made = builders.task().build_generator([model], Namespace(iter_decode_max_iter=9))
        results.append(made.generate([model], sample))
    assert _tokens(results[0]) == _tokens(results[1])
    assert not torch.as_tensor(results[0][0][0]["score"]).requires_grad
