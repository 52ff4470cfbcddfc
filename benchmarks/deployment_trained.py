"""Trained models as they are deployed, with their own stopping: text to text and model only, with the score of what was timed.

    python -m benchmarks.deployment_trained --system SGA=translator/sga --system AT=translator/at --source test.fr \\
        --reference test.de [--sentences 300] [--batch 32] [--threads 2]

MODEL is what ``python -m fairseq_plugins translate`` takes. Each is decoded by fairseq with this package's generator, by the
runtime in float32 and int8, and by CTranslate2 where that reads the model, with the same options of the search. Sentences one by
one (median and 95th percentile) and in batches.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch

from data_prep.io import read_lines
from data_prep.score_metrics import build_metrics, evaluate
from fairseq_plugins import translate
from fairseq_plugins.export import command
from fairseq_plugins_runtime import load
from fairseq_plugins_runtime.sessions import own_process
from fairseq_plugins_runtime.translator import Translator

from . import deployed, measure, report


class System(NamedTuple):
    """A model and one way to run it."""

    name: str
    runner: Any  # lines -> texts; ``seconds``: spent in the model since it was set to 0
    size: int  # bytes on disk


def time_method(runner: Any, owner: Any, name: str) -> None:
    """Add the seconds of each call of a method of ``owner`` to ``runner.seconds``."""
    method = getattr(owner, name)

    def timed(*arguments: Any, **named: Any) -> Any:
        start = time.perf_counter()
        found = method(*arguments, **named)
        runner.seconds += time.perf_counter() - start
        return found

    setattr(owner, name, timed)


class Fairseq:
    """This package's ``translate``."""

    def __init__(self, model: str, *options: str) -> None:
        args = translate.build_parser().parse_args([])
        self.inner = translate.load(translate.checkpoint(model), args, ["--cpu", *options])
        self.seconds = 0.0
        time_method(self, self.inner.task, "inference_step")

    def __call__(self, lines: Sequence[str]) -> List[str]:
        return [found[0].text for found in self.inner.translate(lines)]


class Runtime:
    """The runtime."""

    def __init__(self, folder: Path, threads: int) -> None:
        self.inner: Translator = load(folder, threads)
        self.seconds = 0.0
        time_method(self, self.inner._decoder, "decode")

    def __call__(self, lines: Sequence[str]) -> List[str]:
        return self.inner.translate(lines)


class CTranslate2:
    """CTranslate2 with the pieces and the search of an exported folder."""

    def __init__(self, peer: Any, exported: Translator) -> None:
        self.peer, self.text, self.seconds = peer, exported._folder.text, 0.0
        search = self.search = exported._folder.model.part("search").values
        if not search["normalize"] or search["unkpen"]:
            raise ValueError("--system: CTranslate2 has no --unnormalized or --unkpen; valid: a search without them")
        self.options = {
            "beam_size": search["beam"],
            "length_penalty": search["lenpen"],
            "min_decoding_length": search["min_len"],
        }

    def __call__(self, lines: Sequence[str]) -> List[str]:
        words = [[self.text.source[number] for number in self.text.ids(line)] for line in lines]
        start = time.perf_counter()
        longest = int(self.search["max_len_a"] * (1 + max(map(len, words))) + self.search["max_len_b"])  # with </s>
        found = self.peer.translate_batch(words, max_decoding_length=longest, **self.options)
        self.seconds += time.perf_counter() - start
        return ["".join(one.hypotheses[0]).replace("▁", " ").strip() for one in found]


def systems(options: argparse.Namespace, place: Path) -> Iterator[System]:
    """Every way to run every model; exported files are written below ``place``."""
    for given in options.system:
        name, _, model = given.partition("=")
        if not model:
            raise ValueError(f"--system {given}: valid: NAME=MODEL")
        checkpoint = translate.checkpoint(model)
        plain = Fairseq(model)
        yield System(f"{name}, torch", plain, checkpoint.stat().st_size)
        for precision in ("float32", "int8"):
            folder = place / f"{name}-{precision}"
            if command.main([model, str(folder), *(["--int8"] if precision == "int8" else [])]):
                raise SystemExit(f"benchmarks.deployment_trained: {model} was not exported")
            run = Runtime(folder, options.threads)
            yield System(f"{name}, onnxruntime {precision}", run, deployed.size(folder))
            if run.inner.kind == "encoder_decoder" and run.inner.architecture.startswith("transformer"):
                peer, size = deployed.ctranslate2_of(checkpoint, checkpoint.parent, precision, options.threads, place)
                yield System(f"{name}, CTranslate2 {precision}", CTranslate2(peer, run.inner), size)


def one_by_one(found: Sequence[System], lines: Sequence[str]) -> Tuple[Any, Any, Any]:
    """By system: seconds of each line, seconds of it in the model, and the texts; all systems translate a line before the next."""
    total: Dict[str, List[float]] = {system.name: [] for system in found}
    model: Dict[str, List[float]] = {system.name: [] for system in found}
    texts: Dict[str, List[str]] = {system.name: [] for system in found}
    for number, line in enumerate(lines):
        if number % 50 == 0:
            measure.say(f"sentence {number + 1}/{len(lines)}")
        turn = number % len(found)
        for system in [*found[turn:], *found[:turn]]:
            system.runner.seconds = 0.0
            start = time.perf_counter()
            texts[system.name] += system.runner([line])
            total[system.name].append(time.perf_counter() - start)
            model[system.name].append(system.runner.seconds)
    return total, model, texts


def compare(options: argparse.Namespace, found: Sequence[System]) -> List[Dict[str, Any]]:
    """Rows of the table."""
    lines, references = (list(read_lines(str(path), "text")) for path in (options.source, options.reference))
    chosen = np.linspace(0, len(lines) - 1, min(options.sentences, len(lines))).astype(int)
    lines, references = [lines[place] for place in chosen], [references[place] for place in chosen]
    for system in found:  # warm
        system.runner(lines[:5])
        system.runner(lines[: options.batch])
    total, model, texts = one_by_one(found, lines)
    groups = [lines[first : first + options.batch] for first in range(0, len(lines), options.batch)]
    calls = {system.name: lambda system=system: [system.runner(group) for group in groups] for system in found}
    together = measure.time_side_by_side(calls, options.rounds, torch.device("cpu"), warmup=0)
    rows = []
    for system in found:
        first = system.name.partition(",")[0]
        base = f"{first}, torch"
        ratios = {
            kind: measure.Timing(times[system.name]).ratio_to(measure.Timing(times[base]))
            for kind, times in (("total", total), ("model", model))
        }
        (quality,) = evaluate([texts[system.name]], [references], build_metrics(["bleu"], "13a"), 1, 1).values()
        rows.append(
            {
                "system": system.name,
                "p50": measure.percentile(total[system.name], 0.5),
                "p95": measure.percentile(total[system.name], 0.95),
                "model_p50": measure.percentile(model[system.name], 0.5),
                "model_p95": measure.percentile(model[system.name], 0.95),
                "speedup": round(1 / ratios["total"].median, 2),
                "model_speedup": round(1 / ratios["model"].median, 2),
                "sentences_per_s": len(lines) / together[system.name].median,
                "batch_speedup": round(1 / together[system.name].ratio_to(together[base]).median, 2),
                "same_lines": sum(map(str.__eq__, texts[system.name], texts[base])) / len(lines),
                "bleu": round(quality.scores[0], 2),
                "signature": quality.signature,
                "bytes": system.size,
            }
        )
    return rows


def render(content: Dict[str, Any]) -> str:
    """The table of one machine."""
    rows = []
    for row in content["results"]:
        times = [f"{1000 * row[name]:.1f}" for name in ("p50", "p95", "model_p50", "model_p95")]
        cells = [row["system"], *times, f"{row['speedup']:.2f}", f"{row['model_speedup']:.2f}"]
        cells += [f"{row['sentences_per_s']:,.0f}", f"{row['batch_speedup']:.2f}", f"{100 * row['same_lines']:.1f}"]
        rows.append([*cells, f"{row['bleu']:.2f}", f"{row['bytes'] / 1e6:,.1f}"])
    columns = ["system", "p50 ms", "p95 ms", "model p50 ms", "model p95 ms", "× torch", "× torch, model only"]
    columns += ["sentences/s, batch", "× torch, batch", "same lines, %", "BLEU", "MB on disk"]
    note = "× torch: how many times as fast as the first row of the same model, sentence by sentence. A checkpoint of SGA may be\n"
    note += "without its frozen masked LM."
    return f"{report.table(columns, rows)}\n\n{note} {content['results'][0]['signature']}."


def main(argv: Optional[Sequence[str]] = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--system", action="append", required=True, metavar="NAME=MODEL", help="may be given several times"
    )
    parser.add_argument("--source", required=True, help="text, a sentence per line")
    parser.add_argument("--reference", required=True, help="its translation")
    parser.add_argument("--sentences", type=int, default=300, help="how many of them, spread over the file")
    parser.add_argument("--batch", type=int, default=32, help="sentences of a batch")
    parser.add_argument("--rounds", type=int, default=3, help="timed rounds of the batches")
    parser.add_argument("--threads", type=int, default=2, help="of every system")
    options = parser.parse_args(argv)
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as temporary, torch.no_grad():
        found = list(systems(options, Path(temporary)))
        results = compare(options, found)
    kept = {name: getattr(options, name) for name in ("sentences", "batch", "rounds", "threads")}
    path = report.write("deployment_trained", torch.device("cpu"), {**kept, **deployed.versions()}, results)
    print(render({"results": results, "options": kept}))
    measure.say(f"wrote {path.relative_to(report.RESULTS.parent.parent)}")


if __name__ == "__main__":
    own_process()  # as the commands of the runtime are
    main()
