"""What a decoder gives of one sentence."""

from typing import List, NamedTuple


class Hypothesis(NamedTuple):
    """The best output."""

    tokens: List[int]
    score: float  # nats: mean log-probability of the slots, or what the search from left to right compares
    passes: int  # denoising passes, or steps from left to right
