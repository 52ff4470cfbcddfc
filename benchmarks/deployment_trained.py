r"""Compare trained models as they are deployed: speed, score and equal lines.

    python -m benchmarks.deployment_trained --system SGA=translator/sga --system AT=translator/at \\
        --source test.fr --reference test.de [--sentences 300] [--batch 32] [--threads 2]

MODEL is what ``fairseq-plugins translate`` takes. Each model is decoded by fairseq with
this package's generator, by the runtime in float32 and int8, and by CTranslate2 if it reads the
model, with the same options of the search and its own stopping. Text to text and model only,
sentences one by one (median and 95th percentile) and in batches, with the score of the timed
outputs.
"""

import argparse
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence

import numpy as np
import torch

from data_prep.io import read_lines
from data_prep.scoring.metrics import build_metrics, evaluate
from fairseq_plugins import model_files, translate
from fairseq_plugins.__main__ import main as run_verb
from fairseq_plugins_runtime import load
from fairseq_plugins_runtime.sessions import own_process
from fairseq_plugins_runtime.translator import Translator

from . import report
from .deployment import PRECISIONS, describe_versions, folder_size, open_ctranslate2
from .measure import Timing, percentile, say, time_side_by_side
from .report import Column


class System(NamedTuple):
    """A model and one way to run it.

    Attributes:
        name: row of the table.
        runner: lines -> texts; adds the seconds in the model to ``runner.seconds``.
        size: bytes on disk.
    """

    name: str
    runner: Any
    size: int


class Singles(NamedTuple):
    """Times and outputs of a system, line by line.

    Attributes:
        total: seconds per line, text to text.
        model: seconds per line in the model.
        texts: one output per line.
    """

    total: List[float]
    model: List[float]
    texts: List[str]


# ---- Ways to run a model. ----


def time_method(runner: Any, owner: Any, name: str) -> None:
    """Add the seconds of each call of a method of ``owner`` to ``runner.seconds``."""
    method = getattr(owner, name)

    def timed(*arguments: Any, **options: Any) -> Any:
        start = time.perf_counter()
        outputs = method(*arguments, **options)
        runner.seconds += time.perf_counter() - start
        return outputs

    setattr(owner, name, timed)


class FairseqRunner:
    """Run a checkpoint with this package's ``translate``."""

    def __init__(self, model: str) -> None:
        args = translate.build_parser().parse_args([])
        self.translator = translate.load(model_files.find_checkpoint(model), args, ["--cpu"])
        self.seconds = 0.0
        time_method(self, self.translator.task, "inference_step")

    def __call__(self, lines: Sequence[str]) -> List[str]:
        """Translate a batch of lines."""
        return [hypotheses[0].text for hypotheses in self.translator.translate(lines)]


class RuntimeRunner:
    """Run an exported folder."""

    def __init__(self, folder: Path, threads: int) -> None:
        self.translator: Translator = load(folder, threads)
        self.seconds = 0.0
        time_method(self, self.translator._decoder, "decode")

    def __call__(self, lines: Sequence[str]) -> List[str]:
        """Translate a batch of lines."""
        return self.translator.translate(lines)


class CTranslate2Runner:
    """Run CTranslate2 with the pieces and the search of an exported folder.

    Raises:
        ValueError: the search has an option that CTranslate2 has not.
    """

    def __init__(self, peer: Any, exported: Translator) -> None:
        self.peer, self.text, self.seconds = peer, exported._folder.text, 0.0
        search = self.search = exported._folder.model.part("search").values
        if not search["normalize"] or search["unkpen"]:
            valid = "valid: a search without them"
            raise ValueError(f"--system: CTranslate2 has no --unnormalized or --unkpen; {valid}")
        self.options = {
            "beam_size": search["beam"],
            "length_penalty": search["lenpen"],
            "min_decoding_length": search["min_len"],
        }

    def __call__(self, lines: Sequence[str]) -> List[str]:
        """Translate a batch of lines."""
        words = [[self.text.source[number] for number in self.text.ids(line)] for line in lines]
        longest = 1 + max(map(len, words))  # with </s>
        limit = int(self.search["max_len_a"] * longest + self.search["max_len_b"])
        start = time.perf_counter()
        outputs = self.peer.translate_batch(words, max_decoding_length=limit, **self.options)
        self.seconds += time.perf_counter() - start
        return ["".join(output.hypotheses[0]).replace("▁", " ").strip() for output in outputs]


def build_systems(options: argparse.Namespace, place: Path) -> Iterator[System]:
    """Build each way to run each model; exported files are written below ``place``.

    Raises:
        ValueError: ``--system`` is not NAME=MODEL.
    """
    for system in options.system:
        name, _, model = system.partition("=")
        if not model:
            raise ValueError(f"--system {system}: valid: NAME=MODEL")
        checkpoint = model_files.find_checkpoint(model)
        yield System(f"{name}, torch", FairseqRunner(model), checkpoint.stat().st_size)
        for precision, line in PRECISIONS.items():
            folder = place / f"{name}-{precision}"
            if run_verb(["export", model, str(folder), *line]):
                raise SystemExit(f"benchmarks.deployment_trained: {model} was not exported")
            runner = RuntimeRunner(folder, options.threads)
            yield System(f"{name}, onnxruntime {precision}", runner, folder_size(folder))
            exported = runner.translator
            is_transformer = exported.architecture.startswith("transformer")
            if exported.kind != "encoder_decoder" or not is_transformer:
                continue
            source = (checkpoint, checkpoint.parent, precision)
            peer, size = open_ctranslate2(*source, options.threads, place)
            yield System(
                f"{name}, CTranslate2 {precision}",
                CTranslate2Runner(peer, exported),
                size,
            )


# ---- The table. ----


def run_singles(systems: Sequence[System], lines: Sequence[str]) -> Dict[str, Singles]:
    """Translate line by line; all systems translate a line before the next."""
    singles = {system.name: Singles([], [], []) for system in systems}
    for number, line in enumerate(lines):
        if number % 50 == 0:
            say(f"sentence {number + 1}/{len(lines)}")
        turn = number % len(systems)
        for system in [*systems[turn:], *systems[:turn]]:
            single = singles[system.name]
            system.runner.seconds = 0.0
            start = time.perf_counter()
            single.texts.extend(system.runner([line]))
            single.total.append(time.perf_counter() - start)
            single.model.append(system.runner.seconds)
    return singles


def read_pair(options: argparse.Namespace) -> List[List[str]]:
    """Read source and reference: ``--sentences`` lines, spread over the files."""
    files = [list(read_lines(path, "text")) for path in (options.source, options.reference)]
    count = min(options.sentences, len(files[0]))
    places = np.linspace(0, len(files[0]) - 1, count).astype(int)
    return [[lines[place] for place in places] for lines in files]


def measure(options: argparse.Namespace, systems: Sequence[System]) -> List[Dict[str, Any]]:
    """Return one row per system."""
    lines, references = read_pair(options)
    for system in systems:  # warm
        system.runner(lines[:5])
        system.runner(lines[: options.batch])
    singles = run_singles(systems, lines)
    starts = range(0, len(lines), options.batch)
    batches = [lines[start : start + options.batch] for start in starts]

    def run_batches(system: System) -> None:
        for batch in batches:
            system.runner(batch)

    calls = {system.name: partial(run_batches, system) for system in systems}
    batched = time_side_by_side(calls, options.rounds, warmup=0)
    rows = []
    for system in systems:
        base = f"{system.name.partition(',')[0]}, torch"
        times = describe_times(singles[system.name], singles[base])
        ratio = batched[system.name].ratio_to(batched[base])
        rows.append(
            {
                "system": system.name,
                **times,
                "sentences_per_s": len(lines) / batched[system.name].median,
                "batch_speedup": round(1 / ratio.median, 2),
                **describe_texts(singles[system.name], singles[base], references),
                "bytes": system.size,
            }
        )
    return rows


def describe_times(single: Singles, base: Singles) -> Dict[str, float]:
    """Return the columns of sentences one by one, with ratios to the base."""
    columns = {}
    for prefix, part in (("", "total"), ("model_", "model")):
        seconds = getattr(single, part)
        ratio = Timing(seconds).ratio_to(Timing(getattr(base, part)))
        columns[f"{prefix}p50"] = percentile(seconds, 0.5)
        columns[f"{prefix}p95"] = percentile(seconds, 0.95)
        columns[f"{prefix}speedup"] = round(1 / ratio.median, 2)
    return columns


def describe_texts(single: Singles, base: Singles, references: List[str]) -> Dict[str, Any]:
    """Return BLEU, and the share of lines that are equal to those of the base."""
    scores = evaluate([single.texts], [references], build_metrics(["bleu"], "13a"), 1, 1)
    (bleu,) = scores.values()
    equal = sum(ours == theirs for ours, theirs in zip(single.texts, base.texts))
    return {
        "same_lines": equal / len(single.texts),
        "bleu": round(bleu.scores[0], 2),
        "signature": bleu.signature,
    }


NOTE = (
    "× torch: how many times as fast as the first row of the same model, sentence by sentence. "
    "A checkpoint of SGA may be\nwithout its frozen masked LM."
)


def render(content: Dict[str, Any]) -> str:
    """Make the table of one machine."""
    milliseconds = ("{:.1f}", 1000)
    columns = [
        Column("system", "system"),
        Column("p50 ms", "p50", *milliseconds),
        Column("p95 ms", "p95", *milliseconds),
        Column("model p50 ms", "model_p50", *milliseconds),
        Column("model p95 ms", "model_p95", *milliseconds),
        Column("× torch", "speedup", "{:.2f}"),
        Column("× torch, model only", "model_speedup", "{:.2f}"),
        Column("sentences/s, batch", "sentences_per_s", "{:,.0f}"),
        Column("× torch, batch", "batch_speedup", "{:.2f}"),
        Column("same lines, %", "same_lines", "{:.1f}", 100),
        Column("BLEU", "bleu", "{:.2f}"),
        Column("MB on disk", "bytes", "{:,.1f}", 1e-6),
    ]
    rows = content["results"]
    return f"{report.table(columns, rows)}\n\n{NOTE} {rows[0]['signature']}."


def main(argv: Optional[Sequence[str]] = None) -> None:
    """Run the command line."""
    parser = report.build_parser(__doc__, rounds=3)
    text = "may be given several times"
    parser.add_argument("--system", action="append", required=True, metavar="NAME=MODEL", help=text)
    parser.add_argument("--source", required=True, help="text, one sentence per line")
    parser.add_argument("--reference", required=True, help="its translation")
    text = "number of sentences, spread over the file"
    parser.add_argument("--sentences", type=int, default=300, help=text)
    parser.add_argument("--batch", type=int, default=32, help="sentences of a batch")
    parser.add_argument("--threads", type=int, default=2, help="threads of each system")
    options = parser.parse_args(argv)
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as temporary, torch.no_grad():
        rows = measure(options, list(build_systems(options, Path(temporary))))
    unstored, versions = ["system", "source", "reference"], describe_versions()
    report.publish("deployment_trained", options, rows, render, unstored, **versions)


if __name__ == "__main__":
    own_process()  # as the commands of the runtime do
    main()
