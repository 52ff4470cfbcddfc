"""Lexicons and dictionaries as files, checks of files, and quiet imports of heavy packages."""

import logging
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Collection, Dict, Iterable, Iterator, List, NamedTuple, Optional, TextIO, Tuple

from ..io import InputError, PathLike

TSV, MUSE = "tsv", "muse"
FORMS = (TSV, MUSE)
# Least share of a dictionary's target words in a lexicon of the same languages.
MIN_TARGETS_SHARE = 0.05
Lexicon = Dict[str, List[str]]  # source word -> candidates or translations
Named = Tuple[str, PathLike]  # option and file


class Entry(NamedTuple):
    """A candidate of a word; a higher score is nearer, the first rank is 1."""

    source: str
    target: str
    score: float
    rank: int


# ---- Packages. ----


@contextmanager
def quiet(*names: str) -> Iterator[None]:
    """Show nothing below warnings of the loggers of these packages."""
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
def plugins() -> Iterator[None]:
    """Import or call fairseq_plugins without fairseq's notes; its ValueErrors are bad input."""
    with quiet("fairseq", "fairseq_plugins"):
        try:
            yield
        except InputError:
            raise
        except ValueError as error:
            raise InputError(str(error)) from None


def read_version(package: str) -> Optional[str]:
    """Return the version of a package; None if none is installed under this name."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


# ---- Checks before any work. ----


def check_readable(path: PathLike, option: str, valid: str) -> None:
    """Raise InputError unless a file can be opened."""
    try:
        if not Path(path).is_file():
            raise InputError(f"{option} {path}: no such file; valid: {valid}")
        with open(path, "rb"):
            pass
    except OSError as error:
        raise InputError(f"{option} {path}: {error.strerror}; valid: {valid}") from None


def check_places(inputs: Iterable[Named], outputs: Iterable[Named]) -> None:
    """Check that every output has a place of its own.

    Args:
        inputs: files that are read; two may be the same.
        outputs: files that are written, reports and manifests too.

    Raises:
        InputError: an output is an input, another output or a folder.
    """
    options = {Path(path).resolve(): option for option, path in inputs}
    for option, path in outputs:
        place = Path(path).resolve()
        if place in options:
            problem = f"is the file of {options[place]} too"
            raise InputError(f"{option} {path}: {problem}; valid: a file of its own")
        if place.is_dir():
            raise InputError(f"{option} {path}: a folder; valid: a file name")
        options[place] = option


# ---- Lexicons. ----


def read_candidates(
    path: PathLike, option: str, top: Optional[int] = None, lower: bool = False
) -> Lexicon:
    """Read a lexicon of any form.

    Args:
        path: the file.
        option: option that named it, for messages.
        top: most candidates of a word.
        lower: lower-case all words; equal words are joined in the order of the file.

    Returns:
        Source word -> candidates by rank.

    Raises:
        InputError: no such file, not UTF-8, a line with other columns, fewer than two words.
    """
    with plugins():
        from fairseq_plugins.csr.lexicon import read_lexicon
    try:
        lexicon = read_lexicon(path, None if lower else top)
    except ValueError as error:
        raise InputError(f"{option}: {error}") from None
    if not lower:
        return lexicon
    joined: Dict[str, Dict[str, None]] = {}
    for word, candidates in lexicon.items():
        targets = dict.fromkeys(target.lower() for target in candidates)
        joined.setdefault(word.lower(), {}).update(targets)
    return {word: list(candidates)[:top] for word, candidates in joined.items()}


def write_entries(file: TextIO, entries: Iterable[Entry], form: str) -> int:
    """Write entries; return how many MUSE's form cannot hold: a word has a blank."""
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
    lexicon: Lexicon, dictionary: Lexicon, name: str, dictionary_name: str
) -> Optional[str]:
    """Check that a lexicon and a dictionary have the same languages, in the same direction.

    Args, Returns and Raises: as :func:`check_sides`.
    """
    targets = {target for candidates in lexicon.values() for target in candidates}
    return check_sides(set(lexicon), targets, dictionary, name, dictionary_name)


def check_sides(
    sources: Collection[str],
    targets: Collection[str],
    dictionary: Lexicon,
    name: str,
    dictionary_name: str,
) -> Optional[str]:
    """Check that a dictionary has the languages of two vocabularies, in the same direction.

    Args:
        sources: words of the source language.
        targets: words of the target language.
        dictionary: source word -> translations.
        name: name of the vocabularies, for messages.
        dictionary_name: name of the dictionary, for messages.

    Returns:
        A warning, or None.

    Raises:
        InputError: no word in common, or more pairs of the dictionary fit the other way round.
    """
    pairs = [(word, target) for word, translations in dictionary.items() for target in translations]
    forward = sum(source in sources and target in targets for source, target in pairs)
    backward = sum(target in sources and source in targets for source, target in pairs)
    valid = "valid: the same languages and case"
    if backward > forward:
        raise InputError(
            f"{dictionary_name}: {forward:,} of {len(pairs):,} pairs have both words in {name}, "
            f"but {backward:,} the other way round: wrong direction; "
            "valid: source and target in the same order"
        )
    source_count = sum(source in sources for source, _ in pairs)
    if not source_count:
        raise InputError(f"{dictionary_name}: none of its source words is in {name}; {valid}")
    if not forward:
        raise InputError(f"{dictionary_name}: none of its pairs is in {name}; {valid}")
    if forward < MIN_TARGETS_SHARE * source_count:
        return (
            f"{dictionary_name}: of the translations of the words that {name} has, only "
            f"{forward:,} of {source_count:,} are among its targets: another language?"
        )
    return None
