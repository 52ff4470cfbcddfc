"""Decoding on a CPU as models are deployed, at base size: exported graphs beside this package's generators and CTranslate2.

    python -m benchmarks.deployment [--vocab 32000] [--layers 12] [--rounds 20] [--batch 32] [--threads 2]

Random weights, sources of 24 tokens, outputs forced to 25. SGA: alignment alone, and with 3 denoising passes. AT: stock
transformers with as many encoder layers, and as many or one decoder layer, greedy and with beam 5. Batch 1 (median and 95th
percentile over the rounds) and one large batch; every system runs once per round, in one process. Model only: ids in, ids out.
"""

import argparse
import tempfile
from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import torch
from fairseq.data import Dictionary

from fairseq_plugins.checkpoints.writing import save_checkpoint, start_state
from fairseq_plugins.export import command, folder, slots
from fairseq_plugins.sga.decoding import IterationOptions, SGAGenerator
from fairseq_plugins_runtime.folder import Folder
from fairseq_plugins_runtime.sessions import own_process
from fairseq_plugins_runtime.translator import DECODERS

from . import deployed, measure, report
from .systems import Sizes, autoregressive, batch, dictionary, sga

SOURCE, TARGET = 24, 25
PASSES = (0, 3)
BEAMS = (1, 5)

Decode = Callable[[int], Any]
"""(sentences) -> outputs."""


def systems(sizes: Sizes, place: Path, threads: int) -> Iterator[Tuple[str, Decode, int]]:
    """Name, decoding, and bytes on disk of each system; files are written below ``place``."""
    symbols = dictionary(sizes.vocab)
    yield from sga_systems(sizes, symbols, place, threads)
    for layers in (sizes.layers, 1):
        yield from at_systems(sizes, symbols, layers, place / f"at-{layers}", threads)


def sga_systems(sizes: Sizes, symbols: Dictionary, place: Path, threads: int) -> Iterator[Tuple[str, Decode, int]]:
    """SGA by the generator of this package, and exported."""
    model = sga(sizes, torch.device("cpu"))
    size = sum(one.numel() * one.element_size() for one in model.parameters())
    for passes in PASSES:
        generator = SGAGenerator(symbols, IterationOptions(max_iter=passes, adaptive=False))

        def decode(count: int, generator: Any = generator) -> Any:
            sample = batch(torch.full((count,), SOURCE), sizes.vocab, torch.device("cpu"))
            return generator.generate([model], sample)

        yield f"SGA, {passes} passes, torch", decode, size
    ids = {"bos": symbols.bos(), "pad": symbols.pad(), "eos": symbols.eos(), "unk": symbols.unk()}
    pair = {"source": "a", "target": "b", "source_prefix": [0], "source_suffix": [2], "target_prefix": []}
    description = {
        "vocabulary": {"source": "vocabulary.txt", "target": "vocabulary.txt"},
        "pieces": None,
        "symbols": ids,
        "pairs": [pair],
        "limits": {"source_tokens": 256, "target_tokens": 512},
        "ignored": sorted(ids.values()),
        "search": {"max_iter": 0, "adaptive": False},
        "slots": slots.describe(model),
    }
    vocabulary = "".join(f"{symbol}\n" for symbol in symbols.symbols)
    for precision in ("float32", "int8"):
        made = place / f"sga-{precision}"
        if not made.exists():
            graphs, files = slots.graphs(model), {"vocabulary.txt": vocabulary}
            folder.write(made, folder.Content("slots", "sga", model, graphs, files, description), precision == "int8")
        for passes in PASSES:
            variant = deployed.variant(made, f"{passes}-passes", max_iter=passes, adaptive=False)
            yield (
                f"SGA, {passes} passes, onnxruntime {precision}",
                runtime(variant, sizes, threads),
                deployed.size(made),
            )


def at_systems(
    sizes: Sizes, symbols: Dictionary, layers: int, place: Path, threads: int
) -> Iterator[Tuple[str, Decode, int]]:
    """A stock transformer by CTranslate2, and exported."""
    checkpoint = write_transformer(sizes, symbols, layers, place)
    forced = ["--min-len", str(TARGET - 1), "--max-len-a", "0", "--max-len-b", str(TARGET - 1)]
    for precision in ("float32", "int8"):
        name = f"AT {sizes.layers}+{layers}"
        made = place / precision
        line = [str(checkpoint), str(made), "--data", str(place), "--beam", "1", *forced]
        if not made.exists() and command.main([*line, *(["--int8"] if precision == "int8" else [])]):
            raise SystemExit(f"benchmarks.deployment: {name} was not exported")
        peer, bytes_of_peer = deployed.ctranslate2_of(checkpoint, place, precision, threads, place)
        words = [symbols.symbols[number] for number in source_ids(sizes, 1)[0, :-1]]
        for beam in BEAMS:
            search = "greedy" if beam == 1 else f"beam {beam}"
            length = {"min_decoding_length": TARGET, "max_decoding_length": TARGET, "beam_size": beam}

            def decode(count: int, peer: Any = peer, length: Any = length, words: Any = words) -> Any:
                return peer.translate_batch([words] * count, **length)

            yield f"{name}, {search}, CTranslate2 {precision}", decode, bytes_of_peer
            variant = deployed.variant(made, f"beam-{beam}", beam=beam)
            found = runtime(variant, sizes, threads, bos=False), deployed.size(made)
            yield (f"{name}, {search}, onnxruntime {precision}", *found)


def write_transformer(sizes: Sizes, symbols: Dictionary, layers: int, place: Path) -> Path:
    """A checkpoint of a stock transformer with random weights, its dictionaries beside it; one that is there is kept."""
    path = place / "checkpoint.pt"
    if path.exists():
        return path
    place.mkdir(parents=True)
    for language in "ab":
        symbols.save(str(place / f"dict.{language}.txt"))
    model = autoregressive(sizes, symbols, layers, torch.device("cpu"))
    task = {"task": "translation", "source_lang": "a", "target_lang": "b", "data": str(place)}
    args = Namespace(**{**deployed.transformer_options(sizes, layers), **task, "arch": "transformer"})
    save_checkpoint(start_state(dict(model.state_dict()), args=args, cfg=None, task_state={}), path)
    return path


def source_ids(sizes: Sizes, count: int, bos: bool = True) -> np.ndarray:
    """Ids of ``count`` equal sources, (count, SOURCE); a stock transformer reads no ``<s>``."""
    ids = batch(torch.full((count,), SOURCE), sizes.vocab, torch.device("cpu"))["net_input"]["src_tokens"].numpy()
    ids = np.repeat(ids[:1], count, axis=0)
    if not bos:
        ids[:, 0] = ids[:, 1]
    return ids


def runtime(path: Path, sizes: Sizes, threads: int, bos: bool = True) -> Decode:
    """Decoding of an exported folder."""
    opened = Folder(path, threads)
    decoder = DECODERS[opened.kind](opened)
    return lambda count: decoder.decode(source_ids(sizes, count, bos), opened.pairs[0])


def compare(options: argparse.Namespace) -> List[Dict[str, Any]]:
    """Rows of the table."""
    sizes = Sizes(options.vocab, options.layers, options.width, options.heads)
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as temporary, torch.no_grad():
        found = list(systems(sizes, options.work or Path(temporary), options.threads))
        single = {name: partial(decode, 1) for name, decode, _ in found}
        large = {name: partial(decode, options.batch) for name, decode, _ in found}
        device = torch.device("cpu")
        alone = measure.time_side_by_side(single, options.rounds, device, warmup=3, quiet=True)
        together = measure.time_side_by_side(large, options.batch_rounds, device)
    base = f"AT {sizes.layers}+1, greedy, CTranslate2 int8"
    return [
        {
            "system": name,
            "p50": alone[name].median,
            "p95": measure.percentile(alone[name].seconds, 0.95),
            "to_base": [round(value, 3) for value in alone[name].ratio_to(alone[base])],
            "batch_seconds": together[name].median,
            "batch_to_base": [round(value, 3) for value in together[name].ratio_to(together[base])],
            "bytes": size,
        }
        for name, _, size in found
    ]


def render(content: Dict[str, Any]) -> str:
    """The table of one machine."""
    rows = []
    for row in content["results"]:
        cells = [row["system"], f"{1000 * row['p50']:,.1f}", f"{1000 * row['p95']:,.1f}", f"{row['to_base'][0]:.2f}"]
        rows.append(
            [
                *cells,
                f"{1000 * row['batch_seconds']:,.0f}",
                f"{row['batch_to_base'][0]:.2f}",
                f"{row['bytes'] / 1e6:,.0f}",
            ]
        )
    size = content["options"]["batch"]
    columns = ["system", "p50 ms", "p95 ms", "× base", f"ms, batch {size}", "× base", "MB on disk"]
    layers = content["options"]["layers"]
    return f"{report.table(columns, rows)}\n\nBase: AT {layers}+1, greedy, CTranslate2 int8. Below 1: less time than the base."


def main(argv: Optional[Sequence[str]] = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocab", type=int, default=32000, help="V")
    parser.add_argument("--layers", type=int, default=12, help="L")
    parser.add_argument("--width", type=int, default=768, help="C")
    parser.add_argument("--heads", type=int, default=12, help="H")
    parser.add_argument("--rounds", type=int, default=20, help="timed rounds of one sentence")
    parser.add_argument("--batch", type=int, default=32, help="size of the large batch")
    parser.add_argument("--batch-rounds", type=int, default=3, help="timed rounds of the large batch")
    parser.add_argument("--work", type=Path, help="keep what is exported here, and use what is there already")
    parser.add_argument("--export-only", action="store_true", help="fill --work, measure nothing")
    parser.add_argument("--threads", type=int, default=2, help="of every system")
    options = parser.parse_args(argv)
    if options.export_only:
        sizes = Sizes(options.vocab, options.layers, options.width, options.heads)
        list(systems(sizes, options.work, options.threads))
        return
    results = compare(options)
    kept = {name: value for name, value in vars(options).items() if name not in ("work", "export_only")}
    path = report.write("deployment", torch.device("cpu"), {**kept, **deployed.versions()}, results)
    print(render({"results": results, "options": vars(options)}))
    measure.say(f"wrote {path.relative_to(report.RESULTS.parent.parent)}")


if __name__ == "__main__":
    own_process()  # as the commands of the runtime are
    main()
