"""Compare making batches of span corruption with fairseq's denoising of the same blocks.

    python -m benchmarks.data_path [--tokens 200000] [--vocab 250002] [--rounds 5]

Dataset and collater in one process, text already in memory. Blocks of whole sentences up to 512
tokens, 15 % corrupted, mean span 3; the peer is ``DenoisingDataset`` with ``--mask 0.15
--mask-length span-poisson --poisson-lambda 3 --replace-length 1`` on the same blocks. Pairs of
two sentences each, half of their tokens corrupted, have no stock peer. Ratios are those of the
time per uncorrupted token.
"""

import argparse
from typing import Any, Dict, List, Optional, Sequence

import torch
from fairseq.data import DenoisingDataset, Dictionary, PrependTokenDataset
from torch import Tensor

from fairseq_plugins.deltalm.span_corruption import (
    SentenceBlocks,
    SentencePairs,
    SpanCorruption,
    SpanCorruptionDataset,
)
from fairseq_plugins.deltalm.spans import find_sentinels

from . import report
from .datasets import SEED, Case, compare_cases, item_columns
from .report import Column
from .systems import build_dictionary

BLOCK, MEAN_SPAN, SENTINELS = 512, 3.0, 120
BLOCK_RATIO, PAIR_RATIO = 0.15, 0.5
SHORTEST, LONGEST = 10, 40  # tokens of a sentence
PEER = "blocks, stock denoising"


def draw_sentences(symbols: Dictionary, tokens: int) -> List[Tensor]:
    """Draw sentences with their ``</s>``, about ``tokens`` in all."""
    generator = torch.Generator().manual_seed(SEED)
    count = 2 * tokens // (SHORTEST + LONGEST)
    lengths = torch.randint(SHORTEST, LONGEST + 1, (count,), generator=generator).tolist()
    eos = torch.tensor([symbols.eos()])
    first, last = symbols.nspecial, symbols.index("<mask>")
    rows = [torch.randint(first, last, (length - 1,), generator=generator) for length in lengths]
    return [torch.cat([row, eos]) for row in rows]


def build_cases(options: argparse.Namespace) -> Dict[str, Case]:
    """Build the three datasets; the first two hold the same blocks."""
    symbols = build_dictionary(options.vocab)
    sentinels = find_sentinels(symbols, "<extra_id_{}>", SENTINELS)
    corruption = SpanCorruption(MEAN_SPAN, sentinels, seed=SEED)
    text = draw_sentences(symbols, options.tokens)
    sizes = [len(sentence) for sentence in text]
    edges = (symbols.pad(), symbols.eos())
    blocks = SentenceBlocks(text, sizes, BLOCK, "complete", *edges, BLOCK_RATIO)
    half = len(text) // 2
    sides = (text[:half], text[half : 2 * half])
    pairs = SentencePairs(sides, [[len(row) for row in side] for side in sides], PAIR_RATIO)
    per_block = options.batch_tokens // BLOCK
    per_pair = options.batch_tokens // (SHORTEST + LONGEST)
    corrupted = [SpanCorruptionDataset([stream], symbols, corruption) for stream in (blocks, pairs)]
    return {
        PEER: Case(build_denoising(blocks, symbols), per_block, sum(sizes)),
        "blocks, span corruption": Case(corrupted[0], per_block, sum(sizes)),
        "pairs, span corruption": Case(corrupted[1], per_pair, sum(sizes[: 2 * half])),
    }


def build_denoising(blocks: SentenceBlocks, symbols: Dictionary) -> DenoisingDataset:
    """Build fairseq's dataset with the same corrupted share and mean span."""
    return DenoisingDataset(
        PrependTokenDataset(blocks.blocks, symbols.bos()),
        blocks.blocks.sizes,
        symbols,
        mask_idx=symbols.index("<mask>"),
        mask_whole_words=None,
        shuffle=False,
        seed=SEED,
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


def measure(options: argparse.Namespace) -> List[Dict[str, Any]]:
    """Return one row per dataset."""
    torch.set_num_threads(1)
    cases = build_cases(options)
    rows = compare_cases(cases, PEER, options.rounds)
    return [{**row, "target_tokens": cases[row["variant"]].run()} for row in rows]


def render(content: Dict[str, Any]) -> str:
    """Make the table of one machine."""
    columns = [Column("data", "variant"), *item_columns(digits=0)]
    columns.append(Column("target tokens", "target_tokens", "{:,}"))
    return report.table(columns, content["results"])


def main(argv: Optional[Sequence[str]] = None) -> None:
    """Run the command line."""
    parser = report.build_parser(__doc__, rounds=5)
    parser.add_argument("--tokens", type=int, default=200000, help="tokens of the text")
    text = "uncorrupted tokens of a batch"
    parser.add_argument("--batch-tokens", type=int, default=8192, help=text)
    parser.add_argument("--vocab", type=int, default=250002, help="V")
    options = parser.parse_args(argv)
    report.publish("data_path", options, measure(options), render)


if __name__ == "__main__":
    main()
