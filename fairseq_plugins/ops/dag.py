"""Directed acyclic graph of slots: loss over all paths, best path of a target, paths of decoding.

A path starts in the first slot of a sentence, goes from slot to later slot, and ends in the last
one. Between the two, every slot that it visits emits one token; first and last slot emit none. The
graph has transitions E (log-probabilities of going from slot v to slot u > v) and log-probabilities
P of the tokens. The probability of a target is the sum over the paths with as many emitting slots.

Source: Huang et al. 2022 (DA-Transformer, arXiv 2205.07459): loss, greedy and lookahead decoding;
Shao et al. 2022 (arXiv 2210.05193): Viterbi decoding.
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
    """Mark the pairs of slots between which a path may go: to a later slot of the sentence.

    slots: (B,) int64. Returns (B, T, T) bool, [b, v, u] = from v to u.
    """
    inside = ~lengths_to_padding_mask(slots, size)
    later = torch.ones(size, size, dtype=torch.bool, device=slots.device).triu(1)
    return later & inside[:, None, :]


def alignable(slots: Tensor, target_lengths: Tensor) -> Tensor:
    """Mark the sentences whose path has room for the target: two slots more than tokens. (B,)."""
    return slots >= target_lengths + 2


def linear_dag_with_best(
    hidden: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    transitions: Tensor,
    targets: Tensor,
    slots: Tensor,
    target_lengths: Tensor,
    blank: int,
    chunk_size: int = DEFAULT_CHUNK_SIZE,
    want_best: bool = True,
) -> Tuple[Tensor, Optional[BestPath]]:
    """Compute the loss of a graph, and the best token of every slot in the same pass.

    A target without room (see :func:`alignable`) has loss and gradient 0.

    Args:
        hidden: (B, T, C).
        weight, bias: (V, C), and (V,) or None. Frozen ones get no gradient.
        transitions: (B, T, T) float32 or float64, log-probabilities; minus infinity where no path
            may go.
        targets: (B, S) int64, right-padded with any rows of the projection.
        slots, target_lengths: (B,) int64. If they lie on the host, it need not wait for the device.
        blank: a row of the projection, for the best tokens alone.
        chunk_size: vocabulary rows per chunk.

    Returns:
        (B,) nats, and the best tokens; None unless ``want_best``.
    """
    check_chunk_size(chunk_size)
    lengths, host_slots = move(target_lengths, hidden.device), slots
    slots = move(slots, hidden.device)
    targets = targets.masked_fill(lengths_to_padding_mask(lengths, targets.size(1)), blank)
    posterior = partial(_posteriors, slots=slots, lengths=lengths)
    feasible = alignable(slots, lengths)
    return linear_alignment_loss(
        hidden,
        weight,
        bias,
        transitions,
        targets,
        host_slots,
        feasible,
        posterior,
        blank,
        chunk_size,
        want_best,
    )


def _mark_silent(slots: Tensor, size: int) -> Tensor:
    """Mark the slots that emit nothing: the first, the last, and padding. (B, T) bool."""
    places = torch.arange(size, device=slots.device)
    return (places == 0) | (places >= slots[:, None] - 1)


def _emitting(log_probs: Tensor, slots: Tensor) -> Tensor:
    """Set log-probabilities, (B, T) or (B, T, S), to -inf in the slots that emit nothing."""
    is_silent = _mark_silent(slots, log_probs.size(1))
    if log_probs.dim() == 3:
        is_silent = is_silent[:, :, None]
    return log_probs.masked_fill(is_silent, IMPOSSIBLE)


def _start(transitions: Tensor) -> Tensor:
    """Return the state of a path that begins: certain in the first slot. (B, T)."""
    state = transitions.new_full(transitions.shape[:2], IMPOSSIBLE)
    state[:, 0] = 0.0
    return state


def _to_end(transitions: Tensor, slots: Tensor) -> Tensor:
    """Pick the log-probability of going to the last slot. (B, T, T) -> (B, T)."""
    last = (slots - 1)[:, None, None].expand(-1, transitions.size(1), 1)
    return transitions.gather(2, last)[:, :, 0]


@torch.no_grad()
def _posteriors(
    log_probs: Tensor, transitions: Optional[Tensor], slots: Tensor, lengths: Tensor
) -> Posteriors:
    """Run forward-backward over the tokens of a target; holds (B, T, T) at a time.

    Args:
        log_probs: (B, T, S) of the target's tokens in every slot.
        transitions: (B, T, T) log-probabilities.
        slots, lengths: (B,) int64 on the device.

    Returns:
        gamma[b, t, s]: probability that slot t emits token s; edges[b, v, u]: that the path goes
        from v to u. A target without room has the loss inf.
    """
    assert transitions is not None
    emitted, to_end = _emitting(log_probs, slots), _to_end(transitions, slots)
    sizes = lengths[:, None]
    # before[s]: the first s tokens are emitted, the last of them in this slot.
    before = [_start(transitions)]
    for token in emitted.unbind(2):
        before.append(token + (before[-1][:, :, None] + transitions).logsumexp(dim=1))
    ends = torch.stack([(state + to_end).logsumexp(dim=1) for state in before], dim=1)  # B 1+S
    total = ends.gather(1, sizes)[:, 0]
    scale = total.masked_fill(total.isinf(), 0.0)[:, None]

    gamma, edges = torch.zeros_like(log_probs), torch.zeros_like(transitions)
    # after: log-probability of the tokens from number ``index`` on, and of the end, from this slot.
    # A sentence joins when ``index`` is its length.
    after = torch.where(sizes == len(before) - 1, to_end, IMPOSSIBLE)
    for index in range(len(before) - 2, -1, -1):
        gamma[:, :, index] = (before[index + 1] + after - scale).exp()
        coming = transitions + (emitted[:, :, index] + after)[:, None, :]  # B T T
        edges += (before[index][:, :, None] + coming - scale[:, :, None]).exp()
        after = torch.where(sizes == index, to_end, coming.logsumexp(dim=2))
    # The transition to the last slot, from the slot of the last token. It is set, not added: the
    # loop leaves 0 there, because the last slot emits nothing.
    last_token = sizes[:, None].expand(-1, transitions.size(1), 1)
    at_last_token = torch.stack(before, dim=2).gather(2, last_token)[:, :, 0]  # B T
    last_edge = (at_last_token + to_end - scale).exp()
    last_slot = (slots - 1)[:, None, None].expand(-1, transitions.size(1), 1)
    edges.scatter_(2, last_slot, last_edge[:, :, None])
    return Posteriors(-total, gamma, gamma.sum(dim=2), edges)


@torch.no_grad()
def best_slots(log_probs: Tensor, transitions: Tensor, slots: Tensor, lengths: Tensor) -> Tensor:
    """Find the slots of the likeliest path that emits a target.

    Args:
        log_probs: (B, T, S) of the target's tokens in every slot.
        transitions: (B, T, T) log-probabilities.
        slots, lengths: (B,) int64 on the device.

    Returns:
        (B, S) int64; arbitrary past a target's length, and for one without room.
    """
    emitted, state = _emitting(log_probs, slots), _start(transitions)
    # states[s]: score of the best path whose token s is emitted in this slot; sources[s]: the slot
    # of its token before.
    states: List[Tensor] = []
    sources: List[Tensor] = []
    for token in emitted.unbind(2):
        best, source = (state[:, :, None] + transitions).max(dim=1)
        state = best + token
        states.append(state)
        sources.append(source)
    to_end = _to_end(transitions, slots)
    place = torch.zeros_like(slots)
    path: List[Tensor] = []
    for index in range(len(states) - 1, -1, -1):
        final = (states[index] + to_end).argmax(dim=1)
        place = torch.where(lengths == index + 1, final, place)
        path.append(place)
        place = sources[index].gather(1, place[:, None])[:, 0]
    return torch.stack(path[::-1], dim=1) if path else slots.new_zeros(len(slots), 0)


# ---- Decoding. ----


@torch.no_grad()
def lookahead(transitions: Tensor, log_probs: Tensor, slots: Tensor, weight: float = 1.0) -> Tensor:
    """Go from each slot to the one with the best transition plus ``weight`` x its token.

    Args:
        transitions: (B, T, T) log-probabilities.
        log_probs: (B, T) of the best token of each slot.
        slots: (B,) int64 on the device.
        weight: of the token's log-probability; 0 gives the greedy path.

    Returns:
        (B, T) bool, True = is visited and emits.
    """
    last = slots - 1
    is_silent = _mark_silent(slots, log_probs.size(1))
    token_scores = weight * log_probs.masked_fill(is_silent, 0.0)
    successor = (transitions + token_scores[:, None, :]).argmax(dim=2)  # B T
    successor.scatter_(1, last[:, None], last[:, None])
    place, visited = torch.zeros_like(slots), torch.zeros_like(is_silent)
    # As many steps as slots: to stop when all paths have ended would wait for the device each time.
    for _ in range(transitions.size(1) - 1):
        place = successor.gather(1, place[:, None])[:, 0]
        visited.scatter_(1, place[:, None], True)
    return visited & ~is_silent


@torch.no_grad()
def viterbi(
    transitions: Tensor, log_probs: Tensor, slots: Tensor, length_penalty: float = 1.0
) -> Tensor:
    """Find the path with the best log-probability / (number of tokens) ^ ``length_penalty``.

    Args:
        transitions: (B, T, T) log-probabilities.
        log_probs: (B, T) of the best token of each slot.
        slots: (B,) int64 on the device, at least 3.

    Returns:
        (B, T) bool, True = is visited and emits.
    """
    emitted, to_end = _emitting(log_probs, slots), _to_end(transitions, slots)
    state = _start(transitions)
    sources: List[
        Tensor
    ] = []  # sources[n - 1]: the slot of token n - 1 of the best path to token n
    best_score = log_probs.new_full((len(slots),), IMPOSSIBLE)
    best_count, best_end = torch.zeros_like(slots), torch.zeros_like(slots)
    for count in range(1, transitions.size(1) - 1):
        reached, source = (state[:, :, None] + transitions).max(dim=1)
        state = reached + emitted
        sources.append(source)
        score, end = (state + to_end).max(dim=1)
        score = score / count**length_penalty
        is_better = score > best_score
        best_score = torch.where(is_better, score, best_score)
        best_count = best_count.masked_fill(is_better, count)
        best_end = torch.where(is_better, end, best_end)
    place, visited = best_end, torch.zeros_like(emitted, dtype=torch.bool)
    for count in range(len(sources), 0, -1):
        on_path = best_count >= count
        visited.scatter_(1, place[:, None], visited.gather(1, place[:, None]) | on_path[:, None])
        place = torch.where(on_path, sources[count - 1].gather(1, place[:, None])[:, 0], place)
    return visited


def read_path(path: BestPath, visited: Tensor, filler: int) -> Decoded:
    """Collect the tokens of the visited slots (B, T) bool, each run of equal tokens once.

    A sentence without tokens gets one ``filler``. A repeated token is nearly always a slot too
    many, and the authors of DA-Transformer drop it too. Waits for the device once.
    """
    device = visited.device
    emits = (visited & ~_repeats(path.tokens, visited)).cpu()  # B T
    lengths = emits.sum(dim=1)
    size = max(int(lengths.max()), 1) if len(lengths) else 1
    emitting = Places(*(move(part, device) for part in Places.where(emits)))
    inside, shape = Places.inside(lengths, size, device), (len(lengths), size)
    tokens = spread(path.tokens[emitting], inside, shape, filler)
    log_probs = spread(path.log_probs[emitting], inside, shape)
    return Decoded(tokens, log_probs, lengths.clamp(min=1))


def _repeats(tokens: Tensor, visited: Tensor) -> Tensor:
    """Mark the slots whose last visited slot before them holds the same token. (B, T) bool."""
    columns = torch.arange(tokens.size(1), device=tokens.device).expand_as(tokens)
    last_visited = columns.masked_fill(~visited, NOWHERE).cummax(dim=1).values
    before = F.pad(last_visited, (1, 0), value=NOWHERE)[:, :-1]
    return before.ne(NOWHERE) & tokens.gather(1, before.clamp(min=0)).eq(tokens)
