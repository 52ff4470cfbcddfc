"""Sentencepiece: train a model and its fairseq dictionary, text to pieces, pieces to text, dictionary of a model."""

import argparse
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from . import cli, pieces
from .io import InputError, PathLike, same_number
from .spm_train import MODEL_TYPES, NORMALISATIONS, TrainOptions, train
from .steps import Step

DEFAULT_MAX_UNKNOWN = 0.2


def apply(
    model: PathLike,
    inputs: Sequence[PathLike],
    outputs: Sequence[PathLike],
    dictionary: Optional[PathLike] = None,
    max_unknown: float = DEFAULT_MAX_UNKNOWN,
    steps: Optional[PathLike] = None,
) -> Dict[str, Dict[str, int]]:
    """Write the pieces of text files.

    Args:
        model: sentencepiece model.
        inputs: text files.
        outputs: one for each input.
        dictionary: dict.txt to count unknown pieces by; default: the model's pieces.
        max_unknown: largest share of unknown pieces in a file, in [0, 1].
        steps: folder of step records; files that were made from the same text and model are then not made again.

    Returns:
        Output name to the counts of :class:`pieces.PieceCounts`.
    """
    same_number(inputs, outputs)
    if not 0 <= max_unknown <= 1:
        raise InputError(f"--max-unknown {max_unknown}: valid: 0 to 1")
    processor = pieces.load_model(model)
    known = pieces.vocabulary_of(processor, dictionary)
    counts = {}
    for source, target in zip(inputs, outputs):
        name = Path(target).name
        step = None
        if steps is not None and Path(source).is_file():
            made_from = {"text": source, "model": model, **({"dict": dictionary} if dictionary is not None else {})}
            step = Step(Path(steps) / f"apply.{name}.json", made_from, {"max_unknown": max_unknown}, [target])
            done = step.done()
            if done is not None:
                cli.say(f"spm apply: {name}: unchanged, skipped")
                counts[name] = done
                continue
            step.begin()
        counts[name] = pieces.encode_file(processor, source, target, known, max_unknown)
        if step is not None:
            step.finish(counts[name])
        cli.say(f"spm apply: {name}: " + ", ".join(f"{key} {value:,}" for key, value in counts[name].items()))
    return counts


def build_parser() -> argparse.ArgumentParser:
    """Return the options of ``python -m data_prep.spm`` and its four commands."""
    parser = cli.parser("spm", __doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="train|apply|decode|dict")

    fit = commands.add_parser("train", help="train a model, write its dictionary")
    fit.add_argument("--inputs", nargs="+", required=True, metavar="FILE", help="text, all languages together")
    fit.add_argument("--model", required=True, metavar="FILE", help="output: the model")
    fit.add_argument("--dict", required=True, metavar="FILE", help="output: fairseq dictionary, in XLM-R's order")
    fit.add_argument("--vocab-size", type=int, required=True, metavar="N", help="pieces with <unk> <s> </s>")
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

    for name, text in (("apply", "text to pieces"), ("decode", "pieces to text")):
        command = commands.add_parser(name, help=text)
        command.add_argument("--model", required=True, metavar="FILE", help="sentencepiece model")
        command.add_argument("--inputs", nargs="+", required=True, metavar="FILE", help="UTF-8 files")
        command.add_argument("--outputs", nargs="+", required=True, metavar="FILE", help="one for each input")
        if name == "apply":
            command.add_argument("--dict", metavar="FILE", help="count unknown pieces by this dict.txt")
            command.add_argument(
                "--max-unknown", type=float, default=DEFAULT_MAX_UNKNOWN, metavar="R", help="most unknown pieces"
            )
            command.add_argument("--steps", metavar="DIR", help="keep records there; skip files that are unchanged")

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
    )
    counts = train(args.inputs, args.model, args.dict, options)
    cli.say(f"spm train: {args.model}, {args.dict}: " + ", ".join(f"{key} {value:,}" for key, value in counts.items()))


def _apply_command(args: argparse.Namespace) -> None:
    apply(args.model, args.inputs, args.outputs, args.dict, args.max_unknown, args.steps)


def _decode_command(args: argparse.Namespace) -> None:
    same_number(args.inputs, args.outputs)
    model = pieces.load_model(args.model)
    for source, target in zip(args.inputs, args.outputs):
        cli.say(f"spm decode: {target}: {pieces.decode_file(model, source, target):,} lines")


def _dict_command(args: argparse.Namespace) -> None:
    count = pieces.write_dictionary(pieces.load_model(args.model), args.output)
    rows = count + len(pieces.FAIRSEQ_SPECIAL)
    cli.say(f"spm dict: {args.output}: {count:,} pieces; {rows:,} rows in fairseq, {rows + 1:,} with <mask>")


COMMANDS: Dict[str, Any] = {
    "train": _train_command,
    "apply": _apply_command,
    "decode": _decode_command,
    "dict": _dict_command,
}

if __name__ == "__main__":
    cli.run("spm", main)
