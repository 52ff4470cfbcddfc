"""Criterion ``cross_sequence_mlm``: Eq. 8, summed and logged.

The model computes the objectives and projects their masked positions (``model.py``).
"""

from dataclasses import dataclass
from typing import Any, Dict, List, Tuple

import torch
from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass
from torch import Tensor

from ..common.data_bins import has_repeats
from ..common.options import check_range, option
from ..common.summed_criterion import SummedCriterion, log_loss, total
from ..ops.vocab_loss import DEFAULT_TOKEN_CHUNK, linear_token_losses
from .model import OBJECTIVES


@dataclass
class CrossSequenceMLMConfig(FairseqDataclass):
    """Options of the loss."""

    objectives: str = option(
        "is,cs,tlm",
        "objectives that are trained: is = masked tokens from their own segment, cs = from those "
        "before them and the other segment, tlm = from a pair in one row (parallel batches). "
        "Without cs the cross-attention is not trained, and several processes need --ddp-backend "
        "legacy_ddp or --find-unused-parameters",
    )
    loss_chunk_size: int = option(
        DEFAULT_TOKEN_CHUNK, "tokens projected to the vocabulary at a time; fewer need less memory"
    )


@register_criterion("cross_sequence_mlm", dataclass=CrossSequenceMLMConfig)
class CrossSequenceMLMCriterion(SummedCriterion):
    """L = L_IS(x) + L_IS(y) + L_CS(x, y) + L_CS(y, x), and TLM of parallel pairs.

    Losses are sums in nats over the masked tokens; ``sample_size`` is the number of masked tokens
    of both segments, once. Logged: the total in bits per masked token, and each objective in bits
    per token that it predicted.

    Differs from the paper: Eq. 8 as printed has one minus sign before four logarithms; every term
    is -log P.

    Source: VECO Eq. 5, 7 and 8; TLM: section 3.
    """

    tasks = ("veco_pretraining",)

    def __init__(self, task: Any, cfg: CrossSequenceMLMConfig):
        super().__init__(task)
        self.objectives = parse_objectives(cfg.objectives)
        _check_against_task(self.objectives, task)
        check_range(cfg, "[1, inf)", "loss_chunk_size")
        self.chunk_size = cfg.loss_chunk_size

    def forward(
        self, model: Any, sample: Dict[str, Any], reduce: bool = True
    ) -> Tuple[Tensor, int, Dict[str, Any]]:
        """Compute the loss of a batch; see :meth:`VECODataset.collater`."""
        net_input = sample["net_input"]
        # The tokens to predict: of the segments, and of the pairs in one row.
        segments = sample["target"][net_input["masked"]]  # N
        joint = segments[:0]
        if sample.get("joint_target") is not None:
            joint = sample["joint_target"][net_input["joint_masked"]]
        targets = {"is_mlm": segments, "cs_mlm": segments, "tlm": joint}

        def sum_losses(
            counts: Dict[str, int], hidden: Tensor, weight: Tensor, bias: Tensor
        ) -> Dict[str, Tensor]:
            """Sum the losses of each objective, in nats; see :data:`~.model.Reduction`."""
            target = torch.cat([targets[name] for name in counts])
            nats = linear_token_losses(hidden, weight, bias, target, chunk_size=self.chunk_size).nll
            parts = nats.split(list(counts.values()))
            return {name: part.sum() for name, part in zip(counts, parts)}

        losses: Dict[str, Tensor] = model(
            **net_input, objectives=self.objectives, reduce=sum_losses
        )
        dtype = next(iter(losses.values())).dtype
        loss = sum(losses.values(), segments.new_zeros((), dtype=dtype))  # Eq. 8
        sums: Dict[str, Any] = {}
        for name, target in targets.items():  # the same names on every rank, whatever its batch
            sums[name] = losses[name].detach() if name in losses else loss.new_zeros(())
            sums[f"{name}_tokens"] = target.numel() if name in losses else 0
        return self.result(loss, len(segments), sample, **sums)

    @classmethod
    def log_sums(cls, logging_outputs: List[Dict[str, Any]]) -> None:
        """Log total and objectives in bits per token; skip objectives that no batch had."""
        log_loss(logging_outputs)
        for name in OBJECTIVES.values():
            if total(logging_outputs, f"{name}_tokens"):
                log_loss(logging_outputs, name, f"{name}_tokens")


def parse_objectives(text: str) -> Tuple[str, ...]:
    """Split ``is,cs``. Raises ValueError for no, a repeated or an unknown objective."""
    objectives = tuple(name for name in text.split(",") if name)
    if not objectives or has_repeats(objectives) or set(objectives) - set(OBJECTIVES):
        valid = ",".join(OBJECTIVES)
        raise ValueError(f"--objectives must be some of {valid}, each once; got {text!r}")
    return objectives


def _check_against_task(objectives: Tuple[str, ...], task: Any) -> None:
    """Raise ValueError for objectives that the task's data or options do not allow.

    Without ``cs`` cross-attention has no gradient: it cannot train alone, and some backends would
    wait for its gradient.
    """
    typed = f"--objectives {','.join(objectives)}"
    if objectives == ("tlm",) and not getattr(task, "pairs", True):
        raise ValueError(f"{typed}: tlm needs parallel text; give --pairs, or is or cs as well")
    if "cs" in objectives:
        return
    updates = getattr(getattr(task, "cfg", None), "freeze_backbone_updates", 0)
    if updates:
        raise ValueError(
            f"{typed}: --freeze-backbone-updates {updates} trains cross-attention alone, which "
            "needs cs"
        )
    if hasattr(task, "check_backend"):
        task.check_backend(typed)
