"""Base of criterions whose logged values are all sums, so that batches and processes add up."""

import math
from typing import Any, Dict, List, Tuple

import torch
from fairseq.criterions import CRITERION_REGISTRY, FairseqCriterion
from fairseq.logging import metrics
from fairseq.tasks import TASK_REGISTRY
from torch import Tensor

Logged = Dict[str, Any]


class SummedCriterion(FairseqCriterion):
    """A loss in nats, summed over what ``sample_size`` counts.

    Attributes:
        tasks: registered names of the tasks that the criterion trains; empty means any.
    """

    tasks: Tuple[str, ...] = ()

    @classmethod
    def build_criterion(cls, cfg: Any, task: Any) -> "SummedCriterion":
        """Build the criterion; raise ValueError for a task that it does not train."""
        trainable = tuple(TASK_REGISTRY[name] for name in cls.tasks)
        if trainable and not isinstance(task, trainable):
            names = {criterion: name for name, criterion in CRITERION_REGISTRY.items()}
            task_names = {task_class: name for name, task_class in TASK_REGISTRY.items()}
            raise ValueError(
                f"--criterion {names.get(cls, cls.__name__)} with --task "
                f"{task_names.get(type(task), type(task).__name__)}: the criterion is for "
                f"--task {' or '.join(cls.tasks)}"
            )
        return super().build_criterion(cfg, task)

    @staticmethod
    def result(
        loss: Tensor, sample_size: Any, sample: Dict[str, Any], **sums: Any
    ) -> Tuple[Tensor, Any, Logged]:
        """Assemble the output of ``forward``: loss, sample size, and the sums to log."""
        counts = {name: sample[name] for name in ("ntokens", "nsentences")}
        return (
            loss,
            sample_size,
            {"loss": loss.detach(), **counts, "sample_size": sample_size, **sums},
        )

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """Return True: processes may add up."""
        return True

    @classmethod
    def reduce_metrics(cls, logging_outputs: List[Logged]) -> None:
        """Log the sums of all batches and processes."""
        cls.log_sums(on_host(logging_outputs))

    @classmethod
    def log_sums(cls, logging_outputs: List[Logged]) -> None:
        """Log the sums of :meth:`result`, as numbers."""
        raise NotImplementedError


def on_host(logging_outputs: List[Logged]) -> List[Logged]:
    """Replace tensors by numbers, waiting for the device once."""
    tensors = [
        value.double()
        for log in logging_outputs
        for value in log.values()
        if isinstance(value, Tensor)
    ]
    numbers = iter(torch.stack(tensors).tolist() if tensors else ())
    return [
        {name: next(numbers) if isinstance(value, Tensor) else value for name, value in log.items()}
        for log in logging_outputs
    ]


def total(logging_outputs: List[Logged], name: str) -> float:
    """Sum a logged value; 0 where it was not logged."""
    return sum(float(log.get(name, 0)) for log in logging_outputs)


def log_loss(logging_outputs: List[Logged], name: str = "loss", unit: str = "sample_size") -> None:
    """Log a loss in bits per unit, which is the name of what counts them."""
    size = total(logging_outputs, unit)
    metrics.log_scalar(
        name, total(logging_outputs, name) / max(size, 1) / math.log(2), size, round=3
    )
