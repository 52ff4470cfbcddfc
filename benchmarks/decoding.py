"""Compare the decoding speed of SGA and autoregressive transformers of equal size.

    python -m benchmarks.decoding [--device cuda] [--vocab 250002,32002] [--batch 32]

Random weights; every system is forced to the reference length. SGA: alignment alone and 1, 2, 4
forced denoising passes. AT: stock transformers with key/value caches, encoder and decoder as deep
as the masked LM with beam 5 and 1, and a one-layer decoder with beam 1. Batch 1 (median and 95th
percentile over sentences, one after another) and one large batch. Model only: tokens in, tokens
out.
"""

import argparse
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch
from fairseq.data import Dictionary
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from fairseq_plugins.sga.decoding import IterationOptions, SGAGenerator

from . import report
from .measure import Timing, percentile, say, time_side_by_side
from .report import MEDIAN, Column
from .systems import (
    Sizes,
    add_sizes,
    build_dictionary,
    build_sga,
    build_transformer,
    make_batch,
    make_even_batch,
)

PASSES = (0, 1, 2, 4)
TYPICAL = 25
"""Tokens of each sentence of the large batch."""

Decode = Callable[[Dict[str, Any], int], Any]
"""(sample, tokens to produce) -> hypotheses."""


def decode_sga(model: Any, symbols: Dictionary, passes: int) -> Decode:
    """Return a function that decodes by alignment and exactly ``passes`` denoising passes."""
    generator = SGAGenerator(symbols, IterationOptions(max_iter=passes, adaptive=False))
    return lambda sample, _: generator.generate([model], sample)


def decode_autoregressive(model: Any, symbols: Dictionary, beam: int) -> Decode:
    """Return a function that runs a stock beam search to exactly the requested length."""

    def decode(sample: Dict[str, Any], length: int) -> Any:
        limits = {"max_len_a": 0, "max_len_b": length, "min_len": length}
        generator = SequenceGenerator([model], symbols, beam_size=beam, **limits)
        return generator.generate([model], sample)

    return decode


def build_systems(sizes: Sizes, device: torch.device) -> Dict[str, Decode]:
    """Return name -> decoding of all systems."""
    symbols = build_dictionary(sizes.vocab)
    model = build_sga(sizes, device)
    systems: Dict[str, Decode] = {}
    for passes in PASSES:
        name = f"SGA {passes} passes" if passes else "SGA alignment"
        systems[name] = decode_sga(model, symbols, passes)
    deep = build_transformer(sizes, symbols, sizes.layers, device)
    shallow = build_transformer(sizes, symbols, 1, device)
    for beam in (5, 1):
        name = f"AT {sizes.layers}+{sizes.layers} beam {beam}"
        systems[name] = decode_autoregressive(deep, symbols, beam)
    systems[f"AT {sizes.layers}+1 beam 1"] = decode_autoregressive(shallow, symbols, 1)
    return systems


def draw_lengths(sentences: int, seed: int = 1) -> Tensor:
    """Draw lengths around 25 pieces, including special symbols."""
    generator = torch.Generator().manual_seed(seed)
    return (25 + 8 * torch.randn(sentences, generator=generator)).round().clamp(8, 60).long()


def time_sentences(
    systems: Dict[str, Decode],
    vocab: int,
    options: argparse.Namespace,
) -> Dict[str, Timing]:
    """Time sentences one by one; every system decodes a sentence before the next one is drawn."""
    seconds: Dict[str, List[float]] = {name: [] for name in systems}
    for number, length in enumerate(draw_lengths(options.sentences).tolist()):
        sample = make_batch(torch.tensor([length]), vocab, options.device, seed=number)
        calls = {name: partial(decode, sample, length) for name, decode in systems.items()}
        say(f"V = {vocab}, sentence {number + 1}/{options.sentences}, {length} tokens")
        warmup = int(number == 0)
        timings = time_side_by_side(calls, 1, options.device, warmup=warmup, quiet=True)
        for name, timing in timings.items():
            seconds[name] += timing.seconds
    return {name: Timing(sentences) for name, sentences in seconds.items()}


def time_systems(
    systems: Dict[str, Decode], base: str, vocab: int, options: argparse.Namespace
) -> List[Dict[str, Any]]:
    """Time systems side by side: sentences one by one, then a large batch.

    Args:
        systems: name -> decoding.
        base: system that the others are compared with.
        vocab: V.
        options: ``sentences``, ``batch``, ``rounds`` and ``device``.

    Returns:
        One row per system.
    """
    single = time_sentences(systems, vocab, options)
    large = make_even_batch(options.batch, TYPICAL, vocab, options.device)
    calls = {name: partial(decode, large, TYPICAL) for name, decode in systems.items()}
    # A CPU is warm after the sentences; a GPU chooses its kernels by the size of the batch.
    warmup = int(options.device.type == "cuda")
    batched = time_side_by_side(calls, options.rounds, options.device, warmup=warmup)
    return [
        {
            "vocab": vocab,
            "system": name,
            "p50": single[name].median,
            "p95": percentile(single[name].seconds, 0.95),
            "speedup": [round(1 / ratio, 2) for ratio in single[name].ratio_to(single[base])],
            "batch_sentences_per_s": options.batch / batched[name].median,
            "batch_speedup": round(1 / batched[name].ratio_to(batched[base]).median, 2),
        }
        for name in systems
    ]


def measure(options: argparse.Namespace) -> List[Dict[str, Any]]:
    """Return one row per vocabulary and system."""
    rows: List[Dict[str, Any]] = []
    base = f"AT {options.layers}+{options.layers} beam 5"
    with torch.no_grad():
        for vocab in map(int, options.vocab.split(",")):
            systems = build_systems(Sizes.of(options, vocab), options.device)
            rows += time_systems(systems, base, vocab, options)
    return rows


def render(content: Dict[str, Any], base: str = "AT beam 5") -> str:
    """Make the table of one machine; ``base`` is the system of the ratios."""
    columns = [
        Column("V", "vocab", "{:,}"),
        Column("system", "system"),
        Column("p50 ms", "p50", "{:,.0f}", 1000),
        Column("p95 ms", "p95", "{:,.0f}", 1000),
        Column(f"× {base}", "speedup", MEDIAN),
        Column("sentences/s, batch", "batch_sentences_per_s", "{:,.1f}"),
        Column(f"× {base}", "batch_speedup", "{:.1f}"),
    ]
    return report.table(columns, content["results"])


def build_parser(doc: Optional[str], sentences: int) -> argparse.ArgumentParser:
    """Build the parser of a decoding benchmark; ``sentences``: default of the option."""
    parser = report.build_parser(doc, rounds=1, on_gpu=True)
    text = "vocabulary sizes V, separated by commas"
    parser.add_argument("--vocab", default="250002,32002", help=text)
    add_sizes(parser)
    text = "sentences decoded one by one"
    parser.add_argument("--sentences", type=int, default=sentences, help=text)
    parser.add_argument("--batch", type=int, default=32, help="size of the large batch")
    return parser


def main(argv: Optional[Sequence[str]] = None) -> None:
    """Run the command line."""
    options = build_parser(__doc__, sentences=12).parse_args(argv)
    report.publish("decoding", options, measure(options), render)


if __name__ == "__main__":
    main()
