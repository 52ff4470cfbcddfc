"""Lexicon files, the characters of words, and checks of a lexicon against a text. Pure Python: ``data_prep`` uses it too."""

import os
from pathlib import Path
from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple, Union

import regex

from ..ops.scripts import JOINERS, SPACELESS, WORD

Lexicon = Dict[str, List[str]]
"""Source word -> its candidates in the order of their ranks."""

PathLike = Union[str, "os.PathLike[str]"]
MUSE_COLUMNS, RANKED_COLUMNS = 2, 4
FEWEST_WORDS = 2

LEAST_TRANSLATED = 0.4
"""Least share of the running words with an entry for which a candidate must occur in the text of the other language."""

FEWEST_JUDGED = 50
"""Distinct words with an entry below which that share is not judged."""

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

    ``top``: keep this many candidates per word, at least 1; None = all. Raises ValueError: the file is missing, not UTF-8 or has
    fewer than 2 source words, or a line (named) has other columns.
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
    ordered = {
        source: sorted(found, key=lambda one: one[0]) for source, found in ranked.items()
    }  # equal ranks as they come
    return {source: list(dict.fromkeys(target for _, target in found))[:top] for source, found in ordered.items()}


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


def read_lexicons(paths: Sequence[PathLike], top: Optional[int] = None) -> Lexicon:
    """Several lexicons of one source language as one: a word has the ``top`` first candidates of each."""
    merged: Lexicon = {}
    for path in paths:
        for source, candidates in read_lexicon(path, top).items():
            merged[source] = list(dict.fromkeys([*merged.get(source, []), *candidates]))
    return merged


# ---- The option --lexicon. ----


class LexiconFile(NamedTuple):
    """A file that ``--lexicon`` names, and the language of its candidates as written there."""

    path: Path
    target: str


def lexicon_files(option: str, languages: Sequence[str], targets: Sequence[str]) -> Dict[str, List[LexiconFile]]:
    """The files that ``--lexicon`` names: language of the source words -> files, at least one each.

    ``option`` is a folder with ``SOURCE-TARGET.tsv``, or ``en-de=FILE,de-en=FILE``; codes as ``en_XX`` may be shortened to
    ``en``. The text of ``languages`` is to be switched, into ``targets`` where it is a folder. Raises ValueError: a language has
    no file, or the option is malformed; names what was looked for.
    """
    if not option:
        raise ValueError("--lexicon is needed to train: a folder with SOURCE-TARGET.tsv, or en-de=FILE,de-en=FILE")
    if "=" not in option:
        return {language: _files_in_folder(Path(option), language, targets) for language in languages}
    files: Dict[str, List[LexiconFile]] = {language: [] for language in languages}
    for part in option.split(","):
        pair, _, name = part.partition("=")
        source, _, target = pair.partition("-")
        if not (source and target and name):
            raise ValueError(f"--lexicon must be a folder, or look like en-de=FILE,de-en=FILE; got {part!r}")
        owners = [language for language in languages if source in language_names(language)]
        if not owners:
            raise ValueError(
                f"--lexicon {part}: {source} is not a language of --restore-langs; valid: {', '.join(languages)}"
            )
        for owner in owners:
            files[owner].append(LexiconFile(Path(name), target))
    missing = [language for language in languages if not files[language]]
    if missing:
        raise ValueError(f"--lexicon has no file from {' nor from '.join(missing)}: add {missing[0]}-LANGUAGE=FILE")
    return files


def _files_in_folder(folder: Path, language: str, targets: Sequence[str]) -> List[LexiconFile]:
    if not folder.is_dir():
        raise ValueError(f"--lexicon {folder}: there is no such folder; valid: a folder, or en-de=FILE,de-en=FILE")
    wanted = [
        LexiconFile(folder / f"{source}-{target}.tsv", target)
        for other in dict.fromkeys(targets)
        if other != language
        for source in language_names(language)
        for target in language_names(other)
    ]
    found = [file for file in wanted if file.path.is_file()]
    if not found:
        names = ", ".join(file.path.name for file in wanted) or "its files"
        there = ", ".join(sorted(path.name for path in folder.glob("*.tsv"))) or "none"
        raise ValueError(f"--lexicon {folder}: none of {names} is there; .tsv files: {there}")
    return found


def language_names(language: str) -> List[str]:
    return list(dict.fromkeys([language, language.split("_")[0]]))


# ---- Does a lexicon fit a text? ``counts`` holds the words of the text and their frequencies. ----


def share_found(counts: Dict[str, int], words: Set[str]) -> float:
    """Share of a text's words that are in a set, as they are or lower-cased, in [0, 1]."""
    total = sum(counts.values())
    found = sum(count for text, count in counts.items() if text in words or text.lower() in words)
    return found / max(total, 1)


def is_backwards(counts: Dict[str, int], lexicon: Lexicon) -> bool:
    """Whether the second column of a lexicon is more of the text's language than the first one.

    Words that two languages share ("in", "man") are frequent, so that running words mislead: distinct words are compared.
    """
    known = {form for text in counts for form in (text, text.lower())}
    second = {candidate for candidates in lexicon.values() for candidate in candidates}
    shares = [len(known.intersection(column)) / max(len(column), 1) for column in (lexicon, second)]
    return shares[1] > 2.0 * shares[0] and share_found(counts, second) > share_found(counts, set(lexicon))


def share_translated(counts: Dict[str, int], lexicon: Lexicon, others: Iterable[str]) -> float:
    """Share of the running words with an entry that have a candidate among the words of another text; 1 for too few entries.

    On Multi30k right dictionaries have 0.97 to 1.00, those into another language 0.06 to 0.23.
    """
    known = {form for text in others for form in (text, text.lower())}
    used = {text: text if text in lexicon else text.lower() for text in counts}
    used = {text: key for text, key in used.items() if key in lexicon}
    if len(set(used.values())) < FEWEST_JUDGED:
        return 1.0
    good = {key for key in used.values() if any(word in known or word.lower() in known for word in lexicon[key])}
    total = sum(counts[text] for text in used)
    return sum(counts[text] for text, key in used.items() if key in good) / max(total, 1)


def diagnosis(counts: Dict[str, int], lexicon: Lexicon) -> str:
    """Why a lexicon has entries for so few words of a text: what would find more."""
    if is_backwards(counts, lexicon):
        backwards = share_found(counts, {candidate for candidates in lexicon.values() for candidate in candidates})
        return f"its second column has {100 * backwards:.1f} % of the words: it looks like the opposite direction"
    folded = {word.lower() for word in lexicon}
    lowered = share_found({text.lower(): count for text, count in counts.items()}, folded)
    if lowered > max(2.0 * share_found(counts, set(lexicon)), 0.05):
        return f"with all words lower-cased it has {100 * lowered:.1f} %: lower-case its first column"
    frequent = sorted(counts, key=lambda text: -counts[text])[:5]
    return (
        f"the text's most frequent words are {', '.join(frequent)}, the lexicon's first {', '.join(list(lexicon)[:5])}: "
        "another language, another way of cutting words, or too small a lexicon"
    )
