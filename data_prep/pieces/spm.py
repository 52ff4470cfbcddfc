"""Sentencepiece: train a model and its fairseq dictionary, text to pieces, pieces to text, the dictionary."""

import argparse
import functools
from typing import Any, Dict, List, Optional

from .. import cli
from . import models as pieces
from .encode import add_apply_options, apply_files, apply_or_decode
from .spm_train import MODEL_TYPES, NORMALISATIONS, TrainOptions, train

apply = functools.partial(apply_files, "spm")
"""Write the pieces of text files: :func:`encode.apply_files` with a sentencepiece model."""


def build_parser() -> argparse.ArgumentParser:
    """Return the options of ``python -m data_prep.spm`` and its commands."""
    parser = cli.parser("spm", __doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="train|apply|decode|dict")

    fit = commands.add_parser("train", help="train a model, write its dictionary")
    fit.add_argument("--inputs", nargs="+", required=True, metavar="FILE", help="text, all languages together")
    fit.add_argument("--model", required=True, metavar="FILE", help="output: the model")
    fit.add_argument("--dict", required=True, metavar="FILE", help="output: fairseq dictionary, in XLM-R's order")
    fit.add_argument("--vocab-size", type=int, required=True, metavar="N", help="pieces with <unk> <s> </s>")
    fit.add_argument("--fewer", action="store_true", help="a text that gives fewer pieces is no error (unigram)")
    fit.add_argument("--model-type", choices=MODEL_TYPES, default=TrainOptions.model_type, help="algorithm")
    fit.add_argument(
        "--character-coverage",
        type=float,
        default=TrainOptions.character_coverage,
        metavar="R",
        help="share of characters",
    )
    fit.add_argument("--normalisation", choices=NORMALISATIONS, default=TrainOptions.normalisation, help="rule")
    fit.add_argument("--user-symbols", nargs="*", default=[], metavar="SYMBOL", help="pieces that are never split")
    fit.add_argument(
        "--max-line-bytes", type=int, default=TrainOptions.max_line_bytes, metavar="N", help="longer lines are left out"
    )
    fit.add_argument(
        "--max-lines", type=int, default=TrainOptions.max_lines, metavar="N", help="random sample of lines; 0 = all"
    )
    fit.add_argument("--seed", type=int, default=TrainOptions.seed, help="of the random sample")

    add_apply_options(commands, "model", "sentencepiece model")

    listing = commands.add_parser("dict", help="write the fairseq dictionary of an existing model")
    listing.add_argument("--model", required=True, metavar="FILE", help="sentencepiece model")
    listing.add_argument("--output", required=True, metavar="FILE", help="dict.txt")
    return parser


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    args = build_parser().parse_args(argv)
    COMMANDS[args.command](args)


def _train_command(args: argparse.Namespace) -> None:
    options = TrainOptions(
        args.vocab_size,
        args.model_type,
        args.character_coverage,
        args.normalisation,
        tuple(args.user_symbols),
        args.max_line_bytes,
        args.max_lines,
        args.seed,
        args.fewer,
    )
    counts = train(args.inputs, args.model, args.dict, options)
    cli.say(f"spm train: {args.model}, {args.dict}: " + ", ".join(f"{key} {value:,}" for key, value in counts.items()))


def _dict_command(args: argparse.Namespace) -> None:
    count = pieces.write_dictionary(pieces.load_model(args.model), args.output)
    rows = count + len(pieces.FAIRSEQ_SPECIAL)
    cli.say(f"spm dict: {args.output}: {count:,} pieces; {rows:,} rows in fairseq, {rows + 1:,} with <mask>")


COMMANDS: Dict[str, Any] = {
    "train": _train_command,
    **dict.fromkeys(("apply", "decode"), functools.partial(apply_or_decode, "spm")),
    "dict": _dict_command,
}
