"""Vocabulary-sized losses, forward and backward: ours in chunks against materialised logits.

    python -m benchmarks.vocab_losses [--device cuda] [--tokens 1024] [--vocab 250002] [--width 768] [--rounds 5]

Peers: torch's ``ctc_loss(log_softmax(linear))``, fairseq's ``label_smoothed_nll_loss``, and torch's ``linear_cross_entropy``
with its chunking options (no smoothing: it materialises then). Memory is what the call needs beyond weights, inputs and, where
the weight is trained, the gradient of the weight.
"""

import argparse
from functools import partial
from typing import Any, Callable, Dict, List, Optional

import torch
import torch.nn.functional as F
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from torch import Tensor

from fairseq_plugins.ops.ctc import linear_ctc_with_best
from fairseq_plugins.ops.vocab_loss import DEFAULT_TOKEN_CHUNK, label_smoothed, linear_token_losses

from . import measure, report

EPSILON = 0.1
BLANK = 0


class Case:
    """Inputs of one comparison; the same tensors for every variant."""

    def __init__(self, options: argparse.Namespace, device: torch.device, trained: bool):
        generator = torch.Generator().manual_seed(1)
        width, vocab, tokens = options.width, options.vocab, options.tokens
        slots = min(options.slots, tokens)
        batch = tokens // slots
        self.hidden = torch.randn(batch, slots, width, generator=generator).to(device).requires_grad_()
        self.weight = (torch.randn(vocab, width, generator=generator) * width**-0.5).to(device).requires_grad_(trained)
        self.bias = torch.zeros(vocab, device=device, requires_grad=trained)
        self.targets = torch.randint(1, vocab, (batch, slots // 3), generator=generator).to(device)
        self.labels = torch.randint(1, vocab, (batch, slots), generator=generator).to(device)
        self.slots = torch.full((batch,), slots, device=device)
        self.lengths = torch.full((batch,), slots // 3, device=device)

    def step(self, loss: Callable[["Case"], Tensor]) -> Dict[str, Tensor]:
        """Forward and backward; returns loss and gradients."""
        leaves = [tensor for tensor in (self.hidden, self.weight, self.bias) if tensor.requires_grad]
        value = loss(self)
        gradients = torch.autograd.grad(value, leaves)
        return {"loss": value.detach(), "hidden": gradients[0]}


def ctc_chunked(case: Case) -> Tensor:
    """Ours."""
    arguments = case.targets, case.slots, case.lengths, BLANK
    return linear_ctc_with_best(case.hidden, case.weight, case.bias, *arguments, want_best=False)[0].sum()


def ctc_materialised(case: Case) -> Tensor:
    """torch's, over all logits."""
    log_probs = F.linear(case.hidden, case.weight, case.bias).log_softmax(-1).transpose(0, 1)
    return F.ctc_loss(log_probs, case.targets, case.slots, case.lengths, blank=BLANK, reduction="sum")


def smoothed_chunked(case: Case) -> Tensor:
    """Ours."""
    nll, smooth, _ = linear_token_losses(case.hidden, case.weight, case.bias, case.labels, EPSILON)
    return label_smoothed(nll, smooth, EPSILON, case.weight.size(0)).sum()


def smoothed_stock(case: Case) -> Tensor:
    """fairseq's, over all logits."""
    log_probs = F.linear(case.hidden, case.weight, case.bias).log_softmax(-1)
    return label_smoothed_nll_loss(log_probs.flatten(0, 1), case.labels.flatten(), EPSILON)[0]


def torch_chunked(case: Case) -> Tensor:
    """torch's own chunked cross-entropy, without smoothing, with chunks of our size: the size it picks by itself is so small at
    this vocabulary that the weight is read a hundred times over (more than 90 s a step on two CPU cores, not timed to the end).
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
    """Name -> loss; the first one is the base of the ratios."""
    if loss == "ctc":
        return {"materialised": ctc_materialised, "chunked": ctc_chunked}
    found = {"materialised": smoothed_stock, "chunked": smoothed_chunked}
    if hasattr(F, "linear_cross_entropy") and hasattr(torch.nn, "LinearCrossEntropyOptions"):
        found["torch linear_cross_entropy (no smoothing)"] = torch_chunked
    return found


def compare(loss: str, trained: bool, options: argparse.Namespace, device: torch.device) -> List[Dict[str, Any]]:
    """One loss, frozen or trained weight: rows of the table."""
    case = Case(options, device, trained)
    calls = {name: partial(case.step, function) for name, function in variants(loss).items()}
    weight_gradient = (case.weight.numel() + case.bias.numel()) * case.weight.element_size() if trained else 0
    timings = measure.time_side_by_side(calls, options.rounds, device)
    memory = {name: measure.peak_memory(call, device) - weight_gradient for name, call in calls.items()}
    base: Optional[Dict[str, Tensor]] = None
    rows = []
    for name, call in calls.items():
        values = call()
        base = values if base is None else base
        ratio = timings[name].ratio_to(timings["materialised"])
        error = float((values["hidden"] - base["hidden"]).abs().max() / base["hidden"].abs().max())
        rows.append(
            {
                "loss": loss,
                "weight": "trained" if trained else "frozen",
                "variant": name,
                "seconds": round(timings[name].median, 4),
                "time_ratio": [round(value, 3) for value in ratio],
                "extra_mb": round(memory[name] / 1e6, 1),
                "memory_ratio": round(memory[name] / memory["materialised"], 4),
                "gradient_error": float(f"{error:.1e}") if "no smoothing" not in name else None,
            }
        )
    return rows


def render(content: Dict[str, Any]) -> str:
    """The table of one machine."""
    rows = []
    for row in content["results"]:
        low, high = row["time_ratio"][1:]
        error = "" if row["gradient_error"] is None else f"{row['gradient_error']:.0e}"
        cells = [row["loss"], row["weight"], row["variant"], f"{row['seconds']:.3f}"]
        cells += [f"{row['time_ratio'][0]:.2f} ({low:.2f} to {high:.2f})", f"{row['extra_mb']:,.0f}"]
        rows.append([*cells, f"{row['memory_ratio']:.3f}", error])
    columns = [
        "loss",
        "weight",
        "variant",
        "seconds",
        "time ratio (range)",
        "extra MB",
        "memory ratio",
        "gradient error",
    ]
    return report.table(columns, rows)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", help="cpu or cuda (default: the GPU where there is one)")
    parser.add_argument("--tokens", type=int, default=1024, help="B x T")
    parser.add_argument("--slots", type=int, default=64, help="T")
    parser.add_argument("--vocab", type=int, default=250002, help="V")
    parser.add_argument("--width", type=int, default=768, help="C")
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds")
    options = parser.parse_args()
    device = measure.pick_device(options.device)
    results = []
    for loss in ("ctc", "smoothed cross-entropy"):
        for trained in (False, True):
            measure.say(f"{loss}, {'trained' if trained else 'frozen'} weight")
            results += compare(loss, trained, options, device)
    chosen = {key: value for key, value in vars(options).items() if key != "device"}
    path = report.write("vocab_losses", device, chosen, results)
    print(render({"results": results}))
    measure.say(f"wrote {path.relative_to(report.RESULTS.parent.parent)}")


if __name__ == "__main__":
    main()
