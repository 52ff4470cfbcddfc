"""Criterion ``sga_dag``: a directed acyclic graph of slots for the alignment, CTC on the denoised output."""

from fairseq.criterions import register_criterion
from torch import Tensor

from ...ops import dag
from ...ops.masks import move
from ..criterion import SGACTCConfig, SGACTCCriterion


@register_criterion("sga_dag", dataclass=SGACTCConfig)
class SGADAGCriterion(SGACTCCriterion):
    """Total = minus the log-probability of the target over all paths of the graph + denoising CTC.

    The denoiser reads the tokens of the lookahead path (ids: detached), each twice, with the noise of ``sga_ctc``. Losses are sums
    in nats; ``sample_size`` is the number of target tokens, or of sentences. A target without room (fewer slots than tokens + 2)
    has an alignment loss of zero and is counted, and so is one whose path is too short for the denoiser's CTC: at first many.

    Source: Huang et al. 2022 (DA-Transformer), in place of loss 1 of SGA Eq. 7.
    """

    alignment = "dag"

    def _alignable(self, name: str, targets: Tensor, slots: Tensor, lengths: Tensor, blank: int) -> Tensor:
        if name == "alignment":
            return dag.alignable(move(slots, targets.device), move(lengths, targets.device))
        return super()._alignable(name, targets, slots, lengths, blank)
