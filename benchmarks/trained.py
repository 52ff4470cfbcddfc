"""Decoding speed of trained models with their own stopping: text to text and model only, with the quality of what was timed.

    python -m benchmarks.trained --system SGA=runs/multi30k/sga/average.pt --system AT=runs/multi30k/at/average.pt \\
        --system mBART=runs/mbart/en-de/average.pt,runs/mbart/mt,runs/mbart/sentencepiece.bpe.model \\
        --data runs/multi30k/bin --pair en-de --sentencepiece runs/multi30k/sentencepiece.bpe.model \\
        --source test.en --reference test.de [--generation 'SGA={"iter_decode_blank_penalty": 1.5}'] \\
        [--sentences 200] [--batch 32] [--name NAME]

Each system decodes the same sentences, one by one and in batches: SGA without a pass, with one forced pass, and with at most 8 and
10 (how many a sentence took is in the histogram); SGA that aligns by mask-predict with 2, 4 and 8 iterations, and by a graph with
lookahead and viterbi, each without and with at most 10 passes; systems that write from left to right with beam 5 and 1. Any
system of the stock translation tasks can be named: transformers, gpt_msp, several languages in one model with their tags, mBART.
A system whose data-bin or pieces differ brings its own. The first system named AT is the base of the ratios, or else the first
one. The results are of one table: ``--name`` keeps them beside those of another.
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
from data_prep.score import TITLES
from data_prep.score_metrics import build_metrics, evaluate

from . import measure, report, trained_plot
from .trained_systems import ALLOWED, FORCED, PASSES, Source, System, described, generation_options, load

SCORES = ("bleu", "chrf", "meteor_exact")
NAME = re.compile(r"\w+")


class Run(NamedTuple):
    """What one pass over the sentences gave.

    Attributes:
        total: seconds a batch, from text to text.
        model: seconds a batch inside the generator.
        texts: one output a sentence.
        steps: denoising passes a sentence; empty for AT.
    """

    total: List[float]
    model: List[float]
    texts: List[str]
    steps: List[int]


def translate(system: System, lines: List[str], size: int, device: torch.device) -> Run:
    """Decode all lines, ``size`` at a time."""
    run = Run([], [], [], [])
    symbols = system.task.source_dictionary
    for first in range(0, len(lines), size):
        start = time.perf_counter()
        encoded = [" ".join(system.pieces.encode(line, out_type=str)) for line in lines[first : first + size]]
        tokens = [symbols.encode_line(line, add_if_not_exist=False).long() for line in encoded]
        dataset = system.task.build_dataset_for_inference(tokens, [len(line) for line in tokens])
        sample = dataset.collater([dataset[index] for index in range(len(tokens))])
        sample = utils.move_to_cuda(sample) if device.type == "cuda" else sample
        before = time.perf_counter()
        found = system.task.inference_step(system.generator, [system.model], sample)
        measure.synchronise(device)
        after = time.perf_counter()
        texts: Dict[int, str] = {}
        for row, index in enumerate(sample["id"].tolist()):
            best = found[row][0]
            text = system.task.target_dictionary.string(
                best["tokens"].cpu(), "sentencepiece", extra_symbols_to_ignore=symbols_to_strip(system.generator)
            )
            texts[index] = text
            run.steps.extend([best["steps"]] if "steps" in best else [])
        run.texts.extend(texts[index] for index in range(len(tokens)))
        run.total.append(time.perf_counter() - start)
        run.model.append(after - before)
    return run


def symbols_to_strip(generator: Any) -> Any:
    """Symbols that are not text."""
    return getattr(generator, "symbols_to_strip_from_output", set())


def compare(systems: List[System], options: argparse.Namespace, device: torch.device) -> List[Dict[str, Any]]:
    """Rows of the table."""
    lines, references = read_pair(options)
    runs: Dict[Tuple[str, int], List[Run]] = collections.defaultdict(list)
    for round_number in range(-1, options.rounds):
        for system in systems:
            measure.say(f"round {round_number + 1}/{options.rounds}: {system.name}")
            for size in (1, options.batch):
                warm = lines[: max(len(lines) // 10, 1)] if round_number < 0 else lines
                run = translate(system, warm, size, device)
                if round_number >= 0:
                    runs[system.name, size].append(run)
    base = next((system.name for system in systems if system.name.startswith("AT")), systems[0].name)
    rows = []
    for system in systems:
        rows.append(
            {**row(system.name, runs, base, references, options.batch, options.score), **parameters(system.model)}
        )
        one_pass = system.name.replace(described(ALLOWED), described(FORCED))
        if one_pass != system.name:
            rows[-1]["to_one_pass"] = {
                str(size): to_one_pass(runs[system.name, size], runs[one_pass, size]) for size in (1, options.batch)
            }
    return rows


def to_one_pass(allowed: Sequence[Run], forced: Sequence[Run]) -> List[float]:
    """Time inside the generator with the passes that the sentences need to that with one forced pass: median, least, most."""
    times = [measure.Timing([sum(run.model) for run in runs]) for runs in (allowed, forced)]
    return [round(value, 3) for value in times[0].ratio_to(times[1])]


def parameters(model: Any) -> Dict[str, int]:
    """How many parameters there are, and how many of them were trained."""
    found = list(model.parameters())
    return {
        "parameters": sum(one.numel() for one in found),
        "trained_parameters": sum(one.numel() for one in found if one.requires_grad),
    }


def row(
    name: str,
    runs: Dict[Tuple[str, int], List[Run]],
    base: str,
    references: List[List[str]],
    size: int,
    score: str = "bleu",
) -> Dict[str, Any]:
    """Times, ratios and quality of one system; the length ratio is that of BLEU, to the reference that is nearest in length."""
    single, batched = runs[name, 1], runs[name, size]
    seconds = [value for run in single for value in run.total]
    (quality,) = evaluate([single[0].texts], references, build_metrics([score], "13a"), 1, 1).values()
    known: List[Any] = [references[0], *([one or None for one in lines] for lines in references[1:])]
    lengths = sacrebleu.metrics.BLEU().corpus_score(single[0].texts, known)

    def ratio(which: int, kind: str) -> float:
        pairs = zip(runs[base, which], runs[name, which])
        ratios = sorted(sum(getattr(theirs, kind)) / sum(getattr(mine, kind)) for theirs, mine in pairs)
        return round(ratios[len(ratios) // 2], 2)

    steps = collections.Counter(single[0].steps)
    return {
        "system": name,
        "p50": measure.percentile(seconds, 0.5),
        "p95": measure.percentile(seconds, 0.95),
        "speedup": ratio(1, "total"),
        "model_only_speedup": ratio(1, "model"),
        "sentences_per_s": len(references[0]) / middle(single),
        "batch_sentences_per_s": len(references[0]) / middle(batched),
        "batch_speedup": ratio(size, "total"),
        score: round(quality.scores[0], 1),
        "length_ratio": round(lengths.sys_len / lengths.ref_len, 3),
        "signature": quality.signature,
        "passes": {str(count): steps[count] for count in sorted(steps)},
        "mean_passes": round(sum(single[0].steps) / len(single[0].steps), 2) if steps else None,
    }


def middle(runs: Sequence[Run]) -> float:
    """Seconds of all sentences: median over the rounds."""
    return measure.Timing([sum(run.total) for run in runs]).median


def read_pair(options: argparse.Namespace) -> Tuple[List[str], List[List[str]]]:
    """Source and references, sentences spread over the files, which may be sorted.

    An empty line of the second or a later reference is a missing one.

    Raises:
        ValueError: unequal line counts.
    """
    source, *references = (
        list(read_lines(str(path), "text", strict=False)) for path in (options.source, *options.reference)
    )
    for lines in references:
        if len(source) != len(lines):
            raise ValueError(f"--source has {len(source)} lines, --reference {len(lines)}; valid: equal counts")
    count = min(options.sentences, len(source))
    places = [index * len(source) // count for index in range(count)]
    return [source[place] for place in places], [[lines[place] for place in places] for lines in references]


def render(content: Dict[str, Any]) -> str:
    """The table of one machine, what passes cost, the plots. The histograms of the passes are in the JSON file."""
    rows, notes, score = [], [], content["options"].get("score", "bleu")
    for one in content["results"]:
        cells = [one["system"], _whole(one.get("trained_parameters"))]
        cells += [f"{1000 * one['p50']:.1f}", f"{1000 * one['p95']:.1f}", f"{one['speedup']:.1f}"]
        cells += [
            f"{one['model_only_speedup']:.1f}",
            f"{one['batch_sentences_per_s']:,.0f}",
            f"{one['batch_speedup']:.1f}",
        ]
        passes = f"{one['mean_passes']:.1f}" if one["mean_passes"] else ""
        rows.append([*cells, passes, f"{one[score]:.1f}", f"{one['length_ratio']:.3f}"])
        for size, (median, low, high) in one.get("to_one_pass", {}).items():
            times = f"{median:.2f} ({low:.2f} to {high:.2f}) times the time of 1 forced pass"
            alone = passes_alone(one["system"], content, "" if size == "1" else "batch_")
            notes.append(f"- {one['system']}, batch {size}: {times}; {alone:.2f} without what comes before the passes")
    columns = [
        "system",
        "trained parameters",
        "p50 ms",
        "p95 ms",
        "× base",
        "× base, model only",
        "sentences/s, batch",
        "× base, batch",
        "passes, mean",
        TITLES[score],
        "length",
    ]
    signature = content["results"][0]["signature"]
    notes.append(f"- {TITLES[score]} of the timed outputs: `{signature}`")
    return "\n".join([report.table(columns, rows), "", *notes, *trained_plot.links(content)])


def passes_alone(name: str, content: Dict[str, Any], kind: str) -> float:
    """Time of the passes of a system to that of its one forced pass, without encoder and alignment; of medians."""
    rate = {one["system"]: one[f"{kind}sentences_per_s"] for one in content["results"]}
    names = (name, *(name.replace(described(ALLOWED), described(options)) for options in (FORCED, PASSES[0])))
    allowed, forced, before = (1 / rate[one] for one in names)
    return (allowed - before) / (forced - before)


def _whole(number: Optional[int]) -> str:
    """With commas; nothing for what an earlier run did not count."""
    return "" if number is None else f"{number:,}"


def main(argv: Optional[List[str]] = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", help="cpu or cuda (default: the GPU where there is one)")
    parser.add_argument("--system", action="append", required=True, metavar="NAME=CHECKPOINT[,DATA[,SENTENCEPIECE]]")
    parser.add_argument(
        "--data", type=Path, required=True, help="data-bin with the dictionaries, unless a system has its own"
    )
    parser.add_argument("--pair", default="en-de", help="SOURCE-TARGET")
    parser.add_argument(
        "--sentencepiece", type=Path, required=True, help="sentencepiece model of the data, unless a system has its own"
    )
    parser.add_argument("--source", type=Path, required=True, help="sentences to translate, one a line")
    parser.add_argument(
        "--reference", type=Path, required=True, nargs="+", help="their translations; more files: more references"
    )
    parser.add_argument(
        "--generation", action="append", default=[], metavar="NAME=JSON", help="options of the generator of a system"
    )
    parser.add_argument("--score", choices=SCORES, default="bleu", help="of the outputs (default bleu)")
    parser.add_argument(
        "--name",
        default="",
        help="results are kept as trained-NAME; default: trained, which a bar of another table reads",
    )
    parser.add_argument("--sentences", type=int, default=200, help="how many of them, spread over the file")
    parser.add_argument("--batch", type=int, default=32, help="size of a batch")
    parser.add_argument("--rounds", type=int, default=3, help="timed rounds")
    options = parser.parse_args(argv)
    if options.name and not NAME.fullmatch(options.name):
        parser.error(f"--name {options.name}: valid: letters, digits and _")
    device = measure.pick_device(options.device)
    try:
        sources = [Source.parse(option, options.data, options.sentencepiece) for option in options.system]
        generation = generation_options(options.generation, [source.name for source in sources])
    except ValueError as error:
        parser.error(str(error))
    systems = [one for source in sources for one in load(source, options.pair, device, generation.get(source.name, {}))]
    with torch.no_grad():
        results = compare(systems, options, device)
    chosen = {key: getattr(options, key) for key in ("pair", "sentences", "batch", "rounds", "score", "name")}
    chosen.update({"generation": generation} if generation else {})
    path = report.write(f"trained-{options.name}" if options.name else "trained", device, chosen, results)
    print(render({"options": chosen, "results": results}))
    measure.say(f"wrote {path.relative_to(report.RESULTS.parent.parent)}")


if __name__ == "__main__":
    main()
