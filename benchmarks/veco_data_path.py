"""Compare making batches of VECO's pre-training with stock masked LM and language pairs.

    python -m benchmarks.veco_data_path [--texts 3000] [--rounds 5]

A text is two segments, adjacent or parallel. The peers have the same segments in the same
batches, in one process, through the same iterator (torch's loader without workers): the stock
``masked_lm`` task, for which each segment is a sentence, and stock language pairs, x as source
and y as target, in which nothing is masked. Forming the batches, and packing the segments at the
start, are not timed.
"""

import argparse
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np
import torch
from fairseq.data import Dictionary, FairseqDataset, LanguagePairDataset
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask

from fairseq_plugins.veco.data import VECODataset
from fairseq_plugins.veco.pretraining import VECOPretrainingConfig, VECOPretrainingTask

from . import report
from .datasets import SEED, make_dictionary, run_epoch, write_rows
from .measure import time_side_by_side
from .report import SPREAD, Column

MASK_PROB = 0.15
SENTENCE, DOCUMENT = (10, 40), 20
"""Fewest and most tokens of a sentence; sentences of a document."""

OURS, MASKED_LM, LANGUAGE_PAIRS = "veco_pretraining", "stock masked_lm", "stock language pairs"


def write_text(folder: Path, symbols: Dictionary, texts: int) -> None:
    """Write a data-bin of random English documents and random pairs."""
    generator = np.random.default_rng(SEED)
    for language in ("en", "de"):
        symbols.save(str(folder / f"dict.{language}.txt"))

    def draw_sentences() -> List[np.ndarray]:
        lengths = generator.integers(*SENTENCE, texts, endpoint=True)
        rows = [generator.integers(symbols.nspecial, len(symbols), length) for length in lengths]
        return [np.append(row, symbols.eos()) for row in rows]

    for side in ("en", "de"):
        write_rows(folder / f"train.en-de.{side}", draw_sentences())
    documents = draw_sentences()
    for number in range(DOCUMENT, texts, DOCUMENT):
        documents[number] = documents[number][-1:]  # an empty line ends a document
    write_rows(folder / "train.en-None.en", [*documents, np.array([symbols.eos()])])


def load_ours(folder: Path, tokens_per_sample: int) -> VECODataset:
    """Load the texts of the data-bin as an epoch that holds each of them once."""
    cfg = VECOPretrainingConfig(
        data=str(folder),
        pairs="en-de",
        monolingual="en",
        tokens_per_sample=tokens_per_sample,
    )
    cfg.seed, cfg.train_subset, cfg.mask_prob = SEED, "valid", MASK_PROB
    task: Any = VECOPretrainingTask.setup_task(cfg)
    task.load_dataset("train")
    return task.dataset("train")


def load_masked_lm(
    folder: Path,
    symbols: Dictionary,
    rows: Sequence[np.ndarray],
    longest: int,
) -> FairseqDataset:
    """Write ``rows`` as the text of the stock task, and load its dataset.

    Args:
        folder: data-bin that is written.
        symbols: dictionary.
        rows: token ids without ``<s>``.
        longest: most tokens of a sample.
    """
    symbols.save(str(folder / "dict.txt"))
    write_rows(folder / "train", rows)
    cfg = MaskedLMConfig(
        data=str(folder),
        sample_break_mode="eos",
        tokens_per_sample=longest,
        mask_prob=MASK_PROB,
    )
    cfg.seed, cfg.shorten_data_split_list, cfg.skip_masking, cfg.d2v2_multi = SEED, "", False, False
    task: Any = MaskedLMTask.setup_task(cfg)
    task.load_dataset("train")
    return task.dataset("train")


def build_epochs(
    folder: Path, ours: VECODataset, symbols: Dictionary
) -> Dict[str, Callable[[Sequence[np.ndarray]], int]]:
    """Return name -> function that runs an epoch over batches of texts."""
    places = [ours.place_of(number) for number in range(len(ours))]
    segments = [row for stream, text in places for row in ours.streams[stream].read(text)]
    masked = load_masked_lm(folder, symbols, segments, int(ours.sizes.max()))
    x, y = (write_rows(folder / name, segments[side::2]) for side, name in enumerate("xy"))
    sides = (x, x.sizes, symbols, y, y.sizes, symbols)
    pairs = LanguagePairDataset(*sides, left_pad_source=False, shuffle=False)

    def run_masked_lm(batches: Sequence[np.ndarray]) -> int:
        return run_epoch(masked, [np.concatenate([2 * batch, 2 * batch + 1]) for batch in batches])

    return {
        OURS: partial(run_epoch, ours),
        MASKED_LM: run_masked_lm,
        LANGUAGE_PAIRS: partial(run_epoch, pairs),
    }


def measure(options: argparse.Namespace) -> List[Dict[str, Any]]:
    """Return one row per batch size and dataset."""
    torch.set_num_threads(1)
    symbols = make_dictionary(f"p{number}" for number in range(options.vocab))
    rows = []
    with tempfile.TemporaryDirectory(prefix="veco-") as name:
        folder = Path(name)
        write_text(folder, symbols, options.texts)
        ours = load_ours(folder, options.tokens_per_sample)
        epochs = build_epochs(folder, ours, Dictionary.load(str(folder / "dict.en.txt")))
        for size in options.max_tokens:
            indices = ours.ordered_indices()
            batches = [np.asarray(batch) for batch in ours.batch_by_size(indices, max_tokens=size)]
            calls = {name: partial(epoch, batches) for name, epoch in epochs.items()}
            timings = time_side_by_side(calls, options.rounds)
            rows += [
                {
                    "variant": name,
                    "max_tokens": size,
                    "texts": len(ours),
                    "batches": len(batches),
                    "milliseconds_per_batch": round(1e3 * timing.median / len(batches), 3),
                    "microseconds_per_text": round(1e6 * timing.median / len(ours), 1),
                    "time_ratio": timings[OURS].ratio_to(timing).rounded(),
                }
                for name, timing in timings.items()
            ]
    return rows


def render(content: Dict[str, Any]) -> str:
    """Make the table of one machine."""
    columns = [
        Column("data", "variant"),
        Column("--max-tokens", "max_tokens", "{:,}"),
        Column("texts a batch", lambda row: row["texts"] / row["batches"], "{:.1f}"),
        Column("ms a batch", "milliseconds_per_batch", "{:.2f}"),
        Column("µs a text", "microseconds_per_text", "{:.0f}"),
        Column("our time over this one's (range)", "time_ratio", SPREAD),
    ]
    return report.table(columns, content["results"])


def main(argv: Optional[Sequence[str]] = None) -> None:
    """Run the command line."""
    parser = report.build_parser(__doc__, rounds=5)
    parser.add_argument("--texts", type=int, default=3000, help="pairs, and sentences of documents")
    parser.add_argument("--vocab", type=int, default=8000, help="pieces")
    text = "longest text of two segments"
    parser.add_argument("--tokens-per-sample", type=int, default=256, help=text)
    text = "tokens of a batch; several sizes are allowed"
    parser.add_argument("--max-tokens", type=int, nargs="+", default=[1024, 4096], help=text)
    options = parser.parse_args(argv)
    report.publish("veco_data_path", options, measure(options), render)


if __name__ == "__main__":
    main()
