"""DeltaLM against the stock transformer: decoding speed of the interleaved decoder, and a training step with the chunked loss.

    python -m benchmarks.deltalm [--device cuda] [--vocab 250002] [--decoding-vocab 32002] [--batch 32]

Decoding: encoder 12 layers, decoder 6, base size, random weights, beam 5 to the reference length, key/value caches; the peer is the
stock decoder with as many weights, its feed-forward width doubled. Step: forward and backward of label smoothing at deltalm_base
size, stock criterion against ``label_smoothed_linear_cross_entropy``, no optimiser; memory is what the step needs beyond weights
and their gradients.
"""

import argparse
from argparse import Namespace
from functools import partial
from typing import Any, Callable, Dict, List

import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.models.transformer import TransformerModel

from fairseq_plugins.common.options import set_architecture
from fairseq_plugins.criterions.label_smoothed_linear_cross_entropy import LabelSmoothedLinearCrossEntropyCriterion
from fairseq_plugins.models.deltalm import ARCHITECTURES, DeltaLMModel

from . import measure, report
from .decoding import decode_autoregressive
from .systems import Symbols, batch, dictionary

LENGTH = 25
PEER = "stock transformer, decoder feed-forward × 2"
OURS = "DeltaLM, interleaved decoder"


def build(kind: Any, symbols: Any, options: argparse.Namespace, device: torch.device, **more: Any) -> Any:
    """A random model of deltalm_base's shape, or what the options say."""
    args = Namespace(share_all_embeddings=True, max_source_positions=512, max_target_positions=512, dropout=0.0)
    for side, layers in (("encoder", options.layers), ("decoder", options.layers // 2)):
        chosen = {
            "layers": layers,
            "embed_dim": options.width,
            "ffn_embed_dim": 4 * options.width,
            "attention_heads": options.heads,
        }
        for name, value in chosen.items():
            setattr(args, f"{side}_{name}", value)
    for name, value in more.items():
        setattr(args, name, value)
    set_architecture(args, ARCHITECTURES["deltalm_base"])
    torch.manual_seed(1)
    return kind.build_model(args, Symbols(symbols)).to(device)


def decoding(options: argparse.Namespace, device: torch.device) -> List[Dict[str, Any]]:
    """Rows of the first table."""
    symbols = dictionary(options.decoding_vocab)
    models = {
        PEER: build(TransformerModel, symbols, options, device, decoder_ffn_embed_dim=8 * options.width),
        OURS: build(DeltaLMModel, symbols, options, device),
    }
    rows = []
    for sentences in (1, options.batch):
        sample = batch(torch.full((sentences,), LENGTH), options.decoding_vocab, device)
        calls: Dict[str, Callable[[], Any]] = {}
        for name, model in models.items():
            model.eval()
            model.prepare_for_inference_(
                Namespace(common_eval=Namespace(retain_dropout=False), generation=Namespace(no_beamable_mm=False))
            )
            calls[name] = partial(decode_autoregressive(model, symbols, 5), sample, LENGTH)
        with torch.no_grad():
            timings = measure.time_side_by_side(calls, options.rounds, device)
        for name, model in models.items():
            ratio = timings[PEER].ratio_to(timings[name])
            rows.append(
                {
                    "part": "decoding",
                    "system": name,
                    "sentences": sentences,
                    "decoder_parameters": sum(part.numel() for part in model.decoder.layers.parameters()),
                    "seconds": round(timings[name].median, 4),
                    "speed_ratio": [round(value, 3) for value in ratio],
                }
            )
    return rows


def training(options: argparse.Namespace, device: torch.device) -> List[Dict[str, Any]]:
    """Rows of the second table."""
    symbols = dictionary(options.vocab)
    model = build(DeltaLMModel, symbols, options, device).train()
    sample = batch(torch.full((options.sentences,), options.length), options.vocab, device)
    tokens = sample["net_input"]["src_tokens"]
    sample["net_input"]["prev_output_tokens"] = tokens.roll(1, dims=1)
    sample.update(target=tokens, ntokens=tokens.numel())
    task = Symbols(symbols)
    criterions = {
        "stock criterion": LabelSmoothedCrossEntropyCriterion(task, False, 0.1),
        "chunked criterion": LabelSmoothedLinearCrossEntropyCriterion(task, False, 0.1),
    }

    def step(criterion: Any) -> float:
        loss, _, _ = criterion(model, sample)
        loss.backward()
        for parameter in model.parameters():
            assert parameter.grad is not None
            parameter.grad.zero_()  # kept, so that the gradients themselves are no part of what a step needs
        return float(loss.detach())

    calls = {name: partial(step, criterion) for name, criterion in criterions.items()}
    timings = measure.time_side_by_side(calls, options.rounds, device)
    memory = {name: measure.peak_memory(call, device) for name, call in calls.items()}
    base = "stock criterion"
    return [
        {
            "part": "training step",
            "system": name,
            "seconds": round(timings[name].median, 3),
            "time_ratio": [round(value, 3) for value in timings[name].ratio_to(timings[base])],
            "tokens_per_s": round(tokens.numel() / timings[name].median, 1),
            "extra_mb": round(memory[name] / 1e6),
            "memory_ratio": round(memory[name] / memory[base], 3),
            "loss": round(call(), 1),
        }
        for name, call in calls.items()
    ]


def render(content: Dict[str, Any]) -> str:
    """Both tables of one machine."""
    first, second = [], []
    for row in content["results"]:
        if row["part"] == "decoding":
            low, high = row["speed_ratio"][1:]
            cells = [
                row["system"],
                str(row["sentences"]),
                f"{row['decoder_parameters'] / 1e6:.1f}",
                f"{1000 * row['seconds']:,.0f}",
            ]
            first.append([*cells, f"{row['speed_ratio'][0]:.2f} ({low:.2f} to {high:.2f})"])
        else:
            low, high = row["time_ratio"][1:]
            cells = [row["system"], f"{row['seconds']:.2f}", f"{row['time_ratio'][0]:.2f} ({low:.2f} to {high:.2f})"]
            second.append(
                [
                    *cells,
                    f"{row['tokens_per_s']:,.0f}",
                    f"{row['extra_mb']:,}",
                    f"{row['memory_ratio']:.2f}",
                    f"{row['loss']:,.1f}",
                ]
            )
    one = ["decoding", "sentences", "decoder layers, M parameters", "ms", "speed, × stock (range)"]
    two = [
        "training step",
        "seconds",
        "time ratio (range)",
        "target tokens/s",
        "extra MB",
        "memory ratio",
        "loss (nats)",
    ]
    return report.table(one, first) + "\n\n" + report.table(two, second)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", help="cpu or cuda (default: the GPU where there is one)")
    parser.add_argument("--vocab", type=int, default=250002, help="V of the training step")
    parser.add_argument("--decoding-vocab", type=int, default=32002, help="V of decoding")
    parser.add_argument("--layers", type=int, default=12, help="encoder layers; the decoder has half of them")
    parser.add_argument("--width", type=int, default=768, help="C")
    parser.add_argument("--heads", type=int, default=12, help="H")
    parser.add_argument("--batch", type=int, default=32, help="sentences of the large batch in decoding")
    parser.add_argument("--sentences", type=int, default=16, help="B of the training step")
    parser.add_argument("--length", type=int, default=32, help="S and T of the training step")
    parser.add_argument("--rounds", type=int, default=3, help="timed rounds")
    options = parser.parse_args()
    device = measure.pick_device(options.device)
    results = decoding(options, device) + training(options, device)
    chosen = {key: value for key, value in vars(options).items() if key != "device"}
    path = report.write("deltalm", device, chosen, results)
    print(render({"results": results}))
    measure.say(f"wrote {path.relative_to(report.RESULTS.parent.parent)}")


if __name__ == "__main__":
    main()
