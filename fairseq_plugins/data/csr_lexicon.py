"""Lexicon files, and the characters that words are made of. Pure Python: text pipelines read the same files with it."""

import os
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Set, Tuple, Union

import regex

from ..ops.scripts import JOINERS, SPACELESS, WORD

Lexicon = Dict[str, List[str]]
"""Source word -> its candidates in the order of their ranks."""

PathLike = Union[str, "os.PathLike[str]"]
MUSE_COLUMNS, RANKED_COLUMNS = 2, 4
FEWEST_WORDS = 2

# Joiners count as letters here: pieces are looked at one by one, and may begin with one.
_IS_WORD = regex.compile(rf"[{WORD}{JOINERS}]+")
_HAS_SPACELESS = regex.compile(rf"[[{SPACELESS}]&&[{WORD}]]", flags=regex.V1)


def is_word(text: str) -> bool:
    """True for text of letters, marks, digits and zero-width joiners alone: one word, or a part of one."""
    return _IS_WORD.fullmatch(text) is not None


def is_spaceless(text: str) -> bool:
    """True where a letter is of a script that puts no space between words: Chinese, Japanese, Thai, Lao, Khmer, Burmese."""
    return _HAS_SPACELESS.search(text) is not None


def read_lexicon(path: PathLike, top: Optional[int] = None) -> Lexicon:
    """Read a lexicon in UTF-8.

    A line is ``source<TAB>target<TAB>score<TAB>rank``, or a pair as in MUSE's dictionaries: two columns, separated by a tab or by
    blanks, ranked by their order. Empty lines are skipped, a pair that comes again counts once.

    Args:
        path: the file.
        top: keep so many candidates of a word, at least 1; None = all.

    Returns:
        Source word -> candidates by rank, the words in the order of the file.

    Raises:
        ValueError: the file is missing, empty, not UTF-8 or has fewer than 2 source words; a line has other columns. The message
            names file and line.
    """
    ranked: Dict[str, List[Tuple[int, str]]] = {}
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip():
            continue
        source, target, rank = _pair(line, f"lexicon {path}, line {number}")
        candidates = ranked.setdefault(source, [])
        candidates.append((len(candidates) + 1 if rank is None else rank, target))
    if len(ranked) < FEWEST_WORDS:
        found = f"one source word, {next(iter(ranked))!r}" if ranked else "no pair"
        raise ValueError(f"lexicon {path}: holds {found}; valid: at least {FEWEST_WORDS} source words, a pair a line")
    return {source: _by_rank(candidates)[:top] for source, candidates in ranked.items()}


def _by_rank(candidates: Sequence[Tuple[int, str]]) -> List[str]:
    ordered = sorted(candidates, key=lambda candidate: candidate[0])  # stable: equal ranks as they come
    return list(dict.fromkeys(target for _, target in ordered))


def _lines(path: PathLike) -> List[str]:
    """The lines of a UTF-8 file; a byte order mark is no part of the first word."""
    file = Path(path)
    if not file.is_file():
        raise ValueError(f"lexicon {file}: there is no such file")
    content = file.read_bytes()
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError as error:
        number = content[: error.start].count(b"\n") + 1
        raise ValueError(
            f"lexicon {file}, line {number}: byte {content[error.start]:#04x} is not UTF-8; convert the "
            "file, for example with iconv"
        ) from error


def _pair(line: str, place: str) -> Tuple[str, str, Optional[int]]:
    """Source word, candidate and, where it is given, the rank."""
    columns = [column.strip() for column in line.split("\t")] if "\t" in line else line.split()
    if len(columns) not in (MUSE_COLUMNS, RANKED_COLUMNS) or not all(columns):
        raise ValueError(
            f"{place}: {line.strip()[:60]!r} has {len([c for c in columns if c])} columns; valid: a source word and a target word, "
            "or these with score and rank, separated by tabs"
        )
    if len(columns) == MUSE_COLUMNS:
        return columns[0], columns[1], None
    if not columns[3].isdecimal():
        raise ValueError(f"{place}: rank {columns[3]!r}; valid: a whole number from 1")
    return columns[0], columns[1], int(columns[3])


def lexicon_files(option: str, languages: Sequence[str], targets: Sequence[str]) -> Dict[str, List[Path]]:
    """The files that ``--lexicon`` names, by the language of their source words.

    Args:
        option: a folder with ``SOURCE-TARGET.tsv``, or ``en-de=FILE,de-en=FILE``. Codes as ``en_XX`` may be shortened to ``en``.
        languages: whose text is to be switched.
        targets: into which, where the option is a folder.

    Returns:
        Language -> files, at least one each.

    Raises:
        ValueError: a language has none, or the option is malformed; names what was looked for.
    """
    if not option:
        raise ValueError("--lexicon is needed to train: a folder with SOURCE-TARGET.tsv, or en-de=FILE,de-en=FILE")
    if "=" not in option:
        return _files_of_folder(Path(option), languages, targets)
    files: Dict[str, List[Path]] = {language: [] for language in languages}
    for part in option.split(","):
        pair, _, name = part.partition("=")
        source, hyphen, target = pair.partition("-")
        if not (source and hyphen and target and name):
            raise ValueError(f"--lexicon must be a folder, or look like en-de=FILE,de-en=FILE; got {part!r}")
        owners = [language for language in languages if source in language_names(language)]
        if not owners:
            raise ValueError(
                f"--lexicon {part}: {source} is not a language of --restore-langs; valid: {', '.join(languages)}"
            )
        for owner in owners:
            files[owner].append(Path(name))
    missing = [language for language in languages if not files[language]]
    if missing:
        raise ValueError(f"--lexicon has no file from {' nor from '.join(missing)}: add {missing[0]}-LANGUAGE=FILE")
    return files


def lexicon_targets(option: str, files: Sequence[Path]) -> Set[str]:
    """The languages into which files of :func:`lexicon_files` go, as ``--lexicon`` or the names of the files write them."""
    if "=" not in option:
        return {path.stem.rpartition("-")[2] for path in files}
    parts = [part.partition("=") for part in option.split(",")]
    return {pair.partition("-")[2] for pair, _, name in parts if Path(name) in files}


def _files_of_folder(folder: Path, languages: Sequence[str], targets: Sequence[str]) -> Dict[str, List[Path]]:
    if not folder.is_dir():
        raise ValueError(f"--lexicon {folder}: there is no such folder; valid: a folder, or en-de=FILE,de-en=FILE")
    files = {}
    for language in languages:
        wanted = [
            f"{source}-{target}.tsv"
            for other in dict.fromkeys(targets)
            if other != language
            for source in language_names(language)
            for target in language_names(other)
        ]
        files[language] = [folder / name for name in wanted if (folder / name).is_file()]
        if not files[language]:
            there = ", ".join(sorted(path.name for path in folder.glob("*.tsv"))) or "none"
            raise ValueError(
                f"--lexicon {folder}: none of {', '.join(wanted) or 'its files'} is there; .tsv files: {there}"
            )
    return files


def language_names(language: str) -> List[str]:
    """``en_XX`` and ``en``."""
    return list(dict.fromkeys([language, language.split("_")[0]]))


def read_lexicons(paths: Sequence[PathLike], top: Optional[int] = None) -> Lexicon:
    """Several lexicons of one source language as one: a word has the candidates of all, ``top`` of each.

    Raises:
        ValueError: see :func:`read_lexicon`.
    """
    merged: Lexicon = {}
    for path in paths:
        for source, candidates in read_lexicon(path, top).items():
            merged[source] = list(dict.fromkeys([*merged.get(source, []), *candidates]))
    return merged
