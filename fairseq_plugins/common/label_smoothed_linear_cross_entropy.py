"""Criterion ``label_smoothed_linear_cross_entropy``: stock label smoothing without B x T x V."""

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

from ..ops.vocab_loss import DEFAULT_TOKEN_CHUNK, label_smoothed, linear_token_losses
from .options import check_range, option

PROJECTIONS = ("output_projection", "fc_out")
"""Names of the output projection in stock decoders: transformer, BART, light convolutions; LSTM."""


@dataclass
class LabelSmoothedLinearCrossEntropyConfig(LabelSmoothedCrossEntropyCriterionConfig):
    """Options of the stock criterion, and the size of a chunk."""

    loss_chunk_size: int = option(
        DEFAULT_TOKEN_CHUNK,
        "tokens projected to the vocabulary at a time; fewer need less memory",
    )


@register_criterion(
    "label_smoothed_linear_cross_entropy", dataclass=LabelSmoothedLinearCrossEntropyConfig
)
class LabelSmoothedLinearCrossEntropyCriterion(LabelSmoothedCrossEntropyCriterion):
    """Stock ``label_smoothed_cross_entropy`` for any decoder that ends in a linear projection.

    Value and gradient are those of the stock criterion. During the forward pass of a batch the
    projection is replaced by the chunked loss: it still runs inside the wrapped model
    (DistributedDataParallel sees the weights used), and decoding for ``--eval-bleu`` is untouched.
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
        """Compute the loss of a batch as the stock criterion does."""
        target, projection = self._target(sample), find_projection(model)

        def compute_losses(features: Tensor) -> Tensor:
            """Return nll, smooth loss and best token in place of logits. (B, T, C) -> (B, T, 3)."""
            losses = linear_token_losses(
                features,
                projection.weight,
                projection.bias,
                target,
                self.eps,
                self.loss_chunk_size,
                self.padding_idx,
                want_best=True,
            )
            assert losses.best is not None
            best = losses.best.to(losses.nll.dtype)
            return torch.stack([losses.nll, losses.smooth, best], dim=-1)

        with replaced_forward(projection, compute_losses):
            return super().forward(model, sample, reduce)

    def _target(self, sample: Dict[str, Any]) -> Tensor:
        """Return the targets, (B, T) int64, with padding where nothing is predicted."""
        target = sample["target"].clone()
        target[:, : self.ignore_prefix_size] = self.padding_idx
        return target

    def compute_loss(
        self, model: Any, net_output: Any, sample: Any, reduce: bool = True
    ) -> Tuple[Tensor, Tensor]:
        """Return the smoothed loss and the plain nll in nats; with ``reduce`` their sums.

        Args:
            net_output: its first entry is what :meth:`forward` puts in place of the logits.
            reduce: False = per token, (B, T).
        """
        nll, smooth, _ = net_output[0].unbind(dim=-1)
        vocab_size = find_projection(model).weight.size(0)
        loss = label_smoothed(nll, smooth, self.eps, vocab_size)
        return (loss.sum(), nll.sum()) if reduce else (loss, nll)

    def compute_accuracy(self, model: Any, net_output: Any, sample: Any) -> Tuple[Tensor, Tensor]:
        """Count the correct tokens, and the tokens that are predicted.

        Where nothing is predicted the best token is -1, which no target equals.
        """
        target = self._target(sample)
        return net_output[0][..., 2].eq(target).sum(), target.ne(self.padding_idx).sum()


def find_projection(model: Any) -> nn.Linear:
    """Return the output projection of a decoder. Raises ValueError unless there is a linear one."""
    is_wrapped = hasattr(model, "module") and not hasattr(model, "decoder")  # in DDP
    inner = model.module if is_wrapped else model
    decoder = getattr(inner, "decoder", None)
    projection: Optional[nn.Module] = None
    if getattr(decoder, "adaptive_softmax", None) is None:
        modules = (getattr(decoder, name, None) for name in PROJECTIONS)
        projection = next((module for module in modules if module is not None), None)
    if not isinstance(projection, nn.Linear):
        raise ValueError(
            "--criterion label_smoothed_linear_cross_entropy needs a decoder with a linear output "
            f"projection ({', '.join(PROJECTIONS)}) and no adaptive softmax; "
            f"{type(inner).__name__} has {type(projection).__name__}: use "
            "label_smoothed_cross_entropy"
        )
    return projection


@contextmanager
def replaced_forward(module: nn.Module, forward: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Let ``module(x)`` call ``forward`` inside a ``with`` block."""
    module.forward = forward  # an instance attribute shadows the class's method
    try:
        yield
    finally:
        del module.forward
