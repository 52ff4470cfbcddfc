"""Map the word vectors of two languages into one space, without translations or beginning with some."""

import argparse
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from .. import cli
from ..files import atomic_texts
from ..io import InputError, PathLike
from ..progress import heartbeat, report_seconds
from ..steps import write_manifest
from .files import (
    MUSE,
    Entry,
    Named,
    check_places,
    check_readable,
    check_sides,
    package,
    read_candidates,
    write_entries,
)
from .induce import add_device_options, check_dimensions, check_max_words, set_threads, torch_device
from .vectors import WordVectors, read_vectors, write_vectors

UNSUPERVISED, NUMERALS, IDENTICAL, DICTIONARY = (
    "unsupervised",
    "numerals",
    "identical",
    "dictionary",
)
SEEDS = (UNSUPERVISED, NUMERALS, IDENTICAL, DICTIONARY)
OUTPUTS = ("--source-output", "--target-output")
FEWEST_PAIRS = 2
Rows = Tuple[List[int], List[int]]

# Options of fairseq_plugins.ops.word_mapping.SelfLearning: option, field, type, default, help.
LEARNING = (
    ("cutoff", "words", int, 20000, "most frequent words of each side that take part"),
    ("neighbours", "neighbours", int, 10, "nearest words of CSLS"),
    ("keep", "keep", float, 0.1, "probability with which a similarity is seen in the first stage"),
    ("keep-factor", "factor", float, 2.0, "each stage's probability over the one before"),
    ("patience", "patience", int, 10, "a stage ends after so many iterations without ..."),
    ("threshold", "threshold", float, 5e-4, "... so great an improvement of the objective"),
    (
        "iterations",
        "iterations",
        int,
        1000,
        "at most; 0: the seed alone says where the words belong",
    ),
)


def word_pairs(
    kind: str, source: WordVectors, target: WordVectors, dictionary: Optional[PathLike] = None
) -> Rows:
    """Return the rows of a seed that comes from the words themselves.

    Args:
        kind: ``numerals`` (words of digits that both sides have), ``identical`` (words that both have) or ``dictionary``.
        source: words and vectors.
        target: words and vectors.
        dictionary: MUSE's form, vecmap's, or TSV.

    Raises:
        InputError: fewer than two pairs; a dictionary of the wrong direction or language.
    """
    sources, targets = source.rows(), target.rows()
    if kind == DICTIONARY:
        assert dictionary is not None
        found = read_candidates(dictionary, "--dictionary")
        warning = check_sides(
            set(sources), set(targets), found, "the vectors", f"--dictionary {dictionary}"
        )
        if warning:
            cli.say(f"map_vectors: warning: {warning}")
        pairs = [(word, each) for word, candidates in found.items() for each in candidates]
    else:
        pairs = [(word, word) for word in source.words if kind == IDENTICAL or word.isdecimal()]
    rows = [
        (sources[first], targets[second])
        for first, second in pairs
        if first in sources and second in targets
    ]
    if len(rows) < FEWEST_PAIRS:
        shown = f"--dictionary {dictionary}" if kind == DICTIONARY else f"--seed-from {kind}"
        raise InputError(
            f"{shown}: {len(rows)} pairs have vectors on both sides; valid: {FEWEST_PAIRS} or more"
        )
    return [first for first, _ in rows], [second for _, second in rows]


class Report:
    """Says every few seconds how far the learning is."""

    def __init__(self) -> None:
        self.last = time.monotonic()

    def __call__(self, iteration: Any) -> None:
        """After each iteration."""
        if time.monotonic() - self.last >= report_seconds():
            self.last = time.monotonic()
            self.last_line([iteration])

    @staticmethod
    def last_line(history: Sequence[Any]) -> None:
        """A line on the last iteration."""
        for number, objective, keep in history[-1:]:
            cli.say(
                f"map_vectors: iteration {number}: objective {objective:.4f}, similarities seen {keep:.0%}"
            )


@dataclass(frozen=True)
class MapOptions:
    """What shapes the maps.

    Args:
        seed_from: where the first dictionary comes from.
        dictionary: the file, with ``dictionary``: MUSE's form, vecmap's, or TSV.
        seed_words: most frequent words of each side that ``unsupervised`` compares.
        learning: fields of ``SelfLearning``.
        max_words: read so many words of each side; None: all.
        device: of torch.
    """

    seed_from: str = UNSUPERVISED
    dictionary: Optional[PathLike] = None
    seed_words: int = 4000
    learning: Mapping[str, Any] = field(default_factory=dict)
    max_words: Optional[int] = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.seed_from not in SEEDS:
            raise InputError(f"--seed-from {self.seed_from}: valid: {', '.join(SEEDS)}")
        if (self.seed_from == DICTIONARY) != (self.dictionary is not None):
            given = "is missing" if self.dictionary is None else self.dictionary
            raise InputError(
                f"--seed-from {self.seed_from}, --dictionary {given}: valid: a file with {DICTIONARY}, and only with it"
            )
        if self.seed_words < FEWEST_PAIRS:
            raise InputError(f"--seed-words {self.seed_words}: valid: {FEWEST_PAIRS} or more")
        check_max_words(self.max_words)

    def check(self) -> Any:
        """Check, before any work, what takes torch or the disk.

        Returns:
            The ``SelfLearning``.

        Raises:
            InputError: an option of the learning out of range, no such device, a dictionary that cannot be read.
        """
        with package():
            from fairseq_plugins.ops.word_mapping import SelfLearning

            learning = SelfLearning(**self.learning)
        torch_device(self.device)
        if self.dictionary is not None:
            check_readable(
                self.dictionary, "--dictionary", "pairs of words, in MUSE's form, vecmap's, or TSV"
            )
            read_candidates(self.dictionary, "--dictionary")
        return learning

    def shown(self) -> Dict[str, Any]:
        """For a manifest: no paths, no device."""
        return {
            "seed_from": self.seed_from,
            "seed_words": self.seed_words,
            "max_words": self.max_words,
            **self.learning,
        }


def map_files(
    source: PathLike,
    target: PathLike,
    outputs: Tuple[PathLike, PathLike],
    report: PathLike,
    options: MapOptions,
    dictionary_output: Optional[PathLike] = None,
) -> Dict[str, Any]:
    """Write mapped vectors, rows of length 1, and a report.

    Args:
        source: word2vec's text, the most frequent word first.
        target: word2vec's text.
        outputs: the mapped vectors of both.
        report: JSON: options, objective of each iteration, mutual-neighbour rate, margin, what looks random, what was not
            checked, hashes.
        options: what shapes the maps.
        dictionary_output: write the last dictionary's pairs, in MUSE's form.

    Returns:
        The report's counts.

    Raises:
        InputError: bad vectors, as in :func:`read_vectors`; other dimensions; a seed of fewer than two pairs; an option out of
            range; an output or the report in the place of another file.
    """
    with package():
        import torch

        from fairseq_plugins.ops import word_mapping
        from fairseq_plugins.ops.neighbours import unit_rows
    given = _given(("--source", source), ("--target", target), ("--dictionary", options.dictionary))
    made = _given(*zip(OUTPUTS, outputs), ("--dictionary-output", dictionary_output))
    check_places(given, [*made, ("--report", report)])
    learning, place = options.check(), torch_device(options.device)
    names = ((source, "--source"), (target, "--target"))
    sides = [read_vectors(path, name, options.max_words) for path, name in names]
    check_dimensions(sides, source, target)
    x, y = (word_mapping.normalise(torch.from_numpy(side.vectors).to(place)) for side in sides)
    seed = _seed(x, y, sides, options, learning)
    say = Report()
    learned = word_mapping.learn_maps(x, y, seed, learning, say)
    say.last_line(learned.history)
    mapped = [unit_rows(rows @ to_common) for rows, to_common in zip((x, y), learned.maps)]
    words = [side.words for side in sides]
    counts = {"seed_pairs": len(seed[0]), **_found(learned, mapped, words, learning)}
    _say(counts)
    Path(report).unlink(
        missing_ok=True
    )  # first: it must not stand beside vectors that it does not describe
    write_vectors(
        outputs, "outputs", [WordVectors(s.words, m.cpu().numpy()) for s, m in zip(sides, mapped)]
    )
    if dictionary_output is not None:
        _write_dictionary(dictionary_output, learned.pairs, sides)
    write_manifest(
        report,
        "map_vectors",
        options.shown(),
        counts,
        [path for _, path in given],
        [path for _, path in made],
    )
    return counts


def _given(*named: Tuple[str, Optional[PathLike]]) -> List[Named]:
    """Those that name a file."""
    return [(option, path) for option, path in named if path is not None]


def _say(counts: Dict[str, Any]) -> None:
    for warning in counts["warnings"]:
        cli.say(f"map_vectors: warning: {warning}")
    for text in counts["not_checked"]:
        cli.say(f"map_vectors: not checked: {text}")


def _seed(x: Any, y: Any, sides: List[WordVectors], options: MapOptions, learning: Any) -> Any:
    """The first dictionary: two tensors of rows."""
    import torch

    from fairseq_plugins.ops.word_mapping import similarity_seed

    if options.seed_from == UNSUPERVISED:
        with heartbeat("map_vectors: unsupervised seed"):
            return similarity_seed(x, y, options.seed_words, learning.neighbours, learning.block)
    rows = word_pairs(options.seed_from, sides[0], sides[1], options.dictionary)
    first, second = (torch.tensor(side, device=x.device) for side in rows)
    return first, second


def _found(
    learned: Any, mapped: List[Any], words: List[List[str]], learning: Any
) -> Dict[str, Any]:
    """How the learning went, and what looks random."""
    from .checks import look

    verdict = look(mapped[0], mapped[1], words, learning.neighbours, learning.block)
    found = {
        "words": [len(each) for each in words],
        "pairs": len(learned.pairs[0]),
        "iterations": len(learned.history),
        "converged": learned.converged,
        "objective": [round(iteration.objective, 6) for iteration in learned.history],
        "keep": [iteration.keep for iteration in learned.history],
        **verdict.as_json(),
    }
    if not learned.converged:
        found["warnings"] = [
            *verdict.warnings,
            f"--iterations {learning.iterations}: ended before it converged",
        ]
    return found


def _write_dictionary(path: PathLike, pairs: Any, sides: List[WordVectors]) -> None:
    """The distinct pairs, by the frequency of the source word."""
    rows = sorted(set(zip(*(side.tolist() for side in pairs))))
    entries = [
        Entry(sides[0].words[first], sides[1].words[second], 1.0, 1) for first, second in rows
    ]
    with atomic_texts([path], "--dictionary-output") as (file,):
        write_entries(file, entries, MUSE)


def build_parser() -> argparse.ArgumentParser:
    """Return the options of ``python -m data_prep.map_vectors``."""
    parser = cli.parser("map_vectors", __doc__)
    parser.add_argument(
        "--source", required=True, metavar="FILE", help="vectors of the source, word2vec's text"
    )
    parser.add_argument(
        "--target", required=True, metavar="FILE", help="vectors of the target, word2vec's text"
    )
    parser.add_argument(
        "--source-output", required=True, metavar="FILE", help="mapped vectors of the source"
    )
    parser.add_argument(
        "--target-output", required=True, metavar="FILE", help="mapped vectors of the target"
    )
    parser.add_argument(
        "--report",
        required=True,
        metavar="FILE",
        help="JSON: how the learning went, what looks random",
    )
    parser.add_argument(
        "--dictionary",
        metavar="FILE",
        help=f"with --seed-from {DICTIONARY}: MUSE's form, vecmap's, or TSV",
    )
    parser.add_argument(
        "--dictionary-output", metavar="FILE", help="write the last dictionary, in MUSE's form"
    )
    parser.add_argument(
        "--max-words", type=int, metavar="N", help="most frequent words of each side (default: all)"
    )
    add_map_options(parser)
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of what is drawn")
    add_device_options(parser)
    return parser


def add_map_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that shape the maps, but for ``--seed``."""
    parser.add_argument(
        "--seed-from",
        choices=SEEDS,
        default=UNSUPERVISED,
        help="where the first dictionary comes from",
    )
    parser.add_argument(
        "--seed-words",
        type=int,
        default=4000,
        metavar="N",
        help=f"most frequent words that {UNSUPERVISED} compares",
    )
    parser.add_argument(
        "--orthogonal",
        action="store_true",
        help="no re-weighting in the last step: the map is a rotation",
    )
    for option, _, kind, default, text in LEARNING:
        parser.add_argument(
            f"--{option}",
            type=kind,
            default=default,
            metavar="N" if kind is int else "R",
            help=text,
        )


def map_options(args: argparse.Namespace) -> MapOptions:
    """Return the options of a parsed command line."""
    learning = {name: getattr(args, option.replace("-", "_")) for option, name, _, _, _ in LEARNING}
    learning.update(seed=args.seed, reweight=not args.orthogonal, block=args.block)
    max_words = getattr(args, "max_words", None)
    return MapOptions(
        args.seed_from, args.dictionary, args.seed_words, learning, max_words, args.device
    )


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    args = build_parser().parse_args(argv)
    set_threads(args.threads)
    outputs = (args.source_output, args.target_output)
    counts = map_files(
        args.source, args.target, outputs, args.report, map_options(args), args.dictionary_output
    )
    cli.say(
        f"map_vectors: {args.report}: {counts['iterations']} iterations, mutual neighbours {counts['found']['mutual']:.1%}"
    )
