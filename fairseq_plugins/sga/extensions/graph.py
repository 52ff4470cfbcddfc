"""``--alignment dag``: a directed acyclic graph of slots in place of the alignment's CTC.

Source: Huang et al. 2022 (DA-Transformer); Shao et al. 2022 (Viterbi decoding).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn

from ...common.frozen import Frozen
from ...common.options import option
from ...ops import dag
from ...ops.ctc import BestPath, linear_best_path
from ...ops.linear_alignment import label_log_probs
from ...ops.masks import lengths_to_padding_mask, move
from ...ops.vocab_scan import DEFAULT_CHUNK_SIZE, accumulation_dtype
from ..criterion import Labels
from ..decoding import Hypotheses, IterationOptions
from ..free import TokenAlignmentModel
from ..mask_predict import TokenGenerator
from ..model import Corruption, Losses, Target
from ..units import Guidance
from .glancing import UNALIGNED, GlancingCriterion, GlancingModel, show_tokens

COPIES = 2
"""Number of times that the denoiser reads each token: SGA section 4.4, "other generation tasks"."""

FURTHEST = 64
"""Distance between slots from which on all distances share a bias."""


@dataclass
class GraphDecodingOptions:
    """The option of decoding."""

    dag_decoding: Optional[str] = option(
        None,
        "decoding with --alignment dag: lookahead (when not given), greedy, or viterbi, which "
        "divides by the length to the power of --lenpen",
    )


class Transitions(nn.Module):
    """Softmax over the later slots of (W_q h)^T (W_k h) / sqrt(C), plus a bias for each distance.

    Source: Huang et al. 2022, with one head. The bias takes the place of their positional features:
    states of a frozen model tell little of positions.
    """

    def __init__(self, embed_dim: int):
        super().__init__()
        self.query = nn.Linear(embed_dim, embed_dim)
        self.key = nn.Linear(embed_dim, embed_dim)
        self.distance = nn.Parameter(torch.zeros(FURTHEST))

    def forward(self, hidden: Tensor, slots: Tensor) -> Tensor:
        """Compute log-probabilities of going from slot to slot, in float32 or float64.

        Args:
            hidden: (B, T, C).
            slots: (B,) int64.

        Returns:
            (B, T, T); minus infinity where no path may go: in all of the rows of the last slot and
            of padding.
        """
        size = hidden.size(1)
        dtype = accumulation_dtype(hidden.dtype)
        # Scaled before the product, which float16 could not hold.
        query = self.query(hidden) * hidden.size(2) ** -0.5  # B T C
        scores = torch.matmul(query, self.key(hidden).transpose(1, 2)).to(dtype)  # B T T
        places = torch.arange(size, device=hidden.device)
        distances = (places[None, :] - places[:, None] - 1).clamp(0, FURTHEST - 1)  # T T
        scores = scores + self.distance.to(dtype)[distances]
        allowed = dag.reachable(move(slots, hidden.device), size)
        # First a finite fill: rows without any later slot would be NaN in between.
        log_probs = scores.masked_fill(~allowed, -1e9).log_softmax(dim=2)
        return log_probs.masked_fill(~allowed, dag.IMPOSSIBLE)


class GraphModel(TokenAlignmentModel, GlancingModel):
    """SGA whose alignment is a path through a graph of slots."""

    alignment = "dag"
    copies = COPIES

    def __init__(self, frozen: Frozen, cfg: Any, blank: int, mask: int):
        super().__init__(frozen, cfg, blank, mask)
        self.transitions = Transitions(self.masked_lm.sizes.embed_dim)

    def align_graph(
        self, guidance: Guidance, slots: Tensor, tokens: Optional[Tensor] = None
    ) -> Tuple[Tensor, Tensor]:
        """Run the alignment unit: states (B, T, C), and log-probabilities of transitions (B, T, T).

        ``tokens`` (B, T) are the contents of the slots, ``<mask>`` everywhere when None.
        """
        tokens = self.blank_sentence(slots) if tokens is None else tokens
        states = self.unit_states(tokens, slots, self.alignment_prompts, guidance)
        return self.masked_lm.lm_head.transform(states), self.transitions(states, slots)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        targets: Tensor,
        target_lengths: Tensor,
        chunk_size: int = DEFAULT_CHUNK_SIZE,
        corrupt: Optional[Corruption] = None,
        unroll: int = 1,
        glancing: float = 0.0,
    ) -> Losses:
        """Compute the losses of a batch: of the graph, and CTC of the denoised lookahead path.

        The denoiser reads what the graph gives without a glance at the target, as in decoding. For
        the arguments see :meth:`.glancing.GlancingModel.forward`.
        """
        target = Target(targets, target_lengths, chunk_size)
        guidance = self.encode(src_tokens)
        slots = self.slot_lengths(src_lengths)  # B
        if glancing:
            tokens, path, links = self.glance_graph(guidance, slots, target, glancing)
            loss = self.graph_loss(guidance, slots, target, tokens, want_best=False)[0]
        else:
            loss, path, links = self.graph_loss(guidance, slots, target, None, self.has_denoiser)
        if not self.has_denoiser:
            return {"alignment": loss}, {"alignment": slots}
        visited = dag.lookahead(links.detach(), path.log_probs, move(slots, links.device))
        tokens, _, lengths = dag.read_path(path, visited, self.mask)
        copied = self.denoiser_slots(lengths)  # B
        denoising = self.denoising_loss(
            self.duplicate(tokens), copied, guidance, target, corrupt, unroll
        )
        return {"alignment": loss, "denoising": denoising}, {
            "alignment": slots,
            "denoising": copied,
        }

    def graph_loss(
        self,
        guidance: Guidance,
        slots: Tensor,
        target: Target,
        tokens: Optional[Tensor],
        want_best: bool,
    ) -> Tuple[Tensor, Any, Tensor]:
        """Compute the loss (B,) in nats; also the best path if asked for, and the transitions."""
        hidden, links = self.align_graph(guidance, slots, tokens)
        weight, bias = self.projection
        loss, path = dag.linear_dag_with_best(
            hidden,
            weight,
            bias,
            links,
            target.tokens,
            slots,
            target.lengths,
            self.blank,
            target.chunk_size,
            want_best,
        )
        return loss, path, links

    @torch.no_grad()
    def glance_graph(
        self, guidance: Guidance, slots: Tensor, target: Target, ratio: float
    ) -> Tuple[Tensor, BestPath, Tensor]:
        """Align the target in a pass without gradients, and show some of its tokens.

        Returns:
            Contents of the slots (B, T); the pass's best tokens and transitions.
        """
        aligned, path, links = self.aligned_path(guidance, slots, target)
        tokens = show_tokens(aligned, path.tokens, self.blank_sentence(slots), ratio)
        return tokens, path, links

    @torch.no_grad()
    def aligned_path(
        self, guidance: Guidance, slots: Tensor, target: Target
    ) -> Tuple[Tensor, BestPath, Tensor]:
        """Find the tokens (B, T) of the target's best path; also best tokens and transitions."""
        hidden, links = self.align_graph(guidance, slots)
        weight, bias = self.projection
        on_device, lengths = move(slots, hidden.device), move(target.lengths, hidden.device)
        outside = lengths_to_padding_mask(lengths, target.tokens.size(1))  # B U
        outside = outside | ~dag.alignable(on_device, lengths)[:, None]
        ids = target.tokens.masked_fill(outside, self.blank)
        log_probs, path = label_log_probs(
            hidden, weight, bias, ids, slots, self.blank, target.chunk_size
        )
        places = dag.best_slots(log_probs, links, on_device, lengths)  # B U
        aligned = torch.full_like(path.tokens, UNALIGNED)
        # Labels outside go to the first slot, which emits nothing.
        places, ids = places.masked_fill(outside, 0), ids.masked_fill(outside, UNALIGNED)
        return aligned.scatter(1, places, ids), path, links


class SGADAGCriterion(GlancingCriterion):
    """Total = minus the log-probability of the target over all paths of the graph + denoising CTC.

    The denoiser reads the tokens of the lookahead path (ids: detached), each twice, with the noise
    of ``sga_ctc``. Losses are sums in nats; ``sample_size`` is the number of target tokens, or of
    sentences. A target without room (fewer slots than tokens + 2) has an alignment loss of zero and
    is counted, and so is one whose path is too short for the denoiser's CTC: at first many.

    Source: Huang et al. 2022, in place of loss 1 of SGA Eq. 7.
    """

    alignment = "dag"

    def alignable(self, name: str, labels: Labels, slots: Tensor, blank: int) -> Tensor:
        """Mark the targets with room: two slots more than tokens, for the alignment.

        Returns (B,) bool.
        """
        if name != "alignment":
            return super().alignable(name, labels, slots, blank)
        device = labels.tokens.device
        return dag.alignable(move(slots, device), move(labels.lengths, device))


class GraphOptions(NamedTuple):
    """Options of the path that is read."""

    path: str = "lookahead"  # --dag-decoding: lookahead, greedy or viterbi
    length_penalty: float = 1.0  # --lenpen, of viterbi


class SGADAGGenerator(TokenGenerator):
    """A path of the graph, then the denoiser; with the interface of fairseq's generators.

    greedy: from slot to the likeliest next slot. lookahead: to the slot with the best link times
    token. viterbi: the likeliest path with its tokens, divided by the number of tokens to the power
    of ``--lenpen``. Of equal neighbours one token stays. The tokens are duplicated and denoised as
    after mask-predict; with ``--iter-decode-max-iter 0`` or without a denoiser they are the result.
    """

    def __init__(self, tgt_dict: Any, options: IterationOptions, graph: GraphOptions):
        super().__init__(tgt_dict, options)
        self.graph = graph

    def decode(self, model: Any, src_tokens: Tensor, src_lengths: Tensor) -> Hypotheses:
        """Generate for a batch: one hypothesis per sentence."""
        guidance = model.encode(src_tokens)
        slots = model.slot_lengths(src_lengths)  # B
        hidden, links = model.align_graph(guidance, slots)
        weight, bias = model.projection
        best = linear_best_path(hidden, weight, bias, slots, model.blank)
        on_device = move(slots, links.device)
        if self.graph.path == "viterbi":
            visited = dag.viterbi(links, best.log_probs, on_device, self.graph.length_penalty)
        else:
            token_weight = {"greedy": 0.0, "lookahead": 1.0}[self.graph.path]
            visited = dag.lookahead(links, best.log_probs, on_device, weight=token_weight)
        filler = model.mask if self.runs_denoiser(model) else self.eos
        tokens, log_probs, lengths = dag.read_path(best, visited, filler)
        return self.finish(model, guidance, BestPath(tokens, tokens, log_probs), lengths)
