"""Making batches of code-switching restore on one process: our dataset against stock's language pairs with the same sentences.

    python -m benchmarks.csr_data_path [--rows 20000] [--rounds 5]
    python -m benchmarks.csr_data_path --data BIN --pair en-de --langs en,de,fr,es --lexicon DIR --sentencepiece-model MODEL

Both have the same sentences in the same batches, through the iterator of the stock mBART task (``EpochBatchIterator`` and torch's
loader without workers): for the peer every sentence is its own translation. Made sentences hold random words, every one of which
has candidates, so that as much is replaced as can be. Making the batches, and finding the words at the start, are not timed.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import numpy as np
import torch
from fairseq.data import Dictionary, FairseqDataset
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder
from fairseq.data.iterators import EpochBatchIterator
from fairseq.tasks.translation import load_langpair_dataset

from fairseq_plugins.data.csr_dataset import CodeSwitchingDataset, Switching
from fairseq_plugins.data.csr_entries import Entries
from fairseq_plugins.data.csr_text import TextBuilder
from fairseq_plugins.data.csr_words import MARK, piece_table
from fairseq_plugins.tasks.code_switching_restore import CodeSwitchingRestoreConfig, CodeSwitchingRestoreTask

from . import measure, report

LANGUAGES = ("en", "de")
WORDS, PIECES, CANDIDATES, KINDS = (5, 35), (1, 3), 5, 5000
"""Made sentences: fewest and most words of a sentence, pieces of a word; candidates of a word, different words."""

RATIO, SPAN, SEED = 0.35, 3.5, 1


class Made(NamedTuple):
    """A pair of datasets with the same sentences, and the batches of both."""

    restore: CodeSwitchingDataset
    stock: FairseqDataset
    batches: List[np.ndarray]


class KnownPieces:
    """Cuts words into pieces that are given.

    Args:
        pieces: word -> ids.
    """

    def __init__(self, pieces: Dict[str, List[int]]):
        self.pieces = pieces

    def normal(self, word: str) -> str:
        """The word."""
        return word

    def encode(self, words: Sequence[str], marked: bool) -> List[Optional[List[int]]]:
        """Ids of each word's pieces."""
        return [self.pieces[word] for word in words]


class Rows(FairseqDataset):
    """Rows of ids in memory."""

    def __init__(self, rows: Sequence[Sequence[int]]):
        self.rows, self.sizes = rows, np.array([len(row) for row in rows])

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(self.rows[index])

    def __len__(self) -> int:
        return len(self.rows)


def made_sentences(rows: int, vocab: int) -> CodeSwitchingDataset:
    """Random sentences of two languages with candidates for every word."""
    generator = np.random.default_rng(1)
    symbols = Dictionary()
    for number in range(vocab):
        symbols.add_symbol(f"{MARK}a{number}")
    for number in range(vocab):
        symbols.add_symbol(f"b{number}")
    lengths = generator.integers(PIECES[0], PIECES[1], KINDS, endpoint=True).tolist()
    first = symbols.nspecial
    words = [
        [int(first + generator.integers(vocab)), *(first + vocab + generator.integers(vocab, size=length - 1)).tolist()]
        for length in lengths
    ]
    names = ["".join(symbols[piece] for piece in word).replace(MARK, "") for word in words]
    entries = Entries(KnownPieces(dict(zip(names, words))))
    special = [symbols.bos(), symbols.pad(), symbols.eos()]
    builder = TextBuilder(symbols.symbols, piece_table(symbols.symbols, symbols.unk(), special), special)
    for language in LANGUAGES:
        chosen = generator.integers(KINDS, size=(KINDS, CANDIDATES))
        entries.use({name: [names[other] for other in row] for name, row in zip(names, chosen.tolist())})
        drawn = generator.zipf(1.3, (rows, WORDS[1])) % KINDS
        counts = generator.integers(*WORDS, rows, endpoint=True)
        texts = [
            [*(piece for word in row[:count] for piece in words[word]), symbols.eos()]
            for row, count in zip(drawn.tolist(), counts.tolist())
        ]
        builder.add([Rows(texts)], symbols.add_symbol(f"[{language}]"), entries)
    text = builder.build(entries.table(), RATIO)
    return CodeSwitchingDataset(text, [rows] * len(LANGUAGES), Switching(RATIO, SPAN, SEED), symbols)


def read_sentences(options: argparse.Namespace) -> CodeSwitchingDataset:
    """Sentences of a data-bin."""
    source, target = options.pair.split("-")
    cfg = CodeSwitchingRestoreConfig(
        data=options.data,
        source_lang=source,
        target_lang=target,
        langs=options.langs,
        lexicon=options.lexicon,
        sentencepiece_model=options.sentencepiece_model,
    )
    cfg.seed, cfg.train_subset = SEED, "train"
    task: Any = CodeSwitchingRestoreTask.setup_task(cfg)
    task.load_dataset("train", epoch=1)
    dataset: CodeSwitchingDataset = task.dataset("train")
    return dataset


def stock_pairs(folder: Path, restore: CodeSwitchingDataset) -> FairseqDataset:
    """The same sentences as a memory-mapped pair, every one its own translation, with a language's id at the end."""
    symbols = Dictionary()
    while len(symbols) <= int(restore.text.tokens.max()):
        symbols.add_symbol(f"p{len(symbols)}")
    symbols.add_symbol("[xx]"), symbols.add_symbol("[yy]")
    for side in ("xx", "yy"):
        prefix = str(folder / f"train.xx-yy.{side}")
        builder = MMapIndexedDatasetBuilder(f"{prefix}.bin", dtype=np.int32)
        for item in range(len(restore)):
            builder.add_item(restore[item]["target"][:-1])
        builder.finalize(f"{prefix}.idx")
    return load_langpair_dataset(
        *(str(folder), "train", "xx", symbols, "yy", symbols),
        combine=False,
        dataset_impl=None,
        upsample_primary=-1,
        left_pad_source=True,
        left_pad_target=False,
        max_source_positions=1024,
        max_target_positions=1024,
        append_source_id=True,
    )


def run(dataset: FairseqDataset, batches: Sequence[np.ndarray]) -> int:
    """An epoch; returns the tokens of the targets."""
    iterator = EpochBatchIterator(dataset, collate_fn=dataset.collater, batch_sampler=batches, seed=SEED)
    return sum(int(batch["ntokens"]) for batch in iterator.next_epoch_itr())


def compare(options: argparse.Namespace) -> List[Dict[str, Any]]:
    """Rows of the table."""
    restore = read_sentences(options) if options.data else made_sentences(options.rows, options.vocab)
    with tempfile.TemporaryDirectory(prefix="csr-") as folder:
        stock = stock_pairs(Path(folder), restore)
        results = []
        for size in options.max_tokens:
            batches = restore.batch_by_size(restore.ordered_indices(), max_tokens=size)
            cases = {"stock LanguagePairDataset": stock, "code_switching_restore": restore}
            calls = {name: (lambda case=case, batches=batches: run(case, batches)) for name, case in cases.items()}
            timings = measure.time_side_by_side(calls, options.rounds, torch.device("cpu"))
            base = timings["stock LanguagePairDataset"]
            tokens = int(restore.lengths.sum())
            results += [
                {
                    "variant": name,
                    "max_tokens": size,
                    "sentences": len(restore),
                    "batches": len(batches),
                    "milliseconds_per_batch": round(1e3 * timing.median / len(batches), 3),
                    "tokens_per_s": round(tokens / timing.median),
                    "time_ratio": [round(value, 3) for value in timing.ratio_to(base)],
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
            f"{row['sentences'] / row['batches']:.1f}",
            f"{row['milliseconds_per_batch']:.2f}",
            f"{row['tokens_per_s']:,}",
            f"{row['time_ratio'][0]:.2f} ({row['time_ratio'][1]:.2f} to {row['time_ratio'][2]:.2f})",
        ]
        for row in content["results"]
    ]
    columns = ["data", "--max-tokens", "sentences a batch", "ms a batch", "tokens/s", "time ratio (range)"]
    return report.table(columns, rows)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20000, help="made sentences of each language")
    parser.add_argument("--vocab", type=int, default=4000, help="pieces that begin a word, and as many that go on")
    parser.add_argument("--data", help="data-bin of a pair, with --pair, --langs, --lexicon and --sentencepiece-model")
    parser.add_argument("--pair", default="en-de", help="its languages")
    parser.add_argument("--langs", default="en,de", help="languages of the model")
    parser.add_argument("--lexicon", default="", help="folder or files, as the task reads them")
    parser.add_argument("--sentencepiece-model", default="", help="of the data-bin")
    parser.add_argument("--max-tokens", type=int, nargs="+", default=[1024, 4096], help="of a batch")
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = compare(options)
    shown = {
        key: Path(value).name if key in ("data", "lexicon", "sentencepiece_model") and value else value
        for key, value in vars(options).items()
    }
    path = report.write("csr_data_path", torch.device("cpu"), shown, results)
    print(render({"results": results}))
    measure.say(f"wrote {path.relative_to(report.RESULTS.parent.parent)}")


if __name__ == "__main__":
    main()
