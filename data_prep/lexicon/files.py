"""Lexicons and dictionaries as files: TSV with scores and ranks, or pairs of words as MUSE and vecmap have them."""

import logging
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Dict, Iterable, Iterator, List, NamedTuple, Optional, TextIO, Tuple

from ..io import InputError, PathLike

TSV, MUSE = "tsv", "muse"
FORMS = (TSV, MUSE)
TARGETS_SHARE = 0.05  # of a dictionary's target words: with fewer of them in a lexicon, it is of another language
Named = Tuple[str, PathLike]
"""An option and the file that it names."""


class Entry(NamedTuple):
    """A candidate of a word.

    Attributes:
        source: the word.
        target: the candidate.
        score: higher is nearer.
        rank: from 1.
    """

    source: str
    target: str
    score: float
    rank: int


@contextmanager
def quiet(*names: str) -> Iterator[None]:
    """Only warnings of these packages' loggers."""
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.WARNING)
        yield
    finally:
        for logger, level in zip(loggers, levels):
            logger.setLevel(level)


@contextmanager
def package() -> Iterator[None]:
    """Import modules of fairseq_plugins in here: fairseq's notes are not shown, and their ValueErrors are bad input."""
    with quiet("fairseq", "fairseq_plugins"):
        try:
            yield
        except InputError:
            raise
        except ValueError as error:
            raise InputError(str(error)) from None


def version(package_name: str) -> Optional[str]:
    """The version of an installed package; None if it is not installed under this name."""
    try:
        return metadata.version(package_name)
    except metadata.PackageNotFoundError:
        return None


def check_readable(path: PathLike, option: str, valid: str) -> None:
    """Check that a file can be opened.

    Raises:
        InputError: there is none, it is a folder or a pipe, or it may not be read.
    """
    try:
        if not Path(path).is_file():
            raise InputError(f"{option} {path}: no such file; valid: {valid}")
        with open(path, "rb"):
            pass
    except OSError as error:
        raise InputError(f"{option} {path}: {error.strerror}; valid: {valid}") from None


def check_places(inputs: Iterable[Named], outputs: Iterable[Named]) -> None:
    """Check, before any work, that every output has a place of its own.

    Args:
        inputs: what is read; two may be one file.
        outputs: what is written, reports and manifests too.

    Raises:
        InputError: an output is an input, another output or a folder.
    """
    taken = {Path(path).resolve(): option for option, path in inputs}
    for option, path in outputs:
        place = Path(path).resolve()
        if place in taken:
            raise InputError(
                f"{option} {path}: is the file of {taken[place]} too; valid: a file of its own"
            )
        if place.is_dir():
            raise InputError(f"{option} {path}: a folder; valid: a file name")
        taken[place] = option


def read_candidates(
    path: PathLike, option: str, top: Optional[int] = None, lower: bool = False
) -> Dict[str, List[str]]:
    """Read a lexicon of any form: source word -> candidates by rank.

    Args:
        path: the file.
        option: the option that named it, for messages.
        top: keep so many of a word.
        lower: lower-case all words; what becomes equal is joined in the order of the file.

    Raises:
        InputError: no such file, not UTF-8, a line with other columns, fewer than two source words.
    """
    with package():
        from fairseq_plugins.data.csr_lexicon import read_lexicon
    try:
        found = read_lexicon(path, None if lower else top)
    except ValueError as error:
        raise InputError(f"{option}: {error}") from None
    if not lower:
        return found
    joined: Dict[str, Dict[str, None]] = {}
    for word, candidates in found.items():
        joined.setdefault(word.lower(), {}).update(
            dict.fromkeys(each.lower() for each in candidates)
        )
    return {word: list(candidates)[:top] for word, candidates in joined.items()}


def write_entries(file: TextIO, entries: Iterable[Entry], form: str) -> int:
    """Write entries; returns how many were left out because a word with a blank does not fit MUSE's form."""
    left_out = 0
    for entry in entries:
        if form == TSV:
            file.write(f"{entry.source}\t{entry.target}\t{entry.score:.6f}\t{entry.rank}\n")
        elif len(entry.source.split()) == len(entry.target.split()) == 1:
            file.write(f"{entry.source} {entry.target}\n")
        else:
            left_out += 1
    return left_out


def check_direction(
    lexicon: Dict[str, List[str]],
    dictionary: Dict[str, List[str]],
    lexicon_name: str,
    dictionary_name: str,
) -> Optional[str]:
    """Check that a lexicon and a dictionary are of the same languages, in the same direction.

    Args:
        lexicon: source word -> candidates; or the words of two vocabularies, each with all of the other side.
        dictionary: source word -> translations.
        lexicon_name: for messages.
        dictionary_name: for messages.

    Returns:
        A warning, or None.

    Raises:
        InputError: no word in common, or more pairs of the dictionary fit the other way round.
    """
    sources, targets = (
        set(lexicon),
        {each for candidates in lexicon.values() for each in candidates},
    )
    return check_sides(sources, targets, dictionary, lexicon_name, dictionary_name)


def check_sides(
    sources: "set[str]",
    targets: "set[str]",
    dictionary: Dict[str, List[str]],
    name: str,
    dictionary_name: str,
) -> Optional[str]:
    """As :func:`check_direction`, with the words of both sides."""
    pairs = [(source, target) for source, found in dictionary.items() for target in found]
    there = sum(source in sources and target in targets for source, target in pairs)
    back = sum(target in sources and source in targets for source, target in pairs)
    if back > there:
        raise InputError(
            f"{dictionary_name}: {there:,} of {len(pairs):,} pairs have both words in {name}, but {back:,} the other way round: "
            "wrong direction; valid: source and target in the same order"
        )
    known = [target for source, target in pairs if source in sources]
    if not known:
        raise InputError(
            f"{dictionary_name}: none of its source words is in {name}; valid: the same languages and case"
        )
    if not there:
        raise InputError(
            f"{dictionary_name}: none of its pairs is in {name}; valid: the same languages and case"
        )
    if there < TARGETS_SHARE * len(known):
        return (
            f"{dictionary_name}: of the translations of the words that {name} has, only {there:,} of {len(known):,} are among its "
            "targets: another language?"
        )
    return None
