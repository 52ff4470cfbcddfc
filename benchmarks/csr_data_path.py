"""Compare making batches of code-switching restore with stock language pairs.

    python -m benchmarks.csr_data_path [--rows 20000] [--rounds 5]

Both have the same sentences in the same batches, in one process, through the iterator of the
stock mBART task (``EpochBatchIterator`` and torch's loader without workers); for the peer each
sentence is its own translation. The sentences hold random words, and each word has candidates, so
that as much is replaced as possible. Forming the batches, and finding the words at the start, are
not timed.
"""

import argparse
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import numpy as np
import torch
from fairseq.data import Dictionary, FairseqDataset
from fairseq.tasks.translation import load_langpair_dataset

from fairseq_plugins.csr.neighbours import Entries, read_text
from fairseq_plugins.csr.noise import Switching
from fairseq_plugins.csr.restore import CodeSwitchingDataset
from fairseq_plugins.csr.words import MARK, classify_pieces

from . import report
from .datasets import SEED, make_dictionary, run_epoch, write_rows
from .measure import time_side_by_side
from .report import SPREAD, Column

LANGUAGES = ("en", "de")
PEER, OURS = "stock LanguagePairDataset", "code_switching_restore"
WORDS, PIECES, CANDIDATES, KINDS = (5, 35), (1, 3), 5, 5000
"""Fewest and most words of a sentence, pieces of a word; candidates per word; distinct words."""

RATIO, SPAN = 0.35, 3.5


class FixedEncoder:
    """Encodes words by a table of their pieces.

    Args:
        pieces: word -> ids.
    """

    def __init__(self, pieces: Dict[str, List[int]]):
        self.pieces = pieces

    def normalize(self, word: str) -> str:
        """Return the word."""
        return word

    def encode(self, words: Sequence[str], marked: bool) -> List[Optional[List[int]]]:
        """Return the ids of each word's pieces."""
        return [self.pieces[word] for word in words]


class RowDataset(FairseqDataset):
    """Rows of ids in memory."""

    def __init__(self, rows: Sequence[Sequence[int]]):
        self.rows, self.sizes = rows, np.array([len(row) for row in rows])

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(self.rows[index])

    def __len__(self) -> int:
        return len(self.rows)


def build_dictionary(vocab: int) -> Dictionary:
    """Build a dictionary of ``vocab`` pieces that begin a word and ``vocab`` that continue one."""
    prefixes = (f"{MARK}a", "b")
    return make_dictionary(f"{prefix}{n}" for prefix in prefixes for n in range(vocab))


def draw_words(
    symbols: Dictionary,
    vocab: int,
    generator: np.random.Generator,
) -> Dict[str, List[int]]:
    """Draw ``KINDS`` words; return text -> ids of the pieces."""
    begin, follow = symbols.nspecial, symbols.nspecial + vocab
    words = []
    for length in generator.integers(*PIECES, KINDS, endpoint=True).tolist():
        first = int(begin + generator.integers(vocab))
        words.append([first, *(follow + generator.integers(vocab, size=length - 1)).tolist()])
    return {"".join(symbols[piece] for piece in word).replace(MARK, ""): word for word in words}


def draw_texts(
    words: List[List[int]],
    rows: int,
    generator: np.random.Generator,
) -> List[List[int]]:
    """Draw sentences; frequent words follow Zipf's law."""
    ranks = generator.zipf(1.3, (rows, WORDS[1])) % len(words)
    counts = generator.integers(*WORDS, rows, endpoint=True)
    texts = []
    for row, count in zip(ranks.tolist(), counts.tolist()):
        texts.append([piece for rank in row[:count] for piece in words[rank]])
    return texts


def build_restore(rows: int, vocab: int) -> CodeSwitchingDataset:
    """Build random sentences of two languages with candidates for each word."""
    generator = np.random.default_rng(SEED)
    symbols = build_dictionary(vocab)
    words = draw_words(symbols, vocab, generator)
    names = list(words)
    entries = Entries(FixedEncoder(words), classify_pieces(symbols))
    texts = []
    for language in LANGUAGES:
        candidates = generator.integers(len(names), size=(len(names), CANDIDATES)).tolist()
        entries.use({name: [names[n] for n in row] for name, row in zip(names, candidates)})
        sentences = draw_texts(list(words.values()), rows, generator)
        dataset = RowDataset([[*sentence, symbols.eos()] for sentence in sentences])
        texts.append(read_text([dataset], symbols.add_symbol(f"[{language}]"), entries))
    switching = Switching(RATIO, SPAN, SEED)
    return CodeSwitchingDataset(texts, entries.table(), switching, symbols)


def build_pairs(folder: Path, restore: CodeSwitchingDataset) -> FairseqDataset:
    """Build memory-mapped stock pairs of each sentence with itself, a language id at the end."""
    symbols = Dictionary()
    while len(symbols) <= int(restore.text.tokens.max()):
        symbols.add_symbol(f"p{len(symbols)}")
    for side in ("xx", "yy"):
        symbols.add_symbol(f"[{side}]")
        rows = (restore[number]["target"][:-1] for number in range(len(restore)))
        write_rows(folder / f"train.xx-yy.{side}", rows)
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


def measure(options: argparse.Namespace) -> List[Dict[str, Any]]:
    """Return one row per batch size and dataset."""
    torch.set_num_threads(1)
    restore = build_restore(options.rows, options.vocab)
    tokens = int(restore.lengths.sum())
    results = []
    with tempfile.TemporaryDirectory(prefix="csr-") as folder:
        datasets = {PEER: build_pairs(Path(folder), restore), OURS: restore}
        for size in options.max_tokens:
            batches = restore.batch_by_size(restore.ordered_indices(), max_tokens=size)
            calls = {name: partial(run_epoch, rows, batches) for name, rows in datasets.items()}
            timings = time_side_by_side(calls, options.rounds)
            results += [
                {
                    "variant": name,
                    "max_tokens": size,
                    "sentences": len(restore),
                    "batches": len(batches),
                    "milliseconds_per_batch": round(1e3 * timing.median / len(batches), 3),
                    "tokens_per_s": round(tokens / timing.median),
                    "time_ratio": timing.ratio_to(timings[PEER]).rounded(),
                }
                for name, timing in timings.items()
            ]
    return results


def render(content: Dict[str, Any]) -> str:
    """Make the table of one machine."""
    columns = [
        Column("data", "variant"),
        Column("--max-tokens", "max_tokens", "{:,}"),
        Column("sentences a batch", lambda row: row["sentences"] / row["batches"], "{:.1f}"),
        Column("ms a batch", "milliseconds_per_batch", "{:.2f}"),
        Column("tokens/s", "tokens_per_s", "{:,}"),
        Column("time ratio (range)", "time_ratio", SPREAD),
    ]
    return report.table(columns, content["results"])


def main(argv: Optional[Sequence[str]] = None) -> None:
    """Run the command line."""
    parser = report.build_parser(__doc__, rounds=5)
    parser.add_argument("--rows", type=int, default=20000, help="sentences of each language")
    text = "pieces that begin a word, and pieces that continue one"
    parser.add_argument("--vocab", type=int, default=4000, help=text)
    text = "tokens of a batch; several sizes are allowed"
    parser.add_argument("--max-tokens", type=int, nargs="+", default=[1024, 4096], help=text)
    options = parser.parse_args(argv)
    report.publish("csr_data_path", options, measure(options), render)


if __name__ == "__main__":
    main()
