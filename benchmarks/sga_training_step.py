"""Compare an SGA training step with CTC in chunks and from all logits: time and memory.

    python -m benchmarks.sga_training_step [--device cuda] [--vocab 250002] [--sentences 8]

CTC in chunks against torch's CTC from all logits. Forward of both losses and backward, no
optimiser, which would be the same in both. Tokens are target tokens. Memory is what the step
needs beyond weights and gradients of the trained part.
"""

import argparse
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_plugins.common.slot_model import Target
from fairseq_plugins.ops.ctc import BestPath, linear_ctc_with_best
from fairseq_plugins.sga import model as sga_model

from . import report
from .measure import measure_steps
from .report import SPREAD, Column
from .systems import Sizes, add_sizes, build_sga, make_even_batch

BASE = "materialised"


def run_step(
    model: Any,
    sample: Dict[str, Any],
    targets: Tensor,
    lengths: Tensor,
    ctc: Callable[..., Any],
) -> float:
    """Run forward and backward; return the loss in nats."""
    for parameter in model.parameters():
        parameter.grad = None
    with mock.patch.object(sga_model, "linear_ctc_with_best", ctc):
        losses, _ = model(**sample["net_input"], target=Target(targets, lengths))
    loss = torch.stack(list(losses.values())).sum()
    loss.backward()
    return float(loss.detach())


def ctc_materialised(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    chunk_size: int,
    want_best: bool,
) -> Tuple[Tensor, Optional[BestPath]]:
    """Compute torch's CTC, and the best path, from all logits."""
    logits = F.linear(hidden, weight, bias)  # B T V
    tokens = logits.detach().argmax(-1) if want_best else None
    log_probs = logits.log_softmax(-1).transpose(0, 1)  # T B V
    lengths = (input_lengths, target_lengths)
    losses = F.ctc_loss(log_probs, targets, *lengths, blank=blank, reduction="none")
    return losses, None if tokens is None else BestPath(tokens, tokens, losses)


VARIANTS = {BASE: ctc_materialised, "chunked": linear_ctc_with_best}


def measure(options: argparse.Namespace) -> List[Dict[str, Any]]:
    """Return one row per form of CTC."""
    device = options.device
    model = build_sga(Sizes.of(options), device).train()
    sample = make_even_batch(options.sentences, options.length, options.vocab, device)
    targets = sample["net_input"]["src_tokens"][:, 1:-1].flip(1)
    lengths = torch.full((options.sentences,), targets.size(1), device=device)
    run = partial(run_step, model, sample, targets, lengths)
    steps = {name: partial(run, ctc) for name, ctc in VARIANTS.items()}
    costs = measure_steps(steps, options.rounds, device)
    return [
        {
            "variant": name,
            **cost.columns(cost, costs[BASE]),
            "target_tokens_per_s": round(targets.numel() / cost.timing.median, 1),
            "loss": round(cost.outcome, 2),
        }
        for name, cost in costs.items()
    ]


def render(content: Dict[str, Any]) -> str:
    """Make the table of one machine."""
    columns = [
        Column("CTC", "variant"),
        Column("seconds a step", "seconds", "{:.2f}"),
        Column("time ratio (range)", "time_ratio", SPREAD),
        Column("target tokens/s", "target_tokens_per_s", "{:,.0f}"),
        Column("extra MB", "extra_mb", "{:,.0f}"),
        Column("memory ratio", "memory_ratio", "{:.2f}"),
        Column("loss (nats)", "loss", "{:,.1f}"),
    ]
    return report.table(columns, content["results"])


def main(argv: Optional[Sequence[str]] = None) -> None:
    """Run the command line."""
    parser = report.build_parser(__doc__, rounds=3, on_gpu=True)
    parser.add_argument("--vocab", type=int, default=250002, help="V")
    add_sizes(parser)
    parser.add_argument("--sentences", type=int, default=16, help="B")
    text = "source and target length; there are two slots per source token"
    parser.add_argument("--length", type=int, default=32, help=text)
    options = parser.parse_args(argv)
    report.publish("sga_training_step", options, measure(options), render)


if __name__ == "__main__":
    main()
