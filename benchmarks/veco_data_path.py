"""Making batches of VECO's pre-training on one process: our dataset against stock's masked LM and language pairs of the same rows.

    python -m benchmarks.veco_data_path [--texts 3000] [--rounds 5]
    python -m benchmarks.veco_data_path --data BIN --pairs en-de --monolingual en,de

A text is two segments, adjacent or parallel. The peers have the same segments in the same batches, through the same iterator
(torch's loader without workers): the stock ``masked_lm`` task, for which every segment is a sentence of its own, and stock's
language pairs, x as source and y as target, which nothing is masked in. Making the batches, and packing the segments at the start,
are not timed.
"""

import argparse
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, List, Sequence

import numpy as np
import torch
from fairseq.data import Dictionary, FairseqDataset, LanguagePairDataset
from fairseq.data.indexed_dataset import MMapIndexedDataset, MMapIndexedDatasetBuilder
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask

from fairseq_plugins.data.veco_dataset import VECODataset
from fairseq_plugins.tasks.veco_pretraining import VECOPretrainingConfig, VECOPretrainingTask

from . import measure, report
from .csr_data_path import run

SEED, MASK_PROB = 1, 0.15
SENTENCE, DOCUMENT = (10, 40), 20
"""Made text: fewest and most tokens of a sentence; sentences of a document."""
OURS, MASKED_LM, LANGUAGE_PAIRS = "veco_pretraining", "stock masked_lm", "stock language pairs"


def write(prefix: Path, rows: Sequence[np.ndarray]) -> MMapIndexedDataset:
    """Rows of ids as ``fairseq-preprocess`` writes them."""
    builder = MMapIndexedDatasetBuilder(f"{prefix}.bin", dtype=np.int32)
    for row in rows:
        builder.add_item(torch.from_numpy(row))
    builder.finalize(f"{prefix}.idx")
    return MMapIndexedDataset(str(prefix))


def make_text(folder: Path, texts: int, vocab: int) -> None:
    """Random documents of English and random pairs: a data-bin."""
    generator = np.random.default_rng(SEED)
    symbols = Dictionary()
    for number in range(vocab):
        symbols.add_symbol(f"p{number}")
    for language in ("en", "de"):
        symbols.save(str(folder / f"dict.{language}.txt"))

    def sentences(count: int) -> List[np.ndarray]:
        lengths = generator.integers(*SENTENCE, count, endpoint=True)
        rows = [generator.integers(symbols.nspecial, len(symbols), length) for length in lengths]
        return [np.append(row, symbols.eos()) for row in rows]

    for side in ("en", "de"):
        write(folder / f"train.en-de.{side}", sentences(texts))
    documents = sentences(texts)
    for place in range(DOCUMENT, len(documents), DOCUMENT):
        documents[place] = documents[place][-1:]
    write(folder / "train.en-None.en", [*documents, np.array([symbols.eos()])])


def our_texts(data: str, pairs: str, monolingual: str, tokens_per_sample: int) -> VECODataset:
    """Every text of a data-bin once."""
    cfg = VECOPretrainingConfig(data=data, pairs=pairs, monolingual=monolingual, tokens_per_sample=tokens_per_sample)
    cfg.seed, cfg.train_subset, cfg.mask_prob = SEED, "valid", MASK_PROB
    task: Any = VECOPretrainingTask.setup_task(cfg)
    task.load_dataset("train")
    dataset: VECODataset = task.dataset("train")
    return dataset


def stock_masked_lm(folder: Path, symbols: Dictionary, rows: Sequence[np.ndarray], longest: int) -> FairseqDataset:
    """The stock task's dataset of rows without their ``<s>``."""
    symbols.save(str(folder / "dict.txt"))
    write(folder / "train", rows)
    cfg = MaskedLMConfig(data=str(folder), sample_break_mode="eos", tokens_per_sample=longest, mask_prob=MASK_PROB)
    cfg.seed, cfg.shorten_data_split_list, cfg.skip_masking, cfg.d2v2_multi = SEED, "", False, False
    task: Any = MaskedLMTask.setup_task(cfg)
    task.load_dataset("train")
    dataset: FairseqDataset = task.dataset("train")
    return dataset


def cases(folder: Path, ours: VECODataset, symbols: Dictionary) -> Dict[str, Callable[[Sequence[np.ndarray]], int]]:
    """Name -> an epoch of these batches of texts."""
    places = [ours.place_of(index) for index in range(len(ours))]
    rows = [row for stream, text in places for row in ours.streams[stream].read(text)]
    masked = stock_masked_lm(folder, symbols, rows, int(ours.sizes.max()))
    sides = [write(folder / name, rows[side::2]) for side, name in enumerate(("x", "y"))]
    given = [part for side in sides for part in (side, side.sizes, symbols)]
    pairs = LanguagePairDataset(*given, left_pad_source=False, shuffle=False)
    return {
        OURS: lambda batches: run(ours, batches),
        MASKED_LM: lambda batches: run(masked, [np.concatenate([2 * batch, 2 * batch + 1]) for batch in batches]),
        LANGUAGE_PAIRS: lambda batches: run(pairs, batches),
    }


def compare(options: argparse.Namespace) -> List[Dict[str, Any]]:
    """Rows of the table."""
    with tempfile.TemporaryDirectory(prefix="veco-") as name:
        folder, data = Path(name), options.data
        if data is None:
            data = name
            make_text(folder, options.texts, options.vocab)
        ours = our_texts(data, options.pairs, options.monolingual, options.tokens_per_sample)
        language = (options.monolingual or options.pairs).split(",")[0].split("-")[0]
        calls = cases(folder, ours, Dictionary.load(str(Path(data) / f"dict.{language}.txt")))
        results = []
        for size in options.max_tokens:
            batches = [np.asarray(batch) for batch in ours.batch_by_size(ours.ordered_indices(), max_tokens=size)]
            timed: Dict[str, Callable[[], Any]] = {name: partial(call, batches) for name, call in calls.items()}
            timings = measure.time_side_by_side(timed, options.rounds, torch.device("cpu"))
            results += [
                {
                    "variant": name,
                    "max_tokens": size,
                    "texts": len(ours),
                    "batches": len(batches),
                    "milliseconds_per_batch": round(1e3 * timing.median / len(batches), 3),
                    "microseconds_per_text": round(1e6 * timing.median / len(ours), 1),
                    "time_ratio": [round(value, 3) for value in timings[OURS].ratio_to(timing)],
                }
                for name, timing in timings.items()
            ]
    return results


def render(content: Dict[str, Any]) -> str:
    """The table of one machine."""
    rows = [
        [
            row["variant"],
            f"{row['max_tokens']:,}",
            f"{row['texts'] / row['batches']:.1f}",
            f"{row['milliseconds_per_batch']:.2f}",
            f"{row['microseconds_per_text']:.0f}",
            f"{row['time_ratio'][0]:.2f} ({row['time_ratio'][1]:.2f} to {row['time_ratio'][2]:.2f})",
        ]
        for row in content["results"]
    ]
    columns = ["data", "--max-tokens", "texts a batch", "ms a batch", "µs a text", "our time over this one's (range)"]
    return report.table(columns, rows)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=3000, help="made pairs, and sentences of made documents")
    parser.add_argument("--vocab", type=int, default=8000, help="pieces of made text")
    parser.add_argument("--data", help="data-bin, with --pairs and --monolingual")
    parser.add_argument("--pairs", default="en-de", help="as the task reads them")
    parser.add_argument("--monolingual", default="en", help="as the task reads them")
    parser.add_argument("--tokens-per-sample", type=int, default=256, help="longest text of two segments")
    parser.add_argument("--max-tokens", type=int, nargs="+", default=[1024, 4096], help="of a batch")
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = compare(options)
    shown = {key: Path(value).name if key == "data" and value else value for key, value in vars(options).items()}
    path = report.write("veco_data_path", torch.device("cpu"), shown, results)
    print(render({"results": results}))
    measure.say(f"wrote {path.relative_to(report.RESULTS.parent.parent)}")


if __name__ == "__main__":
    main()
