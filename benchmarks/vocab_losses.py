"""Compare vocabulary-sized losses in chunks with those from all logits: time and memory.

    python -m benchmarks.vocab_losses [--device cuda] [--tokens 1024] [--vocab 250002] [--rounds 5]

Forward and backward. Peers: torch's ``ctc_loss(log_softmax(linear))``, fairseq's
``label_smoothed_nll_loss``, and torch's ``linear_cross_entropy`` with its chunking options
(without smoothing, because it materialises the logits then). Memory is what a call needs beyond
weights, inputs and the gradient of a trained weight.
"""

import argparse
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch
import torch.nn.functional as F
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from torch import Tensor

from fairseq_plugins.ops.ctc import linear_ctc_with_best
from fairseq_plugins.ops.vocab_loss import DEFAULT_TOKEN_CHUNK, label_smoothed, linear_token_losses

from . import report
from .measure import measure_steps, say
from .report import SPREAD, Column

EPSILON = 0.1
BLANK = 0
BASE = "materialised"
WITHOUT_SMOOTHING = "torch linear_cross_entropy (no smoothing)"


class Case:
    """Inputs of one comparison; all variants read the same tensors."""

    def __init__(self, options: argparse.Namespace, device: torch.device, trained: bool):
        width, vocab, slots = options.width, options.vocab, min(options.slots, options.tokens)
        batch = options.tokens // slots
        generator = torch.Generator().manual_seed(1)
        hidden = torch.randn(batch, slots, width, generator=generator)
        self.hidden = hidden.to(device).requires_grad_()  # B T C
        weight = torch.randn(vocab, width, generator=generator) * width**-0.5
        self.weight = weight.to(device).requires_grad_(trained)  # V C
        self.bias = torch.zeros(vocab, device=device, requires_grad=trained)
        self.targets = torch.randint(1, vocab, (batch, slots // 3), generator=generator).to(device)
        self.labels = torch.randint(1, vocab, (batch, slots), generator=generator).to(device)
        self.slots = torch.full((batch,), slots, device=device)
        self.lengths = torch.full((batch,), slots // 3, device=device)

    def step(self, loss: Callable[["Case"], Tensor]) -> Dict[str, Tensor]:
        """Run forward and backward; return the loss and the gradient of the hidden states."""
        leaves = [leaf for leaf in (self.hidden, self.weight, self.bias) if leaf.requires_grad]
        nats = loss(self)
        gradients = torch.autograd.grad(nats, leaves)
        return {"loss": nats.detach(), "hidden": gradients[0]}


def ctc_chunked(case: Case) -> Tensor:
    """Compute CTC with this package's chunks."""
    arguments = case.targets, case.slots, case.lengths, BLANK
    losses, _ = linear_ctc_with_best(
        case.hidden,
        case.weight,
        case.bias,
        *arguments,
        want_best=False,
    )
    return losses.sum()


def ctc_materialised(case: Case) -> Tensor:
    """Compute torch's CTC from all logits."""
    log_probs = F.linear(case.hidden, case.weight, case.bias).log_softmax(-1)  # B T V
    arguments = case.targets, case.slots, case.lengths, BLANK
    return F.ctc_loss(log_probs.transpose(0, 1), *arguments, reduction="sum")


def smoothed_chunked(case: Case) -> Tensor:
    """Compute smoothed cross-entropy with this package's chunks."""
    nll, smooth, _ = linear_token_losses(case.hidden, case.weight, case.bias, case.labels, EPSILON)
    return label_smoothed(nll, smooth, EPSILON, case.weight.size(0)).sum()


def smoothed_stock(case: Case) -> Tensor:
    """Compute fairseq's smoothed cross-entropy from all logits."""
    log_probs = F.linear(case.hidden, case.weight, case.bias).log_softmax(-1)  # B T V
    return label_smoothed_nll_loss(log_probs.flatten(0, 1), case.labels.flatten(), EPSILON)[0]


def torch_chunked(case: Case) -> Tensor:
    """Compute torch's own chunked cross-entropy, without smoothing, with chunks of our size.

    At this vocabulary torch's default chunk reads the weight about a hundred times: a step took
    more than 90 s on two CPU cores.
    """
    return F.linear_cross_entropy(
        case.hidden.flatten(0, 1),
        case.weight,
        case.labels.flatten(),
        linear_bias=case.bias,
        reduction="sum",
        options=torch.nn.LinearCrossEntropyOptions(batch_chunk_size=DEFAULT_TOKEN_CHUNK),
    )


def variants(loss: str) -> Dict[str, Callable[[Case], Tensor]]:
    """Return name -> loss; ``BASE`` is the base of the ratios."""
    if loss == "ctc":
        return {BASE: ctc_materialised, "chunked": ctc_chunked}
    losses = {BASE: smoothed_stock, "chunked": smoothed_chunked}
    if hasattr(F, "linear_cross_entropy") and hasattr(torch.nn, "LinearCrossEntropyOptions"):
        losses[WITHOUT_SMOOTHING] = torch_chunked
    return losses


def compare(loss: str, trained: bool, options: argparse.Namespace) -> List[Dict[str, Any]]:
    """Return the rows of one loss with a frozen or a trained weight."""
    case = Case(options, options.device, trained)
    steps = {name: partial(case.step, function) for name, function in variants(loss).items()}
    costs = measure_steps(steps, options.rounds, options.device)
    if trained:
        gradient = sum(part.numel() * part.element_size() for part in (case.weight, case.bias))
        costs = {name: cost._replace(memory=cost.memory - gradient) for name, cost in costs.items()}
    base = costs[BASE]
    rows = []
    for name, cost in costs.items():
        expected = base.outcome["hidden"]
        error = (cost.outcome["hidden"] - expected).abs().max() / expected.abs().max()
        row = {"loss": loss, "weight": "trained" if trained else "frozen", "variant": name}
        row["gradient_error"] = None if name == WITHOUT_SMOOTHING else float(f"{float(error):.1e}")
        rows.append({**row, **cost.columns(cost, base)})
    return rows


def measure(options: argparse.Namespace) -> List[Dict[str, Any]]:
    """Return the rows of both losses."""
    rows = []
    for loss in ("ctc", "smoothed cross-entropy"):
        for trained in (False, True):
            say(f"{loss}, {'trained' if trained else 'frozen'} weight")
            rows += compare(loss, trained, options)
    return rows


def render(content: Dict[str, Any]) -> str:
    """Make the table of one machine."""
    columns = [
        Column("loss", "loss"),
        Column("weight", "weight"),
        Column("variant", "variant"),
        Column("seconds", "seconds", "{:.3f}"),
        Column("time ratio (range)", "time_ratio", SPREAD),
        Column("extra MB", "extra_mb", "{:,.0f}"),
        Column("memory ratio", "memory_ratio", "{:.3f}"),
        Column("gradient error", "gradient_error", "{:.0e}"),
    ]
    return report.table(columns, content["results"])


def main(argv: Optional[Sequence[str]] = None) -> None:
    """Run the command line."""
    parser = report.build_parser(__doc__, rounds=5, on_gpu=True)
    parser.add_argument("--tokens", type=int, default=1024, help="B x T")
    parser.add_argument("--slots", type=int, default=64, help="T")
    parser.add_argument("--vocab", type=int, default=250002, help="V")
    parser.add_argument("--width", type=int, default=768, help="C")
    options = parser.parse_args(argv)
    report.publish("vocab_losses", options, measure(options), render)


if __name__ == "__main__":
    main()
