"""Names of files and folders: SPLIT.LANG of text and pieces, SPLIT.SRC-TGT.LANG of data-bins."""

import argparse
import re
from pathlib import Path
from typing import List, Tuple

from .io import InputError, PathLike
from .options import add_flag, adder

Pair = Tuple[str, str]
LANG = r"[^\s,/-]+"
SPLIT = re.compile(r"[^\s,/.]+")
PARTS = ("bin", "idx")
SPLITS = ("train", "valid", "test")
STEPS_FOLDER = ".steps"  # records of finished steps, below a folder of outputs
MANIFEST = "manifest.json"
SEGMENTER_FILES = {"model": "sentencepiece.bpe.model", "codes": "codes.bpe"}  # in a data-bin folder


def add_pair_options(parser: argparse.ArgumentParser, required: bool = True) -> None:
    """Add the options that name language pairs and splits."""
    add = adder(parser)
    add("--pairs", "PAIRS", "language pairs, as en-de,en-fr", required=required)
    add("--splits", "NAMES", "splits, separated by commas", default=",".join(SPLITS))
    text = "files SRC-TGT/SPLIT.LANG in place of SPLIT.LANG: every pair has its own sentences"
    add_flag(parser, "--per-pair", text)


def parse_pairs(text: str) -> List[Pair]:
    """Return the language pairs of ``en-de,en-fr``.

    Raises:
        InputError: not SRC-TGT, the same language twice in a pair, or a pair listed twice.
    """
    pairs: List[Pair] = []
    for item in text.split(","):
        match = re.fullmatch(f"({LANG})-({LANG})", item)
        pair = (match[1], match[2]) if match else ("", "")
        if pair[0] == pair[1] or pair in pairs:
            valid = "different pairs of two languages, as en-de,en-fr"
            raise InputError(f"--pairs {text}: {item!r}; valid: {valid}")
        pairs.append(pair)
    return pairs


def parse_splits(text: str) -> List[str]:
    """Return the splits of ``train,valid,test``.

    Raises:
        InputError: a name that is empty, listed twice, or contains white space, '/' or '.'.
    """
    splits: List[str] = []
    for item in text.split(","):
        if not SPLIT.fullmatch(item) or item in splits:
            valid = "different names, as train,valid,test"
            raise InputError(f"--splits {text}: {item!r}; valid: {valid}")
        splits.append(item)
    return splits


def text_name(pair: Pair, split: str, lang: str, per_pair: bool = False) -> str:
    """Return SPLIT.LANG, or SRC-TGT/SPLIT.LANG if every pair has sentences of its own."""
    return f"{pair[0]}-{pair[1]}/{split}.{lang}" if per_pair else f"{split}.{lang}"


def text_names(pairs: List[Pair], splits: List[str], per_pair: bool = False) -> List[str]:
    """Return the names that these pairs and splits need, each once."""
    names = [
        text_name(pair, split, lang, per_pair)
        for split in splits
        for pair in pairs
        for lang in pair
    ]
    return list(dict.fromkeys(names))


def piece_name(path: PathLike) -> str:
    """Return SPLIT.LANG of a file of pieces, after SRC-TGT/ if it lies in a folder of its pair."""
    file = Path(path)
    match = re.fullmatch(f"({LANG})-({LANG})", file.parent.name)
    in_pair = match is not None and file.suffix[1:] in match.groups()
    return f"{file.parent.name}/{file.name}" if in_pair else file.name


def data_names(pair: Pair, splits: List[str]) -> List[str]:
    """Return the names of the binary files of a pair, and of its two dictionaries."""
    stems = [f"{split}.{pair[0]}-{pair[1]}.{lang}" for split in splits for lang in pair]
    names = [f"{stem}.{part}" for stem in stems for part in PARTS]
    return [*names, *(f"dict.{lang}.txt" for lang in pair)]


def apply_record(steps: Path, name: str) -> Path:
    """Return the place of the record of the pieces file `name`."""
    return steps / f"apply.{name.replace('/', '.')}.json"


def pair_record(steps: Path, pair: Pair) -> Path:
    """Return the place of the record of a pair's binary files."""
    return steps / f"pair.{pair[0]}-{pair[1]}.json"
