"""The options of ``fairseq-plugins translate MODEL``, without those that fairseq's parser reads."""

import argparse
import os
from typing import Sequence

from ..own_commands import PROGRAM, refuse
from .command import Parser, check_exists, new_parser, run

MAX_TOKENS = 4000
BUFFER_LINES = 1000
USAGE = f"{PROGRAM} translate MODEL [--input FILE] [--output FILE] [options]"


def build_parser() -> Parser:
    """Build the parser of the options that this package adds."""
    parser = new_parser(
        "translate",
        "Translate text, one sentence per line. MODEL comes first: a checkpoint, the folder of a "
        "run (checkpoint_best.pt, else checkpoint_last.pt), or OUT of `make translator OUT=OUT`.",
        usage=USAGE,
        epilog="All other options are those of fairseq-interactive and of the checkpoint's task: "
        "--beam, --nbest (more than 1 writes NUMBER<tab>SCORE<tab>TEXT), --lenpen, "
        "--iter-decode-max-iter, --cpu, --model-overrides ...",
    )
    add = parser.add_argument
    add("--input", metavar="FILE", default="-", help="UTF-8 text; default: standard input")
    add("--output", metavar="FILE", help="written when all is translated; default: standard output")
    system = "which system of a folder of several; default: the better on validation"
    add("--system", metavar="NAME", help=system)
    add("--source-lang", "-s", metavar="LANG", help="required for a model of several pairs")
    add("--target-lang", "-t", metavar="LANG", help="required for a model of several pairs")
    data = (
        "folder of dict.LANG.txt and sentencepiece.bpe.model (or codes.bpe), as "
        "data_prep/preprocess.sh leaves them; default: the checkpoint's folder, "
        "else the data-bin of the training"
    )
    add("--data", metavar="DIR", help=data)
    bpe = "as in fairseq-interactive; default: by the file in --data"
    add("--bpe", metavar="NAME", help=bpe)
    tokens = f"source tokens of a batch; default: {MAX_TOKENS}"
    add("--max-tokens", type=int, metavar="N", help=tokens)
    size = "sentences of a batch; default: no limit"
    add("--batch-size", "--max-sentences", type=int, metavar="N", help=size)
    lines = f"lines read at a time; default: {BUFFER_LINES} (1 on a terminal)"
    add("--buffer-size", type=int, metavar="N", help=lines)
    return parser


def translate(words: Sequence[str]) -> int:
    """Run the verb; ``words`` begin with MODEL."""
    parser = build_parser()
    has_model = bool(words) and not words[0].startswith("-")
    args, search = parser.parse_known_args(list(words[1:] if has_model else words))  # --help exits
    if not has_model:
        refuse(parser, "MODEL comes first: a checkpoint, or a folder of checkpoints")
    model = words[0]

    def check(args: argparse.Namespace) -> None:
        """Raise ValueError if a file is missing."""
        if args.input != "-" and not os.path.isfile(args.input):
            raise ValueError(f"--input {args.input}: no such file")
        check_exists("--data", args.data)
        check_exists("MODEL", model)

    def work(args: argparse.Namespace) -> None:
        """Translate."""
        from .. import translate

        translate.run(model, args, search)

    return run(parser, args, work, check)


COMMANDS = {"translate": translate}
