"""Options that several analyses share: outputs, text, batches, and how a model reads text."""

import argparse
from typing import Any, Optional

from .command import check_exists

NO_SEGMENTER = "none"
"""``--sentencepiece none``: the text is in pieces already."""
INPUT_FORMATS = ("xlmr", "bert", "mbart", "mbart50")
"""Names of ``understanding.inputs.INPUT_FORMATS``, which needs torch."""


def add_output_options(
    parser: argparse.ArgumentParser,
    *,
    plot: bool = True,
    tsv: Optional[str] = None,
) -> None:
    """Add ``--json``, ``--plot`` where ``plot``, and ``--tsv`` where its help text is given."""
    parser.add_argument("--json", metavar="FILE", help="JSON file of every number")
    if plot:
        text = "plot, .svg or .png; needs matplotlib, the extra 'plots'"
        parser.add_argument("--plot", metavar="FILE", help=text)
    if tsv is not None:
        parser.add_argument("--tsv", metavar="FILE", help=tsv)


def add_model_options(parser: Any, suffix: str = "") -> None:
    """Add the options that say how a model reads text; ``suffix`` makes those of a second model."""
    second = " of the second model (default: the first one's)" if suffix else ""
    files = " (default: beside it)"
    if suffix:
        files = " of the second model (default: beside it, or the first model's)"

    def add(name: str, metavar: Optional[str], text: str, **more: Any) -> None:
        parser.add_argument(f"--{name}{suffix}", metavar=metavar, help=text, **more)

    add(
        "sentencepiece",
        "FILE",
        f"sentencepiece model{files}; {NO_SEGMENTER}: the text is in pieces",
    )
    add(
        "dict",
        "FILE",
        f"dict.txt{files}, required only if the model's files do not tell its vocabulary",
    )
    formats = f"order of special symbols{second}; required for mBART, whose files do not tell it"
    add("input-format", None, formats, choices=INPUT_FORMATS)
    add(
        "langs",
        "LIST",
        f"languages{second} in the model's order, as en_XX,de_DE, if its files do not tell them",
    )
    add(
        "language-template",
        "TEXT",
        f"symbol of a language{second}, as [{{}}] for mBART and __{{}}__ for NLLB",
    )
    codes = f"languages of the text that the model names otherwise{second}, as de=deu_Latn"
    add("language-codes", "LIST", codes)
    add("heads", "N", f"attention heads{second}, required only if its files do not tell", type=int)


def add_text_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how text becomes vectors."""
    limit = "sentences of each text, from its beginning"
    parser.add_argument("--limit", type=int, metavar="N", help=limit)
    vectors = "folder for the vectors, as MODEL.LANG.npy (default: a temporary one)"
    parser.add_argument("--keep-vectors", metavar="DIR", help=vectors)
    add_batch_options(parser)


def add_batch_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where and in what batches a model reads text."""
    tokens = "tokens of a batch with padding (default 4096)"
    parser.add_argument("--max-tokens", type=int, default=4096, metavar="N", help=tokens)
    unknown = "largest share of unknown pieces in a text, in [0, 1] (default 0.2)"
    parser.add_argument("--max-unknown", type=float, default=0.2, metavar="R", help=unknown)
    device = parser.add_mutually_exclusive_group()
    cpu = "same as --device cpu"
    device.add_argument("--cpu", dest="device", action="store_const", const="cpu", help=cpu)
    device.add_argument("--device", help="as cuda:0 (default: the GPU where there is one)")


def check_model_files(args: argparse.Namespace) -> None:
    """Raise ValueError if a file of pieces or a dictionary is missing."""
    for suffix in ("", "_b"):
        flag = suffix.replace("_", "-")
        pieces = getattr(args, f"sentencepiece{suffix}", None)
        if pieces != NO_SEGMENTER:
            check_exists(f"--sentencepiece{flag}", pieces)
        check_exists(f"--dict{flag}", getattr(args, f"dict{suffix}", None))
