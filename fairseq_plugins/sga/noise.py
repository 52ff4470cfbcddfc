"""Noise on rows of CTC slots, for the denoiser's input."""

from typing import Dict, NamedTuple

import torch
from torch import Tensor

from ..ops.masks import lengths_to_padding_mask, move

KINDS = ("blank", "random", "sentence", "repeat", "mask")
"""blank: the slot is emptied (deletion); random: a random piece; sentence: another token of the same sentence; repeat: a copy
of the slot to the left (repetition); mask: ``<mask>``, as a masked LM is trained."""


class SlotAlphabet(NamedTuple):
    """Which ids noise may write: the CTC blank, pieces from ``first_piece`` to before ``end_piece``, and that, ``<mask>``."""

    blank: int
    first_piece: int
    end_piece: int


def parse_noise_mix(text: str) -> Dict[str, float]:
    """Read ``blank=0.4,random=0.3,sentence=0.3`` into shares that sum to one; ValueError where that cannot be."""
    mix: Dict[str, float] = {}
    for part in text.split(","):
        kind, _, share = part.strip().partition("=")
        try:
            mix[kind] = float(share)
        except ValueError:
            raise ValueError(f"--denoise-noise-mix must look like blank=0.4,random=0.6; got {part!r}") from None
        if kind not in KINDS or not 0 <= mix[kind] < float("inf"):
            raise ValueError(f"--denoise-noise-mix takes shares >= 0 of {', '.join(KINDS)}; got {part!r}")
    total = sum(mix.values())
    if total <= 0:
        raise ValueError(f"--denoise-noise-mix needs a positive share; got {text!r}")
    return {kind: share / total for kind, share in mix.items()}


def corrupt_slots(
    tokens: Tensor, lengths: Tensor, ratio: float, mix: Dict[str, float], alphabet: SlotAlphabet
) -> Tensor:
    """Disturb up to ``ratio``, in [0, 1], of the slots of each row of ``tokens`` (B, T); the length stays, padding too.

    Each sentence draws its own ratio from U(0, ``ratio``); each slot is then disturbed with that probability, so that the cap
    holds in expectation, not for every short row. ``mix`` has the shares of the kinds, see :func:`parse_noise_mix`. Randomness
    comes from torch's global generator, which fairseq seeds with (seed, update): a resumed run draws the same noise.

    Source: SGA section 4.4 (deletion, repetition); the mix of blank, random and same-sentence tokens is the authors' code's.
    Masks are as in Ghazvininejad et al. 2019 (CMLM).
    """
    batch, slots = tokens.shape
    device = tokens.device
    lengths = move(lengths, device)
    inside = ~lengths_to_padding_mask(lengths, slots)
    share = torch.rand(batch, 1, device=device) * ratio
    disturbed = (torch.rand(batch, slots, device=device) < share) & inside

    elsewhere = (torch.rand(batch, slots, device=device) * lengths[:, None]).long().clamp_(max=max(slots - 1, 0))
    candidates = {
        "blank": torch.full_like(tokens, alphabet.blank),
        "random": torch.randint(alphabet.first_piece, alphabet.end_piece, tokens.shape, device=device),
        "sentence": tokens.gather(1, elsewhere),
        "mask": torch.full_like(tokens, alphabet.end_piece),
        "repeat": torch.cat([tokens[:, :1], tokens[:, :-1]], dim=1),
    }
    draw = torch.rand(batch, slots, device=device)
    out, low = tokens, 0.0
    for kind, part in mix.items():
        chosen = disturbed & (draw >= low) & (draw < low + part)
        out = torch.where(chosen, candidates[kind], out)
        low += part
    return out
