"""CTC prefix beam search in the last pass of decoding: the likeliest outputs of each sentence.

The best path is the likeliest alignment; another output may have more probability, spread over many
alignments. The search goes through the slots and keeps the likeliest prefixes. Two probabilities
belong to a prefix: that of the alignments that end with a blank, and that of the alignments that
end with its last label.

Source: Graves 2008, section 7.5; Hannun et al. 2014, algorithm 1.
"""

import math
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ...common.options import Rule, option
from ...ops.ctc import BestPath
from ...ops.masks import Places, move, spread
from ...ops.vocab_scan import DEFAULT_CHUNK_SIZE, exact_logits, scan_top
from ..decoding import Hypotheses, IterationOptions, SGAGenerator
from .reranking import ATReranker

NO_LABEL = -1
IMPOSSIBLE = float("-inf")


# ---- Options. ----


@dataclass
class PrefixBeamOptions:
    """Options of the task."""

    iter_decode_ctc_beam: int = option(
        0,
        "decoding: prefixes kept by CTC prefix beam search in the last pass; hypotheses (--nbest) "
        "then have the log-probability of the output. 0 = the best path, whatever --beam says",
    )
    iter_decode_ctc_candidates: Optional[int] = option(
        None,
        "decoding: tokens per slot that --iter-decode-ctc-beam considers beside the blank, at "
        "least 1 (20 when not given); refused without a beam",
    )
    iter_decode_ctc_bonus: float = option(
        0.0,
        "decoding: bonus (in nats) that --iter-decode-ctc-beam adds to the score for each token; "
        "positive values lengthen the output. Refused without a beam",
    )


PREFIX_BEAM_RULES = (
    Rule(
        lambda o: o.alignment != "ctc" and o.iter_decode_ctc_beam > 0,
        "--iter-decode-ctc-beam {iter_decode_ctc_beam}: this model was trained with --alignment "
        "{alignment}; valid: 0",
    ),
    Rule(
        lambda o: o.iter_decode_ctc_candidates is not None and o.iter_decode_ctc_beam == 0,
        "--iter-decode-ctc-candidates {iter_decode_ctc_candidates}: nothing is searched without "
        "--iter-decode-ctc-beam of at least 1; got 0",
    ),
    Rule(
        lambda o: o.iter_decode_ctc_bonus and o.iter_decode_ctc_beam == 0,
        "--iter-decode-ctc-bonus {iter_decode_ctc_bonus}: nothing is searched without "
        "--iter-decode-ctc-beam of at least 1; got 0",
    ),
    Rule(
        lambda o: not math.isfinite(o.iter_decode_ctc_bonus),
        "--iter-decode-ctc-bonus must be a finite number of nats per token; got "
        "{iter_decode_ctc_bonus}",
    ),
    Rule(
        lambda o: o.iter_decode_ctc_beam < 0,
        "--iter-decode-ctc-beam must be 0 (best path) or more; got {iter_decode_ctc_beam}",
    ),
    Rule(
        lambda o: o.iter_decode_ctc_candidates is not None and o.iter_decode_ctc_candidates < 1,
        "--iter-decode-ctc-candidates must be at least 1 token per slot; got "
        "{iter_decode_ctc_candidates}",
    ),
    Rule(
        lambda o: not 1 <= o.nbest <= o.most_hypotheses,
        "--nbest must lie in [1, {most_hypotheses}] with --iter-decode-ctc-beam "
        "{iter_decode_ctc_beam} (0: the best path is one hypothesis; fairseq's --beam has no "
        "meaning here); got {nbest}",
    ),
)


class BeamOptions(NamedTuple):
    """Settings of the search."""

    size: int  # --iter-decode-ctc-beam, prefixes kept after each slot
    candidates: int = 20  # --iter-decode-ctc-candidates, tokens per slot beside the blank
    nbest: int = 1  # --nbest, hypotheses per sentence
    bonus: float = 0.0  # --iter-decode-ctc-bonus, nats per token


# ---- Search. ----


class Outputs(NamedTuple):
    """The N best outputs of each sentence, distinct, best first."""

    labels: Tensor  # (B, N, T') int64, right-padded with the blank
    lengths: Tensor  # (B, N) int64
    scores: Tensor  # (B, N) float, nats (see the functions); -inf if there are fewer outputs

    def cpu(self) -> "Outputs":
        """Copy the outputs to the host."""
        return Outputs(*(part.cpu() for part in self))


class _Prefixes(NamedTuple):
    """The prefixes in the beam, with the log-probabilities of their alignments."""

    labels: Tensor  # (B, N, T) int64, ``NO_LABEL`` after the last one
    lengths: Tensor  # (B, N) int64
    ends_blank: Tensor  # (B, N) float, of the alignments that end with a blank
    ends_label: Tensor  # (B, N) float, of those that end with the last label

    def total(self) -> Tensor:
        """Add up both kinds of alignments. (B, N)."""
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
    """Search among K candidate tokens per slot, and keep ``size`` prefixes after each slot.

    Scores are log-probabilities plus ``bonus`` for each label. The probability sums only over
    alignments of the candidates whose prefixes stayed in the beam: a lower bound, exact if nothing
    was left out.

    Args:
        log_probs: (B, T, K) float, nats, of the candidates.
        tokens: (B, T, K) int64, candidates; distinct within a slot, never the blank.
        blank_log_probs: (B, T) float, nats.
        lengths: (B,) int64, slots.
        bonus: nats added to the score for each label (Hannun et al. 2014, word insertion).
    """
    batch, slots, _ = log_probs.shape
    # Before the first slot: the empty prefix with probability one, as if a blank stood before it.
    labels = torch.full((batch, size, slots), NO_LABEL, dtype=torch.int64, device=log_probs.device)
    impossible = log_probs.new_full((batch, size), IMPOSSIBLE)
    beam = _Prefixes(labels, labels.new_zeros(batch, size), impossible.clone(), impossible)
    beam.ends_blank[:, 0] = 0.0
    lengths = move(lengths, log_probs.device)
    for slot in range(slots):
        grown = _step(beam, log_probs[:, slot], tokens[:, slot], blank_log_probs[:, slot], bonus)
        active = (lengths > slot)[:, None]
        beam = _Prefixes(
            torch.where(active[:, :, None], grown.labels, beam.labels),
            *(torch.where(active, after, before) for after, before in zip(grown[1:], beam[1:])),
        )
    longest = int(beam.lengths.max()) if beam.lengths.numel() else 0
    labels = beam.labels[:, :, :longest]
    return Outputs(labels.masked_fill(labels == NO_LABEL, blank), beam.lengths, beam.total())


def _step(
    beam: _Prefixes, log_probs: Tensor, tokens: Tensor, blank_log_probs: Tensor, bonus: float
) -> _Prefixes:
    """Read one slot: a prefix stays or grows by one of K candidates; the N best remain."""
    size, count = beam.lengths.size(1), tokens.size(1)
    total = beam.total()
    # The empty prefix ends with NO_LABEL.
    last = beam.labels.gather(2, (beam.lengths - 1).clamp(min=0)[:, :, None])[:, :, 0]  # B N
    repeats = tokens[:, None, :] == last[:, :, None]  # B N K
    repeated = log_probs[:, None, :].masked_fill(~repeats, IMPOSSIBLE).amax(dim=2)
    stays_blank = total + blank_log_probs[:, None]
    stays_label = beam.ends_label + repeated
    # A repeated label makes a new one only after a blank.
    before = torch.where(repeats, beam.ends_blank[:, :, None], total[:, :, None])  # B N K
    grown = before + (log_probs[:, None, :] + bonus)
    grown, merged = _merge(beam, grown, repeats)
    stays_label = torch.logaddexp(stays_label, merged)

    stays = torch.logaddexp(stays_blank, stays_label)  # B N
    scores, choice = torch.cat([stays, grown.flatten(1)], dim=1).topk(size, dim=1)  # B N
    grows = choice >= size
    growth = (choice - size).clamp(min=0)  # number of a grown prefix: parent x K + candidate
    parent = torch.where(grows, growth.div(count, rounding_mode="floor"), choice)
    label = tokens.gather(1, growth % count)
    labels = beam.labels.gather(1, parent[:, :, None].expand(-1, -1, beam.labels.size(2)))
    lengths = beam.lengths.gather(1, parent)
    # A prefix as long as the slots cannot grow.
    place = lengths.clamp(max=labels.size(2) - 1)[:, :, None]
    added = torch.where(grows[:, :, None], label[:, :, None], labels.gather(2, place))
    labels = labels.scatter(2, place, added)
    # An impossible entry must not look like a prefix that others grow into: they would be merged
    # with it.
    is_impossible = scores == IMPOSSIBLE
    return _Prefixes(
        labels,
        (lengths + grows).masked_fill(is_impossible, 0),
        stays_blank.gather(1, parent).masked_fill(grows, IMPOSSIBLE),
        torch.where(grows, scores, stays_label.gather(1, parent)),
    )


def _merge(beam: _Prefixes, grown: Tensor, repeats: Tensor) -> Tuple[Tensor, Tensor]:
    """Find prefixes that grow into another one of the beam.

    Args:
        grown: (B, N, K), score of each prefix with each candidate after it.
        repeats: (B, N, K) bool, True = the candidate is the prefix's last label.

    Returns:
        ``grown`` without those, and the score (B, N) that each prefix of the beam gains from them.
    """
    labels, lengths = beam.labels, beam.lengths
    size = lengths.size(1)
    places = torch.arange(labels.size(2), device=grown.device)
    without_last = labels.masked_fill(places >= (lengths - 1)[:, :, None], NO_LABEL)  # B N T
    # is_child[i, j]: prefix j is prefix i and one more label, which is a candidate. (B, N, N)
    is_child = (labels[:, :, None, :] == without_last[:, None, :, :]).all(dim=3)
    is_child &= lengths[:, :, None] + 1 == lengths[:, None, :]
    is_child &= repeats.any(dim=2)[:, None, :]
    last = repeats.int().argmax(dim=2)[:, None, :].expand(-1, size, -1)  # candidate that ends j
    merged = grown.gather(2, last).masked_fill(~is_child, IMPOSSIBLE).amax(dim=1)
    is_merged = torch.matmul(is_child.to(grown.dtype), repeats.to(grown.dtype)) > 0
    return grown.masked_fill(is_merged, IMPOSSIBLE), merged


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
    """Find the ``size`` likeliest outputs of ``linear(hidden, weight, bias)``.

    The search sees the ``candidates`` likeliest tokens of each slot. Its outputs are then scored
    over all alignments, so that the scores are log-probabilities of the whole distribution, as in
    the loss. Outputs are sorted by score + ``bonus`` x labels, best first; the returned scores are
    without the bonus.

    Args:
        hidden: (B, T, C), projected in float32 if it is half precision.
        weight, bias: (V, C), and (V,) or None.
        lengths: (B,) int64, slots.
        excluded: ids that no output holds, as ``</s>``; no other token gets their probability.
    """
    if size < 1 or candidates < 1:
        raise ValueError(f"size and candidates must be at least 1; got {size} and {candidates}")
    inside = Places.inside(lengths, hidden.size(1), hidden.device)
    scan = scan_top(hidden[inside], weight, bias, candidates, blank, chunk_size, excluded)
    log_probs, tokens, blanks, norms = (spread(part, inside, hidden.shape[:2]) for part in scan)
    outputs = prefix_beam_search(log_probs, tokens, blanks, lengths, size, blank, bonus)
    exact = _output_log_probs(hidden, weight, bias, norms, outputs, lengths, blank)
    exact = exact.masked_fill(outputs.scores == IMPOSSIBLE, IMPOSSIBLE)
    order = (exact + bonus * outputs.lengths).sort(dim=1, descending=True).indices
    labels = outputs.labels.gather(1, order[:, :, None].expand_as(outputs.labels))
    return Outputs(labels, outputs.lengths.gather(1, order), exact.gather(1, order))


def _output_log_probs(
    hidden: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    norms: Tensor,
    outputs: Outputs,
    lengths: Tensor,
    blank: int,
) -> Tensor:
    """Sum the probability of each output over all its alignments: (B, N) nats.

    Only the rows of its labels are projected. ``norms`` (B, T) is the log-sum-exp of each slot.
    """
    scores = []
    for labels, label_lengths in zip(outputs.labels.unbind(1), outputs.lengths.unbind(1)):
        ids = torch.cat([torch.full_like(outputs.lengths[:, :1], blank), labels], dim=1)  # B 1+S
        rows_bias = None if bias is None else bias[ids][:, None, :]
        logits = exact_logits(hidden, weight[ids], rows_bias)  # B T 1+S
        # A label that occurs again has the column of its first occurrence: CTC must see that they
        # are the same. The blank is last: without labels there is still a column.
        columns = (ids.roll(-1, 1)[:, :, None] == ids[:, None, :]).int().argmax(dim=2)  # B 1+S
        log_probs = (logits - norms[:, :, None]).transpose(0, 1)
        loss = F.ctc_loss(log_probs, columns, lengths, label_lengths, blank=0, reduction="none")
        scores.append(-loss)
    return torch.stack(scores, dim=1)


# ---- Generator. ----


class PrefixBeamGenerator(SGAGenerator):
    """Decoding that searches the states of each sentence's last pass for its likeliest outputs.

    The passes before it go on from the best path, as without a beam. A reranker orders the outputs.
    """

    def __init__(
        self,
        tgt_dict: Any,
        options: IterationOptions,
        beam: BeamOptions,
        reranker: Optional[ATReranker] = None,
    ):
        super().__init__(tgt_dict, options)
        self.beam, self.reranker = beam, reranker
        self.states: Optional[Tensor] = None  # (B, T, C), of the last pass of each sentence

    def decode(self, model: Any, src_tokens: Tensor, src_lengths: Tensor) -> Hypotheses:
        """Translate a batch.

        Up to ``nbest`` distinct hypotheses per sentence, best ``score`` first, without special
        symbols (``<unk>`` is text). ``ctc_score`` is the log-probability of the output over all its
        alignments, in nats; ``score`` adds the bonus of its tokens; ``positional_scores`` are equal
        shares of it (CTC gives none per token). A sentence that has fewer outputs has fewer
        hypotheses.
        """
        self.states = None
        best = super().decode(model, src_tokens, src_lengths)
        slots = model.slot_lengths(src_lengths)  # B
        sentences = self.search(model, slots, [sentence[0] for sentence in best])
        self.states = None
        if self.reranker is not None:
            sentences = self.reranker.rescore(src_tokens, sentences)
        return [sentence[: self.beam.nbest] for sentence in sentences]

    def read_slots(self, model: Any, hidden: Tensor, slots: Tensor, rows: Tensor) -> BestPath:
        """Keep the states (B', T', C) of each sentence's last pass for the search."""
        if self.states is None:
            self.states = hidden
        else:
            self.states[move(rows, hidden.device), : hidden.size(1)] = hidden
        return super().read_slots(model, hidden, slots, rows)

    def search(self, model: Any, slots: Tensor, best: List[Dict[str, Any]]) -> Hypotheses:
        """Search the outputs of the last states.

        Args:
            slots: (B,) int64, on the host.
            best: hypothesis of the best path of each sentence, whose passes and history all share.
        """
        assert self.states is not None
        weight, bias = model.ctc_projection(self.options.blank_penalty)
        outputs = linear_prefix_beam(
            self.states,
            weight,
            bias,
            slots,
            model.blank,
            self.beam.size,
            self.beam.candidates,
            # fairseq strips these from the text: two outputs that differ by them alone would be one
            # text.
            excluded=self.symbols_to_strip_from_output,
            bonus=self.beam.bonus,
        ).cpu()
        sentences: Hypotheses = []
        for row, shared in enumerate(best):
            count = int(outputs.scores[row].isfinite().sum())
            sentences.append(
                [self._hypothesis(outputs, row, rank, shared) for rank in range(count)]
            )
        return sentences

    def _hypothesis(
        self, outputs: Outputs, row: int, rank: int, shared: Dict[str, Any]
    ) -> Dict[str, Any]:
        length = int(outputs.lengths[row, rank])
        tokens = outputs.labels[row, rank, :length]
        if not length:
            tokens = tokens.new_tensor([self.eos])
        ctc_score = outputs.scores[row, rank]
        score = ctc_score + self.beam.bonus * length
        return {
            **shared,
            "tokens": tokens,
            "score": score,
            "ctc_score": ctc_score,
            "positional_scores": (score / len(tokens)).repeat(len(tokens)),
        }
