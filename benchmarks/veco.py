"""A step of VECO pre-training on translation pairs (IS-MLM, CS-MLM, TLM) at base size and full vocabulary.
Every row projects the three objectives in one call, as the model hands them over; one after another, as an earlier version did it,
"every position" needed 7.5 GB and chunks 4.8.

    python -m benchmarks.veco [--device cuda] [--vocab 250002] [--pairs 16] [--length 32] [--chunk 64]

Forward and backward, no optimiser, random weights. Masked positions are projected in chunks, with all their logits at once, or, as
a naive masked LM does, every position is. The peer is a stock transformer of as many layers on each side (its encoder and decoder
share nothing, so it has more weights) that translates the same pairs, with the chunked criterion. A chunk of ours has 64 positions
here: of the 256 that training has by default the batch would fill no second one. Tokens are those of both sides.
Memory is what a step needs beyond weights and their gradients.
"""

import argparse
from argparse import Namespace
from functools import partial
from typing import Any, Callable, Dict, List

import torch
import torch.nn.functional as F
from fairseq.models.transformer import TransformerModel
from torch import Tensor

from fairseq_plugins.common.options import set_architecture
from fairseq_plugins.criterions.label_smoothed_linear_cross_entropy import LabelSmoothedLinearCrossEntropyCriterion
from fairseq_plugins.models.veco import VECOModel
from fairseq_plugins.models.veco.config import ARCHITECTURES
from fairseq_plugins.ops.vocab_loss import linear_token_losses

from . import measure, report
from .systems import Symbols, batch, dictionary

CHUNKED = "VECO, masked positions in chunks"
MATERIALISED = "VECO, masked positions at once"
EVERYWHERE = "VECO, every position"
PEER = "stock transformer, translation"
MASKED = 0.15


def options_of_model(options: argparse.Namespace) -> Namespace:
    """The options of a model of these sizes."""
    args = Namespace(share_all_embeddings=True, max_source_positions=512, max_target_positions=512, dropout=0.0)
    args.attention_dropout = 0.0  # ours would be XLM-R's 0.1, the peer's is 0
    for side in ("encoder", "decoder"):
        setattr(args, f"{side}_layers", options.layers)
        setattr(args, f"{side}_embed_dim", options.width)
        setattr(args, f"{side}_ffn_embed_dim", 4 * options.width)
        setattr(args, f"{side}_attention_heads", options.heads)
    set_architecture(args, ARCHITECTURES["veco_base"])
    return args


def pretraining_batch(options: argparse.Namespace, device: torch.device) -> Dict[str, Tensor]:
    """Masked pairs without padding: what the model takes, and the targets."""
    lengths = torch.full((2 * options.pairs,), options.length)
    tokens = batch(lengths, options.vocab, device)["net_input"]["src_tokens"]
    generator = torch.Generator().manual_seed(2)
    masked = (torch.rand(tokens.shape, generator=generator) < MASKED).to(device)
    masked[:, [0, -1]] = False
    noisy = tokens.masked_fill(masked, options.vocab - 1)
    first, second = noisy.chunk(2)
    return {
        "src_tokens": noisy,
        "masked": masked,
        "joint_tokens": torch.cat([first, second], dim=1),
        "joint_masked": torch.cat(masked.chunk(2), dim=1),
        "target": tokens,
        "joint_target": torch.cat(tokens.chunk(2), dim=1),
    }


def chunked(hidden: Tensor, weight: Tensor, bias: Tensor, target: Tensor, size: int) -> Tensor:
    """Nats of all targets (N,), without N x V logits: ``size`` x V at a time."""
    return linear_token_losses(hidden, weight, bias, target, chunk_size=size).nll.sum()


def materialised(hidden: Tensor, weight: Tensor, bias: Tensor, target: Tensor) -> Tensor:
    """The same from N x V logits."""
    return F.cross_entropy(F.linear(hidden, weight, bias).float(), target, reduction="sum")


def pretraining_step(model: Any, data: Dict[str, Tensor], loss: Callable[..., Tensor], everywhere: bool) -> float:
    """Forward and backward; ``everywhere`` projects all positions and counts the masked ones. Returns nats."""
    masked = {name: data[name] for name in ("masked", "joint_masked")}
    chosen = {name: torch.ones_like(mask) if everywhere else mask for name, mask in masked.items()}

    def wanted(name: str) -> Tensor:
        mask, target = ("joint_masked", "joint_target") if name == "tlm" else ("masked", "target")
        found = data[target][chosen[mask]]
        return found.masked_fill(~masked[mask].flatten(), -100) if everywhere else found

    def reduce(counts: Dict[str, int], hidden: Tensor, weight: Tensor, bias: Tensor) -> Dict[str, Tensor]:
        return {"all": loss(hidden, weight, bias, torch.cat([wanted(name) for name in counts]))}

    found = model(data["src_tokens"], joint_tokens=data["joint_tokens"], reduce=reduce, **chosen)
    total = sum(found.values())
    total.backward()
    return _finish(model, total)


def translation_step(model: Any, criterion: Any, sample: Dict[str, Any]) -> float:
    """Forward and backward of the peer. Returns nats."""
    loss, _, _ = criterion(model, sample)
    loss.backward()
    return _finish(model, loss)


def _finish(model: Any, loss: Tensor) -> float:
    for parameter in model.parameters():
        assert parameter.grad is not None
        parameter.grad.zero_()  # kept, so that the gradients themselves are no part of what a step needs
    return float(loss.detach())


def run(options: argparse.Namespace, device: torch.device) -> List[Dict[str, Any]]:
    """Rows of the table."""
    symbols = dictionary(options.vocab)
    task = Symbols(symbols)
    torch.manual_seed(1)
    task.pretrains_veco = True  # type: ignore[attr-defined]
    model = VECOModel.build_model(options_of_model(options), task).to(device).train()
    peer = TransformerModel.build_model(options_of_model(options), Symbols(symbols)).to(device).train()
    data = pretraining_batch(options, device)
    source, target = data["target"].chunk(2)
    sample = {
        "net_input": {
            "src_tokens": source,
            "src_lengths": torch.full((options.pairs,), options.length, device=device),
            "prev_output_tokens": target.roll(1, dims=1),
        },
        "target": target,
        "ntokens": target.numel(),
    }
    criterion = LabelSmoothedLinearCrossEntropyCriterion(task, False, 0.1)
    count = int(data["masked"].sum())
    if count <= options.chunk:
        raise ValueError(
            f"--chunk must be less than the {count} masked positions, or nothing is cut; got {options.chunk}"
        )
    measure.say(f"{count} masked positions an objective, {options.chunk} at a time")
    in_chunks = partial(chunked, size=options.chunk)
    calls: Dict[str, Callable[[], float]] = {
        CHUNKED: partial(pretraining_step, model, data, in_chunks, False),
        MATERIALISED: partial(pretraining_step, model, data, materialised, False),
        EVERYWHERE: partial(pretraining_step, model, data, materialised, True),
        PEER: partial(translation_step, peer, criterion, sample),
    }
    timings = measure.time_side_by_side(calls, options.rounds, device)
    memory = {name: measure.peak_memory(call, device) for name, call in calls.items()}
    tokens = data["src_tokens"].numel()
    return [
        {
            "system": name,
            "parameters": sum(one.numel() for one in (peer if name == PEER else model).parameters()),
            "seconds": round(timings[name].median, 3),
            "time_ratio": [round(value, 3) for value in timings[CHUNKED].ratio_to(timings[name])],
            "tokens_per_s": round(tokens / timings[name].median, 1),
            "extra_mb": round(memory[name] / 1e6),
            "memory_ratio": round(memory[CHUNKED] / memory[name], 3),
            "loss": round(call(), 1),
        }
        for name, call in calls.items()
    ]


def render(content: Dict[str, Any]) -> str:
    """The table of one machine."""
    rows = []
    for row in content["results"]:
        middle, low, high = row["time_ratio"]
        rows.append(
            [
                row["system"],
                f"{row['parameters'] / 1e6:.0f}",
                f"{row['seconds']:.2f}",
                f"{row['tokens_per_s']:,.0f}",
                f"{middle:.2f} ({low:.2f} to {high:.2f})",
                f"{row['extra_mb']:,}",
                f"{row['memory_ratio']:.2f}",
                f"{row['loss']:,.1f}",
            ]
        )
    titles = [
        "step",
        "M parameters",
        "seconds",
        "tokens/s",
        "ours: time (range)",
        "extra MB",
        "ours: memory",
        "loss (nats)",
    ]
    return report.table(titles, rows)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", help="cpu or cuda (default: the GPU where there is one)")
    parser.add_argument("--vocab", type=int, default=250002, help="V")
    parser.add_argument("--layers", type=int, default=12, help="of the stack, and of each side of the peer")
    parser.add_argument("--width", type=int, default=768, help="C")
    parser.add_argument("--heads", type=int, default=12, help="H")
    parser.add_argument("--pairs", type=int, default=16, help="B")
    parser.add_argument("--length", type=int, default=32, help="tokens of a sentence")
    parser.add_argument("--chunk", type=int, default=64, help="positions a chunk; less than 0.15 * 2 * B * length")
    parser.add_argument("--rounds", type=int, default=3, help="timed rounds")
    options = parser.parse_args()
    device = measure.pick_device(options.device)
    results = run(options, device)
    chosen = {key: value for key, value in vars(options).items() if key != "device"}
    path = report.write("veco", device, chosen, results)
    print(render({"results": results}))
    measure.say(f"wrote {path.relative_to(report.RESULTS.parent.parent)}")


if __name__ == "__main__":
    main()
