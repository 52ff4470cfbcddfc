"""One SGA training step at base size: CTC in chunks against materialised logits.

    python -m benchmarks.sga_training_step [--device cuda] [--vocab 250002] [--sentences 8] [--length 24]

Forward of both losses, backward, no optimiser: identical in both. Tokens are target tokens. Memory is what the step needs
beyond weights and gradients of the trained part.
"""

import argparse
from functools import partial
from typing import Any, Callable, Dict, Optional, Tuple
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_plugins.ops.ctc import BestPath, linear_ctc_with_best
from fairseq_plugins.sga import model as sga_model

from . import measure, report
from .systems import Sizes, batch, sga


def step(model: Any, sample: Dict[str, Any], targets: Tensor, lengths: Tensor, ctc: Callable[..., Any]) -> float:
    """Forward and backward; returns the loss in nats."""
    for parameter in model.parameters():
        parameter.grad = None
    with mock.patch.object(sga_model, "linear_ctc_with_best", ctc):
        losses, _ = model(**sample["net_input"], targets=targets, target_lengths=lengths)
    loss = torch.stack(list(losses.values())).sum()
    loss.backward()
    return float(loss.detach())


def materialised(
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
    """torch's CTC over all logits; the best path from the same logits."""
    logits = F.linear(hidden, weight, bias)
    tokens = logits.detach().argmax(-1) if want_best else None
    log_probs = logits.log_softmax(-1).transpose(0, 1)
    loss = F.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=blank, reduction="none")
    return loss, None if tokens is None else BestPath(tokens, tokens, loss)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", help="cpu or cuda (default: the GPU where there is one)")
    parser.add_argument("--vocab", type=int, default=250002, help="V")
    parser.add_argument("--layers", type=int, default=12, help="L")
    parser.add_argument("--width", type=int, default=768, help="C")
    parser.add_argument("--heads", type=int, default=12, help="H")
    parser.add_argument("--sentences", type=int, default=16, help="B")
    parser.add_argument(
        "--length", type=int, default=32, help="source and target length; there are 2 slots per source token"
    )
    parser.add_argument("--rounds", type=int, default=3, help="timed rounds")
    options = parser.parse_args()
    device = measure.pick_device(options.device)
    model = sga(Sizes(options.vocab, options.layers, options.width, options.heads), device).train()
    sample = batch(torch.full((options.sentences,), options.length), options.vocab, device)
    targets = sample["net_input"]["src_tokens"][:, 1:-1].flip(1)
    lengths = torch.full((options.sentences,), targets.size(1), device=device)
    calls = {name: partial(step, model, sample, targets, lengths, ctc) for name, ctc in VARIANTS.items()}
    timings = measure.time_side_by_side(calls, options.rounds, device)
    memory = {name: measure.peak_memory(call, device) for name, call in calls.items()}
    losses = {name: call() for name, call in calls.items()}
    results = [
        {
            "variant": name,
            "seconds": round(timings[name].median, 3),
            "time_ratio": [round(value, 3) for value in timings[name].ratio_to(timings["materialised"])],
            "target_tokens_per_s": round(targets.numel() / timings[name].median, 1),
            "extra_mb": round(memory[name] / 1e6),
            "memory_ratio": round(memory[name] / memory["materialised"], 3),
            "loss": round(losses[name], 2),
        }
        for name in calls
    ]
    chosen = {key: value for key, value in vars(options).items() if key != "device"}
    path = report.write("sga_training_step", device, chosen, results)
    print(render({"results": results}))
    measure.say(f"wrote {path.relative_to(report.RESULTS.parent.parent)}")


VARIANTS = {"materialised": materialised, "chunked": linear_ctc_with_best}


def render(content: Dict[str, Any]) -> str:
    """The table of one machine."""
    rows = [
        [
            row["variant"],
            f"{row['seconds']:.2f}",
            f"{row['time_ratio'][0]:.2f} ({row['time_ratio'][1]:.2f} to {row['time_ratio'][2]:.2f})",
            f"{row['target_tokens_per_s']:,.0f}",
            f"{row['extra_mb']:,}",
            f"{row['memory_ratio']:.2f}",
            f"{row['loss']:,.1f}",
        ]
        for row in content["results"]
    ]
    columns = [
        "CTC",
        "seconds a step",
        "time ratio (range)",
        "target tokens/s",
        "extra MB",
        "memory ratio",
        "loss (nats)",
    ]
    return report.table(columns, rows)


if __name__ == "__main__":
    main()
