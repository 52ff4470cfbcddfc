"""Making batches on one process: span corruption of blocks and of pairs against fairseq's denoising of the same blocks.

    python -m benchmarks.data_path [--tokens 200000] [--vocab 250002] [--rounds 5]

Dataset and collater, text already in memory. Blocks of whole sentences up to 512 tokens, 15 % corrupted, mean span 3; the peer is
``DenoisingDataset`` with ``--mask 0.15 --mask-length span-poisson --poisson-lambda 3 --replace-length 1`` on the very same blocks.
Pairs of two sentences each, half of their tokens corrupted; there is no stock peer. Ratios are of the time a token, by uncorrupted
tokens.
"""

import argparse
from functools import partial
from typing import Any, Dict, List, NamedTuple

import torch
from fairseq.data import DenoisingDataset, Dictionary, FairseqDataset, PrependTokenDataset
from torch import Tensor

from fairseq_plugins.data.sentinels import find_sentinels
from fairseq_plugins.data.span_corruption_dataset import SpanCorruption, SpanCorruptionDataset
from fairseq_plugins.data.text_streams import SentenceBlocks, SentencePairs

from . import measure, report
from .systems import dictionary

BLOCK, MEAN_SPAN, SENTINELS = 512, 3.0, 120
BLOCK_RATIO, PAIR_RATIO = 0.15, 0.5
SHORTEST, LONGEST = 10, 40  # tokens of a sentence
PEER, BLOCKS, PAIRS = "blocks, stock denoising", "blocks, span corruption", "pairs, span corruption"


class Case(NamedTuple):
    """A dataset, how many of its items make a batch, and the uncorrupted tokens of all its items."""

    dataset: FairseqDataset
    batch: int
    tokens: int

    def run(self) -> int:
        """Every item once, in batches; returns the number of tokens in the targets."""
        total = 0
        for start in range(0, len(self.dataset), self.batch):
            stop = min(start + self.batch, len(self.dataset))
            total += self.dataset.collater([self.dataset[index] for index in range(start, stop)])["ntokens"]
        return total


def sentences(symbols: Dictionary, tokens: int, seed: int) -> List[Tensor]:
    """Random sentences with their ``</s>``, about ``tokens`` in all."""
    generator = torch.Generator().manual_seed(seed)
    count = 2 * tokens // (SHORTEST + LONGEST)
    lengths = torch.randint(SHORTEST, LONGEST + 1, (count,), generator=generator).tolist()
    eos = torch.tensor([symbols.eos()])
    last = symbols.index("<mask>")
    pieces = [torch.randint(symbols.nspecial, last, (length - 1,), generator=generator) for length in lengths]
    return [torch.cat([piece, eos]) for piece in pieces]


def cases(options: argparse.Namespace) -> Dict[str, Case]:
    """The three datasets; the first two hold the same blocks."""
    symbols = dictionary(options.vocab)
    corruption = SpanCorruption(MEAN_SPAN, find_sentinels(symbols, "<extra_id_{}>", SENTINELS), seed=1)
    text = sentences(symbols, options.tokens, 1)
    sizes = [len(row) for row in text]
    blocks = SentenceBlocks(text, sizes, BLOCK, "complete", symbols.pad(), symbols.eos(), BLOCK_RATIO)
    half = len(text) // 2
    sides = (text[:half], text[half : 2 * half])
    pairs = SentencePairs(sides, [[len(row) for row in side] for side in sides], PAIR_RATIO)
    whole, many = options.batch_tokens // BLOCK, options.batch_tokens // (SHORTEST + LONGEST)
    return {
        PEER: Case(denoising(blocks, symbols), whole, sum(sizes)),
        BLOCKS: Case(SpanCorruptionDataset([blocks], symbols, corruption), whole, sum(sizes)),
        PAIRS: Case(SpanCorruptionDataset([pairs], symbols, corruption), many, sum(sizes[: 2 * half])),
    }


def denoising(blocks: SentenceBlocks, symbols: Dictionary) -> DenoisingDataset:
    """fairseq's, set to the same share and mean length."""
    return DenoisingDataset(
        PrependTokenDataset(blocks.blocks, symbols.bos()),
        blocks.blocks.sizes,
        symbols,
        mask_idx=symbols.index("<mask>"),
        mask_whole_words=None,
        shuffle=False,
        seed=1,
        mask=BLOCK_RATIO,
        mask_random=0.0,
        insert=0.0,
        rotate=0.0,
        permute_sentences=0.0,
        bpe=None,
        replace_length=1,
        mask_length="span-poisson",
        poisson_lambda=MEAN_SPAN,
    )


def compare(options: argparse.Namespace) -> List[Dict[str, Any]]:
    """Rows of the table."""
    found = cases(options)
    calls = {name: partial(Case.run, case) for name, case in found.items()}
    timings = measure.time_side_by_side(calls, options.rounds, torch.device("cpu"))
    rows = []
    for name, case in found.items():
        seconds = timings[name].median
        scale = found[PEER].tokens / case.tokens
        rows.append(
            {
                "variant": name,
                "items_per_s": round(len(case.dataset) / seconds, 1),
                "tokens_per_s": round(case.tokens / seconds),
                "microseconds_per_item": round(1e6 * seconds / len(case.dataset), 1),
                "time_ratio": [round(scale * value, 3) for value in timings[name].ratio_to(timings[PEER])],
                "target_tokens": case.run(),
            }
        )
    return rows


def render(content: Dict[str, Any]) -> str:
    """The table of one machine."""
    rows = [
        [
            row["variant"],
            f"{row['items_per_s']:,.0f}",
            f"{row['tokens_per_s']:,}",
            f"{row['microseconds_per_item']:,.0f}",
            f"{row['time_ratio'][0]:.2f} ({row['time_ratio'][1]:.2f} to {row['time_ratio'][2]:.2f})",
            f"{row['target_tokens']:,}",
        ]
        for row in content["results"]
    ]
    columns = ["data", "items/s", "tokens/s", "µs an item", "time ratio a token (range)", "target tokens"]
    return report.table(columns, rows)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=200000, help="tokens of the text")
    parser.add_argument("--batch-tokens", type=int, default=8192, help="uncorrupted tokens of a batch")
    parser.add_argument("--vocab", type=int, default=250002, help="V")
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = compare(options)
    path = report.write("data_path", torch.device("cpu"), vars(options), results)
    print(render({"results": results}))
    measure.say(f"wrote {path.relative_to(report.RESULTS.parent.parent)}")


if __name__ == "__main__":
    main()
