"""Names of files: SPLIT.LANG in a folder of text or pieces, SPLIT.SRC-TGT.LANG.{bin,idx} in a data-bin folder."""

import re
from pathlib import Path
from typing import List, Tuple

from .io import InputError, PathLike

Pair = Tuple[str, str]
LANG = r"[^\s,/-]+"
SPLIT = re.compile(r"[^\s,/.]+")
PARTS = ("bin", "idx")


def parse_pairs(text: str) -> List[Pair]:
    """Return the language pairs of ``en-de,en-fr``.

    Raises:
        InputError: not SRC-TGT, the same language twice in a pair, or a pair given twice.
    """
    pairs: List[Pair] = []
    for item in text.split(","):
        match = re.fullmatch(f"({LANG})-({LANG})", item)
        pair = (match[1], match[2]) if match else ("", "")
        if pair[0] == pair[1] or pair in pairs:
            raise InputError(f"--pairs {text}: {item!r}; valid: different pairs of two languages, as en-de,en-fr")
        pairs.append(pair)
    return pairs


def parse_splits(text: str) -> List[str]:
    """Return the splits of ``train,valid,test``.

    Raises:
        InputError: a name that is empty, given twice, or contains white space, '/' or '.'.
    """
    splits: List[str] = []
    for item in text.split(","):
        if not SPLIT.fullmatch(item) or item in splits:
            raise InputError(f"--splits {text}: {item!r}; valid: different names, as train,valid,test")
        splits.append(item)
    return splits


def text_name(pair: Pair, split: str, lang: str, per_pair: bool = False) -> str:
    """Return SPLIT.LANG, or SRC-TGT/SPLIT.LANG where every pair has sentences of its own."""
    return f"{pair[0]}-{pair[1]}/{split}.{lang}" if per_pair else f"{split}.{lang}"


def text_names(pairs: List[Pair], splits: List[str], per_pair: bool = False) -> List[str]:
    """Return the names that these pairs and splits need, each once."""
    names = [text_name(pair, split, lang, per_pair) for split in splits for pair in pairs for lang in pair]
    return list(dict.fromkeys(names))


def piece_name(path: PathLike) -> str:
    """Return the name of a file of pieces: SPLIT.LANG, with SRC-TGT/ before it in a folder of that pair."""
    file = Path(path)
    match = re.fullmatch(f"({LANG})-({LANG})", file.parent.name)
    return f"{file.parent.name}/{file.name}" if match and file.suffix[1:] in match.groups() else file.name


def data_names(pair: Pair, splits: List[str]) -> List[str]:
    """Return the names of the binary files of a pair, and of its two dictionaries."""
    stems = [f"{split}.{pair[0]}-{pair[1]}.{lang}" for split in splits for lang in pair]
    return [f"{stem}.{part}" for stem in stems for part in PARTS] + [f"dict.{lang}.txt" for lang in pair]


def apply_record(steps: Path, name: str) -> Path:
    """Return where the record of the pieces file ``name`` is kept."""
    return steps / f"apply.{name.replace('/', '.')}.json"


def pair_record(steps: Path, pair: Pair) -> Path:
    """Return where the record of a pair's binary files is kept."""
    return steps / f"pair.{pair[0]}-{pair[1]}.json"
