"""Write manifest.json of a data-bin folder from the records of its steps: counts, hashes, versions."""

import argparse
from pathlib import Path
from typing import Any, Dict, List, Optional

from . import cli
from .binarize import STEPS_FOLDER
from .check import DEFAULT_SPLITS
from .io import InputError, read_json, write_json
from .layout import Pair, apply_record, pair_record, parse_pairs, parse_splits, text_names
from .steps import FORMAT, facts, versions


def _record(path: Path) -> Dict[str, Any]:
    record = read_json(path)
    if record is None or record.get("format") != FORMAT:
        raise InputError(f"--data: no usable record {path}; valid: a folder that data_prep/preprocess.sh has filled")
    return record


def collect(data: Path, pairs: List[Pair], splits: List[str]) -> Dict[str, Any]:
    """Return the manifest of a data-bin folder.

    Args:
        data: the folder that preprocess.sh has filled.
        pairs: its language pairs.
        splits: its splits.

    Raises:
        InputError: the record of a step is missing.
    """
    steps = data / STEPS_FOLDER
    text, pieces, binary = {}, {}, {}
    for name in text_names(pairs, splits):
        record = _record(apply_record(steps, name))
        text[name] = {"sha256": record["inputs"]["text"], "lines": record["counts"]["lines"]}
        pieces[name] = {**record["outputs"][0], **record["counts"]}
    for pair in pairs:
        record = _record(pair_record(steps, pair))
        binary["-".join(pair)] = {"counts": record["counts"], "files": record["outputs"]}
    return {
        "format": FORMAT,
        "verb": "preprocess",
        "pairs": ["-".join(pair) for pair in pairs],
        "splits": splits,
        "model": facts([data / "sentencepiece.bpe.model"])[0],
        "dict": facts([data / "dict.txt"])[0],
        "text": text,
        "pieces": pieces,
        "data": binary,
        "versions": versions(),
    }


def build_parser() -> argparse.ArgumentParser:
    """Return the options of ``python -m data_prep.manifest``."""
    parser = cli.parser("manifest", __doc__)
    parser.add_argument("--data", required=True, metavar="DIR", help="folder that preprocess.sh has filled")
    parser.add_argument("--pairs", required=True, metavar="PAIRS", help="language pairs, as en-de,en-fr")
    parser.add_argument("--splits", default=DEFAULT_SPLITS, metavar="NAMES", help="splits, separated by commas")
    return parser


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    args = build_parser().parse_args(argv)
    target = Path(args.data) / "manifest.json"
    write_json(target, collect(Path(args.data), parse_pairs(args.pairs), parse_splits(args.splits)))
    cli.say(f"manifest: {target}")


if __name__ == "__main__":
    cli.run("manifest", main)
