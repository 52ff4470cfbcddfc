"""Compare DeltaLM with the stock transformer: decoding speed and a training step.

    python -m benchmarks.deltalm [--device cuda] [--vocab 250002] [--batch 32]

Decoding: encoder of 12 layers, decoder of 6, base size, random weights, beam 5 to the reference
length, key/value caches; the peer is the stock decoder with as many weights, its feed-forward
width doubled. Step: forward and backward of label smoothing at ``deltalm_base`` size, stock
criterion against ``label_smoothed_linear_cross_entropy``, no optimiser. Memory is what the step
needs beyond weights and their gradients.
"""

import argparse
from argparse import Namespace
from functools import partial
from typing import Any, Dict, List, Optional, Sequence

import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.models.transformer import TransformerModel

from fairseq_plugins.common.label_smoothed_linear_cross_entropy import (
    LabelSmoothedLinearCrossEntropyCriterion,
)
from fairseq_plugins.common.options import set_architecture
from fairseq_plugins.deltalm.config import ARCHITECTURES
from fairseq_plugins.deltalm.model import DeltaLMModel

from . import report
from .decoding import TYPICAL, decode_autoregressive
from .measure import measure_steps, time_side_by_side
from .report import SPREAD, Column
from .systems import (
    Sizes,
    StubTask,
    add_sizes,
    build_dictionary,
    count_parameters,
    finish_step,
    make_even_batch,
    prepare_for_inference,
    stack_options,
)

PEER = "stock transformer, decoder feed-forward × 2"
OURS = "DeltaLM, interleaved decoder"
STOCK_LOSS = "stock criterion"


def build(kind: Any, symbols: Any, sizes: Sizes, **overrides: Any) -> Any:
    """Build a random model of deltalm_base's shape with a decoder of half the layers."""
    args = Namespace(**{**stack_options(sizes, sizes.layers // 2), "dropout": 0.0, **overrides})
    set_architecture(args, ARCHITECTURES["deltalm_base"])
    torch.manual_seed(1)
    return kind.build_model(args, StubTask(symbols))


def measure_decoding(options: argparse.Namespace) -> List[Dict[str, Any]]:
    """Return the rows of decoding: one per batch size and model."""
    symbols, sizes = build_dictionary(options.decoding_vocab), Sizes.of(options)
    models = {
        PEER: build(TransformerModel, symbols, sizes, decoder_ffn_embed_dim=8 * options.width),
        OURS: build(DeltaLMModel, symbols, sizes),
    }
    models = {name: prepare_for_inference(model, options.device) for name, model in models.items()}
    rows = []
    for sentences in (1, options.batch):
        sample = make_even_batch(sentences, TYPICAL, options.decoding_vocab, options.device)
        calls = {}
        for name, model in models.items():
            decode = decode_autoregressive(model, symbols, beam=5)
            calls[name] = partial(decode, sample, TYPICAL)
        with torch.no_grad():
            timings = time_side_by_side(calls, options.rounds, options.device)
        rows += [
            {
                "part": "decoding",
                "system": name,
                "sentences": sentences,
                "decoder_parameters": count_parameters(model.decoder.layers),
                "seconds": round(timings[name].median, 4),
                "speed_ratio": timings[PEER].ratio_to(timings[name]).rounded(),
            }
            for name, model in models.items()
        ]
    return rows


def measure_training(options: argparse.Namespace) -> List[Dict[str, Any]]:
    """Return the rows of the training step: one per criterion."""
    symbols = build_dictionary(options.vocab)
    model = build(DeltaLMModel, symbols, Sizes.of(options)).to(options.device).train()
    sample = make_even_batch(options.sentences, options.length, options.vocab, options.device)
    tokens = sample["net_input"]["src_tokens"]
    sample["net_input"]["prev_output_tokens"] = tokens.roll(1, dims=1)
    sample.update(target=tokens, ntokens=tokens.numel())
    task = StubTask(symbols)
    criterions = {
        STOCK_LOSS: LabelSmoothedCrossEntropyCriterion(task, False, 0.1),
        "chunked criterion": LabelSmoothedLinearCrossEntropyCriterion(task, False, 0.1),
    }

    def run_step(criterion: Any) -> float:
        return finish_step(model, criterion(model, sample)[0])

    steps = {name: partial(run_step, criterion) for name, criterion in criterions.items()}
    costs = measure_steps(steps, options.rounds, options.device)
    return [
        {
            "part": "training step",
            "system": name,
            **cost.columns(cost, costs[STOCK_LOSS]),
            "tokens_per_s": round(tokens.numel() / cost.timing.median, 1),
            "loss": round(cost.outcome, 1),
        }
        for name, cost in costs.items()
    ]


def measure(options: argparse.Namespace) -> List[Dict[str, Any]]:
    """Return the rows of both tables."""
    return measure_decoding(options) + measure_training(options)


def render(content: Dict[str, Any]) -> str:
    """Make both tables of one machine."""
    decoding = [
        Column("decoding", "system"),
        Column("sentences", "sentences"),
        Column("decoder layers, M parameters", "decoder_parameters", "{:.1f}", 1e-6),
        Column("ms", "seconds", "{:,.0f}", 1000),
        Column("speed, × stock (range)", "speed_ratio", SPREAD),
    ]
    training = [
        Column("training step", "system"),
        Column("seconds", "seconds", "{:.2f}"),
        Column("time ratio (range)", "time_ratio", SPREAD),
        Column("target tokens/s", "tokens_per_s", "{:,.0f}"),
        Column("extra MB", "extra_mb", "{:,.0f}"),
        Column("memory ratio", "memory_ratio", "{:.2f}"),
        Column("loss (nats)", "loss", "{:,.1f}"),
    ]
    parts = {"decoding": decoding, "training step": training}
    return "\n\n".join(
        report.table(columns, [row for row in content["results"] if row["part"] == part])
        for part, columns in parts.items()
    )


def main(argv: Optional[Sequence[str]] = None) -> None:
    """Run the command line."""
    parser = report.build_parser(__doc__, rounds=3, on_gpu=True)
    parser.add_argument("--vocab", type=int, default=250002, help="V of the training step")
    parser.add_argument("--decoding-vocab", type=int, default=32002, help="V of decoding")
    add_sizes(parser)  # --layers: of the encoder; the decoder has half of them
    text = "sentences of the large batch in decoding"
    parser.add_argument("--batch", type=int, default=32, help=text)
    parser.add_argument("--sentences", type=int, default=16, help="B of the training step")
    parser.add_argument("--length", type=int, default=32, help="S and T of the training step")
    options = parser.parse_args(argv)
    report.publish("deltalm", options, measure(options), render)


if __name__ == "__main__":
    main()
