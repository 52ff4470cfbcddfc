"""Cut a dictionary and its checkpoint to the pieces of a corpus: fewer rows, the same model on the rows that stay."""

import argparse
from collections import Counter
from pathlib import Path
from typing import Any, Dict, List, Optional

from .. import cli
from ..files import locked, write_bytes
from ..io import InputError, PathLike
from ..steps import write_manifest
from .cut_checkpoint import check_checkpoint, cut, open_checkpoint, write_checkpoint
from .cut_rows import (
    Rows,
    check_choice,
    check_corpus,
    choose_rows,
    count_corpus,
    unknown_share,
    write_rows,
)
from .encode import DEFAULT_MAX_UNKNOWN

MANIFEST = "cut_vocabulary.json"
DICT, DICT_MAP, TABLE, MODEL = "dict.txt", "resized_dict_map.txt", "rows.tsv", "sentencepiece.bpe.model"


def cut_vocabulary(
    checkpoint: PathLike,
    dictionary: PathLike,
    output: PathLike,
    pieces: Optional[List[str]] = None,
    text: Optional[List[str]] = None,
    model: Optional[PathLike] = None,
    min_count: int = 1,
    keep: Optional[List[str]] = None,
    max_unknown: float = DEFAULT_MAX_UNKNOWN,
    max_extra_rows: int = 256,
) -> Dict[str, Any]:
    """Write the cut checkpoint, dict.txt, the maps and, last, the manifest into a folder.

    Args:
        checkpoint: fairseq ``.pt`` file of one of ``cut_checkpoint.LAYOUTS``, or a Hugging Face folder.
        dictionary: its dict.txt.
        output: the folder.
        pieces: files of pieces, or
        text: files of text, with
        model: the sentencepiece model that cuts them; it is copied, unchanged.
        min_count: rarer pieces lose their row; they become ``<unk>``.
        keep: pieces that stay whatever the corpus holds.
        max_unknown: largest share of the corpus that may become ``<unk>``, in [0, 1].
        max_extra_rows: most rows after those of dict.txt (languages, ``<mask>``); they stay.

    Returns:
        The counts of the manifest.

    Raises:
        InputError: bad input, as in the functions that read it, or too much of the corpus would become ``<unk>``.
    """
    folder = Path(output)
    _check_options(folder, dictionary, model, max_unknown)
    pieces, text, keep = pieces or [], text or [], keep or []
    check_corpus(pieces, text, model)
    listed = len(check_choice(dictionary, min_count, keep))
    check_checkpoint(checkpoint, folder, dictionary, listed, max_extra_rows)
    _check_output(folder)
    found, counts = count_corpus(pieces, text, model)
    opened = open_checkpoint(checkpoint)
    rows = choose_rows(dictionary, opened.rows, found, min_count, keep, max_extra_rows)
    unknown = _count_unknown(found, rows, min_count, max_unknown)
    (folder / MANIFEST).unlink(missing_ok=True)
    before = opened.rows
    cut(opened, rows.ids)
    tables = [folder / DICT, folder / DICT_MAP, folder / TABLE]
    outputs = [*write_checkpoint(opened, folder), *tables]
    write_rows(rows, *tables)
    if model is not None:
        write_bytes(folder / MODEL, Path(model).read_bytes())
        outputs.append(folder / MODEL)
    sizes = {"rows_before": before, "rows_after": len(rows.ids), "rows_after_dict": rows.extra}
    result = {**counts, **sizes, "symbols_kept": len(rows.symbols), "unknown": unknown}
    options = {"min_count": min_count, "keep": sorted(keep), "layouts": opened.layouts, "tensors": opened.tensors}
    inputs = [opened.path, dictionary, *pieces, *text, *([model] if model is not None else [])]
    write_manifest(folder / MANIFEST, "cut_vocabulary", options, result, inputs, outputs)
    return result


def _check_options(folder: Path, dictionary: PathLike, model: Optional[PathLike], max_unknown: float) -> None:
    if not 0 <= max_unknown <= 1:
        raise InputError(f"--max-unknown {max_unknown}: valid: 0 to 1")
    for option, path, name in (("dict", dictionary, DICT), ("model", model, MODEL)):
        if path is not None and (folder / name).resolve() == Path(path).resolve():
            raise InputError(f"--output {folder}: would overwrite --{option} {path}; valid: another folder")


def _check_output(folder: Path) -> None:
    """Refuse a folder with files that this verb has not made: its manifest tells."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--output {folder}: is a file; valid: a folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MANIFEST).is_file():
        raise InputError(
            f"--output {folder}: holds files without a {MANIFEST}, so another program made them or a run was stopped; valid: a "
            "new or empty folder, or one of an earlier run"
        )


def _count_unknown(found: Counter, rows: Rows, min_count: int, max_unknown: float) -> int:
    """Pieces of the corpus that become ``<unk>``; refuses more than the allowed share."""
    unknown, total = unknown_share(found, rows)
    if unknown > max_unknown * total:
        raise InputError(
            f"--min-count {min_count}: {unknown} of {total} pieces of the corpus ({100 * unknown / total:.1f} %) would become "
            f"<unk>; valid: at most --max-unknown {max_unknown}; do the corpus and the dictionary belong together?"
        )
    return unknown


def build_parser() -> argparse.ArgumentParser:
    """Return the options of ``python -m data_prep.cut_vocabulary``."""
    parser = cli.parser("cut_vocabulary", __doc__)
    parser.add_argument("--checkpoint", required=True, metavar="PATH", help="fairseq .pt, or a Hugging Face folder")
    parser.add_argument("--dict", required=True, metavar="FILE", help="its dict.txt")
    parser.add_argument("--output", required=True, metavar="DIR", help="gets checkpoint, dict.txt, maps, manifest")
    parser.add_argument("--pieces", nargs="+", metavar="FILE", help="the corpus: files of pieces")
    parser.add_argument("--text", nargs="+", metavar="FILE", help="or: files of text, with --model")
    parser.add_argument("--model", metavar="FILE", help="sentencepiece model of the checkpoint; copied unchanged")
    parser.add_argument("--min-count", type=int, default=1, metavar="N", help="rarer pieces become <unk>")
    parser.add_argument("--keep", nargs="+", metavar="PIECE", help="pieces that stay whatever the corpus holds")
    parser.add_argument(
        "--max-unknown",
        type=float,
        default=DEFAULT_MAX_UNKNOWN,
        metavar="R",
        help="most of the corpus that becomes <unk>",
    )
    parser.add_argument(
        "--max-extra-rows", type=int, default=256, metavar="N", help="most rows after dict.txt (languages, <mask>)"
    )
    return parser


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    args = build_parser().parse_args(argv)
    options = {name: value for name, value in vars(args).items() if name != "dict"}
    target = Path(args.output).absolute()
    with locked(target.with_name(f".{target.name}.lock"), f"--output {args.output}"):
        counts = cut_vocabulary(dictionary=args.dict, **options)
    cli.say(f"cut_vocabulary: {args.output}: " + ", ".join(f"{name} {value:,}" for name, value in counts.items()))
