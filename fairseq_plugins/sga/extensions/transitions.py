"""Transition probabilities between slots, from their states."""

import torch
from torch import Tensor, nn

from ...ops.dag import IMPOSSIBLE, reachable
from ...ops.masks import move
from ...ops.vocab_scan import accumulation_dtype

FURTHEST = 64
"""Distances from here on share a bias."""


class Transitions(nn.Module):
    """Softmax over the later slots of (W_q h)^T (W_k h) / sqrt(C), and a bias for each distance between two slots.

    Source: Huang et al. 2022 (DA-Transformer), with one head; the bias takes the place of their positional features (states of a
    frozen model tell little of positions).
    """

    def __init__(self, embed_dim: int):
        super().__init__()
        self.query = nn.Linear(embed_dim, embed_dim)
        self.key = nn.Linear(embed_dim, embed_dim)
        self.distance = nn.Parameter(torch.zeros(FURTHEST))

    def forward(self, hidden: Tensor, slots: Tensor) -> Tensor:
        """(B, T, C) and slots (B,) -> (B, T, T) log-probabilities in float32 or float64 of going from slot to slot.

        They are minus infinity where no path may go: in all of the rows of the last slot and of padding.
        """
        size = hidden.size(1)
        dtype = accumulation_dtype(hidden.dtype)
        query = self.query(hidden) * hidden.size(2) ** -0.5  # before the product, which float16 could not hold
        scores = torch.matmul(query, self.key(hidden).transpose(1, 2)).to(dtype)
        places = torch.arange(size, device=hidden.device)
        scores = scores + self.distance.to(dtype)[(places[None, :] - places[:, None] - 1).clamp(0, FURTHEST - 1)]
        allowed = reachable(move(slots, hidden.device), size)
        # First a finite fill: rows without any later slot would be NaN in between.
        return scores.masked_fill(~allowed, -1e9).log_softmax(dim=2).masked_fill(~allowed, IMPOSSIBLE)
