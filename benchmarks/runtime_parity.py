"""Whether the runtime writes what fairseq writes: the same sentences, decoded with a checkpoint and with what was exported of it.

    python -m benchmarks.runtime_parity --case NAME CHECKPOINT FOLDER INT8_FOLDER SOURCE REFERENCE [--case ...]

CHECKPOINT is decoded by ``fairseq-plugins translate`` with torch, the two folders by the runtime. Where a line differs in
float32, the gap says how close the decision was, computed with torch: for slots the difference of the two tokens' logits at the
first slot that differs, in the first pass that differs, before which both were the same; from left to right the difference of both
outputs' scores in the search, in nats. int8 is compared by BLEU. The default batches of either side are used.
"""

import argparse
from importlib import metadata
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np
import sacrebleu
import torch
import torch.nn.functional as F

import fairseq_plugins_runtime
from data_prep.io import read_lines
from fairseq_plugins import translate
from fairseq_plugins_runtime.sessions import own_process
from fairseq_plugins_runtime.slots import SlotDecoder
from fairseq_plugins_runtime.translator import BATCH_TOKENS, Translator, batches

from . import measure, report

TIE = 1e-4
"""A smaller gap is a tie: the two sides add the same numbers in another order."""


class Case(NamedTuple):
    """What ``--case`` names."""

    name: str
    checkpoint: str
    folder: str
    int8: str
    source: str
    reference: str


def load_checkpoint(path: str) -> translate.Translator:
    """A checkpoint as ``translate`` opens it, on the CPU."""
    return translate.load(
        translate.checkpoint(path), translate.build_parser().parse_args(["--input", "file"]), ["--cpu"]
    )


def load_folder(path: str, precision: str, threads: Optional[int]) -> Translator:
    """An exported model. Raises ValueError: it does not translate, or has another precision."""
    model = fairseq_plugins_runtime.load(path, threads)
    if not isinstance(model, Translator) or model.precision != precision:
        raise ValueError(
            f"--case {path}: a model of kind {model.kind}, {model.precision}; valid: one that translates, {precision}"
        )
    return model


def with_torch(translator: translate.Translator, lines: List[str]) -> List[str]:
    """The texts of ``fairseq-plugins translate``, which reads as many lines at a time."""
    texts = []
    for first in range(0, len(lines), translate.BUFFER_LINES):
        measure.say(f"torch: line {first + 1} of {len(lines)}")
        found = translator.translate(lines[first : first + translate.BUFFER_LINES])
        texts += [best[0].text if best else "" for best in found]
    return texts


class Differing:
    """Lines that differ: how far apart the two choices were, for torch."""

    def __init__(self, translator: translate.Translator, runtime: Translator, lines: List[str]) -> None:
        self.translator, self.runtime = translator, runtime
        pair = self.pair = runtime._folder.pairs[0]
        self.rows = runtime._rows(lines, pair)
        self.batches = list(batches([len(row) for row in self.rows], BATCH_TOKENS))

    @torch.no_grad()
    def gap(self, number: int) -> float:
        """Of the line ``number`` from 0: a difference of logits or, from left to right, of scores in nats."""
        source = torch.tensor([self.rows[number]])
        decoder = self.runtime._decoder
        if not isinstance(decoder, SlotDecoder):
            return self._gap_of_search(number, source)
        if decoder.mask_predict:
            raise ValueError(
                "--case: a model with --alignment mask_predict; valid: CTC, or one that writes from left to right"
            )
        model = self.translator.model
        guidance = model.encode(source)
        lengths = model.slot_lengths(torch.tensor([source.size(1)]))
        hidden, closest = model.align(guidance, lengths), float("inf")
        for tokens, pieces in self._passes(number, int(lengths)):
            logits = F.linear(hidden, *model.ctc_projection(self.translator.generator.options.blank_penalty))[0]
            best = logits.argmax(dim=1)
            slots = (best != tokens).nonzero()[:, 0].tolist()
            if slots:
                return float(logits[slots[0], best[slots[0]]] - logits[slots[0], tokens[slots[0]]])
            top = logits.topk(2, dim=1).values
            closest = min(closest, float((top[:, 0] - top[:, 1]).min()))
            if model.has_denoiser:
                hidden = model.denoise((pieces if model.fill_blanks else tokens)[None], guidance, lengths)
        return closest  # torch alone gives what the runtime gave: the batch decided, and this is the closest call

    def _passes(self, number: int, slots: int) -> List[Tuple[torch.Tensor, torch.Tensor]]:
        """Best tokens and best pieces of a line's slots after each pass of the runtime, in the batch of the comparison."""
        source, row = self._batch(number)
        hypotheses, history = self.runtime._decoder.passes(source)
        seen = history[: hypotheses[row].passes + 1]
        return [
            (torch.from_numpy(path.tokens[row, :slots]), torch.from_numpy(path.pieces[row, :slots])) for path in seen
        ]

    def _batch(self, number: int) -> Tuple[np.ndarray, int]:
        """The batch of the comparison that has a line, and the line's row in it."""
        batch = next(found for found in self.batches if number in found)
        source = np.full((len(batch), len(self.rows[batch[-1]])), self.runtime._folder.source_symbols.pad, np.int64)
        for place, line in enumerate(batch):
            source[place, : len(self.rows[line])] = self.rows[line]
        return source, batch.index(number)

    def _gap_of_search(self, number: int, source: torch.Tensor) -> float:
        """How much better torch finds its own output than that of the runtime."""
        task, generator = self.translator.task, self.translator.generator
        sample = {"net_input": {"src_tokens": source, "src_lengths": torch.tensor([source.size(1)])}}
        own = task.inference_step(generator, [self.translator.model], sample)[0][0]["tokens"].tolist()
        batch, row = self._batch(number)
        theirs = self.runtime._decoder.decode(batch, self.pair, True)[row].tokens
        return abs(self._score(source, own) - self._score(source, theirs))

    def _score(self, source: torch.Tensor, tokens: List[int]) -> float:
        """Log-probability of an output, divided as the search divides it."""
        (first,) = self.pair.target_prefix
        output = self.translator.model(source, torch.tensor([source.size(1)]), torch.tensor([[first, *tokens[:-1]]]))
        log_probs = self.translator.model.get_normalized_probs(output, log_probs=True)[0]
        total = float(log_probs.gather(1, torch.tensor(tokens)[:, None]).sum())
        return total / len(tokens) ** self.translator.cfg.generation.lenpen


def compare(case: Case, threads: Optional[int]) -> Dict[str, Any]:
    """The results of one case."""
    lines = [line.strip() for line in read_lines(case.source, "--case")]
    references = [list(read_lines(case.reference, "--case"))]
    translator = load_checkpoint(case.checkpoint)
    texts: Dict[str, List[str]] = {"torch": with_torch(translator, lines)}
    runtimes: Dict[str, Translator] = {}
    for precision, folder in (("float32", case.folder), ("int8", case.int8)):
        runtimes[precision] = load_folder(folder, precision, threads)
        measure.say(f"runtime, {precision}")
        texts[precision] = runtimes[precision].translate(lines)
    runtime = runtimes["float32"]
    differing = [number for number, (one, other) in enumerate(zip(texts["torch"], texts["float32"])) if one != other]
    gaps = Differing(translator, runtime, lines)
    bleu = sacrebleu.BLEU()
    return {
        "case": case.name,
        "architecture": runtime.architecture,
        "lines": len(lines),
        "differing": [{"line": number + 1, "gap": gaps.gap(number)} for number in differing],
        "identical_int8": sum(one == other for one, other in zip(texts["torch"], texts["int8"])),
        "bleu": {name: round(bleu.corpus_score(found, references).score, 2) for name, found in texts.items()},
        "signature": str(bleu.get_signature()),
    }


def render(content: Dict[str, Any]) -> str:
    """The table of one machine."""
    rows, signatures = [], []
    for found in content["results"]:
        bleu, gaps = found["bleu"], [one["gap"] for one in found["differing"]]
        same = found["lines"] - len(gaps)
        rows.append(
            [
                *(found["case"], found["architecture"], f"{found['lines']:,}"),
                f"{100 * same / found['lines']:.2f} %",
                f"{max(gaps):.1e}" if gaps else "",
                f"{sum(gap >= TIE for gap in gaps)}",
                f"{100 * found['identical_int8'] / found['lines']:.1f} %",
                *(f"{bleu[name]:.2f}" for name in ("torch", "float32", "int8")),
                f"{bleu['int8'] - bleu['torch']:+.2f}",
            ]
        )
        signatures.append(found["signature"])
    columns = ["sentences", "model", "lines", "identical", "largest gap", f"gaps of {TIE:g} or more", "identical, int8"]
    columns += ["BLEU torch", "float32", "int8", "int8 − torch"]
    return report.table(columns, rows) + f"\n\nsacreBLEU {', '.join(sorted(set(signatures)))}"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", nargs=6, action="append", required=True, metavar=tuple(map(str.upper, Case._fields)))
    parser.add_argument("--threads", type=int, help="of torch and of onnxruntime (default: of each one its own)")
    parser.add_argument("--add", action="store_true", help="keep what the committed result has of other names")
    parser.add_argument("--dry-run", action="store_true", help="print the table, write no result")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    results = [compare(Case(*given), options.threads) for given in options.case]
    names = [given[0] for given in options.case]
    kept = [found for content in report.load("runtime_parity") for found in content["results"]] if options.add else []
    results = sorted(
        [*results, *(found for found in kept if found["case"] not in names)], key=lambda found: str(found["case"])
    )
    print(render({"results": results}))
    if not options.dry_run:
        versions = {"onnxruntime": metadata.version("onnxruntime")}
        path = report.write("runtime_parity", torch.device("cpu"), versions, results)
        measure.say(f"wrote {path.relative_to(report.RESULTS.parent.parent)}")


if __name__ == "__main__":
    own_process()
    main()
