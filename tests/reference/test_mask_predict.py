"""Free generation and its losses equal mask-predict, duplication and denoising as loops over sentences, iterations and tokens."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F

from fairseq_plugins.sga.decoding import IterationOptions
from fairseq_plugins.sga.mask_predict import (
    MaskPredictOptions,
    SGAMaskPredictConfig,
    SGAMaskPredictCriterion,
    SGAMaskPredictGenerator,
)
from tests import builders
from tests.reference.loops import SGALoops, affine, prompt_prefix


def best(scores):
    """The best token and its log-probability."""
    log_probs = scores.log_softmax(0).tolist()
    token = max(range(len(log_probs)), key=lambda index: log_probs[index])
    return token, log_probs[token]


def smoothed_cross_entropy(logits, label, smoothing):
    """1 - s for the label, s / (V - 1) for each other token.

    Source: thumt/modules/losses.py (SmoothedCrossEntropyLoss), which the authors' code of SGA calls with s = 0.1; the constant
    that is subtracted there is left out.
    """
    log_probs = logits - logits.logsumexp(0)
    others = [log_probs[token] for token in range(len(logits)) if token != label]
    return -(1 - smoothing) * log_probs[label] - smoothing / len(others) * sum(others)


def masks_by_ratio(lengths, size, least):
    """thumt/data/dataset.py (to_translation_features_v5, _random_mask): prob = max(0.2, random()), then a coin for each token.

    One ``prob`` for each sentence here, and the random numbers in the package's order: first the sentences', then the tokens'.
    """
    ratios = [max(least, float(torch.rand(()))) for _ in lengths]
    coins = [[float(torch.rand(())) for _ in range(size)] for _ in lengths]
    rows = zip(lengths, ratios, coins)
    return [[place < length and coin < ratio for place, coin in enumerate(row)] for length, ratio, row in rows]


class MaskPredictLoops(SGALoops):
    """SGA for free generation, one sentence."""

    def length_scores(self, source):
        """CMLM section 2.3: entry j stands for j + 1 tokens.

        Reads the mean of h^L; with ``--length-from bos`` what thumt/models/msp.py (encode_semantic) reads, last_hidden_state[:, 0].
        """
        prompts = [prompt_prefix(self.model.encoder_prompts, layer) for layer in range(self.layers)]
        hidden, predictor = self._run(source, prompts)[-1], self.model.length_predictor
        if hasattr(predictor, "bos_projection"):
            return affine(predictor.bos_projection, hidden[0])
        return affine(predictor.projection, sum(hidden[1:], hidden[0]) / len(hidden))

    def losses(self, source, target, masked, smoothing, all_positions):
        """The three losses of one sentence, each a sum in nats.

        Source: SGA sections 4.3 and 4.4; smoothing and what the denoiser reads: thumt/models/msp.py
        (mXLMR_SGA_iterative_withdenoiser.forward: stage1_loss, and get_glancing_logits, the arg-max of every position).
        """
        read = [self.model.mask if hidden else token for token, hidden in zip(target, masked)]
        logits = self.unit(self.model.alignment_prompts, read, self.guidance(source))
        alignment = logits.new_zeros(())
        written = []
        for row, token, hidden in zip(logits, target, masked):
            if hidden:
                alignment = alignment + smoothed_cross_entropy(row, token, smoothing)
            written.append(int(row.argmax()) if hidden or all_positions else token)
        scores = self.length_scores(source)
        length = scores.logsumexp(0) - scores[len(target) - 1]
        slots = [token for token in written for _ in range(self.upsample)]
        log_probs = self.denoising(source, slots).log_softmax(-1)[:, None]
        sizes = torch.tensor([len(slots)]), torch.tensor([len(target)])
        denoising = F.ctc_loss(log_probs, torch.tensor([target]), *sizes, blank=self.model.blank, reduction="sum")
        return alignment, length, denoising

    def likely_lengths(self, source, count):
        """The most probable lengths, best first."""
        scores = self.length_scores(source).tolist()
        return [index + 1 for index in sorted(range(len(scores)), key=lambda index: -scores[index])][:count]

    def mask_predict(self, source, length, iterations):
        """CMLM section 3: n = N (T - t) / T tokens of the lowest probability are masked and predicted again."""
        guidance = self.guidance(source)
        tokens, scores = [self.model.mask] * length, [0.0] * length
        for iteration in range(iterations):
            count = math.floor(length * (iterations - iteration) / iterations + 1e-9)
            worst = sorted(range(length), key=lambda place: (scores[place], place))[:count]
            for place in worst:
                tokens[place] = self.model.mask
            if worst:
                rows = self.unit(self.model.alignment_prompts, tokens, guidance)
                for place in worst:
                    tokens[place], scores[place] = best(rows[place])
        return tokens, scores

    def generate(self, source, iterations, length_beam, passes):
        """Mask-predict over the lengths, then denoising passes until nothing changes."""
        found = [self.mask_predict(source, length, iterations) for length in self.likely_lengths(source, length_beam)]
        tokens, scores = max(found, key=lambda pair: sum(pair[1]) / len(pair[1]))
        steps = 0
        if passes == 0:
            return {"tokens": tokens, "score": sum(scores) / len(scores), "steps": 0}
        slots = [token for token in tokens for _ in range(self.upsample)]
        for _ in range(passes):
            pairs = [best(row) for row in self.denoising(source, slots)]
            before, slots, steps = slots, [token for token, _ in pairs], steps + 1
            if slots == before:
                break
        collapsed = [token for token, _ in itertools.groupby(slots) if token != self.model.blank]
        return {"tokens": collapsed, "score": sum(score for _, score in pairs) / len(pairs), "steps": steps}


SOURCES, TARGETS = [4, 3, 5], [4, 2, 3]
MANY = [4, 3, 5, 7, 6, 8, 4, 5]


def _model(upsample=2, **options):
    lm = builders.masked_lm(5, max_positions=8 * upsample)
    lm.lm_head.bias.data[builders.BOS] += 1.5  # some blanks, so that sentences converge after different passes
    model = builders.sga_model(lm, seed=7, alignment="mask_predict", ctc_upsample=upsample, **options).double()
    with torch.no_grad():
        (layer,) = model.length_predictor.children()
        layer.bias[:3] -= 3.0  # lengths of 4 to 8: several are masked in every iteration
    return model


@pytest.mark.cases(
    "iterations length_beam passes upsample length_from",
    (1, 1, 0, 2, "mean"),
    (4, 3, 0, 2, "mean"),
    (10, 1, 0, 2, "mean"),
    (3, 2, 3, 2, "bos"),
    (2, 1, 1, 3, "mean"),
)
def test_generation_equals_the_loop(iterations, length_beam, passes, upsample, length_from):
    model = _model(upsample, length_from=length_from)
    loops = MaskPredictLoops(model, builders.HEADS, upsample, builders.PAD)
    options = IterationOptions(max_iter=passes), MaskPredictOptions(iterations, length_beam)
    rows = builders.source_rows(MANY)
    generator = SGAMaskPredictGenerator(builders.dictionary(), *options)
    generated = generator.generate([model], builders.batch(rows, extra=2))
    for source, (hypothesis,) in zip(rows, generated):
        expected = loops.generate(source.tolist(), iterations, length_beam, passes)
        assert hypothesis["tokens"].tolist() == (expected["tokens"] or [builders.EOS])
        assert hypothesis["steps"] == expected["steps"]
        assert float(hypothesis["score"]) == pytest.approx(expected["score"], abs=1e-9)


@pytest.mark.cases(
    "smoothing all_positions length_from least",
    (0.0, False, "mean", 0.2),
    (0.1, False, "mean", 0.7),
    (0.0, True, "mean", 0.2),
    (0.1, True, "bos", 0.2),
)
def test_losses_with_the_options_of_the_authors_equal_the_loop(smoothing, all_positions, length_from, least):
    """Value of each loss and gradient of every trained parameter; each option alone and all together."""
    model = _model(length_from=length_from)
    sources, targets = builders.source_rows(SOURCES), builders.target_rows(TARGETS)
    cfg = SGAMaskPredictConfig(
        sentence_avg=False, label_smoothing=smoothing, min_mask_ratio=least, denoise_all_positions=all_positions
    )
    torch.manual_seed(5)
    loss, _, logged = SGAMaskPredictCriterion(builders.task(), cfg)(model, builders.batch(sources, targets, extra=1))
    torch.manual_seed(5)
    masks = masks_by_ratio(TARGETS, max(TARGETS), least)
    assert 0 < sum(map(sum, masks)) == logged["nmasked"] < sum(TARGETS), "the seed should mask some tokens, not all"
    loops = MaskPredictLoops(model, builders.HEADS, 2, builders.PAD)
    parts = [
        torch.stack(loops.losses(source.tolist(), target[:-1].tolist(), mask, smoothing, all_positions))
        for source, target, mask in zip(sources, targets, masks)
    ]
    sums = torch.stack(parts).sum(dim=0)
    torch.testing.assert_close(loss, sums.sum(), rtol=1e-9, atol=1e-9)
    for name, part in zip(("alignment", "length", "denoising"), sums):
        torch.testing.assert_close(logged[f"{name}_loss"], part.detach(), rtol=1e-9, atol=1e-9)
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    ours, theirs = (torch.autograd.grad(value, list(trained.values())) for value in (loss, sums.sum()))
    for name, left, right in zip(trained, ours, theirs):
        torch.testing.assert_close(left, right, rtol=1e-6, atol=1e-8, msg=name)
