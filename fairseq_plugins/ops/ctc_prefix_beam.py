"""CTC prefix beam search: the likeliest outputs, each with the probability of all its alignments.

The best path is the likeliest alignment; another output may have more probability, spread over many alignments. The search goes
through the slots and keeps the likeliest prefixes (Graves 2008, section 7.5; Hannun et al. 2014, algorithm 1). Two probabilities
belong to a prefix: that of the alignments that end with a blank, and that of those that end with its last label.
"""

from typing import Iterable, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .masks import move
from .places import Places, spread
from .vocab_scan import DEFAULT_CHUNK_SIZE, exact_logits, scan_top

NO_LABEL = -1
IMPOSSIBLE = float("-inf")


class Outputs(NamedTuple):
    """The N best outputs of each sentence, distinct, by falling score."""

    labels: Tensor  # (B, N, T') int64, right-padded with the blank
    lengths: Tensor  # (B, N) int64
    scores: Tensor  # (B, N) float, log-probability in nats; minus infinity where a sentence has fewer than N outputs


class _Prefixes(NamedTuple):
    """The prefixes in the beam, and the log-probability of their alignments that end with a blank, and with the last label."""

    labels: Tensor  # (B, N, T) int64, ``NO_LABEL`` behind the last one
    lengths: Tensor  # (B, N) int64
    ends_blank: Tensor  # (B, N) float
    ends_label: Tensor  # (B, N) float

    def total(self) -> Tensor:
        return torch.logaddexp(self.ends_blank, self.ends_label)


def prefix_beam_search(
    log_probs: Tensor,
    tokens: Tensor,
    blank_log_probs: Tensor,
    lengths: Tensor,
    size: int,
    blank: int,
    bonus: float = 0.0,
) -> Outputs:
    """Search among the K tokens per slot that are given, and keep ``size`` prefixes after each slot.

    The scores sum over the alignments that use the candidates alone and whose prefixes stayed in the beam: lower bounds, exact
    when nothing was left out.

    ``log_probs`` (B, T, K) float are those of the candidates ``tokens`` (B, T, K) int64 in nats: different ones in a slot,
    none of them the blank. ``blank_log_probs`` is (B, T) float, ``lengths`` (B,) int64, slots. ``bonus``: nats that the scores
    have more for each label (Hannun et al. 2014, word insertion).
    """
    batch, slots, _ = log_probs.shape
    # Before the first slot: the empty prefix with probability one, as if a blank stood before it.
    labels = torch.full((batch, size, slots), NO_LABEL, dtype=torch.int64, device=log_probs.device)
    impossible = log_probs.new_full((batch, size), IMPOSSIBLE)
    beam = _Prefixes(labels, labels.new_zeros(batch, size), impossible.clone(), impossible)
    beam.ends_blank[:, 0] = 0.0
    lengths = move(lengths, log_probs.device)
    for slot in range(slots):
        new = _step(beam, log_probs[:, slot], tokens[:, slot], blank_log_probs[:, slot], bonus)
        active = (lengths > slot)[:, None]
        beam = _Prefixes(
            torch.where(active[:, :, None], new.labels, beam.labels),
            *(torch.where(active, after, before) for after, before in zip(new[1:], beam[1:])),
        )
    longest = int(beam.lengths.max()) if beam.lengths.numel() else 0
    labels = beam.labels[:, :, :longest]
    return Outputs(labels.masked_fill(labels == NO_LABEL, blank), beam.lengths, beam.total())


def _step(beam: _Prefixes, log_probs: Tensor, tokens: Tensor, blank_log_probs: Tensor, bonus: float) -> _Prefixes:
    """One slot, with candidates (B, K): every prefix stays as it is or grows by one of them; the N best are kept."""
    size, count = beam.lengths.size(1), tokens.size(1)
    total = beam.total()
    last = beam.labels.gather(2, (beam.lengths - 1).clamp(min=0)[:, :, None])[:, :, 0]  # NO_LABEL of the empty prefix
    repeats = tokens[:, None, :] == last[:, :, None]  # B N K
    repeated = log_probs[:, None, :].masked_fill(~repeats, IMPOSSIBLE).amax(dim=2)
    stays_blank = total + blank_log_probs[:, None]
    stays_label = beam.ends_label + repeated
    # A label that is repeated makes a new one only behind a blank.
    grown = torch.where(repeats, beam.ends_blank[:, :, None], total[:, :, None]) + (log_probs[:, None, :] + bonus)
    grown, merged = _merge(beam, grown, repeats)
    stays_label = torch.logaddexp(stays_label, merged)

    scores, chosen = torch.cat([torch.logaddexp(stays_blank, stays_label), grown.flatten(1)], dim=1).topk(size, dim=1)
    grows = chosen >= size
    parent = torch.where(grows, (chosen - size).div(count, rounding_mode="floor"), chosen)
    label = tokens.gather(1, (chosen - size).clamp(min=0) % count)
    labels = beam.labels.gather(1, parent[:, :, None].expand(-1, -1, beam.labels.size(2)))
    lengths = beam.lengths.gather(1, parent)
    place = lengths.clamp(max=labels.size(2) - 1)[:, :, None]  # a prefix as long as the slots cannot grow
    labels = labels.scatter(2, place, torch.where(grows[:, :, None], label[:, :, None], labels.gather(2, place)))
    # What is impossible must not look like a prefix that others grow into: those would be merged with it too.
    dead = scores == IMPOSSIBLE
    return _Prefixes(
        labels,
        (lengths + grows).masked_fill(dead, 0),
        stays_blank.gather(1, parent).masked_fill(grows, IMPOSSIBLE),
        torch.where(grows, scores, stays_label.gather(1, parent)),
    )


def _merge(beam: _Prefixes, grown: Tensor, repeats: Tensor) -> Tuple[Tensor, Tensor]:
    """Find prefixes that grow into another one of the beam.

    ``grown`` (B, N, K) is the score of each prefix with each candidate behind it, ``repeats`` (B, N, K) whether that is its last
    label. Returns ``grown`` without those, and what each prefix of the beam gains from them, (B, N).
    """
    size = beam.lengths.size(1)
    behind = torch.arange(beam.labels.size(2), device=grown.device) >= (beam.lengths - 1)[:, :, None]
    shorter = beam.labels.masked_fill(behind, NO_LABEL)
    # Prefix j is prefix i and one label. (B, N, N)
    child = (beam.labels[:, :, None, :] == shorter[:, None, :, :]).all(dim=3) & (beam.lengths > 0)[:, None, :]
    child &= (beam.lengths[:, :, None] + 1) == beam.lengths[:, None, :]
    child &= repeats.any(dim=2)[:, None, :]
    column = repeats.int().argmax(dim=2)[:, None, :].expand(-1, size, -1)  # of the last label of j
    merged = grown.gather(2, column).masked_fill(~child, IMPOSSIBLE).amax(dim=1)
    taken = torch.matmul(child.to(grown.dtype), repeats.to(grown.dtype)) > 0
    return grown.masked_fill(taken, IMPOSSIBLE), merged


def linear_prefix_beam(
    hidden: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    lengths: Tensor,
    blank: int,
    size: int,
    candidates: int,
    chunk_size: int = DEFAULT_CHUNK_SIZE,
    excluded: Iterable[int] = (),
    bonus: float = 0.0,
) -> Outputs:
    """The ``size`` likeliest outputs of ``linear(hidden, weight, bias)``, in chunks of the vocabulary.

    The search sees the ``candidates`` likeliest tokens of each slot; what it found is then scored over all alignments, so that
    the scores are those of the whole distribution and comparable with the loss. They fall but for ``bonus``: each output stands as
    if it had so many nats more for each of its labels.

    ``hidden`` is (B, T, C), projected in float32 where it is half precision; weight and bias are (V, C) and (V,) or None,
    ``lengths`` (B,) int64, slots. ``excluded`` are ids that no output holds, as ``</s>``; their probability is given to no
    other token.
    """
    if size < 1 or candidates < 1:
        raise ValueError(f"size and candidates must be at least 1; got {size} and {candidates}")
    inside = Places.inside(lengths, hidden.size(1), hidden.device)
    scan = scan_top(hidden[inside], weight, bias, candidates, blank, chunk_size, excluded)
    log_probs, tokens, blanks, norms = (spread(part, inside, hidden.shape[:2]) for part in scan)
    found = prefix_beam_search(log_probs, tokens, blanks, lengths, size, blank, bonus)
    exact = _output_log_probs(hidden, weight, bias, norms, found, lengths, blank)
    exact = exact.masked_fill(found.scores == IMPOSSIBLE, IMPOSSIBLE)
    order = (exact + bonus * found.lengths).sort(dim=1, descending=True).indices
    labels = found.labels.gather(1, order[:, :, None].expand_as(found.labels))
    return Outputs(labels, found.lengths.gather(1, order), exact.gather(1, order))


def _output_log_probs(
    hidden: Tensor, weight: Tensor, bias: Optional[Tensor], norms: Tensor, found: Outputs, lengths: Tensor, blank: int
) -> Tensor:
    """Log-probability of each output over all its alignments, (B, N); ``norms`` (B, T) is the log-sum-exp of each slot.

    Only the rows of its labels are projected.
    """
    scores = []
    for labels, label_lengths in zip(found.labels.unbind(1), found.lengths.unbind(1)):
        ids = torch.cat([torch.full_like(found.lengths[:, :1], blank), labels], dim=1)  # B 1+S
        logits = exact_logits(hidden, weight[ids], None if bias is None else bias[ids][:, None, :])  # B T 1+S
        # A label that occurs again has the column of its first occurrence: CTC must see that they are the same. (B, S+1), the
        # blank last: without labels there is still a column.
        columns = (ids.roll(-1, 1)[:, :, None] == ids[:, None, :]).int().argmax(dim=2)
        log_probs = (logits - norms[:, :, None]).transpose(0, 1)
        loss = F.ctc_loss(log_probs, columns, lengths, label_lengths, blank=0, reduction="none")
        scores.append(-loss)
    return torch.stack(scores, dim=1)
