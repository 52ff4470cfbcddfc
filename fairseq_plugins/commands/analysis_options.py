"""Options that several analyses share: outputs, text, batches, and how a model reads text."""

import argparse
from typing import Any, Optional, Sequence

from .command import check_exists, check_named

NO_SEGMENTER = "none"
"""``--sentencepiece none``: the text is in pieces already."""
INPUT_FORMATS = ("xlmr", "bert", "mbart", "mbart50")
"""Names of ``understanding.inputs.INPUT_FORMATS``, whose import would import torch."""
POSITIONALS = {
    "model": "MODEL",
    "models": "MODEL",
    "model_b": "MODEL_B",
    "first": "JSON",
    "others": "JSON",
    "runs": "NAME=LOG",
}
"""Positional argument -> its name in messages."""


def add_number(
    parser: argparse.ArgumentParser, name: str, default: int, text: str, metavar: str = "N"
) -> None:
    """Add an option that takes a whole number; its help is ``text`` and the default."""
    text = f"{text} (default {default})"
    parser.add_argument(name, type=int, default=default, metavar=metavar, help=text)


def add_output_options(
    parser: argparse.ArgumentParser,
    *,
    plot: bool = True,
    tsv: Optional[str] = None,
) -> None:
    """Add ``--json``, ``--plot`` if ``plot`` is True, and ``--tsv`` if ``tsv`` is its help text."""
    parser.add_argument("--json", metavar="FILE", help="JSON file of every number")
    if plot:
        text = "plot, .svg or .png; needs matplotlib, the extra 'plots'"
        parser.add_argument("--plot", metavar="FILE", help=text)
    if tsv is not None:
        parser.add_argument("--tsv", metavar="FILE", help=tsv)


def add_model_options(parser: Any, suffix: str = "") -> None:
    """Add the options that say how a model reads text.

    Args:
        parser: parser or argument group.
        suffix: ends the options of a second model, as in ``--dict-b``.
    """
    second = " of the second model (default: the first one's)" if suffix else ""
    files = " (default: beside it)"
    if suffix:
        files = " of the second model (default: beside it, or the first model's)"
    add = parser.add_argument
    pieces = (
        f"sentencepiece model, tokenizer.json or vocab.txt (WordPiece){files}; {NO_SEGMENTER}: the "
        "text is in pieces"
    )
    add(f"--sentencepiece{suffix}", metavar="FILE", help=pieces)
    entries = f"dict.txt{files}, required only if the model's files do not tell its vocabulary"
    add(f"--dict{suffix}", metavar="FILE", help=entries)
    formats = f"order of special symbols{second}; required for mBART, whose files do not tell it"
    add(f"--input-format{suffix}", choices=INPUT_FORMATS, help=formats)
    languages = (
        f"languages{second} in the model's order, as en_XX,de_DE, if its files do not tell them"
    )
    add(f"--langs{suffix}", metavar="LIST", help=languages)
    template = f"symbol of a language{second}, as [{{}}] for mBART and __{{}}__ for NLLB"
    add(f"--language-template{suffix}", metavar="TEXT", help=template)
    codes = f"languages of the text that the model names otherwise{second}, as de=deu_Latn"
    add(f"--language-codes{suffix}", metavar="LIST", help=codes)
    heads = f"attention heads{second}, required only if its files do not tell"
    add(f"--heads{suffix}", type=int, metavar="N", help=heads)


def add_text_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how text becomes vectors."""
    limit = "sentences of each text, from its beginning"
    parser.add_argument("--limit", type=int, metavar="N", help=limit)
    vectors = "folder for the vectors, as MODEL.LANG.npy (default: a temporary one)"
    parser.add_argument("--keep-vectors", metavar="DIR", help=vectors)
    add_batch_options(parser)


def add_batch_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where and in what batches a model reads text."""
    add_number(parser, "--max-tokens", 4096, "tokens of a batch with padding")
    unknown = "largest share of unknown pieces in a text, in [0, 1] (default 0.2)"
    parser.add_argument("--max-unknown", type=float, default=0.2, metavar="R", help=unknown)
    device = parser.add_mutually_exclusive_group()
    cpu = "same as --device cpu"
    device.add_argument("--cpu", dest="device", action="store_const", const="cpu", help=cpu)
    device.add_argument("--device", help="as cuda:0 (default: the GPU where there is one)")


def check_inputs(
    args: argparse.Namespace, files: Sequence[str] = (), named_files: Sequence[str] = ()
) -> None:
    """Raise ValueError if an input is missing, also one of :func:`add_model_options`.

    Args:
        files: arguments that hold a path or several.
        named_files: arguments that hold several ``NAME=PATH``.
    """
    for name in files:
        paths = getattr(args, name)
        for path in [paths] if isinstance(paths, str) else paths or ():
            check_exists(_label(name), path)
    for name in named_files:
        check_named(_label(name), getattr(args, name))
    for suffix in ("", "_b"):
        flag = suffix.replace("_", "-")
        pieces = getattr(args, f"sentencepiece{suffix}", None)
        if pieces != NO_SEGMENTER:
            check_exists(f"--sentencepiece{flag}", pieces)
        check_exists(f"--dict{flag}", getattr(args, f"dict{suffix}", None))


def _label(name: str) -> str:
    """Return the name of an argument in messages."""
    return POSITIONALS.get(name, f"--{name.replace('_', '-')}")
