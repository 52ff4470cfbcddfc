"""Noise on the denoiser's input: T~ = T + epsilon of Eq. 6."""

from typing import Dict, NamedTuple

import torch
from torch import Tensor

from ..ops.masks import lengths_to_padding_mask, move

KINDS = ("blank", "random", "sentence", "repeat", "mask")
"""blank: the slot is emptied (deletion); random: a random piece; sentence: another token of the
sentence; repeat: a copy of the slot to the left (repetition); mask: ``<mask>``, as a masked LM
is trained."""


MIXES = {"paper": "blank=0.5,repeat=0.5", "authors": "blank=0.4,random=0.3,sentence=0.3"}
"""Named mixes. paper: random deletion or repetition, whose shares section 4.4 does not state;
authors: the mix of the authors' code."""


class SlotAlphabet(NamedTuple):
    """Ids that noise may write: the blank, pieces from ``first_piece`` on, and ``<mask>``."""

    blank: int
    first_piece: int
    end_piece: int  # one past the last piece: the id of <mask>


def parse_noise_mix(text: str) -> Dict[str, float]:
    """Read ``blank=0.4,random=0.3,sentence=0.3``, or a name, into shares that sum to one.

    Raises ValueError for any other form.
    """
    mix: Dict[str, float] = {}
    for part in MIXES.get(text.strip(), text).split(","):
        kind, _, share = part.strip().partition("=")
        if kind in mix:
            raise ValueError(f"--denoise-noise-mix names {kind} twice; got {text!r}")
        try:
            mix[kind] = float(share)
        except ValueError:
            raise ValueError(
                f"--denoise-noise-mix must be {' or '.join(MIXES)}, or look like "
                f"blank=0.4,random=0.6; got {part!r}"
            ) from None
        if kind not in KINDS or not 0 <= mix[kind] < float("inf"):
            raise ValueError(
                f"--denoise-noise-mix takes shares >= 0 of {', '.join(KINDS)}; got {part!r}"
            )
    total = sum(mix.values())
    if total <= 0:
        raise ValueError(f"--denoise-noise-mix needs a positive share; got {text!r}")
    return {kind: share / total for kind, share in mix.items()}


def corrupt_slots(
    tokens: Tensor, slots: Tensor, ratio: float, mix: Dict[str, float], alphabet: SlotAlphabet
) -> Tensor:
    """Disturb slots of each row; the length stays, and so does padding.

    Each sentence draws r from U(0, ``ratio``); each of its slots is disturbed with probability r.
    Randomness comes from torch's global generator, which fairseq seeds with (seed, update): a
    resumed run draws the same noise.

    Args:
        tokens: (B, T) int64.
        slots: (B,) int64, slots of each row.
        ratio: upper bound of each sentence's noise probability, in [0, 1].
        mix: share of each kind, see :func:`parse_noise_mix`.
        alphabet: ids that may be written.

    Returns:
        (B, T) int64.

    Source: SGA section 4.4 (deletion, repetition); the mix of blank, random and same-sentence
    tokens is that of the authors' code. Masks are as in Ghazvininejad et al. 2019 (CMLM).
    """
    batch, size = tokens.shape
    device = tokens.device
    slots = move(slots, device)
    inside = ~lengths_to_padding_mask(slots, size)  # B T
    row_ratio = torch.rand(batch, 1, device=device) * ratio  # B 1
    disturbed = (torch.rand(batch, size, device=device) < row_ratio) & inside  # B T

    elsewhere = (
        (torch.rand(batch, size, device=device) * slots[:, None])
        .long()
        .clamp_(max=max(size - 1, 0))
    )
    candidates = {
        "blank": torch.full_like(tokens, alphabet.blank),
        "random": torch.randint(
            alphabet.first_piece, alphabet.end_piece, tokens.shape, device=device
        ),
        "sentence": tokens.gather(1, elsewhere),
        "mask": torch.full_like(tokens, alphabet.end_piece),
        "repeat": torch.cat([tokens[:, :1], tokens[:, :-1]], dim=1),
    }
    draw = torch.rand(batch, size, device=device)
    noisy, low = tokens, 0.0
    for kind, share in mix.items():
        is_kind = disturbed & (draw >= low) & (draw < low + share)
        noisy = torch.where(is_kind, candidates[kind], noisy)
        low += share
    return noisy
