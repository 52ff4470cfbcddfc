"""Directed acyclic graph of slots: the loss over all paths, the best path of a target, and paths of decoding.

A path starts in the first slot of a sentence, goes from slot to later slot, and ends in the last one. Between the two every slot
that it visits emits one token; first and last slot emit none. With links E (log-probabilities of going from slot v to slot u > v)
and log-probabilities P of the tokens, the probability of a target is the sum over the paths with as many emitting slots.

Source: Huang et al. 2022 (DA-Transformer, arXiv 2205.07459): loss, glancing, greedy and lookahead decoding; Shao et al. 2022
(arXiv 2210.05193): Viterbi decoding.
"""

from functools import partial
from typing import List, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .linear_alignment import BestPath, Posteriors, linear_alignment_loss
from .masks import Places, lengths_to_padding_mask, move, spread
from .vocab_scan import DEFAULT_CHUNK_SIZE, check_chunk_size

IMPOSSIBLE = float("-inf")
NOWHERE = -1


class Decoded(NamedTuple):
    """The slots of one path per sentence, and their tokens."""

    tokens: Tensor  # (B, N) int64, right-padded with the filler
    log_probs: Tensor  # (B, N) float, log-probability of the tokens in nats; 0 in padding
    lengths: Tensor  # (B,) int64, on the host


def reachable(slots: Tensor, size: int) -> Tensor:
    """(B, T, T) bool: True = a path may go from the first of two slots to the second, both of the sentence. slots: (B,)."""
    inside = ~lengths_to_padding_mask(slots, size)
    later = torch.ones(size, size, dtype=torch.bool, device=slots.device).triu(1)
    return later & inside[:, None, :]


def alignable(slots: Tensor, target_lengths: Tensor) -> Tensor:
    """(B,) bool: whether a path has room for a target: two slots more than tokens."""
    return slots >= target_lengths + 2


def linear_dag_with_best(
    hidden: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    links: Tensor,
    targets: Tensor,
    slots: Tensor,
    target_lengths: Tensor,
    blank: int,
    chunk_size: int = DEFAULT_CHUNK_SIZE,
    want_best: bool = True,
) -> Tuple[Tensor, Optional[BestPath]]:
    """Loss of ``linear(hidden, weight, bias)`` and ``links`` per sentence, (B,) nats, and the best token of every slot.

    A target without room (see :func:`alignable`) has loss and gradient 0.

    Args:
        hidden: (B, T, C); ``weight`` (V, C), ``bias`` (V,) or None: frozen or trained.
        links: (B, T, T) float32 or float64, log-probabilities; minus infinity where no path may go.
        targets: (B, S) int64, right-padded with any rows of the projection.
        slots, target_lengths: (B,) int64; the device waits for the host less where they lie there.
        blank: a row of the projection, for the best path alone.
        chunk_size: vocabulary rows per chunk.
    """
    check_chunk_size(chunk_size)
    lengths, host_slots = move(target_lengths, hidden.device), slots
    slots = move(slots, hidden.device)
    targets = targets.masked_fill(lengths_to_padding_mask(lengths, targets.size(1)), blank)
    posterior = partial(_posteriors, slots=slots, lengths=lengths)
    feasible = alignable(slots, lengths)
    return linear_alignment_loss(
        hidden, weight, bias, links, targets, host_slots, feasible, posterior, blank, chunk_size, want_best
    )


def _emitting(log_probs: Tensor, slots: Tensor) -> Tensor:
    """Log-probabilities (B, T, ...) with minus infinity in first and last slots, and behind them."""
    places = torch.arange(log_probs.size(1), device=slots.device)
    silent = (places == 0) | (places >= slots[:, None] - 1)
    return log_probs.masked_fill(silent.view(*silent.shape, *(1,) * (log_probs.dim() - 2)), IMPOSSIBLE)


def _start(links: Tensor) -> Tensor:
    """(B, T): certain in the first slot."""
    state = links.new_full(links.shape[:2], IMPOSSIBLE)
    state[:, 0] = 0.0
    return state


def _to_end(links: Tensor, slots: Tensor) -> Tensor:
    """Log-probability of going to the last slot, from every slot. (B, T, T) -> (B, T)."""
    last = (slots - 1)[:, None, None].expand(-1, links.size(1), 1)
    return links.gather(2, last)[:, :, 0]


@torch.no_grad()
def _posteriors(log_probs: Tensor, links: Optional[Tensor], slots: Tensor, lengths: Tensor) -> Posteriors:
    """Forward-backward over the tokens of a target: at most (B, T, T) at a time, T the slots. log_probs: (B, T, S)."""
    assert links is not None
    emitted, to_end, sizes = _emitting(log_probs, slots), _to_end(links, slots), lengths[:, None]
    before = [_start(links)]  # before[s]: the first s tokens are emitted, the last of them in this slot
    for token in emitted.unbind(2):
        before.append(token + (before[-1][:, :, None] + links).logsumexp(dim=1))
    ends = torch.stack([(state + to_end).logsumexp(dim=1) for state in before], dim=1)  # B 1+S
    total = ends.gather(1, sizes)[:, 0]
    scale = total.masked_fill(total.isinf(), 0.0)[:, None]

    gamma, edges = torch.zeros_like(log_probs), torch.zeros_like(links)
    after = torch.where(sizes == len(before) - 1, to_end, IMPOSSIBLE)  # what is still to come, from this slot
    for index in range(len(before) - 2, -1, -1):
        gamma[:, :, index] = (before[index + 1] + after - scale).exp()
        coming = links + (emitted[:, :, index] + after)[:, None, :]  # B T T
        edges += (before[index][:, :, None] + coming - scale[:, :, None]).exp()
        after = torch.where(sizes == index, to_end, coming.logsumexp(dim=2))
    last = (
        torch.stack(before, dim=2).gather(2, sizes[:, None].expand(-1, links.size(1), 1))[:, :, 0] + to_end - scale
    ).exp()
    edges.scatter_(2, (slots - 1)[:, None, None].expand(-1, links.size(1), 1), last[:, :, None])
    return Posteriors(-total, gamma, gamma.sum(dim=2), edges)


@torch.no_grad()
def best_slots(log_probs: Tensor, links: Tensor, slots: Tensor, lengths: Tensor) -> Tensor:
    """The slots of the likeliest path that emits a target, (B, S) int64; arbitrary behind its length and without room.

    log_probs: (B, T, S) of the target's tokens in every slot; ``slots``, ``lengths`` (B,) on the device.
    """
    emitted, state, sources = _emitting(log_probs, slots), _start(links), []
    states = []
    for token in emitted.unbind(2):
        found, source = (state[:, :, None] + links).max(dim=1)
        state = found + token
        states.append(state)
        sources.append(source)
    to_end = _to_end(links, slots)
    place = torch.zeros_like(slots)
    path = []
    for index in range(len(states) - 1, -1, -1):
        final = (states[index] + to_end).argmax(dim=1)
        place = torch.where(lengths == index + 1, final, place)
        path.append(place)
        place = sources[index].gather(1, place[:, None])[:, 0]
    return torch.stack(path[::-1], dim=1) if path else slots.new_zeros(len(slots), 0)


# ---- Decoding. ----


@torch.no_grad()
def lookahead(links: Tensor, log_probs: Tensor, slots: Tensor, weight: float = 1.0) -> Tensor:
    """Follow, from each slot, the link whose log-probability plus ``weight`` times that of its token is best.

    log_probs: (B, T) of the best token of each slot; ``weight`` 0 is the greedy path. slots: (B,) on
    the device. Returns (B, T) bool, True = emits.
    """
    last = slots - 1
    silent = _emitting(log_probs, slots).isinf()
    following = (links + weight * log_probs.masked_fill(silent, 0.0)[:, None, :]).argmax(dim=2)  # B T
    following.scatter_(1, last[:, None], last[:, None])
    place, visited = torch.zeros_like(slots), torch.zeros_like(silent)
    for _ in range(links.size(1) - 1):  # not until all have ended: that would wait for the device in every step
        place = following.gather(1, place[:, None])[:, 0].minimum(last)
        visited.scatter_(1, place[:, None], True)
    return visited & ~silent


@torch.no_grad()
def viterbi(links: Tensor, log_probs: Tensor, slots: Tensor, length_penalty: float = 1.0) -> Tensor:
    """Find the path with the best log-probability over its number of tokens to the power of ``length_penalty``.

    log_probs: (B, T) of the best token of each slot; slots: (B,) on the device, at least 3. Returns
    (B, T) bool, True = emits.
    """
    emitted, state, to_end = _emitting(log_probs, slots), _start(links), _to_end(links, slots)
    sources: List[Tensor] = []
    best = log_probs.new_full((len(slots),), IMPOSSIBLE)
    count, final = torch.zeros_like(slots), torch.zeros_like(slots)
    for index in range(1, links.size(1) - 1):
        found, source = (state[:, :, None] + links).max(dim=1)
        state = found + emitted
        sources.append(source)
        score, place = (state + to_end).max(dim=1)
        score = score / index**length_penalty
        better = score > best
        best, count, final = (
            torch.where(better, score, best),
            count.masked_fill(better, index),
            torch.where(better, place, final),
        )
    place, visited = final, torch.zeros_like(emitted, dtype=torch.bool)
    for index in range(len(sources), 0, -1):
        on_path = count >= index
        visited.scatter_(1, place[:, None], visited.gather(1, place[:, None]) | on_path[:, None])
        place = torch.where(on_path, sources[index - 1].gather(1, place[:, None])[:, 0], place)
    return visited


def read_path(path: BestPath, visited: Tensor, filler: int) -> Decoded:
    """Collect the tokens of the visited slots (B, T) bool, each run of equal tokens once.

    A sentence without tokens gets one ``filler``. A repeated token is nearly always a slot too many,
    and the authors of DA-Transformer drop it too. Waits for the device once.
    """
    visited = visited & ~_repeated(path.tokens, visited)
    seen, device = visited.cpu(), visited.device
    lengths = seen.sum(dim=1)
    size = max(int(lengths.max()), 1) if len(lengths) else 1
    there = Places(*(move(part, device) for part in Places.where(seen)))
    inside = Places.inside(lengths, size, device)
    tokens = spread(path.tokens[there], inside, (len(lengths), size), filler)
    return Decoded(tokens, spread(path.log_probs[there], inside, tokens.shape), lengths.clamp(min=1))


def _repeated(tokens: Tensor, visited: Tensor) -> Tensor:
    """(B, T) bool, where the visited slot before holds the same token."""
    place = torch.arange(tokens.size(1), device=tokens.device).expand_as(tokens).masked_fill(~visited, NOWHERE)
    before = F.pad(place.cummax(dim=1).values, (1, 0), value=NOWHERE)[:, :-1]
    return before.ne(NOWHERE) & tokens.gather(1, before.clamp(min=0)).eq(tokens)
