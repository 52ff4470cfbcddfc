"""Test free generation and its losses against loops over sentences, iterations and tokens."""

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


def choose_best(scores):
    """Return the best token and its log-probability."""
    log_probs = scores.log_softmax(0).tolist()
    token = max(range(len(log_probs)), key=lambda index: log_probs[index])
    return token, log_probs[token]


def smoothed_cross_entropy(logits, label, smoothing):
    """Weight the label by 1 - s and each other token by s / (V - 1).

    Source: thumt/modules/losses.py (SmoothedCrossEntropyLoss), which the authors' code of SGA calls
    with s = 0.1; the constant that is subtracted there is left out.
    """
    log_probs = logits - logits.logsumexp(0)
    wrong = [log_probs[token] for token in range(len(logits)) if token != label]
    return -(1 - smoothing) * log_probs[label] - smoothing / len(wrong) * sum(wrong)


def draw_masks(lengths, size, least):
    """Draw a ratio max(least, random()) per sentence, then a coin per token.

    Random numbers are drawn in the package's order: first those of sentences, then those of tokens.
    Source: thumt/data/dataset.py (to_translation_features_v5, _random_mask), with least = 0.2 and
    one ratio for all sentences.
    """
    ratios = [max(least, float(torch.rand(()))) for _ in lengths]
    coins = [[float(torch.rand(())) for _ in range(size)] for _ in lengths]
    return [
        [place < length and coin < ratio for place, coin in enumerate(row)]
        for length, ratio, row in zip(lengths, ratios, coins)
    ]


class MaskPredictLoops(SGALoops):
    """SGA for free generation of one sentence."""

    def length_scores(self, source):
        """Score lengths; entry j stands for j + 1 tokens. Source: CMLM section 2.3.

        The predictor reads the mean of h^L, or the first vector with ``--length-from bos``, as
        thumt/models/msp.py does (encode_semantic: last_hidden_state[:, 0]).
        """
        prompts = [prompt_prefix(self.model.encoder_prompts, layer) for layer in range(self.layers)]
        hidden, predictor = self._run(source, prompts)[-1], self.model.length_predictor
        if hasattr(predictor, "bos_projection"):
            return affine(predictor.bos_projection, hidden[0])
        return affine(predictor.projection, sum(hidden[1:], hidden[0]) / len(hidden))

    def losses(self, source, target, masked, smoothing, all_positions):
        """Compute the three losses of one sentence, each a sum in nats.

        Source: SGA sections 4.3 and 4.4. Smoothing and the denoiser's input are those of
        thumt/models/msp.py (mXLMR_SGA_iterative_withdenoiser.forward: stage1_loss, and
        get_glancing_logits, the arg-max of every position).
        """
        inputs = [
            self.model.mask if is_masked else token for token, is_masked in zip(target, masked)
        ]
        logits = self.unit(self.model.alignment_prompts, inputs, self.guidance(source))
        alignment = logits.new_zeros(())
        tokens = []
        for row, token, is_masked in zip(logits, target, masked):
            if is_masked:
                alignment = alignment + smoothed_cross_entropy(row, token, smoothing)
            tokens.append(int(row.argmax()) if is_masked or all_positions else token)
        scores = self.length_scores(source)
        length = scores.logsumexp(0) - scores[len(target) - 1]
        slots = [token for token in tokens for _ in range(self.upsample)]
        log_probs = self.denoising(source, slots).log_softmax(-1)[:, None]
        sizes = torch.tensor([len(slots)]), torch.tensor([len(target)])
        denoising = F.ctc_loss(
            log_probs, torch.tensor([target]), *sizes, blank=self.model.blank, reduction="sum"
        )
        return alignment, length, denoising

    def likely_lengths(self, source, count):
        """Return the most probable lengths, best first."""
        scores = self.length_scores(source).tolist()
        order = sorted(range(len(scores)), key=lambda index: -scores[index])
        return [index + 1 for index in order[:count]]

    def mask_predict(self, source, length, iterations):
        """Mask the n = N (T - t) / T least probable tokens, and predict them. CMLM section 3."""
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
                    tokens[place], scores[place] = choose_best(rows[place])
        return tokens, scores

    def generate(self, source, iterations, length_beam, passes):
        """Run mask-predict for each length, then denoising passes until nothing changes."""
        outputs = [
            self.mask_predict(source, length, iterations)
            for length in self.likely_lengths(source, length_beam)
        ]
        tokens, scores = max(outputs, key=lambda output: sum(output[1]) / len(output[1]))
        steps = 0
        if passes == 0:
            return {"tokens": tokens, "score": sum(scores) / len(scores), "steps": 0}
        slots = [token for token in tokens for _ in range(self.upsample)]
        for _ in range(passes):
            pairs = [choose_best(row) for row in self.denoising(source, slots)]
            previous, slots, steps = slots, [token for token, _ in pairs], steps + 1
            if slots == previous:
                break
        collapsed = [token for token, _ in itertools.groupby(slots) if token != self.model.blank]
        score = sum(score for _, score in pairs) / len(pairs)
        return {"tokens": collapsed, "score": score, "steps": steps}


SOURCES, TARGETS = [4, 3, 5], [4, 2, 3]


def build_model(upsample=2, **options):
    lm = builders.masked_lm(5, max_positions=8 * upsample)
    # Some blanks, so that sentences converge after different passes.
    lm.lm_head.bias.data[builders.BOS] += 1.5
    options = {"alignment": "mask_predict", "ctc_upsample": upsample, **options}
    model = builders.sga_model(lm, seed=7, **options).double()
    with torch.no_grad():
        (layer,) = model.length_predictor.children()
        layer.bias[:3] -= 3.0  # lengths of 4 to 8: several tokens are masked in every iteration
    return model


@pytest.mark.cases(
    "iterations length_beam passes upsample length_from",
    (1, 1, 0, 2, "mean"),
    (4, 3, 0, 2, "mean"),
    (10, 1, 0, 2, "mean"),
    (3, 2, 3, 2, "bos"),
    (2, 1, 1, 3, "mean"),
)
def test_generation_equals_the_loops(iterations, length_beam, passes, upsample, length_from):
    model = build_model(upsample, length_from=length_from)
    loops = MaskPredictLoops(model, builders.HEADS, upsample, builders.PAD)
    options = IterationOptions(max_iter=passes), MaskPredictOptions(iterations, length_beam)
    rows = builders.source_rows([4, 3, 5, 7, 6, 8, 4, 5])
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
    (0.1, True, "bos", 0.2),
)
def test_losses_equal_the_loops(smoothing, all_positions, length_from, least):
    """Compare the value of each loss and the gradient of every trainable parameter."""
    model = build_model(length_from=length_from)
    sources, targets = builders.source_rows(SOURCES), builders.target_rows(TARGETS)
    cfg = SGAMaskPredictConfig(
        sentence_avg=False,
        label_smoothing=smoothing,
        min_mask_ratio=least,
        denoise_all_positions=all_positions,
    )
    criterion = SGAMaskPredictCriterion(builders.task(), cfg)
    torch.manual_seed(8)
    loss, _, log = criterion(model, builders.batch(sources, targets, extra=1))
    torch.manual_seed(8)
    masks = draw_masks(TARGETS, max(TARGETS), least)
    assert 0 < sum(map(sum, masks)) == log["nmasked"] < sum(TARGETS)
    loops = MaskPredictLoops(model, builders.HEADS, 2, builders.PAD)
    rows = []
    for source, target, mask in zip(sources, targets, masks):
        source, target = source.tolist(), target[:-1].tolist()
        rows.append(torch.stack(loops.losses(source, target, mask, smoothing, all_positions)))
    expected = torch.stack(rows).sum(dim=0)
    torch.testing.assert_close(loss, expected.sum(), rtol=1e-9, atol=1e-9)
    for name, part in zip(("alignment", "length", "denoising"), expected):
        torch.testing.assert_close(log[f"{name}_loss"], part.detach(), rtol=1e-9, atol=1e-9)
    trainable = {name: p for name, p in model.named_parameters() if p.requires_grad}
    fast_gradients, slow_gradients = (
        torch.autograd.grad(total, list(trainable.values())) for total in (loss, expected.sum())
    )
    for name, fast, slow in zip(trainable, fast_gradients, slow_gradients):
        torch.testing.assert_close(fast, slow, rtol=1e-6, atol=1e-8, msg=name)
