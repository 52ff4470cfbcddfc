"""Decoding speed at equal width, depth and vocabulary: SGA against autoregressive transformers with key/value caches.

    python -m benchmarks.decoding [--device cuda] [--vocab 250002,32002] [--sentences 12] [--batch 32]

Random weights; every system is forced to the reference length. SGA: alignment alone and 1, 2, 4 forced denoising passes. AT:
encoder and decoder as deep as the masked LM with beam 5 and 1, and a one-layer decoder with beam 1. Batch 1 (median and 95th
percentile over sentences, one after another) and one large batch. Model only: tokens in, tokens out.
"""

import argparse
import time
from functools import partial
from typing import Any, Callable, Dict, List, Tuple

import torch
from fairseq.data import Dictionary
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from fairseq_plugins.generators.sga_generator import IterationOptions, SGAGenerator

from . import floor, measure, report
from .systems import Sizes, autoregressive, batch, dictionary, sga

PASSES = (0, 1, 2, 4)
Decode = Callable[[Dict[str, Any], int], Any]
"""(sample, tokens to produce) -> hypotheses."""


def decode_sga(model: Any, symbols: Dictionary, passes: int) -> Decode:
    """Alignment and exactly ``passes`` denoising passes."""
    generator = SGAGenerator(symbols, IterationOptions(max_iter=passes, adaptive=False))
    return lambda sample, _: generator.generate([model], sample)


def decode_autoregressive(model: Any, symbols: Dictionary, beam: int) -> Decode:
    """Stock beam search that ends exactly at the given length."""

    def decode(sample: Dict[str, Any], length: int) -> Any:
        generator = SequenceGenerator([model], symbols, beam_size=beam, max_len_a=0, max_len_b=length, min_len=length)
        return generator.generate([model], sample)

    return decode


def shares(model: Any, decode: Callable[[], Any], device: torch.device) -> Dict[str, float]:
    """Shares of the time of one decoding: attention, feed-forward, projection to the vocabulary, and the rest (Python, search)."""
    names = {"self_attn": "attention", "encoder_attn": "attention", "fc1": "feed-forward", "fc2": "feed-forward"}
    groups: Dict[str, List[Any]] = {"attention": [], "feed-forward": [], "projection": []}
    for name, module in model.named_modules():
        group = names.get(name.rsplit(".", 1)[-1])
        if group is not None:
            groups[group].append(module)
    owner, method = (model, "best_path") if hasattr(model, "best_path") else (model.decoder, "output_layer")
    with floor.stopwatch(groups, device) as seconds, floor.timed_method(owner, method, seconds, "projection", device):
        measure.synchronise(device)
        start = time.perf_counter()
        decode()
        measure.synchronise(device)
        total = time.perf_counter() - start
    parts = {name: value / total for name, value in seconds.items()}
    parts["rest"] = 1.0 - sum(parts.values())
    return {name: round(value, 3) for name, value in parts.items()}


def least_seconds(name: str, model: Any, sizes: Sizes, length: int, rates: Dict[str, float]) -> float:
    """Floor of one sentence: bytes of weights and operations of the products, whichever takes longer (see the page's note)."""
    table = sizes.vocab * sizes.width * 4
    layer_flops = (
        2 * 12 * sizes.width**2
    )  # one token through one layer of 12 C^2 weights; an AT decoder layer has 16 C^2
    project = 2 * sizes.vocab * sizes.width
    if name.startswith("SGA"):
        passes = int(name.split()[1]) if name[4].isdigit() else 0
        body = floor.parameter_bytes(*model.masked_lm.sentence_encoder.layers)
        slots, units = 2 * length, passes + 1
        flops = sizes.layers * layer_flops * (length + slots * units) + units * slots * project
        return floor.floor_seconds((body * (units + 1)) + units * table, flops, rates)
    beam = int(name.rsplit(" ", 1)[1])
    decoder = floor.parameter_bytes(*model.decoder.layers)
    flops = sizes.layers * layer_flops * length
    flops += length * beam * (len(model.decoder.layers) * layer_flops * 16 / 12 + project)
    encoder = floor.parameter_bytes(*model.encoder.layers)
    return floor.floor_seconds(encoder + length * (decoder + table), flops, rates)


def systems(sizes: Sizes, symbols: Dictionary, device: torch.device) -> Dict[str, Tuple[Any, Decode]]:
    """Name -> model and its decoding. The name of an AT system ends with its beam."""
    model = sga(sizes, device)
    found: Dict[str, Tuple[Any, Decode]] = {}
    for passes in PASSES:
        name = f"SGA {passes} passes" if passes else "SGA alignment"
        found[name] = model, decode_sga(model, symbols, passes)
    deep = autoregressive(sizes, symbols, sizes.layers, device)
    shallow = autoregressive(sizes, symbols, 1, device)
    for beam in (5, 1):
        found[f"AT {sizes.layers}+{sizes.layers} beam {beam}"] = deep, decode_autoregressive(deep, symbols, beam)
    found[f"AT {sizes.layers}+1 beam 1"] = shallow, decode_autoregressive(shallow, symbols, 1)
    return found


def sentence_lengths(count: int, seed: int = 1) -> Tensor:
    """Lengths in pieces around 25, special symbols counted."""
    generator = torch.Generator().manual_seed(seed)
    return (25 + 8 * torch.randn(count, generator=generator)).round().clamp(8, 60).long()


def compare(sizes: Sizes, options: argparse.Namespace, device: torch.device) -> List[Dict[str, Any]]:
    """One vocabulary: rows of the table."""
    symbols = dictionary(sizes.vocab)
    rates = floor.peak_rates(device)
    found = systems(sizes, symbols, device)
    lengths = sentence_lengths(options.sentences)
    singles = [(batch(length[None], sizes.vocab, device, seed), int(length)) for seed, length in enumerate(lengths)]
    seconds: Dict[str, List[float]] = {name: [] for name in found}
    for number, (sample, length) in enumerate(singles):
        calls = {name: partial(decode, sample, length) for name, (_, decode) in found.items()}
        measure.say(f"V = {sizes.vocab}, sentence {number + 1}/{len(singles)}, {length} tokens")
        timings = measure.time_side_by_side(calls, 1, device, warmup=int(number == 0), quiet=True)
        for name, timing in timings.items():
            seconds[name] += timing.seconds
    large = batch(torch.full((options.batch,), 25), sizes.vocab, device)
    calls = {name: partial(decode, large, 25) for name, (_, decode) in found.items()}
    together = measure.time_side_by_side(calls, options.rounds, device)
    base = f"AT {sizes.layers}+{sizes.layers} beam 5"
    typical = batch(torch.tensor([25]), sizes.vocab, device)
    rows = []
    for name, (model, decode) in found.items():
        single = measure.Timing(seconds[name])
        rows.append(
            {
                "vocab": sizes.vocab,
                "system": name,
                "p50": single.median,
                "p95": measure.percentile(seconds[name], 0.95),
                "speedup": [round(1 / value, 2) for value in single.ratio_to(measure.Timing(seconds[base]))],
                "batch_sentences_per_s": options.batch / together[name].median,
                "batch_speedup": round(1 / together[name].ratio_to(together[base]).median, 2),
                "shares": shares(model, partial(decode, typical, 25), device),
                "floor": least_seconds(name, model, sizes, 25, rates),
                "rates": {key: round(value, 1) for key, value in rates.items()},
            }
        )
    return rows


def render(content: Dict[str, Any]) -> str:
    """The table of one machine."""
    rows = []
    for row in content["results"]:
        parts = ", ".join(f"{name} {100 * share:.0f}" for name, share in row["shares"].items())
        cells = [f"{row['vocab']:,}", row["system"], f"{1000 * row['p50']:,.0f}", f"{1000 * row['p95']:,.0f}"]
        cells += [f"{row['speedup'][0]:.1f}", f"{1000 * row['floor']:,.0f}", f"{row['batch_sentences_per_s']:,.1f}"]
        rows.append([*cells, f"{row['batch_speedup']:.1f}", parts])
    columns = [
        "V",
        "system",
        "p50 ms",
        "p95 ms",
        "× AT beam 5",
        "floor ms (25 tokens)",
        "sentences/s, batch",
        "× AT beam 5",
        "time in %",
    ]
    return report.table(columns, rows)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", help="cpu or cuda (default: the GPU where there is one)")
    parser.add_argument("--vocab", default="250002,32002", help="vocabulary sizes V")
    parser.add_argument("--layers", type=int, default=12, help="L")
    parser.add_argument("--width", type=int, default=768, help="C")
    parser.add_argument("--heads", type=int, default=12, help="H")
    parser.add_argument("--sentences", type=int, default=12, help="sentences decoded one by one")
    parser.add_argument("--batch", type=int, default=32, help="size of the large batch")
    parser.add_argument("--rounds", type=int, default=1, help="timed rounds of the large batch")
    options = parser.parse_args()
    device = measure.pick_device(options.device)
    results: List[Dict[str, Any]] = []
    with torch.no_grad():
        for vocab in map(int, options.vocab.split(",")):
            sizes = Sizes(vocab, options.layers, options.width, options.heads)
            results += compare(sizes, options, device)
    chosen = {key: value for key, value in vars(options).items() if key != "device"}
    path = report.write("decoding", device, chosen, results)
    print(render({"results": results}))
    measure.say(f"wrote {path.relative_to(report.RESULTS.parent.parent)}")


if __name__ == "__main__":
    main()
