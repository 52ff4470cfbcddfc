"""Mask-predict, duplication and denoising written out for one sentence, one iteration and one token at a time."""

import math
from typing import Any, Dict, List, Sequence, Tuple

from torch import Tensor

from tests.reference.loops import SGALoops, affine, prompt_prefix


def log_softmax(scores: Sequence[float]) -> List[float]:
    """Of a list of numbers."""
    top = max(scores)
    total = top + math.log(sum(math.exp(score - top) for score in scores))
    return [score - total for score in scores]


def best(scores: Sequence[float]) -> Tuple[int, float]:
    """The best token and its log-probability."""
    values = log_softmax(scores)
    token = max(range(len(values)), key=lambda index: values[index])
    return token, values[token]


class MaskPredictLoops(SGALoops):
    """SGA for free generation, one sentence."""

    def length_log_probs(self, source: Sequence[int]) -> List[float]:
        """CMLM section 2.3 on the mean of h^L: entry j stands for j + 1 tokens."""
        prompts = [prompt_prefix(self.model.encoder_prompts, layer) for layer in range(self.layers)]
        hidden = self._run(source, prompts)[-1]
        mean = sum(hidden[1:], hidden[0]) / len(hidden)
        return log_softmax(affine(self.model.length_predictor.projection, mean).tolist())

    def likely_lengths(self, source: Sequence[int], count: int) -> List[int]:
        """The most probable lengths, best first."""
        scores = self.length_log_probs(source)
        return [index + 1 for index in sorted(range(len(scores)), key=lambda index: -scores[index])][:count]

    def mask_predict(self, source: Sequence[int], length: int, iterations: int) -> Tuple[List[int], List[float]]:
        """CMLM section 3: n = N (T - t) / T tokens of the lowest probability are masked and predicted again."""
        guidance = self.guidance(source)
        tokens, scores = [self.model.mask] * length, [0.0] * length
        for iteration in range(iterations):
            count = math.floor(length * (iterations - iteration) / iterations + 1e-9)
            worst = sorted(range(length), key=lambda place: (scores[place], place))[:count]
            for place in worst:
                tokens[place] = self.model.mask
            if worst:
                rows = self.unit(self.model.alignment_prompts, tokens, guidance).tolist()
                for place in worst:
                    tokens[place], scores[place] = best(rows[place])
        return tokens, scores

    def generate(self, source: Sequence[int], iterations: int, length_beam: int, passes: int) -> Dict[str, Any]:
        """Mask-predict over the lengths, then denoising passes until nothing changes."""
        found = [self.mask_predict(source, length, iterations) for length in self.likely_lengths(source, length_beam)]
        tokens, scores = max(found, key=lambda pair: sum(pair[1]) / len(pair[1]))
        steps = 0
        if passes == 0:
            return {"tokens": tokens, "score": sum(scores) / len(scores), "steps": 0}
        slots = [token for token in tokens for _ in range(self.upsample)]
        for _ in range(passes):
            rows: Tensor = self.denoising(source, slots)
            pairs = [best(row) for row in rows.tolist()]
            before, slots, steps = slots, [token for token, _ in pairs], steps + 1
            if slots == before:
                break
        collapsed = [
            token
            for place, token in enumerate(slots)
            if token != self.model.blank and (place == 0 or token != slots[place - 1])
        ]
        return {"tokens": collapsed, "score": sum(score for _, score in pairs) / len(pairs), "steps": steps}
