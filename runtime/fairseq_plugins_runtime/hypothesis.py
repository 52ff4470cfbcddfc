"""The output of a decoder."""

from typing import List, NamedTuple


class Hypothesis(NamedTuple):
    """Output for a sentence."""

    tokens: List[int]
    score: float  # nats: mean log-probability of the slots, or the score of the beam search
    passes: int  # denoising passes, or steps of the beam search
