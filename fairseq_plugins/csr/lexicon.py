"""Read lexicons, the paper's unsupervised translation vocabulary, and check them against a text.

Pure Python, because ``data_prep`` uses it too. ``data_prep/lexicon.sh`` learns a lexicon. It ranks
neighbours by CSLS; ``--nearest-by dot-product`` is the paper's (III-B).
"""

from os import PathLike
from pathlib import Path
from typing import Container, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple, Union

Lexicon = Dict[str, List[str]]
"""Source word -> its nearest words of the other language, by rank."""

MUSE_COLUMNS, RANKED_COLUMNS = 2, 4
FEWEST_WORDS = 2

LEAST_TRANSLATED = 0.4
"""Least share of running words whose neighbours occur in the text of the other language.

On Multi30k, correct lexicons have 0.97 to 1.00, lexicons into a third language 0.06 to 0.23.
"""

FEWEST_JUDGED = 50
"""Fewest distinct words with an entry for which that share is judged."""


# ---- Files. ----


def read_lexicon(path: Union[str, "PathLike[str]"], top: Optional[int] = None) -> Lexicon:
    """Read a lexicon in UTF-8.

    A line is ``source<TAB>target<TAB>score<TAB>rank``, or a pair as in MUSE's dictionaries: two
    columns, separated by a tab or by blanks, ranked by their order. Empty lines are skipped, a
    repeated pair counts once.

    Args:
        path: the file.
        top: k, neighbours per word, at least 1; None = all.

    Raises:
        ValueError: the file is missing, is not UTF-8 or has fewer than 2 source words, or a line
            has another number of columns; the message gives its number.
    """
    ranked: Dict[str, List[Tuple[int, str]]] = {}
    for number, line in enumerate(_read_lines(Path(path)), start=1):
        if not line.strip():
            continue
        source, target, rank = _parse(line, f"lexicon {path}, line {number}")
        neighbours = ranked.setdefault(source, [])
        neighbours.append((len(neighbours) + 1 if rank is None else rank, target))
    if len(ranked) < FEWEST_WORDS:
        content = f"one source word, {next(iter(ranked))!r}" if ranked else "no pair"
        raise ValueError(
            f"lexicon {path}: holds {content}; valid: at least {FEWEST_WORDS} source words, one "
            "pair per line"
        )
    lexicon = {}
    for source, neighbours in ranked.items():
        neighbours.sort(key=lambda neighbour: neighbour[0])  # equal ranks stay in file order
        lexicon[source] = list(dict.fromkeys(target for _, target in neighbours))[:top]
    return lexicon


def _read_lines(path: Path) -> List[str]:
    """Read the lines of a UTF-8 file, without a byte order mark."""
    if not path.is_file():
        raise ValueError(f"lexicon {path}: there is no such file")
    content = path.read_bytes()
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError as error:
        number = content[: error.start].count(b"\n") + 1
        raise ValueError(
            f"lexicon {path}, line {number}: byte {content[error.start]:#04x} is not UTF-8; "
            "convert the file, for example with iconv"
        ) from error


def _parse(line: str, place: str) -> Tuple[str, str, Optional[int]]:
    """Split a line into source word, target word and rank; a pair has no rank (None)."""
    columns = [column.strip() for column in line.split("\t")] if "\t" in line else line.split()
    if len(columns) not in (MUSE_COLUMNS, RANKED_COLUMNS) or not all(columns):
        raise ValueError(
            f"{place}: {line.strip()[:60]!r} has {len(list(filter(None, columns)))} columns; "
            "valid: a source word and a target word, or these with score and rank, separated by "
            "tabs"
        )
    if len(columns) == MUSE_COLUMNS:
        return columns[0], columns[1], None
    if not columns[3].isdecimal():
        raise ValueError(f"{place}: rank {columns[3]!r}; valid: a whole number from 1")
    return columns[0], columns[1], int(columns[3])


# ---- The option --lexicon. ----


class LexiconFile(NamedTuple):
    """A file that ``--lexicon`` names, and the target language as written there."""

    path: Path
    target: str


def locate_lexicons(
    option: str, languages: Sequence[str], targets: Sequence[str]
) -> Dict[str, List[LexiconFile]]:
    """Locate the files that ``--lexicon`` names.

    Args:
        option: a folder with ``SOURCE-TARGET.tsv``, or ``en-de=FILE,de-en=FILE``; codes such as
            ``en_XX`` may be shortened to ``en``.
        languages: languages whose text is switched.
        targets: languages to switch into, if the option is a folder.

    Returns:
        Language of the source words -> its files, at least one each.

    Raises:
        ValueError: a language has no file, or the option is malformed.
    """
    if not option:
        raise ValueError(
            "--lexicon is needed to train: a folder with SOURCE-TARGET.tsv, or "
            "en-de=FILE,de-en=FILE"
        )
    if "=" not in option:
        return {language: _search(Path(option), language, targets) for language in languages}
    files: Dict[str, List[LexiconFile]] = {language: [] for language in languages}
    for part in option.split(","):
        pair, _, name = part.partition("=")
        source, _, target = pair.partition("-")
        if not (source and target and name):
            raise ValueError(
                f"--lexicon must be a folder, or look like en-de=FILE,de-en=FILE; got {part!r}"
            )
        owners = [language for language in languages if source in short_names(language)]
        if not owners:
            raise ValueError(
                f"--lexicon {part}: {source} is not a language of --restore-langs; valid: "
                f"{', '.join(languages)}"
            )
        for owner in owners:
            files[owner].append(LexiconFile(Path(name), target))
    missing = [language for language in languages if not files[language]]
    if missing:
        raise ValueError(
            f"--lexicon has no file from {' nor from '.join(missing)}: add "
            f"{missing[0]}-LANGUAGE=FILE"
        )
    return files


def _search(folder: Path, language: str, targets: Sequence[str]) -> List[LexiconFile]:
    """List the lexicons of a folder from one language into the targets."""
    if not folder.is_dir():
        raise ValueError(
            f"--lexicon {folder}: there is no such folder; valid: a folder, or "
            "en-de=FILE,de-en=FILE"
        )
    files = [
        LexiconFile(folder / f"{source}-{target}.tsv", target)
        for target_language in dict.fromkeys(targets)
        if target_language != language
        for source in short_names(language)
        for target in short_names(target_language)
    ]
    existing = [file for file in files if file.path.is_file()]
    if not existing:
        names = ", ".join(file.path.name for file in files) or "its files"
        present = ", ".join(sorted(path.name for path in folder.glob("*.tsv"))) or "none"
        raise ValueError(f"--lexicon {folder}: none of {names} is there; .tsv files: {present}")
    return existing


def short_names(language: str) -> List[str]:
    """List the names of a language in lexicons: ``en_XX`` -> [en_XX, en]."""
    return list(dict.fromkeys([language, language.split("_")[0]]))


def read_lexicons(files: Sequence[LexiconFile], top: Optional[int] = None) -> Lexicon:
    """Read lexicons of one source language, and join the ``top`` neighbours that each has."""
    merged: Lexicon = {}
    for file in files:
        for source, neighbours in read_lexicon(file.path, top).items():
            merged[source] = list(dict.fromkeys([*merged.get(source, []), *neighbours]))
    return merged


def _join_paths(files: Sequence[LexiconFile]) -> str:
    return ", ".join(str(file.path) for file in files)


# ---- Does a lexicon fit a text? ----


class Coverage(NamedTuple):
    """The words of a language's text, and how many of them the lexicon has."""

    language: str
    files: List[LexiconFile]
    lexicon: Lexicon
    words: int  # of the text
    covered: int  # words with an entry
    counts: Dict[str, int]  # distinct words that can be looked up -> frequency
    unusable: int = 0  # neighbours of these words that need ``<unk>``

    @property
    def share(self) -> float:
        """Share of the text's words that have an entry, in [0, 1]."""
        return self.covered / max(self.words, 1)

    def share_of(self, words: Container[str]) -> float:
        """Compute the share of running words that are in ``words``, as written or lower-cased.

        Only words that can be looked up count.
        """
        running = sum(
            count for word, count in self.counts.items() if word in words or word.lower() in words
        )
        return running / max(sum(self.counts.values()), 1)


def check_coverage(coverage: Coverage, name: str) -> None:
    """Refuse a lexicon that has no word of the text, or whose columns are exchanged.

    Args:
        name: of the text, for messages.

    Raises:
        ValueError: the lexicon does not fit; the message gives the likely reason.
    """
    is_backwards = _is_backwards(coverage)
    if coverage.covered > 0 and not is_backwards:
        return
    if coverage.covered == 0 and coverage.unusable:
        reason = (
            f"all {coverage.unusable} candidates of its words have <unk>: the dictionary lacks "
            "their pieces"
        )
    elif is_backwards:
        share = coverage.share_of(_second_column(coverage.lexicon))
        reason = (
            f"its second column has {100 * share:.1f} % of the words: it looks like the opposite "
            "direction"
        )
    else:
        frequent = sorted(coverage.counts, key=lambda word: -coverage.counts[word])[:5]
        first = list(coverage.lexicon)[:5]
        reason = (
            f"the text's most frequent words are {', '.join(frequent)}, the lexicon's first "
            f"{', '.join(first)}: another language, another way of cutting words, or too small a "
            "lexicon"
        )
    raise ValueError(
        f"--lexicon {_join_paths(coverage.files)}: {100 * coverage.share:.1f} % of the words of "
        f"{name} have an entry; {reason}"
    )


def _second_column(lexicon: Lexicon) -> Set[str]:
    return {neighbour for neighbours in lexicon.values() for neighbour in neighbours}


def _is_backwards(coverage: Coverage) -> bool:
    """Return True if the second column of a lexicon fits the text better than the first.

    Both shares must say so: how much of a column occurs in the text, and how much of the text
    occurs in a column. The latter alone would mislead, because words that two languages share
    ("in", "man") are frequent.
    """
    vocabulary = {form for word in coverage.counts for form in (word, word.lower())}
    first, second = set(coverage.lexicon), _second_column(coverage.lexicon)
    first_share = len(vocabulary & first) / max(len(first), 1)
    second_share = len(vocabulary & second) / max(len(second), 1)
    return second_share > 2.0 * first_share and coverage.share_of(second) > coverage.share_of(first)


def check_targets(texts: Sequence[Coverage]) -> None:
    """Refuse a lexicon whose neighbours hardly occur in the other texts.

    A lexicon is judged only if every language that it goes into is among the texts.

    Raises:
        ValueError: a lexicon looks like one into another language.
    """
    names = {name for text in texts for name in short_names(text.language)}
    for text in texts:
        targets = {file.target for file in text.files}
        if not targets <= names:
            continue
        share = share_translated(text, [peer for peer in texts if peer is not text])
        if share < LEAST_TRANSLATED:
            raise ValueError(
                f"--lexicon {_join_paths(text.files)}: the text of {', '.join(sorted(targets))} "
                f"has a candidate for {100 * share:.1f} % of the words with an entry; valid: at "
                f"least {100 * LEAST_TRANSLATED:.0f} %. It looks like a lexicon into another "
                "language"
            )


def share_translated(text: Coverage, peers: Sequence[Coverage]) -> float:
    """Compute the share of running words with an entry whose neighbours ``peers`` contain.

    One such neighbour is enough. Returns 1 if too few words have an entry to judge.
    """
    words = {word for peer in peers for word in peer.counts}
    vocabulary = words | {word.lower() for word in words}
    frequencies: Dict[str, int] = {}  # source word of the lexicon -> frequency in the text
    for word, count in text.counts.items():
        source = word if word in text.lexicon else word.lower()
        if source in text.lexicon:
            frequencies[source] = frequencies.get(source, 0) + count
    if len(frequencies) < FEWEST_JUDGED:
        return 1.0
    translated = sum(
        count
        for source, count in frequencies.items()
        if any({word, word.lower()} & vocabulary for word in text.lexicon[source])
    )
    return translated / max(sum(frequencies.values()), 1)
