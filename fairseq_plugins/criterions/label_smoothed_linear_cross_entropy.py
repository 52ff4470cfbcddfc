"""Criterion ``label_smoothed_linear_cross_entropy``: stock label smoothing without ever holding B x T x V."""

from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, Optional, Tuple

import torch
from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)
from torch import Tensor, nn

from ..common.options import check_range, option
from ..ops.vocab_loss import DEFAULT_TOKEN_CHUNK, label_smoothed, linear_token_losses

PROJECTIONS = ("output_projection", "fc_out")
"""Where stock decoders keep the output projection: transformer, BART and light convolutions; LSTM."""


@dataclass
class LabelSmoothedLinearCrossEntropyConfig(LabelSmoothedCrossEntropyCriterionConfig):
    """fairseq's options, and the size of a chunk."""

    loss_chunk_size: int = option(
        DEFAULT_TOKEN_CHUNK, "tokens projected to the vocabulary at a time; less needs less memory"
    )


@register_criterion("label_smoothed_linear_cross_entropy", dataclass=LabelSmoothedLinearCrossEntropyConfig)
class LabelSmoothedLinearCrossEntropyCriterion(LabelSmoothedCrossEntropyCriterion):
    """Value and gradient of stock ``label_smoothed_cross_entropy``, for any model whose decoder ends in a linear projection.

    During the forward pass of a batch the projection is replaced by the chunked loss, so that it still runs inside the wrapped
    model (DistributedDataParallel sees the weights used) and decoding for ``--eval-bleu`` is untouched.
    """

    def __init__(
        self,
        task: Any,
        sentence_avg: bool,
        label_smoothing: float,
        ignore_prefix_size: int = 0,
        report_accuracy: bool = False,
        loss_chunk_size: int = DEFAULT_TOKEN_CHUNK,
    ):
        super().__init__(task, sentence_avg, label_smoothing, ignore_prefix_size, report_accuracy)
        self.label_smoothing, self.loss_chunk_size = label_smoothing, loss_chunk_size
        check_range(self, "[0, 1)", "label_smoothing")
        check_range(self, "[1, inf)", "loss_chunk_size")
        check_range(self, "[0, inf)", "ignore_prefix_size")

    def forward(
        self, model: nn.Module, sample: Dict[str, Any], reduce: bool = True
    ) -> Tuple[Tensor, Any, Dict[str, Any]]:
        target, projection = self._target(sample), find_projection(model)

        def reduction(features: Tensor) -> Tensor:
            """(B, T, C) -> (B, T, 3): nll, smooth, best token; takes the place of the logits."""
            losses = linear_token_losses(
                features,
                projection.weight,
                projection.bias,
                target,
                self.eps,
                self.loss_chunk_size,
                self.padding_idx,
                True,
            )
            assert losses.best is not None
            return torch.stack([losses.nll, losses.smooth, losses.best.to(losses.nll.dtype)], dim=-1)

        with replaced_forward(projection, reduction):
            return super().forward(model, sample, reduce)

    def _target(self, sample: Dict[str, Any]) -> Tensor:
        """(B, T) int64, padding where nothing is predicted."""
        target = sample["target"].clone()
        target[:, : self.ignore_prefix_size] = self.padding_idx
        return target

    def compute_loss(self, model: Any, net_output: Any, sample: Any, reduce: bool = True) -> Tuple[Tensor, Tensor]:
        """Loss and its part without smoothing, nats; per token, (B, T), unless ``reduce``."""
        nll, smooth, _ = net_output[0].unbind(dim=-1)
        loss = label_smoothed(nll, smooth, self.eps, find_projection(model).weight.size(0))
        return (loss.sum(), nll.sum()) if reduce else (loss, nll)

    def compute_accuracy(self, model: Any, net_output: Any, sample: Any) -> Tuple[Tensor, Tensor]:
        """How many tokens were right, and how many there are; the best token is -1 where nothing is predicted."""
        target = self._target(sample)
        return net_output[0][..., 2].eq(target).sum(), target.ne(self.padding_idx).sum()


def find_projection(model: Any) -> nn.Linear:
    """The output projection of a model's decoder; ValueError where there is no single linear one."""
    inner = model.module if hasattr(model, "module") and not hasattr(model, "decoder") else model  # in DDP
    decoder = getattr(inner, "decoder", None)
    found: Optional[nn.Module] = None
    if getattr(decoder, "adaptive_softmax", None) is None:
        found = next((getattr(decoder, name) for name in PROJECTIONS if getattr(decoder, name, None) is not None), None)
    if not isinstance(found, nn.Linear):
        raise ValueError(
            "--criterion label_smoothed_linear_cross_entropy needs a decoder with a linear output projection "
            f"({', '.join(PROJECTIONS)}) and no adaptive softmax; {type(inner).__name__} has "
            f"{type(found).__name__}: use label_smoothed_cross_entropy"
        )
    return found


@contextmanager
def replaced_forward(module: nn.Module, forward: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Let ``module(x)`` call ``forward`` for a while."""
    module.forward = forward  # an instance attribute shadows the class's method
    try:
        yield
    finally:
        del module.forward
