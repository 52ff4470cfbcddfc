"""``--alignment dag``: a directed acyclic graph of slots in place of the alignment's CTC.

Source: Huang et al. 2022 (DA-Transformer); Shao et al. 2022 (Viterbi decoding).
"""

from dataclasses import dataclass
from typing import Any, Dict, NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn

from ...common.frozen import Frozen
from ...common.options import Rule, option
from ...common.slot_model import Target
from ...ops import dag
from ...ops.ctc import BestPath, linear_best_path
from ...ops.linear_alignment import label_log_probs
from ...ops.masks import lengths_to_padding_mask, move
from ...ops.vocab_scan import accumulation_dtype
from ..criterion import SGACTCCriterion
from ..decoding import Hypotheses, IterationOptions
from ..free import TokenAlignmentModel
from ..mask_predict import TokenGenerator
from ..model import Corruption, Guidance, Losses
from .glancing import UNALIGNED, GlancingSchedule, show_tokens

COPIES = 2
"""Number of times that the denoiser reads each token: SGA section 4.4, "other generation tasks"."""

MAX_DISTANCE = 64
"""Distance between slots from which on all distances share a bias."""


@dataclass
class GraphDecodingOptions:
    """The option of decoding."""

    dag_decoding: Optional[str] = option(
        None,
        "decoding with --alignment dag: lookahead (when not given), greedy, or viterbi, which "
        "divides by the length to the power of --lenpen",
    )


GRAPH_DECODING_RULES = (
    Rule(
        lambda o: o.dag_decoding is not None and o.alignment != "dag",
        "--dag-decoding {dag_decoding}: this model was not trained with --alignment dag; leave it "
        "out",
    ),
    Rule(
        lambda o: o.dag_decoding not in (None, "lookahead", "greedy", "viterbi"),
        "--dag-decoding {dag_decoding}: valid: lookahead, greedy, viterbi",
    ),
    Rule(
        lambda o: o.alignment == "dag" and o.dag_decoding != "viterbi" and o.lenpen != 1.0,
        "--lenpen {lenpen}: with --alignment dag it is read by --dag-decoding viterbi alone; "
        "valid: 1",
    ),
)


# ---- Model. ----


class Transitions(nn.Module):
    """Softmax over the later slots of (W_q h)^T (W_k h) / sqrt(C), plus a bias for each distance.

    Source: Huang et al. 2022, with one head. The bias takes the place of their positional features:
    states of a frozen model tell little of positions.
    """

    def __init__(self, embed_dim: int):
        super().__init__()
        self.query = nn.Linear(embed_dim, embed_dim)
        self.key = nn.Linear(embed_dim, embed_dim)
        self.distance = nn.Parameter(torch.zeros(MAX_DISTANCE))

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
        distances = (places[None, :] - places[:, None] - 1).clamp(0, MAX_DISTANCE - 1)  # T T
        scores = scores + self.distance.to(dtype)[distances]
        allowed = dag.reachable(move(slots, hidden.device), size)
        # First a finite fill: rows without any later slot would be NaN in between.
        log_probs = scores.masked_fill(~allowed, -1e9).log_softmax(dim=2)
        return log_probs.masked_fill(~allowed, dag.IMPOSSIBLE)


class GraphStates(NamedTuple):
    """Output of the alignment unit."""

    hidden: Tensor  # (B, T, C), ready for the output projection
    transitions: Tensor  # (B, T, T) log-probabilities of going from slot to slot


class Glance(NamedTuple):
    """Outcome of a first pass over slots that hold ``<mask>`` alone."""

    tokens: Tensor  # (B, T) int64, contents of the slots for the second pass
    path: BestPath  # best token of each slot
    transitions: Tensor  # (B, T, T) log-probabilities of going from slot to slot


class GraphModel(TokenAlignmentModel):
    """SGA whose alignment is a path through a graph of slots."""

    alignment = "dag"
    copies = COPIES
    num_updates = 0

    def __init__(
        self,
        frozen: Frozen,
        cfg: Any,
        blank: int,
        mask: int,
        target_rows: Optional[Tensor] = None,
    ):
        super().__init__(frozen, cfg, blank, mask, target_rows)
        self.transitions = Transitions(self.masked_lm.sizes.embed_dim)

    def set_num_updates(self, num_updates: int) -> None:
        """Note the number of updates, which the criterion's schedule of glancing reads."""
        super().set_num_updates(num_updates)
        self.num_updates = num_updates

    def align_graph(self, guidance: Guidance, slots: Tensor, tokens: Tensor) -> GraphStates:
        """Run the alignment unit.

        Args:
            slots: (B,) int64.
            tokens: (B, T) int64, contents of the slots.
        """
        states = self.unit_states(tokens, slots, self.alignment_prompts, guidance)  # B T C
        return GraphStates(
            self.masked_lm.lm_head.transform(states), self.transitions(states, slots)
        )

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        target: Target,
        corrupt: Optional[Corruption] = None,
        unroll: int = 1,
        glancing: float = 0.0,
    ) -> Losses:
        """Compute the losses of a batch: of the graph, and CTC of the denoised lookahead path.

        The denoiser reads what the graph gives without a glance at the target, as in decoding.

        Args:
            glancing: ratio of :func:`.glancing.show_tokens`; 0 = no glance.

        For the other arguments see :meth:`.model.SGAModel.forward`.
        """
        guidance = self.encode(src_tokens)
        slots = self.slot_lengths(src_lengths)  # B
        path: Optional[BestPath]
        if glancing:
            glance = self.glance(guidance, slots, target, glancing)
            states = self.align_graph(guidance, slots, glance.tokens)
            loss, _ = self.graph_loss(states, slots, target, want_best=False)
            path, transitions = glance.path, glance.transitions
        else:
            states = self.align_graph(guidance, slots, self.blank_sentence(slots))
            loss, path = self.graph_loss(states, slots, target, want_best=self.has_denoiser)
            transitions = states.transitions
        if not self.has_denoiser:
            return {"alignment": loss}, {"alignment": slots}
        assert path is not None
        tokens, copies = self.read_lookahead(transitions.detach(), path, slots)
        denoising = self.denoising_loss(tokens, copies, guidance, target, corrupt, unroll)
        losses = {"alignment": loss, "denoising": denoising}
        return losses, {"alignment": slots, "denoising": copies}

    def read_lookahead(
        self, transitions: Tensor, path: BestPath, slots: Tensor
    ) -> Tuple[Tensor, Tensor]:
        """Read the lookahead path: its tokens, each twice, (B, T), and how many these are, (B,)."""
        visited = dag.lookahead(transitions, path.log_probs, move(slots, transitions.device))
        tokens, _, lengths = dag.read_path(path, visited, self.mask)
        return self.duplicate(tokens), self.denoiser_slots(lengths)

    def graph_loss(
        self, states: GraphStates, slots: Tensor, target: Target, want_best: bool
    ) -> Tuple[Tensor, Optional[BestPath]]:
        """Compute the loss (B,) in nats, and the best token of each slot if wanted."""
        weight, bias = self.projection
        return dag.linear_dag_with_best(
            states.hidden,
            weight,
            bias,
            states.transitions,
            target.tokens,
            slots,
            target.lengths,
            self.blank,
            target.chunk_size,
            want_best,
        )

    @torch.no_grad()
    def glance(self, guidance: Guidance, slots: Tensor, target: Target, ratio: float) -> Glance:
        """Align the target in a pass without gradients, and show some of its tokens."""
        masks = self.blank_sentence(slots)  # B T
        states = self.align_graph(guidance, slots, masks)
        aligned, path = self.aligned_tokens(states, slots, target)
        tokens = show_tokens(aligned, path.tokens, masks, ratio)
        return Glance(tokens, path, states.transitions)

    @torch.no_grad()
    def aligned_tokens(
        self, states: GraphStates, slots: Tensor, target: Target
    ) -> Tuple[Tensor, BestPath]:
        """Find the tokens (B, T) of the target's best path, and the best token of each slot."""
        weight, bias = self.projection
        device = states.hidden.device
        on_device, lengths = move(slots, device), move(target.lengths, device)
        outside = lengths_to_padding_mask(lengths, target.tokens.size(1))  # B U
        outside = outside | ~dag.alignable(on_device, lengths)[:, None]
        ids = target.tokens.masked_fill(outside, self.blank)
        log_probs, path = label_log_probs(
            states.hidden, weight, bias, ids, slots, self.blank, target.chunk_size
        )
        places = dag.best_slots(log_probs, states.transitions, on_device, lengths)  # B U
        aligned = torch.full_like(path.tokens, UNALIGNED)
        # Labels outside go to the first slot, which emits nothing.
        places, ids = places.masked_fill(outside, 0), ids.masked_fill(outside, UNALIGNED)
        return aligned.scatter(1, places, ids), path


class SGADAGCriterion(SGACTCCriterion):
    """Total = minus the log-probability of the target over all paths of the graph + denoising CTC.

    The denoiser reads the tokens of the lookahead path (ids: detached), each twice, with the noise
    of ``sga_ctc``. Losses are sums in nats; ``sample_size`` is the number of target tokens, or of
    sentences. A target without room (fewer slots than tokens + 2) has an alignment loss of zero and
    is counted, and so is one whose path is too short for the denoiser's CTC: at first many.

    Source: Huang et al. 2022, in place of loss 1 of SGA Eq. 7.
    """

    alignment = "dag"

    def __init__(self, task: Any, cfg: Any):
        super().__init__(task, cfg)
        self.glancing = GlancingSchedule.parse(str(cfg.glancing))

    def model_inputs(self, sga: Any, sample: Dict[str, Any], target: Target) -> Dict[str, Any]:
        """Add the ratio of glancing at this update; validation does not glance."""
        ratio = self.glancing.at(sga.num_updates) if sga.training else 0.0
        return {**super().model_inputs(sga, sample, target), "glancing": ratio}

    def mark_alignable(self, name: str, target: Target, slots: Tensor, blank: int) -> Tensor:
        """Mark the targets with room: two slots more than tokens, for the alignment.

        Returns (B,) bool.
        """
        if name != "alignment":
            return super().mark_alignable(name, target, slots, blank)
        device = target.tokens.device
        return dag.alignable(move(slots, device), move(target.lengths, device))


# ---- Decoding. ----


class GraphOptions(NamedTuple):
    """Options of the path that is read."""

    path: str = "lookahead"  # --dag-decoding: lookahead, greedy or viterbi
    length_penalty: float = 1.0  # --lenpen, of viterbi


class SGADAGGenerator(TokenGenerator):
    """A path of the graph, then the denoiser; with the interface of fairseq's generators.

    greedy: from slot to the likeliest next slot. lookahead: to the slot with the best transition
    times token. viterbi: the likeliest path with its tokens, divided by the number of tokens to the
    power of ``--lenpen``. Of equal neighbours one token stays. The tokens are duplicated and
    denoised as after mask-predict; with ``--iter-decode-max-iter 0`` or without a denoiser they are
    the result.
    """

    def __init__(self, tgt_dict: Any, options: IterationOptions, graph: GraphOptions):
        super().__init__(tgt_dict, options)
        self.graph = graph

    def decode(self, model: Any, src_tokens: Tensor, src_lengths: Tensor) -> Hypotheses:
        """Generate for a batch: one hypothesis per sentence."""
        guidance = model.encode(src_tokens)
        slots = model.slot_lengths(src_lengths)  # B
        states = model.align_graph(guidance, slots, model.blank_sentence(slots))
        weight, bias = model.projection
        best = linear_best_path(states.hidden, weight, bias, slots, model.blank)
        visited = self.find_path(states.transitions, best.log_probs, slots)
        filler = model.mask if self.runs_denoiser(model) else self.eos
        tokens, log_probs, lengths = dag.read_path(best, visited, filler)
        return self.finish(model, guidance, BestPath(tokens, tokens, log_probs), lengths)

    def find_path(self, transitions: Tensor, token_log_probs: Tensor, slots: Tensor) -> Tensor:
        """Mark the slots of each sentence's path that emit, (B, T) bool."""
        slots = move(slots, transitions.device)
        if self.graph.path == "viterbi":
            return dag.viterbi(transitions, token_log_probs, slots, self.graph.length_penalty)
        token_weight = 1.0 if self.graph.path == "lookahead" else 0.0
        return dag.lookahead(transitions, token_log_probs, slots, weight=token_weight)
