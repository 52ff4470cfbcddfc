"""Base of criterions that log sums: over batches and processes the sums are added up."""

import math
from typing import Any, Dict, List, Tuple

import torch
from fairseq.criterions import CRITERION_REGISTRY, FairseqCriterion
from fairseq.logging import metrics
from fairseq.tasks import TASK_REGISTRY
from torch import Tensor

from .own_run import registered_name

Logged = Dict[str, Any]


class SummedCriterion(FairseqCriterion):
    """Criterion whose loss, in nats, is a sum over ``sample_size`` units (tokens or sentences).

    Attributes:
        tasks: registered names of the tasks that the criterion trains; empty means any.
    """

    tasks: Tuple[str, ...] = ()

    @classmethod
    def build_criterion(cls, cfg: Any, task: Any) -> "SummedCriterion":
        """Build the criterion; raise ValueError for a task that it does not train."""
        task_classes = tuple(TASK_REGISTRY[name] for name in cls.tasks)
        if task_classes and not isinstance(task, task_classes):
            names = {criterion: name for name, criterion in CRITERION_REGISTRY.items()}
            raise ValueError(
                f"--criterion {names.get(cls, cls.__name__)} with --task {registered_name(task)}: "
                f"the criterion is for --task {' or '.join(cls.tasks)}"
            )
        return super().build_criterion(cfg, task)

    @staticmethod
    def result(
        loss: Tensor, sample_size: Any, sample: Dict[str, Any], **sums: Any
    ) -> Tuple[Tensor, Any, Logged]:
        """Assemble the output of ``forward``: loss, sample size, and the sums to log."""
        logging_output = {
            "loss": loss.detach(),
            "ntokens": sample["ntokens"],
            "nsentences": sample["nsentences"],
            "sample_size": sample_size,
            **sums,
        }
        return loss, sample_size, logging_output

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """Return True, so that fairseq adds up the logged values of all processes."""
        return True

    @classmethod
    def reduce_metrics(cls, logging_outputs: List[Logged]) -> None:
        """Log the sums of all batches and processes."""
        cls.log_sums(copy_to_host(logging_outputs))

    @classmethod
    def log_sums(cls, logging_outputs: List[Logged]) -> None:
        """Log what :meth:`result` returned for each batch, with numbers in place of tensors."""
        raise NotImplementedError


def copy_to_host(logging_outputs: List[Logged]) -> List[Logged]:
    """Replace tensors by numbers. All are copied from the device at once, which waits once."""
    host_logs = [dict(log) for log in logging_outputs]
    entries = [(log, name) for log in host_logs for name in log if isinstance(log[name], Tensor)]
    if entries:
        numbers = torch.stack([log[name].double() for log, name in entries]).tolist()
        for (log, name), number in zip(entries, numbers):
            log[name] = number
    return host_logs


def total(logging_outputs: List[Logged], name: str) -> float:
    """Sum a logged value; 0 where it was not logged."""
    return sum(float(log.get(name, 0)) for log in logging_outputs)


def log_loss(logging_outputs: List[Logged], name: str = "loss", unit: str = "sample_size") -> None:
    """Log a loss in bits per unit.

    Args:
        name: name of the summed loss, in nats, in ``logging_outputs``; the metric has it too.
        unit: name of the number of units there.
    """
    units = total(logging_outputs, unit)
    bits = total(logging_outputs, name) / max(units, 1) / math.log(2)
    metrics.log_scalar(name, bits, units, round=3)
