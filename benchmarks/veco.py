"""Compare a step of VECO's pre-training with three projections of masked positions.

    python -m benchmarks.veco [--device cuda] [--vocab 250002] [--pairs 16] [--chunk 64]

Forward and backward of IS-MLM, CS-MLM and TLM at base size, no optimiser, random weights. Masked
positions are projected in chunks, with all their logits at once, or, as a naive masked LM does,
with all other positions. The peer is a stock transformer with as many layers on each side (its
encoder and decoder share nothing, so it has more weights) that translates the same pairs with the
chunked criterion. A chunk has 64 positions here, because one of 256, the default of training,
would hold the whole batch. Tokens are those of both sides. Memory is what a step needs beyond
weights and their gradients.
"""

import argparse
from argparse import Namespace
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch
import torch.nn.functional as F
from fairseq.models.transformer import TransformerModel
from torch import Tensor

from fairseq_plugins.common.label_smoothed_linear_cross_entropy import (
    LabelSmoothedLinearCrossEntropyCriterion,
)
from fairseq_plugins.common.options import set_architecture
from fairseq_plugins.ops.vocab_loss import linear_token_losses
from fairseq_plugins.veco.config import ARCHITECTURES
from fairseq_plugins.veco.model import VECOModel

from . import report
from .measure import measure_steps, say
from .report import SPREAD, Column
from .systems import (
    Sizes,
    StubTask,
    add_sizes,
    build_dictionary,
    count_parameters,
    finish_step,
    make_even_batch,
    stack_options,
)

CHUNKED = "VECO, masked positions in chunks"
MATERIALISED = "VECO, masked positions at once"
EVERYWHERE = "VECO, every position"
PEER = "stock transformer, translation"
MASKED = 0.15
IGNORED = -100


def build(kind: Any, task: StubTask, options: argparse.Namespace) -> Any:
    """Build a random model of veco_base's shape, without dropout, for training."""
    sizes = stack_options(Sizes.of(options), options.layers)
    # Without it, attention dropout would be XLM-R's 0.1 in VECO and 0 in the peer.
    args = Namespace(**sizes, dropout=0.0, attention_dropout=0.0)
    set_architecture(args, ARCHITECTURES["veco_base"])
    return kind.build_model(args, task).to(options.device).train()


def make_pairs(options: argparse.Namespace) -> Dict[str, Tensor]:
    """Draw masked pairs without padding: the inputs of the model, and the targets."""
    sample = make_even_batch(2 * options.pairs, options.length, options.vocab, options.device)
    tokens = sample["net_input"]["src_tokens"]  # 2B T
    generator = torch.Generator().manual_seed(2)
    masked = (torch.rand(tokens.shape, generator=generator) < MASKED).to(options.device)
    masked[:, [0, -1]] = False
    noisy = tokens.masked_fill(masked, options.vocab - 1)
    return {
        "src_tokens": noisy,
        "masked": masked,
        "joint_tokens": torch.cat(noisy.chunk(2), dim=1),  # B 2T
        "joint_masked": torch.cat(masked.chunk(2), dim=1),
        "target": tokens,
        "joint_target": torch.cat(tokens.chunk(2), dim=1),
    }


def nll_chunked(hidden: Tensor, weight: Tensor, bias: Tensor, target: Tensor, size: int) -> Tensor:
    """Sum the nats of all targets (N,) from ``size`` x V logits at a time."""
    return linear_token_losses(hidden, weight, bias, target, chunk_size=size).nll.sum()


def nll_materialised(hidden: Tensor, weight: Tensor, bias: Tensor, target: Tensor) -> Tensor:
    """Sum the nats of all targets (N,) from N x V logits."""
    logits = F.linear(hidden, weight, bias).float()  # N V
    return F.cross_entropy(logits, target, reduction="sum", ignore_index=IGNORED)


def run_pretraining(
    model: Any,
    pairs: Dict[str, Tensor],
    nll: Callable[..., Tensor],
    everywhere: bool,
) -> float:
    """Run a step of pre-training; return its loss in nats.

    Args:
        model: VECO.
        pairs: from :func:`make_pairs`.
        nll: sums the nats of projected positions.
        everywhere: project all positions, not only the masked ones whose loss counts.
    """
    masks = {name: pairs[name] for name in ("masked", "joint_masked")}
    if everywhere:
        projected = {name: torch.ones_like(mask) for name, mask in masks.items()}
    else:
        projected = masks

    def select_targets(objective: str) -> Tensor:
        prefix = "joint_" if objective == "tlm" else ""
        targets = pairs[f"{prefix}target"][projected[f"{prefix}masked"]]
        if everywhere:
            targets = targets.masked_fill(~masks[f"{prefix}masked"].flatten(), IGNORED)
        return targets

    def reduce(counts: Dict[str, int], *projection: Tensor) -> Dict[str, Tensor]:
        return {"all": nll(*projection, torch.cat([select_targets(name) for name in counts]))}

    joint = pairs["joint_tokens"]
    losses = model(pairs["src_tokens"], joint_tokens=joint, reduce=reduce, **projected)
    return finish_step(model, sum(losses.values()))


def build_translation_step(
    peer: Any,
    task: StubTask,
    pairs: Dict[str, Tensor],
) -> Callable[[], float]:
    """Return a training step of the peer on the same pairs."""
    criterion = LabelSmoothedLinearCrossEntropyCriterion(task, False, 0.1)
    source, target = pairs["target"].chunk(2)
    net_input = {
        "src_tokens": source,
        "src_lengths": torch.full((len(source),), source.size(1), device=source.device),
        "prev_output_tokens": target.roll(1, dims=1),
    }
    sample = {"net_input": net_input, "target": target, "ntokens": target.numel()}
    return lambda: finish_step(peer, criterion(peer, sample)[0])


def measure(options: argparse.Namespace) -> List[Dict[str, Any]]:
    """Return one row per step.

    Raises:
        ValueError: a chunk holds all masked positions.
    """
    task = StubTask(build_dictionary(options.vocab), pretrains_veco=True)
    torch.manual_seed(1)
    model, peer = build(VECOModel, task, options), build(TransformerModel, task, options)
    pairs = make_pairs(options)
    count = int(pairs["masked"].sum())
    if count <= options.chunk:
        raise ValueError(
            f"--chunk must be below the number of masked positions, {count}; got {options.chunk}",
        )
    say(f"{count} masked positions per objective, {options.chunk} at a time")
    nll = partial(nll_chunked, size=options.chunk)
    steps: Dict[str, Callable[[], float]] = {
        CHUNKED: partial(run_pretraining, model, pairs, nll, everywhere=False),
        MATERIALISED: partial(run_pretraining, model, pairs, nll_materialised, everywhere=False),
        EVERYWHERE: partial(run_pretraining, model, pairs, nll_materialised, everywhere=True),
        PEER: build_translation_step(peer, task, pairs),
    }
    costs = measure_steps(steps, options.rounds, options.device)
    tokens = pairs["src_tokens"].numel()
    return [
        {
            "system": name,
            "parameters": count_parameters(peer if name == PEER else model),
            **cost.columns(costs[CHUNKED], cost),
            "tokens_per_s": round(tokens / cost.timing.median, 1),
            "loss": round(cost.outcome, 1),
        }
        for name, cost in costs.items()
    ]


def render(content: Dict[str, Any]) -> str:
    """Make the table of one machine."""
    columns = [
        Column("step", "system"),
        Column("M parameters", "parameters", "{:.0f}", 1e-6),
        Column("seconds", "seconds", "{:.2f}"),
        Column("tokens/s", "tokens_per_s", "{:,.0f}"),
        Column("ours: time (range)", "time_ratio", SPREAD),
        Column("extra MB", "extra_mb", "{:,.0f}"),
        Column("ours: memory", "memory_ratio", "{:.2f}"),
        Column("loss (nats)", "loss", "{:,.1f}"),
    ]
    return report.table(columns, content["results"])


def main(argv: Optional[Sequence[str]] = None) -> None:
    """Run the command line."""
    parser = report.build_parser(__doc__, rounds=3, on_gpu=True)
    parser.add_argument("--vocab", type=int, default=250002, help="V")
    add_sizes(parser)  # --layers: of the stack, and of each side of the peer
    parser.add_argument("--pairs", type=int, default=16, help="B")
    parser.add_argument("--length", type=int, default=32, help="tokens of a sentence")
    text = "positions of a chunk, fewer than 0.15 * 2 * B * length"
    parser.add_argument("--chunk", type=int, default=64, help=text)
    options = parser.parse_args(argv)
    report.publish("veco", options, measure(options), render)


if __name__ == "__main__":
    main()
