"""Write manifest.json of a data-bin folder (counts, hashes, versions), or check that files are what a manifest says."""

import argparse
from pathlib import Path
from typing import Any, Dict, List, Optional, Set, Tuple

from . import cli
from .binarize import STEPS_FOLDER
from .check import DEFAULT_SPLITS
from .files import write_json
from .io import InputError, read_json
from .layout import Pair, apply_record, pair_record, parse_pairs, parse_splits, text_names
from .steps import FORMAT, facts, versions
from .verify import check_manifest

SEGMENTERS = {"model": "sentencepiece.bpe.model", "codes": "codes.bpe"}  # kind -> its name in the folder


def _record(path: Path) -> Dict[str, Any]:
    record = read_json(path)
    if record is None or record.get("format") != FORMAT:
        raise InputError(f"--data: no usable record {path}; valid: a folder that data_prep/preprocess.sh has filled")
    return record


def collect(data: Path, pairs: List[Pair], splits: List[str], per_pair: bool = False) -> Dict[str, Any]:
    """Return the manifest of a data-bin folder.

    Args:
        data: the folder that preprocess.sh has filled.
        pairs: its language pairs.
        splits: its splits.
        per_pair: every pair has sentences of its own.

    Raises:
        InputError: the record of a step is missing, or the model or codes are not those that the pieces came from.
    """
    steps = data / STEPS_FOLDER
    text, pieces, binary = {}, {}, {}
    used: Set[Tuple[str, str]] = set()
    for name in text_names(pairs, splits, per_pair):
        record = _record(apply_record(steps, name))
        text[name] = {"sha256": record["inputs"]["text"], "lines": record["counts"]["lines"]}
        pieces[name] = {**record["outputs"][0], **record["counts"]}
        used.update((kind, record["inputs"][kind]) for kind in SEGMENTERS if kind in record["inputs"])
    for pair in pairs:
        record = _record(pair_record(steps, pair))
        binary["-".join(pair)] = {"counts": record["counts"], "files": record["outputs"]}
    kind = "codes" if any(name == "codes" for name, _ in used) else "model"
    segmenter = facts([data / SEGMENTERS[kind]])[0]
    if used != {(kind, segmenter["sha256"])}:
        raise InputError(
            f"--data {data}: the pieces were not all made with its {SEGMENTERS[kind]}; run preprocess.sh again"
        )
    return {
        "format": FORMAT,
        "verb": "preprocess",
        "pairs": ["-".join(pair) for pair in pairs],
        "splits": splits,
        kind: segmenter,
        "dict": facts([data / "dict.txt"])[0],
        "text": text,
        "pieces": pieces,
        "data": binary,
        "versions": versions(),
    }


def build_parser() -> argparse.ArgumentParser:
    """Return the options of ``python -m data_prep.manifest``."""
    parser = cli.parser("manifest", __doc__)
    parser.add_argument("--data", metavar="DIR", help="write: folder that preprocess.sh has filled")
    parser.add_argument("--pairs", metavar="PAIRS", help="write: language pairs, as en-de,en-fr")
    parser.add_argument("--splits", default=DEFAULT_SPLITS, metavar="NAMES", help="write: splits, separated by commas")
    parser.add_argument("--per-pair", action="store_true", help="write: the text was SRC-TGT/SPLIT.LANG")
    parser.add_argument("--check", metavar="PATH", help="check: a manifest, or a folder with manifests")
    parser.add_argument("--text", metavar="DIR", help="check: also the raw text that preprocess.sh was given")
    return parser


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    args = build_parser().parse_args(argv)
    if (args.check is None) == (args.data is None):
        raise InputError("--data or --check: valid: one of them, --data to write a manifest, --check to check one")
    if args.check is not None:
        check_manifest(args.check, args.text)
        return
    if args.pairs is None:
        raise InputError("--pairs: missing; valid: the language pairs of --data, as en-de,en-fr")
    target = Path(args.data) / "manifest.json"
    pairs, splits = parse_pairs(args.pairs), parse_splits(args.splits)
    write_json(target, collect(Path(args.data), pairs, splits, args.per_pair))
    cli.say(f"manifest: {target}")


if __name__ == "__main__":
    cli.run("manifest", main)
