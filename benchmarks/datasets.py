"""Write made rows as ``fairseq-preprocess`` does, and time how datasets make batches of them."""

from functools import partial
from pathlib import Path
from typing import Any, Dict, Iterable, List, NamedTuple, Sequence

import numpy as np
import torch
from fairseq.data import Dictionary, FairseqDataset
from fairseq.data.indexed_dataset import MMapIndexedDataset, MMapIndexedDatasetBuilder
from fairseq.data.iterators import EpochBatchIterator

from .measure import Timing, time_side_by_side
from .report import SPREAD, Column

SEED = 1


def make_dictionary(names: Iterable[str]) -> Dictionary:
    """Make a dictionary of these symbols after fairseq's special ones."""
    symbols = Dictionary()
    for name in names:
        symbols.add_symbol(name)
    return symbols


def write_rows(prefix: Path, rows: Iterable[Sequence[int]]) -> MMapIndexedDataset:
    """Write rows of ids to ``PREFIX.bin`` and ``PREFIX.idx`` and open them."""
    builder = MMapIndexedDatasetBuilder(f"{prefix}.bin", dtype=np.int32)
    for row in rows:
        builder.add_item(torch.as_tensor(row))
    builder.finalize(f"{prefix}.idx")
    return MMapIndexedDataset(str(prefix))


# ---- A dataset in its order, in batches of equal size. ----


def item_columns(digits: int) -> List[Column]:
    """Return the columns of a table of items; ``digits``: decimals of the microseconds."""
    return [
        Column("items/s", "items_per_s", "{:,.0f}"),
        Column("tokens/s", "tokens_per_s", "{:,}"),
        Column("µs an item", "microseconds_per_item", f"{{:,.{digits}f}}"),
        Column("time ratio a token (range)", "time_ratio", SPREAD),
    ]


class Case(NamedTuple):
    """A dataset that is read once in its order.

    Attributes:
        dataset: items and collater.
        batch: items per batch.
        tokens: tokens of all items.
    """

    dataset: FairseqDataset
    batch: int
    tokens: int

    def run(self) -> int:
        """Make all batches; return the tokens that the dataset counts."""
        total = 0
        for start in range(0, len(self.dataset), self.batch):
            numbers = range(start, min(start + self.batch, len(self.dataset)))
            total += int(self.dataset.collater([self.dataset[n] for n in numbers])["ntokens"])
        return total


def compare_cases(cases: Dict[str, Case], base: str, rounds: int) -> List[Dict[str, Any]]:
    """Time all cases side by side; ratios compare the time per token with that of ``base``."""
    calls = {name: partial(Case.run, case) for name, case in cases.items()}
    timings = time_side_by_side(calls, rounds)
    ratios = {name: timing.ratio_to(timings[base]) for name, timing in timings.items()}
    tokens = {name: case.tokens for name, case in cases.items()}
    return [
        {
            "variant": name,
            "items": len(case.dataset),
            **_item_columns(case, timings[name]),
            "time_ratio": ratios[name].rounded(tokens[base] / tokens[name]),
        }
        for name, case in cases.items()
    ]


def _item_columns(case: Case, timing: Timing) -> Dict[str, Any]:
    items = len(case.dataset)
    return {
        "items_per_s": round(items / timing.median, 1),
        "tokens_per_s": round(case.tokens / timing.median),
        "microseconds_per_item": round(1e6 * timing.median / items, 1),
    }


# ---- An epoch over a list of batches. ----


def run_epoch(dataset: FairseqDataset, batches: Sequence[np.ndarray]) -> int:
    """Make the batches as training does, without workers; return the tokens of the targets."""
    settings = {"collate_fn": dataset.collater, "batch_sampler": batches, "seed": SEED}
    iterator = EpochBatchIterator(dataset, **settings)
    return sum(int(batch["ntokens"]) for batch in iterator.next_epoch_itr())
