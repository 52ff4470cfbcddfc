"""Decoding speed at equal width, depth and vocabulary: SGA against autoregressive transformers with key/value caches.

    python -m benchmarks.decoding [--device cuda] [--vocab 250002,32002] [--sentences 12] [--batch 32]

Random weights; every system is forced to the reference length. SGA: alignment alone and 1, 2, 4 forced denoising passes. AT:
encoder and decoder as deep as the masked LM with beam 5 and 1, and a one-layer decoder with beam 1. Batch 1 (median and 95th
percentile over sentences, one after another) and one large batch. Model only: tokens in, tokens out.
"""

import argparse
import time
from contextlib import ExitStack
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from fairseq.data import Dictionary
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from fairseq_plugins.sga.decoding import IterationOptions, SGAGenerator

from . import floor, measure, report
from .systems import Sizes, autoregressive, batch, dictionary, sga

PASSES = (0, 1, 2, 4)
TYPICAL = 25
"""Tokens of each sentence of the large batch, and of the one whose time is taken apart."""

Decode = Callable[[Dict[str, Any], int], Any]
"""(sample, tokens to produce) -> hypotheses."""

Systems = Dict[str, Tuple[Any, Decode]]
"""Name -> model and its decoding."""

Least = Callable[[str, Any, Dict[str, float]], float]
"""(name, model, rates of the machine) -> floor in seconds of one sentence of ``TYPICAL`` tokens."""


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
    names["output_projection"] = "projection"
    groups: Dict[str, List[Any]] = {"attention": [], "feed-forward": [], "projection": []}
    for name, module in model.named_modules():
        group = names.get(name.rsplit(".", 1)[-1])
        if group is not None:
            groups[group].append(module)
    with ExitStack() as stack:
        seconds = stack.enter_context(floor.stopwatch(groups, device))
        if hasattr(model, "best_path"):  # SGA projects by a function over the tied embedding
            stack.enter_context(floor.timed_method(model, "best_path", seconds, "projection", device))
        measure.synchronise(device)
        start = time.perf_counter()
        decode()
        measure.synchronise(device)
        total = time.perf_counter() - start
    parts = {name: value / total for name, value in seconds.items()}
    parts["rest"] = 1.0 - sum(parts.values())
    return {name: round(value, 3) for name, value in parts.items()}


def least_seconds(sizes: Sizes, length: int, name: str, model: Any, rates: Dict[str, float]) -> float:
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


def systems(sizes: Sizes, symbols: Dictionary, device: torch.device) -> Systems:
    """The systems of this page. The name of an AT system ends with its beam."""
    model = sga(sizes, device)
    found: Systems = {}
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
    base = f"AT {sizes.layers}+{sizes.layers} beam 5"
    return time_systems(
        systems(sizes, symbols, device), base, partial(least_seconds, sizes, TYPICAL), sizes.vocab, options, device
    )


def time_systems(
    found: Systems, base: str, least: Least, vocab: int, options: argparse.Namespace, device: torch.device
) -> List[Dict[str, Any]]:
    """Time systems side by side: sentences one by one, then a large batch.

    Args:
        found: the systems.
        base: the one of them to whose time the others' are compared.
        least: floor of a system.
        vocab: V.
        options: ``sentences``, ``batch`` and ``rounds``.
        device: where the models are.

    Returns:
        A row a system.
    """
    rates = floor.peak_rates(device)
    seconds = time_singles(found, vocab, options.sentences, device)
    large = batch(torch.full((options.batch,), TYPICAL), vocab, device)
    calls = {name: partial(decode, large, TYPICAL) for name, (_, decode) in found.items()}
    # The sentences before have warmed a CPU up; kernels of a GPU are chosen by the size of the batch.
    together = measure.time_side_by_side(calls, options.rounds, device, warmup=int(device.type == "cuda"))
    typical = batch(torch.tensor([TYPICAL]), vocab, device)
    rows = []
    for name, (model, decode) in found.items():
        single = measure.Timing(seconds[name])
        rows.append(
            {
                "vocab": vocab,
                "system": name,
                "p50": single.median,
                "p95": measure.percentile(seconds[name], 0.95),
                "speedup": [round(1 / value, 2) for value in single.ratio_to(measure.Timing(seconds[base]))],
                "batch_sentences_per_s": options.batch / together[name].median,
                "batch_speedup": round(1 / together[name].ratio_to(together[base]).median, 2),
                "shares": shares(model, partial(decode, typical, TYPICAL), device),
                "floor": least(name, model, rates),
                "rates": {key: round(value, 1) for key, value in rates.items()},
            }
        )
    return rows


def time_singles(found: Systems, vocab: int, count: int, device: torch.device) -> Dict[str, List[float]]:
    """Seconds of each of ``count`` sentences, by system; all systems decode a sentence before the next."""
    seconds: Dict[str, List[float]] = {name: [] for name in found}
    for number, length in enumerate(sentence_lengths(count).tolist()):
        sample = batch(torch.tensor([length]), vocab, device, seed=number)
        calls = {name: partial(decode, sample, length) for name, (_, decode) in found.items()}
        measure.say(f"V = {vocab}, sentence {number + 1}/{count}, {length} tokens")
        timings = measure.time_side_by_side(calls, 1, device, warmup=int(number == 0), quiet=True)
        for name, timing in timings.items():
            seconds[name] += timing.seconds
    return seconds


def render(content: Dict[str, Any], base: str = "AT beam 5") -> str:
    """The table of one machine; ``base`` is what speed-ups are measured against."""
    rows = []
    for row in content["results"]:
        parts = "/".join(f"{100 * share:.0f}" for share in row["shares"].values())
        cells = [f"{row['vocab']:,}", row["system"], f"{1000 * row['p50']:,.0f}", f"{1000 * row['p95']:,.0f}"]
        cells += [f"{row['speedup'][0]:.1f}", f"{1000 * row['floor']:,.0f}", f"{row['batch_sentences_per_s']:,.1f}"]
        rows.append([*cells, f"{row['batch_speedup']:.1f}", parts])
    columns = [
        "V",
        "system",
        "p50 ms",
        "p95 ms",
        f"× {base}",
        f"floor ms ({TYPICAL} tokens)",
        "sentences/s, batch",
        f"× {base}",
        "time, %",
    ]
    named = "/".join(content["results"][0]["shares"])
    note = f"Time in %: {named}. The floor reads each weight once per step and computes its products."
    return f"{report.table(columns, rows)}\n\n{note}"


def run(
    name: str,
    text: str,
    measure_vocab: Callable[[Sizes, argparse.Namespace, torch.device], List[Dict[str, Any]]],
    show: Callable[[Dict[str, Any]], str],
    argv: Optional[Sequence[str]] = None,
    sentences: int = 12,
) -> None:
    """The command line of a decoding benchmark: measure each vocabulary, write the JSON file, print the table."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", help="cpu or cuda (default: the GPU where there is one)")
    parser.add_argument("--vocab", default="250002,32002", help="vocabulary sizes V")
    parser.add_argument("--layers", type=int, default=12, help="L")
    parser.add_argument("--width", type=int, default=768, help="C")
    parser.add_argument("--heads", type=int, default=12, help="H")
    parser.add_argument("--sentences", type=int, default=sentences, help="sentences decoded one by one")
    parser.add_argument("--batch", type=int, default=32, help="size of the large batch")
    parser.add_argument("--rounds", type=int, default=1, help="timed rounds of the large batch")
    options = parser.parse_args(argv)
    device = measure.pick_device(options.device)
    results: List[Dict[str, Any]] = []
    with torch.no_grad():
        for vocab in map(int, options.vocab.split(",")):
            sizes = Sizes(vocab, options.layers, options.width, options.heads)
            results += measure_vocab(sizes, options, device)
    chosen = {key: value for key, value in vars(options).items() if key != "device"}
    path = report.write(name, device, chosen, results)
    print(show({"results": results}))
    measure.say(f"wrote {path.relative_to(report.RESULTS.parent.parent)}")


def main(argv: Optional[Sequence[str]] = None) -> None:
    """Command line."""
    run("decoding", __doc__ or "", compare, render, argv)


if __name__ == "__main__":
    main()
