"""Criterion ``cross_sequence_mlm``: the masked-LM losses of VECO's pre-training, projected in chunks."""

from dataclasses import dataclass
from typing import Any, Dict, List, Tuple

import torch
from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass
from torch import Tensor

from ..common.options import check_range, option
from ..common.summed_criterion import SummedCriterion, log_loss, total
from ..ops.vocab_loss import DEFAULT_TOKEN_CHUNK, linear_token_losses

NAMES = {"is": "is_mlm", "cs": "cs_mlm", "tlm": "tlm"}
"""Objective as --objectives calls it -> name in the log."""


@dataclass
class CrossSequenceMLMConfig(FairseqDataclass):
    objectives: str = option(
        "is,cs,tlm",
        "what is trained: is = masked tokens from their own segment, cs = from those before them and the other segment, tlm = "
        "from a pair in one row (parallel batches). Without cs the cross-attention is not trained, and several processes need "
        "--ddp-backend legacy_ddp or --find-unused-parameters",
    )
    loss_chunk_size: int = option(
        DEFAULT_TOKEN_CHUNK, "tokens projected to the vocabulary at a time; less needs less memory"
    )


def parse_objectives(text: str) -> Tuple[str, ...]:
    """``is,cs`` -> (is, cs). Raises ValueError: none, one twice, or one that there is not."""
    found = tuple(name for name in text.split(",") if name)
    if not found or len(set(found)) != len(found) or set(found) - set(NAMES):
        raise ValueError(f"--objectives must be some of {','.join(NAMES)}, each once; got {text!r}")
    return found


def _check_against_task(objectives: Tuple[str, ...], task: Any) -> None:
    """Refuse objectives that train nothing, or that leave cross-attention without a gradient under a backend that waits for it."""
    given = f"--objectives {','.join(objectives)}"
    if objectives == ("tlm",) and not getattr(task, "pairs", True):
        raise ValueError(f"{given}: tlm needs parallel text; give --pairs, or is or cs as well")
    frozen = getattr(getattr(task, "cfg", None), "freeze_backbone_updates", 0)
    if frozen and "cs" not in objectives:
        raise ValueError(f"{given}: --freeze-backbone-updates {frozen} trains cross-attention alone, which needs cs")
    if "cs" not in objectives and hasattr(task, "check_backend"):
        task.check_backend(given)


@register_criterion("cross_sequence_mlm", dataclass=CrossSequenceMLMConfig)
class CrossSequenceMLMCriterion(SummedCriterion):
    """Total = IS-MLM + CS-MLM of both segments, and TLM of parallel pairs.

    Losses are sums in nats over the masked tokens; ``sample_size`` is the number of masked tokens of both segments, once. Logged:
    the total in bits per masked token, and each objective in bits per token that it predicted.

    Differs from the paper: equation 8 as printed has one minus sign before four logarithms; every term is -log P.

    Source: VECO equations 3, 7 and 8, and section 3.
    """

    tasks = ("veco_pretraining",)

    def __init__(self, task: Any, cfg: CrossSequenceMLMConfig):
        super().__init__(task)
        self.objectives = parse_objectives(cfg.objectives)
        _check_against_task(self.objectives, task)
        check_range(cfg, "[1, inf)", "loss_chunk_size")
        self.chunk_size = cfg.loss_chunk_size

    def forward(self, model: Any, sample: Dict[str, Any], reduce: bool = True) -> Tuple[Tensor, int, Dict[str, Any]]:
        inputs = sample["net_input"]
        segments = sample["target"][inputs["masked"]]
        joint = segments[:0]
        if sample.get("joint_target") is not None:
            joint = sample["joint_target"][inputs["joint_masked"]]
        targets = {"is_mlm": segments, "cs_mlm": segments, "tlm": joint}

        def losses_of(counts: Dict[str, int], hidden: Tensor, weight: Tensor, bias: Tensor) -> Dict[str, Tensor]:
            wanted = torch.cat([targets[name] for name in counts])
            nats = linear_token_losses(hidden, weight, bias, wanted, chunk_size=self.chunk_size).nll
            return {name: part.sum() for name, part in zip(counts, nats.split(list(counts.values())))}

        losses: Dict[str, Tensor] = model(**inputs, objectives=self.objectives, reduce=losses_of)
        loss = sum(losses.values(), segments.new_zeros((), dtype=next(iter(losses.values())).dtype))
        sample_size = len(segments)
        sums: Dict[str, Any] = {}
        for name, target in targets.items():  # every rank has the same names and types, whatever its batch allows
            sums[name] = losses[name].detach() if name in losses else loss.new_zeros(())
            sums[f"{name}_tokens"] = target.numel() if name in losses else 0
        return self.result(loss, sample_size, sample, **sums)

    @classmethod
    def log_sums(cls, logging_outputs: List[Dict[str, Any]]) -> None:
        """Log total and objectives in bits per token; an objective that no batch had is left out."""
        log_loss(logging_outputs)
        for name in NAMES.values():
            if total(logging_outputs, f"{name}_tokens"):
                log_loss(logging_outputs, name, f"{name}_tokens")
