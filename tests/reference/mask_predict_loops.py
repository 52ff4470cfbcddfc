"""Mask-predict, duplication and denoising written out for one sentence, one iteration and one token at a time."""

import math

import torch
import torch.nn.functional as F

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
    return [
        [place < length and coin < ratio for place, coin in enumerate(row)]
        for length, ratio, row in zip(lengths, ratios, coins)
    ]


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
        collapsed = [
            token
            for place, token in enumerate(slots)
            if token != self.model.blank and (place == 0 or token != slots[place - 1])
        ]
        return {"tokens": collapsed, "score": sum(score for _, score in pairs) / len(pairs), "steps": steps}
