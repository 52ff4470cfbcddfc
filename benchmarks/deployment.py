"""Compare decoding on a CPU as models are deployed: exported graphs beside CTranslate2.

    python -m benchmarks.deployment [--vocab 32000] [--rounds 20] [--batch 32] [--threads 2]

Exported graphs beside this package's generators and CTranslate2. Random weights, sources of 24
tokens, outputs forced to 25. SGA: alignment alone, and with 3 denoising passes. AT: stock
transformers with as many encoder layers, and as many or one decoder layer, greedy and with beam
5. Batch 1 (median and 95th percentile over the rounds) and one large batch; each system runs once
per round, in one process. Model only: ids in, ids out.
"""

import argparse
import json
import os
import shutil
import tempfile
from argparse import Namespace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch
from fairseq.data import Dictionary

import fairseq_plugins  # noqa: F401  (registers what a checkpoint's options may name)
from fairseq_plugins.__main__ import main as run_verb
from fairseq_plugins.checkpoints.writing import save_checkpoint, start_state
from fairseq_plugins.export import folder, slots
from fairseq_plugins.export.text import Files, list_symbols
from fairseq_plugins.sga.decoding import IterationOptions, SGAGenerator
from fairseq_plugins_runtime.folder import Folder
from fairseq_plugins_runtime.sessions import own_process
from fairseq_plugins_runtime.translator import DECODERS

from . import report
from .measure import CPU, percentile, time_side_by_side
from .report import Column
from .systems import (
    Sizes,
    add_sizes,
    build_dictionary,
    build_sga,
    build_transformer,
    make_even_batch,
    transformer_options,
)

SOURCE, TARGET = 24, 25
PASSES = (0, 3)
BEAMS = (1, 5)
PRECISIONS = {"float32": [], "int8": ["--int8"]}
"""Precision of exported weights -> options of ``export``."""

Decode = Callable[[int], Any]
"""(sentences) -> outputs."""


class System(NamedTuple):
    """A model and one way to decode with it.

    Attributes:
        name: row of the table.
        decode: decodes that many copies of the source.
        size: bytes on disk.
    """

    name: str
    decode: Decode
    size: int


# ---- Shared with deployment_trained. ----


def folder_size(path: Path) -> int:
    """Sum the bytes of the files of a folder."""
    return sum(file.stat().st_size for file in path.iterdir())


def open_ctranslate2(
    checkpoint: Path,
    data: Path,
    precision: str,
    threads: int,
    place: Path,
) -> Tuple[Any, int]:
    """Convert a checkpoint for CTranslate2.

    Args:
        checkpoint: of a stock transformer.
        data: folder of its dictionaries.
        precision: of the stored weights.
        threads: threads of a translation.
        place: folder that the converted model is written below; an existing one is used.

    Returns:
        The translator, and the bytes of the model on disk.
    """
    import ctranslate2

    path = place / f"ctranslate2-{precision}"
    # Its loader wants a permission to read the configuration beside the tensors of this file.
    trusted = {"unsafe_deserialization": True}
    converter = ctranslate2.converters.FairseqConverter(str(checkpoint), str(data), **trusted)
    if not path.exists():
        converter.convert(str(path), quantization=precision)
    settings = {"compute_type": precision, "intra_threads": threads, "inter_threads": 1}
    return ctranslate2.Translator(str(path), device="cpu", **settings), folder_size(path)


def describe_versions() -> Dict[str, str]:
    """Return the versions of the peers, and whether the processor has VNNI (8-bit products)."""
    versions = {name: metadata.version(name) for name in ("onnxruntime", "ctranslate2")}
    file = Path("/proc/cpuinfo")
    flags = file.read_text(encoding="utf-8") if file.exists() else ""
    return {**versions, "vnni": "yes" if "vnni" in flags else "no"}


# ---- Systems. ----


def build_systems(sizes: Sizes, place: Path, threads: int) -> Iterator[System]:
    """Build all systems; files are written below ``place``."""
    symbols = build_dictionary(sizes.vocab)
    yield from build_sga_systems(sizes, symbols, place, threads)
    for layers in (sizes.layers, 1):
        path = place / f"at-{layers}"
        yield from build_at_systems(sizes, symbols, layers, path, threads)


def build_sga_systems(
    sizes: Sizes,
    symbols: Dictionary,
    place: Path,
    threads: int,
) -> Iterator[System]:
    """Build SGA with the generator of this package, and exported."""
    model = build_sga(sizes, CPU)
    size = sum(part.numel() * part.element_size() for part in model.parameters())
    for passes in PASSES:
        options = IterationOptions(max_iter=passes, adaptive=False)
        decode = partial(decode_torch, model, SGAGenerator(symbols, options), sizes.vocab)
        yield System(f"SGA, {passes} passes, torch", decode, size)
    for precision in PRECISIONS:
        exported = place / f"sga-{precision}"
        if not exported.exists():
            export_sga(model, symbols, exported, precision)
        for passes in PASSES:
            path = copy_with_search(exported, f"{passes}-passes", max_iter=passes, adaptive=False)
            decode = open_runtime(path, source_ids(sizes), threads)
            name = f"SGA, {passes} passes, onnxruntime {precision}"
            yield System(name, decode, folder_size(exported))


def decode_torch(model: Any, generator: SGAGenerator, vocab: int, sentences: int) -> Any:
    """Decode with the generator of this package."""
    return generator.generate([model], make_even_batch(sentences, SOURCE, vocab, CPU))


def export_sga(model: Any, symbols: Dictionary, path: Path, precision: str) -> None:
    """Export a model that has no checkpoint and no pieces."""
    ids = {"bos": symbols.bos(), "pad": symbols.pad(), "eos": symbols.eos(), "unk": symbols.unk()}
    pair = {"source": "a", "target": "b"}
    pair.update(source_prefix=[0], source_suffix=[2], target_prefix=[])
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
    files: Files = {"vocabulary.txt": list_symbols(symbols.symbols)}
    graphs = slots.graphs(model)
    content = folder.Content("slots", "sga", model, graphs, files, description)
    folder.write(path, content, precision == "int8")


def build_at_systems(
    sizes: Sizes,
    symbols: Dictionary,
    layers: int,
    place: Path,
    threads: int,
) -> Iterator[System]:
    """Build a stock transformer with CTranslate2, and exported."""
    checkpoint = write_transformer(sizes, symbols, layers, place)
    name = f"AT {sizes.layers}+{layers}"
    ids = source_ids(sizes)
    ids[:, 0] = ids[:, 1]  # a stock transformer reads no <s>
    words = [symbols.symbols[number] for number in source_ids(sizes)[0, :-1]]
    forced = ["--min-len", str(TARGET - 1), "--max-len-a", "0", "--max-len-b", str(TARGET - 1)]
    for precision, options in PRECISIONS.items():
        exported = place / precision
        line = [str(checkpoint), str(exported), "--data", str(place), "--beam", "1", *forced]
        if not exported.exists() and run_verb(["export", *line, *options]):
            raise SystemExit(f"benchmarks.deployment: {name} was not exported")
        peer, size = open_ctranslate2(checkpoint, place, precision, threads, place)
        for beam in BEAMS:
            search = "greedy" if beam == 1 else f"beam {beam}"
            decode: Decode = partial(decode_ctranslate2, peer, words, beam)
            yield System(f"{name}, {search}, CTranslate2 {precision}", decode, size)
            path = copy_with_search(exported, f"beam-{beam}", beam=beam)
            decode = open_runtime(path, ids, threads)
            row = f"{name}, {search}, onnxruntime {precision}"
            yield System(row, decode, folder_size(exported))


def decode_ctranslate2(peer: Any, words: List[str], beam: int, sentences: int) -> Any:
    """Decode with CTranslate2 to the forced length."""
    limits = {"min_decoding_length": TARGET, "max_decoding_length": TARGET}
    return peer.translate_batch([words] * sentences, beam_size=beam, **limits)


def write_transformer(sizes: Sizes, symbols: Dictionary, layers: int, place: Path) -> Path:
    """Write a checkpoint of a random transformer beside its dictionaries, unless there is one."""
    path = place / "checkpoint.pt"
    if path.exists():
        return path
    place.mkdir(parents=True)
    for language in "ab":
        symbols.save(str(place / f"dict.{language}.txt"))
    model = build_transformer(sizes, symbols, layers, CPU)
    args = Namespace(**transformer_options(sizes, layers), arch="transformer")
    vars(args).update(task="translation", source_lang="a", target_lang="b", data=str(place))
    state = start_state(dict(model.state_dict()), args=args, cfg=None, task_state={})
    save_checkpoint(state, path)
    return path


def copy_with_search(exported: Path, name: str, **search: Any) -> Path:
    """Copy an exported folder by hard links, with some options of its search replaced."""
    path = exported.with_name(f"{exported.name}-{name}")
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    for file in exported.iterdir():
        if file.name != "model.json":
            os.link(file, path / file.name)
    description = json.loads((exported / "model.json").read_text(encoding="utf-8"))
    description["search"].update(search)
    (path / "model.json").write_text(json.dumps(description), encoding="utf-8")
    return path


def source_ids(sizes: Sizes) -> np.ndarray:
    """Draw the source ``<s> pieces </s>``, (1, ``SOURCE``)."""
    return make_even_batch(1, SOURCE, sizes.vocab, CPU)["net_input"]["src_tokens"].numpy()


def open_runtime(path: Path, ids: np.ndarray, threads: int) -> Decode:
    """Open an exported folder; ``ids``: the source (1, ``SOURCE``)."""
    exported = Folder(path, threads)
    decoder = DECODERS[exported.kind](exported)
    pair = exported.pairs[0]
    return lambda sentences: decoder.decode(np.repeat(ids, sentences, axis=0), pair)


# ---- The table. ----


def measure(options: argparse.Namespace) -> List[Dict[str, Any]]:
    """Return one row per system."""
    sizes = Sizes.of(options)
    base = f"AT {sizes.layers}+1, greedy, CTranslate2 int8"
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as temporary, torch.no_grad():
        place = options.work or Path(temporary)
        systems = list(build_systems(sizes, place, options.threads))
        calls = {system.name: partial(system.decode, 1) for system in systems}
        single = time_side_by_side(calls, options.rounds, warmup=3, quiet=True)
        calls = {system.name: partial(system.decode, options.batch) for system in systems}
        batched = time_side_by_side(calls, options.batch_rounds)
    return [
        {
            "system": name,
            "p50": single[name].median,
            "p95": percentile(single[name].seconds, 0.95),
            "to_base": single[name].ratio_to(single[base]).rounded(),
            "batch_seconds": batched[name].median,
            "batch_to_base": batched[name].ratio_to(batched[base]).rounded(),
            "bytes": size,
        }
        for name, _, size in systems
    ]


def render(content: Dict[str, Any]) -> str:
    """Make the table of one machine."""
    options = content["options"]
    columns = [
        Column("system", "system"),
        Column("p50 ms", "p50", "{:,.1f}", 1000),
        Column("p95 ms", "p95", "{:,.1f}", 1000),
        Column("× base", "to_base", "{0[0]:.2f}"),
        Column(f"ms, batch {options['batch']}", "batch_seconds", "{:,.0f}", 1000),
        Column("× base", "batch_to_base", "{0[0]:.2f}"),
        Column("MB on disk", "bytes", "{:,.0f}", 1e-6),
    ]
    base = f"AT {options['layers']}+1, greedy, CTranslate2 int8"
    note = f"Base: {base}. Below 1: less time than the base."
    return f"{report.table(columns, content['results'])}\n\n{note}"


def main(argv: Optional[Sequence[str]] = None) -> None:
    """Run the command line."""
    parser = report.build_parser(__doc__, rounds=20)
    parser.add_argument("--vocab", type=int, default=32000, help="V")
    add_sizes(parser)
    parser.add_argument("--batch", type=int, default=32, help="size of the large batch")
    text = "timed rounds of the large batch"
    parser.add_argument("--batch-rounds", type=int, default=3, help=text)
    text = "folder of the exported models, which are used again (default: a temporary one)"
    parser.add_argument("--work", type=Path, help=text)
    parser.add_argument("--threads", type=int, default=2, help="threads of each system")
    options = parser.parse_args(argv)
    rows, versions = measure(options), describe_versions()
    report.publish("deployment", options, rows, render, unstored=["work"], **versions)


if __name__ == "__main__":
    own_process()  # as the commands of the runtime do
    main()
