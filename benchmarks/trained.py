"""Decoding speed of trained models with their own stopping: text to text and model only, with the quality of what was timed.

    python -m benchmarks.trained --system SGA=runs/multi30k/sga/average.pt --system AT=runs/multi30k/at/average.pt \\
        --data runs/multi30k/bin --pair en-de --sentencepiece runs/multi30k/sentencepiece.bpe.model \\
        --source test.en --reference test.de [--sentences 200] [--batch 32]

Each system decodes the same sentences, one by one and in batches: SGA with at most 0, 1 and 10 passes (how many a sentence took is
in the histogram), AT with beam 5 and 1. The first system named AT is the base of the ratios.
"""

import argparse
import collections
import time
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import sacrebleu
import sentencepiece
import torch
from fairseq import checkpoint_utils, utils
from omegaconf import OmegaConf

import fairseq_plugins  # noqa: F401  (registers what checkpoints may hold)

from . import measure, report

DECODINGS: Dict[str, List[Dict[str, Any]]] = {
    "sga_translation": [{"iter_decode_max_iter": passes} for passes in (0, 1, 10)],
    "translation": [{"beam": beam, "max_len_a": 1.2, "max_len_b": 10} for beam in (5, 1)],
}
"""By task: the options of each generator that is timed."""


class System(NamedTuple):
    """A trained model and one way of decoding with it."""

    name: str
    task: Any
    model: Any
    generator: Any


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


def load(option: str, data: Path, pair: str, device: torch.device) -> List[System]:
    """All decodings of ``NAME=CHECKPOINT``.

    Raises:
        ValueError: no ``=``, or a task that is not timed here.
    """
    name, equals, path = option.partition("=")
    if not equals:
        raise ValueError(f"--system {option}: valid: NAME=CHECKPOINT")
    source, target = pair.split("-")
    overrides = {"data": str(data), "source_lang": source, "target_lang": target, "eval_bleu": False}
    models, cfg, task = checkpoint_utils.load_model_ensemble_and_task([path], arg_overrides=overrides)
    if cfg.task._name not in DECODINGS:
        raise ValueError(f"--system {option}: task {cfg.task._name}; valid: {', '.join(DECODINGS)}")
    model = models[0].to(device).eval()
    model.prepare_for_inference_(cfg)
    systems = []
    for options in DECODINGS[cfg.task._name]:
        generation = OmegaConf.merge(cfg.generation, options)
        text = f"beam {options['beam']}" if "beam" in options else f"at most {options['iter_decode_max_iter']} passes"
        systems.append(System(f"{name}, {text}", task, model, task.build_generator([model], generation)))
    return systems


def translate(system: System, lines: List[str], pieces: Any, size: int, device: torch.device) -> Run:
    """Decode all lines, ``size`` at a time."""
    run = Run([], [], [], [])
    symbols = system.task.source_dictionary
    for first in range(0, len(lines), size):
        start = time.perf_counter()
        encoded = [" ".join(pieces.encode(line, out_type=str)) for line in lines[first : first + size]]
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
    lines, reference = read_pair(options)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(options.sentencepiece))
    runs: Dict[Tuple[str, int], List[Run]] = collections.defaultdict(list)
    for round_number in range(-1, options.rounds):
        for system in systems:
            measure.say(f"round {round_number + 1}/{options.rounds}: {system.name}")
            for size in (1, options.batch):
                warm = lines[: max(len(lines) // 10, 1)] if round_number < 0 else lines
                run = translate(system, warm, pieces, size, device)
                if round_number >= 0:
                    runs[system.name, size].append(run)
    base = next((system.name for system in systems if system.name.startswith("AT")), systems[0].name)
    return [row(system.name, runs, base, reference, options.batch) for system in systems]


def row(
    name: str, runs: Dict[Tuple[str, int], List[Run]], base: str, reference: List[str], size: int
) -> Dict[str, Any]:
    """Times, ratios and quality of one system."""
    single, batched = runs[name, 1], runs[name, size]
    seconds = [value for run in single for value in run.total]
    bleu = sacrebleu.metrics.BLEU()
    score = bleu.corpus_score(single[0].texts, [reference])

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
        "batch_sentences_per_s": len(reference) / sorted(sum(run.total) for run in batched)[len(batched) // 2],
        "batch_speedup": ratio(size, "total"),
        "bleu": round(score.score, 1),
        "length_ratio": round(score.sys_len / score.ref_len, 3),
        "signature": str(bleu.get_signature()),
        "passes": {str(count): steps[count] for count in sorted(steps)},
        "mean_passes": round(sum(single[0].steps) / len(single[0].steps), 2) if steps else None,
    }


def read_pair(options: argparse.Namespace) -> Tuple[List[str], List[str]]:
    """Source and reference, the first sentences of both.

    Raises:
        ValueError: unequal line counts.
    """
    source, reference = (
        path.read_text(encoding="utf-8").rstrip("\n").split("\n") for path in (options.source, options.reference)
    )
    if len(source) != len(reference):
        raise ValueError(f"--source has {len(source)} lines, --reference {len(reference)}; valid: equal counts")
    return source[: options.sentences], reference[: options.sentences]


def _number(entry: Tuple[str, int]) -> int:
    """Sorts a histogram read from JSON, whose keys are texts."""
    return int(entry[0])


def render(content: Dict[str, Any]) -> str:
    """The table of one machine, and the histograms."""
    rows, histograms = [], []
    for one in content["results"]:
        cells = [one["system"], f"{1000 * one['p50']:.1f}", f"{1000 * one['p95']:.1f}", f"{one['speedup']:.1f}"]
        cells += [
            f"{one['model_only_speedup']:.1f}",
            f"{one['batch_sentences_per_s']:,.0f}",
            f"{one['batch_speedup']:.1f}",
        ]
        rows.append([*cells, f"{one['bleu']:.1f}", f"{one['length_ratio']:.3f}"])
        if one["mean_passes"] is not None:
            counts = ", ".join(f"{passes}: {count}" for passes, count in sorted(one["passes"].items(), key=_number))
            histograms.append(f"- {one['system']}: mean {one['mean_passes']:.2f} passes; sentences by passes {counts}")
    columns = [
        "system",
        "p50 ms",
        "p95 ms",
        "× base",
        "× base, model only",
        "sentences/s, batch",
        "× base, batch",
        "BLEU",
        "length",
    ]
    signature = content["results"][0]["signature"]
    return "\n".join([report.table(columns, rows), "", *histograms, f"- BLEU of the timed outputs: `{signature}`"])


def main(argv: Optional[List[str]] = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", help="cpu or cuda (default: the GPU where there is one)")
    parser.add_argument("--system", action="append", required=True, help="NAME=CHECKPOINT; may be repeated")
    parser.add_argument("--data", type=Path, required=True, help="data-bin with the dictionaries")
    parser.add_argument("--pair", default="en-de", help="SOURCE-TARGET")
    parser.add_argument("--sentencepiece", type=Path, required=True, help="the sentencepiece model of the data")
    parser.add_argument("--source", type=Path, required=True, help="sentences to translate, one a line")
    parser.add_argument("--reference", type=Path, required=True, help="their translations")
    parser.add_argument("--sentences", type=int, default=200, help="how many of them")
    parser.add_argument("--batch", type=int, default=32, help="size of a batch")
    parser.add_argument("--rounds", type=int, default=3, help="timed rounds")
    options = parser.parse_args(argv)
    device = measure.pick_device(options.device)
    systems = [system for option in options.system for system in load(option, options.data, options.pair, device)]
    with torch.no_grad():
        results = compare(systems, options, device)
    chosen = {key: getattr(options, key) for key in ("pair", "sentences", "batch", "rounds")}
    path = report.write("trained", device, chosen, results)
    print(render({"results": results}))
    measure.say(f"wrote {path.relative_to(report.RESULTS.parent.parent)}")


if __name__ == "__main__":
    main()
