r"""Compare speed and quality of trained models with their own stopping.

    python -m benchmarks.trained --system SGA=runs/m30k/sga/average.pt \\
        --system AT=runs/m30k/at/average.pt \\
        --system mBART=runs/mbart/average.pt,runs/mbart/mt,runs/mbart/sentencepiece.bpe.model \\
        --data runs/m30k/bin --pair en-de --sentencepiece runs/m30k/sentencepiece.bpe.model \\
        --source test.en --reference test.de [--sentences 200] [--batch 32] [--name NAME] \\
        [--generation 'SGA={"iter_decode_blank_penalty": 1.5}']

All systems decode the same sentences, one by one and in batches, text to text. SGA: without a
pass, with one forced pass, and with at most 8 and 10. SGA by mask-predict: 2, 4, 8 iterations; by
a graph: lookahead and viterbi; each without and with at most 10 passes. Systems that write from
left to right: beam 5 and 1; any system of the stock translation tasks can be named, such as
transformers, gpt_msp and mBART. The first system named AT is the base of the ratios, else the
first one. ``--name`` keeps the results beside those of another table.
"""

import argparse
import collections
import re
import time
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import sacrebleu
import torch
from fairseq import utils

from data_prep.io import read_lines
from data_prep.scoring.metrics import build_metrics, evaluate
from data_prep.scoring.score import TITLES

from . import report, trained_plot
from .measure import Timing, percentile, say, synchronise
from .report import Column
from .trained_systems import (
    ALLOWED,
    FORCED,
    WITHOUT,
    Source,
    System,
    describe_decoding,
    load,
    parse_generation,
)

SCORES = ("bleu", "chrf", "meteor_exact")
NAME = re.compile(r"\w+")


class Run(NamedTuple):
    """Outcome of one pass of a system over the sentences.

    Attributes:
        total: seconds per batch, text to text.
        model: seconds per batch in the generator.
        texts: one output per sentence.
        steps: denoising passes per sentence; empty for AT.
    """

    total: List[float]
    model: List[float]
    texts: List[str]
    steps: List[int]


Runs = Dict[Tuple[str, int], List[Run]]
"""(system, batch size) -> one run per round."""


# ---- Running. ----


def translate(system: System, lines: List[str], size: int, device: torch.device) -> Run:
    """Decode all lines in batches of ``size``, and take the times."""
    run = Run([], [], [], [])
    for first in range(0, len(lines), size):
        start = time.perf_counter()
        sample = make_sample(system, lines[first : first + size], device)
        before = time.perf_counter()
        sentences = system.task.inference_step(system.generator, [system.model], sample)
        synchronise(device)
        after = time.perf_counter()
        texts: Dict[int, str] = {}
        for number, hypotheses in zip(sample["id"].tolist(), sentences):
            texts[number] = decode_text(system, hypotheses[0]["tokens"])
            run.steps.extend([hypotheses[0]["steps"]] if "steps" in hypotheses[0] else [])
        run.texts.extend(text for _, text in sorted(texts.items()))
        run.total.append(time.perf_counter() - start)
        run.model.append(after - before)
    return run


def make_sample(system: System, lines: List[str], device: torch.device) -> Dict[str, Any]:
    """Cut lines into pieces and collate them as ``fairseq-interactive`` does."""
    symbols = system.task.source_dictionary
    pieces = [" ".join(system.pieces.encode(line, out_type=str)) for line in lines]
    tokens = [symbols.encode_line(line, add_if_not_exist=False).long() for line in pieces]
    dataset = system.task.build_dataset_for_inference(tokens, [len(row) for row in tokens])
    sample = dataset.collater([dataset[number] for number in range(len(tokens))])
    return utils.move_to_cuda(sample) if device.type == "cuda" else sample


def decode_text(system: System, tokens: torch.Tensor) -> str:
    """Join the pieces of an output without its special symbols."""
    ignored = getattr(system.generator, "symbols_to_strip_from_output", set())
    symbols = system.task.target_dictionary
    return symbols.string(tokens.cpu(), "sentencepiece", extra_symbols_to_ignore=ignored)


def run_systems(systems: List[System], lines: List[str], options: argparse.Namespace) -> Runs:
    """Run each system once per round; the round before the first is not counted."""
    runs: Runs = collections.defaultdict(list)
    for number in range(-1, options.rounds):
        for system in systems:
            say(f"round {number + 1}/{options.rounds}: {system.name}")
            for size in (1, options.batch):
                if number < 0:
                    warmup = lines[: max(len(lines) // 10, 1)]
                    translate(system, warmup, size, options.device)
                else:
                    run = translate(system, lines, size, options.device)
                    runs[system.name, size].append(run)
    return runs


# ---- Rows. ----


def measure(systems: List[System], options: argparse.Namespace) -> List[Dict[str, Any]]:
    """Return one row per system and decoding."""
    lines, references = read_pair(options)
    runs = run_systems(systems, lines, options)
    names = [system.name for system in systems]
    base = next((name for name in names if name.startswith("AT")), names[0])
    rows = []
    for system in systems:
        row = {
            **describe_speed(system.name, base, runs, options.batch),
            **describe_quality(runs[system.name, 1][0], references, options.score),
            **count_parameters(system.model),
        }
        one_pass = system.name.replace(describe_decoding(ALLOWED), describe_decoding(FORCED))
        if one_pass != system.name:
            row["to_one_pass"] = {}
            for size in (1, options.batch):
                ratio = compare_passes(runs[system.name, size], runs[one_pass, size])
                row["to_one_pass"][str(size)] = ratio
        rows.append(row)
    return rows


def describe_speed(name: str, base: str, runs: Runs, batch: int) -> Dict[str, Any]:
    """Return times and ratios of a system; ``batch``: size of the batches."""
    single, batched = runs[name, 1], runs[name, batch]
    seconds = [second for run in single for second in run.total]
    sentences = len(single[0].texts)

    def speedup(size: int, part: str) -> float:
        times = [round_seconds(runs[system, size], part) for system in (base, name)]
        return round(times[0].ratio_to(times[1]).median, 2)

    return {
        "system": name,
        "p50": percentile(seconds, 0.5),
        "p95": percentile(seconds, 0.95),
        "speedup": speedup(1, "total"),
        "model_only_speedup": speedup(1, "model"),
        "sentences_per_s": sentences / round_seconds(single, "total").median,
        "batch_sentences_per_s": sentences / round_seconds(batched, "total").median,
        "batch_speedup": speedup(batch, "total"),
    }


def round_seconds(runs: Sequence[Run], part: str) -> Timing:
    """Sum the seconds of all batches in each round; ``part``: ``total`` or ``model``."""
    return Timing([sum(getattr(run, part)) for run in runs])


def describe_quality(run: Run, references: List[List[str]], score: str) -> Dict[str, Any]:
    """Return score, length ratio and passes of a system.

    The length ratio is BLEU's, to the reference that is nearest in length.
    """
    (quality,) = evaluate([run.texts], references, build_metrics([score], "13a"), 1, 1).values()
    optional = [[line or None for line in lines] for lines in references[1:]]
    lengths = sacrebleu.metrics.BLEU().corpus_score(run.texts, [references[0], *optional])
    steps = collections.Counter(run.steps)
    return {
        score: round(quality.scores[0], 1),
        "length_ratio": round(lengths.sys_len / lengths.ref_len, 3),
        "signature": quality.signature,
        "passes": {str(count): steps[count] for count in sorted(steps)},
        "mean_passes": round(sum(run.steps) / len(run.steps), 2) if steps else None,
    }


def compare_passes(allowed: Sequence[Run], forced: Sequence[Run]) -> List[float]:
    """Divide the generator's time with as many passes as needed by that with one forced pass."""
    times = [round_seconds(runs, "model") for runs in (allowed, forced)]
    return times[0].ratio_to(times[1]).rounded()


def count_parameters(model: Any) -> Dict[str, int]:
    """Count all parameters and the trained ones."""
    sizes = [(part.numel(), part.requires_grad) for part in model.parameters()]
    return {
        "parameters": sum(size for size, _ in sizes),
        "trained_parameters": sum(size for size, is_trained in sizes if is_trained),
    }


def read_pair(options: argparse.Namespace) -> Tuple[List[str], List[List[str]]]:
    """Read source and references: ``--sentences`` lines, spread over files that may be sorted.

    An empty line of the second or a later reference is a missing one.

    Raises:
        ValueError: the files have different numbers of lines.
    """
    paths = (options.source, *options.reference)
    files = [list(read_lines(str(path), "text", strict=False)) for path in paths]
    total = len(files[0])
    for lines in files[1:]:
        if len(lines) != total:
            counts = f"--source has {total} lines, --reference {len(lines)}"
            raise ValueError(f"{counts}; valid: equal counts")
    count = min(options.sentences, total)
    places = [number * total // count for number in range(count)]
    source, *references = ([lines[place] for place in places] for lines in files)
    return source, references


# ---- The table. ----


def render(content: Dict[str, Any]) -> str:
    """Make table, notes and plots of one machine; the JSON file has histograms of the passes."""
    score, rows = trained_plot.score_name(content), content["results"]
    columns = [
        Column("system", "system"),
        Column("trained parameters", "trained_parameters", "{:,}"),
        Column("p50 ms", "p50", "{:.1f}", 1000),
        Column("p95 ms", "p95", "{:.1f}", 1000),
        Column("× base", "speedup", "{:.1f}"),
        Column("× base, model only", "model_only_speedup", "{:.1f}"),
        Column("sentences/s, batch", "batch_sentences_per_s", "{:,.0f}"),
        Column("× base, batch", "batch_speedup", "{:.1f}"),
        Column("passes, mean", lambda row: row["mean_passes"] or None, "{:.1f}"),
        Column(TITLES[score], score, "{:.1f}"),
        Column("length", "length_ratio", "{:.3f}"),
    ]
    notes = [note for row in rows for note in render_passes(row, content)]
    notes.append(f"- {TITLES[score]} of the timed outputs: `{rows[0]['signature']}`")
    return "\n".join([report.table(columns, rows), "", *notes, *trained_plot.links(content)])


def render_passes(row: Dict[str, Any], content: Dict[str, Any]) -> List[str]:
    """Return a note per batch size: time of the allowed passes relative to one forced pass."""
    notes = []
    for size, ratio in row.get("to_one_pass", {}).items():
        times = f"{report.SPREAD.format(ratio)} times the time of 1 forced pass"
        alone = compare_passes_alone(row["system"], content, "" if size == "1" else "batch_")
        passes = f"{alone:.2f} without what comes before the passes"
        notes.append(f"- {row['system']}, batch {size}: {times}; {passes}")
    return notes


def compare_passes_alone(system: str, content: Dict[str, Any], prefix: str) -> float:
    """Divide the median time of the passes by that of one pass, without encoder and alignment."""
    rates = {row["system"]: row[f"{prefix}sentences_per_s"] for row in content["results"]}

    def seconds(options: Dict[str, Any]) -> float:
        name = system.replace(describe_decoding(ALLOWED), describe_decoding(options))
        return 1 / rates[name]

    before = seconds(WITHOUT)
    return (seconds(ALLOWED) - before) / (seconds(FORCED) - before)


# ---- Command line. ----


def build_parser() -> argparse.ArgumentParser:
    """Build the parser."""
    parser = report.build_parser(__doc__, rounds=3, on_gpu=True)
    form = "NAME=CHECKPOINT[,DATA[,SENTENCEPIECE]]"
    parser.add_argument("--system", action="append", required=True, metavar=form)
    text = "data-bin with the dictionaries, unless a system has its own"
    parser.add_argument("--data", type=Path, required=True, help=text)
    parser.add_argument("--pair", default="en-de", help="SOURCE-TARGET")
    text = "sentencepiece model of the data, unless a system has its own"
    parser.add_argument("--sentencepiece", type=Path, required=True, help=text)
    text = "sentences to translate, one per line"
    parser.add_argument("--source", type=Path, required=True, help=text)
    text = "translations; several files: several references"
    parser.add_argument("--reference", type=Path, required=True, nargs="+", help=text)
    text, form = "options of the generator of a system", "NAME=JSON"
    parser.add_argument("--generation", action="append", default=[], metavar=form, help=text)
    text = "score of the outputs (default: %(default)s)"
    parser.add_argument("--score", choices=SCORES, default="bleu", help=text)
    text = "keep the results as trained-NAME (default: trained)"
    parser.add_argument("--name", default="", help=text)
    text = "number of sentences, spread over the file"
    parser.add_argument("--sentences", type=int, default=200, help=text)
    parser.add_argument("--batch", type=int, default=32, help="size of a batch")
    return parser


def main(argv: Optional[List[str]] = None) -> None:
    """Run the command line."""
    parser = build_parser()
    options = parser.parse_args(argv)
    if options.name and not NAME.fullmatch(options.name):
        parser.error(f"--name {options.name}: valid: letters, digits and _")
    try:
        defaults = (options.data, options.sentencepiece)
        sources = [Source.parse(text, *defaults) for text in options.system]
        generation = parse_generation(options.generation, [source.name for source in sources])
    except ValueError as error:
        parser.error(str(error))
    systems = []
    for source in sources:
        overrides = generation.get(source.name, {})
        systems += load(source, options.pair, options.device, overrides)
    with torch.no_grad():
        rows = measure(systems, options)
    name = f"trained-{options.name}" if options.name else "trained"
    unstored = ["system", "data", "sentencepiece", "source", "reference", "generation"]
    facts = {"generation": generation} if generation else {}
    report.publish(name, options, rows, render, unstored, **facts)


if __name__ == "__main__":
    main()
