"""Verbs that turn checkpoints into other files: average, dictionary, export, import."""

import argparse
import logging
from pathlib import Path
from typing import Callable, Dict, Sequence

from ..own_commands import PROGRAM
from .command import Command, Parser, check_exists, new_parser, run

logger = logging.getLogger(__name__)

FORMATS = ("onnx", "safetensors", "huggingface")
"""What ``export`` writes; the first is the default."""


def average_parser() -> Parser:
    """Build the parser of ``average``."""
    parser = new_parser(
        "average",
        "Average checkpoints of one run. Checkpoints without the frozen part are averaged too.",
        epilog=f"as in: {PROGRAM} average --directory DIR --best 5 --output average.pt",
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--inputs", nargs="+", metavar="FILE", help="checkpoints to average")
    source.add_argument("--directory", metavar="DIR", help="a --save-dir, with --best or --last")
    parser.add_argument("--output", required=True, metavar="FILE", help="the averaged checkpoint")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--best", type=int, metavar="N", help="best N of --keep-best-checkpoints")
    last = "last N checkpoints of epochs or intervals"
    choice.add_argument("--last", type=int, metavar="N", help=last)
    metric = "for --best: the metric in the file names, if there are several"
    parser.add_argument("--metric", help=metric)
    by = "for --last: which kind, if there are both"
    parser.add_argument("--by", choices=("epochs", "updates"), help=by)
    fewer = "average what there is if there are fewer than N"
    parser.add_argument("--allow-fewer", action="store_true", help=fewer)
    return parser


def check_average(args: argparse.Namespace) -> None:
    """Raise ValueError for options that do not belong together, and for missing checkpoints."""
    if (args.directory is None) != (args.best is None and args.last is None):
        choice = "--directory goes with --best N or --last N"
        raise ValueError(f"{choice}, and these only with --directory")
    for path in args.inputs or ():
        check_exists("--inputs", path)
    if args.directory is not None and not Path(args.directory).is_dir():
        raise ValueError(f"--directory {args.directory}: no such folder")


def average(args: argparse.Namespace) -> None:
    """Choose the checkpoints and write their average."""
    from ..checkpoints.average import select_best, select_last, write_average

    paths = [Path(path) for path in args.inputs or ()]
    if args.best is not None:
        paths = select_best(args.directory, args.best, args.metric, args.allow_fewer)
    elif args.last is not None:
        paths = select_last(args.directory, args.last, args.by, args.allow_fewer)
    write_average(paths, args.output)


def dictionary_parser() -> Parser:
    """Build the parser of ``dictionary``."""
    parser = new_parser(
        "dictionary",
        "Write the dict.txt that names every row of a pretrained encoder, languages and <mask> "
        "included. Data that is preprocessed with it fits the encoder.",
    )
    parser.add_argument("encoder", metavar="ENCODER", help="file or folder of a pretrained encoder")
    parser.add_argument("output", metavar="DICT", help="the dict.txt to write")
    parser.add_argument(
        "--langs",
        metavar="LIST",
        default="",
        help="languages in the order of their rows, required only if no file tells them: "
        "a file with one per line, or en_XX,de_DE",
    )
    return parser


def check_dictionary(args: argparse.Namespace) -> None:
    """Raise ValueError if the encoder is missing."""
    check_exists("ENCODER", args.encoder)


def dictionary(args: argparse.Namespace) -> None:
    """Write the dictionary of an encoder."""
    from ..checkpoints.encoders import write_dictionary
    from ..checkpoints.vocabulary import read_languages

    file = Path(args.langs)
    languages = read_languages(file) if file.is_file() else args.langs.split(",")
    entries = write_dictionary(args.encoder, args.output, [*filter(None, languages)])
    last = " ".join(entries[-8:])
    logger.info("wrote %s: %d entries, the last of them %s", args.output, len(entries), last)


def export_parser() -> Parser:
    """Build the parser of ``export``. The search options are read by fairseq's parser instead."""
    parser = new_parser(
        "export",
        "Write a trained model in a format that other programs read.",
        epilog=f"onnx also takes the options of a search, as {PROGRAM} translate does, and "
        f"--model-overrides: the runtime then searches with them. The way back: {PROGRAM} import.",
    )
    add = parser.add_argument
    model = "a checkpoint, the folder of a run, or OUT of `make translator OUT=OUT`"
    add("model", metavar="MODEL", help=model)
    add("folder", metavar="FOLDER", help="new or empty folder to write; nothing in it is replaced")
    formats = (
        "onnx: graphs for fairseq_plugins_runtime; safetensors: weights and JSON, of any "
        "checkpoint; huggingface: a folder of transformers, for an XLM-R, BERT, mBART or "
        "M2M-100; default: onnx"
    )
    add("--format", choices=FORMATS, default=FORMATS[0], help=formats)
    int8 = "onnx: weights of 8 bits; a quarter of the size, and faster"
    add("--int8", action="store_true", help=int8)
    add("--half", action="store_true", help="safetensors: store float16; half the size, rounded")
    system = "which system of a folder of several; default: the better on validation"
    add("--system", metavar="NAME", help=system)
    encoder = (
        "onnx: the encoder alone, of any model that --pretrained-encoder reads; "
        "models that translate are exported whole"
    )
    add("--encoder", action="store_true", help=encoder)
    add("--frozen", action="store_true", help="huggingface: the frozen masked LM of an SGA alone")
    heads = "attention heads of an encoder, if its files do not tell"
    add("--heads", type=int, metavar="N", help=heads)
    files = parser.add_mutually_exclusive_group()
    data = "folder of dict.LANG.txt and the pieces; default: beside MODEL, else its data-bin"
    files.add_argument("--data", metavar="DIR", help=data)
    without = "safetensors: leave the dictionaries out"
    files.add_argument("--no-dictionaries", action="store_true", help=without)
    pair = "language of a model of several pairs; default: all pairs"
    add("--source-lang", "-s", metavar="LANG", help=pair)
    add("--target-lang", "-t", metavar="LANG", help=pair)
    return parser


def check_export(args: argparse.Namespace) -> None:
    """Raise ValueError if the model or the folder of its dictionaries is missing."""
    check_exists("MODEL", args.model)
    check_exists("--data", args.data)


def export(words: Sequence[str]) -> int:
    """Run ``export``; ``export import``, as version 0.1.0 had it, runs ``import``."""
    if list(words[:1]) == ["import"]:
        logger.warning("%s export import is now %s import", PROGRAM, PROGRAM)
        return COMMANDS["import"](words[1:])
    parser = export_parser()
    args, search = parser.parse_known_args(words)

    def work(args: argparse.Namespace) -> None:
        """Write the model."""
        from ..export import command

        command.work(args, search)

    return run(parser, args, work, check_export)


def import_parser() -> Parser:
    """Build the parser of ``import``."""
    parser = new_parser(
        "import",
        "Make a fairseq checkpoint of a folder that export --format safetensors wrote, or of the "
        "Hugging Face folder of an mBART, M2M-100, NLLB or VECO. XLM-R and BERT need no import: "
        "--pretrained-mlm and --pretrained-encoder read them.",
    )
    folder = "with model.safetensors or pytorch_model.bin, and config.json"
    parser.add_argument("folder", metavar="FOLDER", help=folder)
    checkpoint = "file to write; another one is not replaced"
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help=checkpoint)
    return parser


def check_import(args: argparse.Namespace) -> None:
    """Raise ValueError if the folder is missing."""
    check_exists("FOLDER", args.folder)


def import_folder(args: argparse.Namespace) -> None:
    """Make a checkpoint of a folder of either kind."""
    from ..checkpoints import export as portable
    from ..export import huggingface_seq2seq

    if huggingface_seq2seq.is_seq2seq(args.folder):
        huggingface_seq2seq.import_seq2seq(args.folder, args.checkpoint)
    else:
        portable.import_folder(args.folder, args.checkpoint)


COMMANDS: Dict[str, Callable[[Sequence[str]], int]] = {
    "average": Command(average_parser, average, check_average),
    "dictionary": Command(dictionary_parser, dictionary, check_dictionary),
    "export": export,
    "import": Command(import_parser, import_folder, check_import),
}
