"""Map the word vectors of two languages into one space, with or without a dictionary."""

import argparse
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .. import cli
from ..files import atomic_texts
from ..io import InputError, PathLike
from ..options import Options, add_fields, add_flag, adder, option
from ..progress import heartbeat, report_seconds
from ..steps import write_manifest
from . import certainty
from .files import (
    MUSE,
    Entry,
    Named,
    check_places,
    check_readable,
    check_sides,
    plugins,
    read_candidates,
    write_entries,
)
from .vectors import (
    MIN_WORDS,
    WordVectors,
    add_device_options,
    find_device,
    read_sides,
    set_threads,
    write_vectors,
)

UNSUPERVISED, NUMERALS, IDENTICAL, DICTIONARY = (
    "unsupervised",
    "numerals",
    "identical",
    "dictionary",
)
SEEDS = (UNSUPERVISED, NUMERALS, IDENTICAL, DICTIONARY)
OUTPUTS = ("--source-output", "--target-output")
MIN_PAIRS = 2
Rows = Tuple[List[int], List[int]]


class _LearningOption(NamedTuple):
    name: str
    field: str  # of fairseq_plugins.ops.word_mapping.SelfLearning
    default: Any
    text: str


LEARNING = (
    _LearningOption("cutoff", "words", 20000, "most frequent words of each side that take part"),
    _LearningOption("neighbours", "neighbours", 10, "nearest words of CSLS"),
    _LearningOption(
        "keep", "keep", 0.1, "probability that a similarity is seen in the first stage, in (0, 1]"
    ),
    _LearningOption("keep-factor", "factor", 2.0, "factor of this probability from stage to stage"),
    _LearningOption("patience", "patience", 10, "iterations without improvement that end a stage"),
    _LearningOption("threshold", "threshold", 5e-4, "least improvement of the objective"),
    _LearningOption(
        "iterations", "iterations", 1000, "most iterations; 0: the map of the seed alone"
    ),
)


@dataclass(frozen=True)
class MapOptions(Options):
    """Options of the maps.

    Args:
        dictionary: file of pairs, with seed_from ``dictionary``: MUSE's form, vecmap's, or TSV.
        learning: fields of ``SelfLearning``.
        device: device of torch.
    """

    seed_from: str = option(UNSUPERVISED, "origin of the first dictionary", choices=SEEDS)
    dictionary: Optional[PathLike] = None
    seed_words: int = option(
        4000,
        f"most frequent words that {UNSUPERVISED} compares, >= {MIN_PAIRS}",
        minimum=MIN_PAIRS,
    )
    learning: Mapping[str, Any] = field(default_factory=dict)
    max_words: Optional[int] = option(
        None, "most frequent words of each side, >= 2 (default: all)", minimum=MIN_WORDS
    )
    device: str = "cpu"

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.seed_from == DICTIONARY) != (self.dictionary is not None):
            state = "is missing" if self.dictionary is None else self.dictionary
            options = f"--seed-from {self.seed_from}, --dictionary {state}"
            raise InputError(f"{options}: valid: a file with {DICTIONARY}, and only with it")

    def check(self) -> Any:
        """Check, before any work, what takes torch or the disk.

        Returns:
            The ``SelfLearning``.

        Raises:
            InputError: an option of the learning out of range, no such device, a dictionary that
                cannot be read.
        """
        with plugins():
            from fairseq_plugins.ops.word_mapping import SelfLearning

            learning = SelfLearning(**self.learning)
        find_device(self.device)
        if self.dictionary is not None:
            valid = "pairs of words, in MUSE's form, vecmap's, or TSV"
            check_readable(self.dictionary, "--dictionary", valid)
            read_candidates(self.dictionary, "--dictionary")
        return learning

    def as_json(self) -> Dict[str, Any]:
        """Return the options for a manifest: no paths, no device."""
        names = ("seed_from", "seed_words", "max_words")
        return {**{name: getattr(self, name) for name in names}, **self.learning}


# ---- The first dictionary. ----


def word_pairs(
    kind: str, source: WordVectors, target: WordVectors, dictionary: Optional[PathLike] = None
) -> Rows:
    """Return the rows of a seed that comes from the words themselves.

    Args:
        kind: ``numerals`` (words of digits that both sides have), ``identical`` (words that both
            sides have) or ``dictionary``.
        source: words and vectors.
        target: words and vectors.
        dictionary: file in MUSE's form, vecmap's, or TSV.

    Raises:
        InputError: fewer than two pairs; a dictionary of the wrong direction or language.
    """
    sources, targets = source.rows(), target.rows()
    seed = f"--seed-from {kind}"
    if kind == DICTIONARY:
        assert dictionary is not None
        seed = f"--dictionary {dictionary}"
        lexicon = read_candidates(dictionary, "--dictionary")
        warning = check_sides(sources, targets, lexicon, "the vectors", seed)
        if warning:
            cli.say(f"map_vectors: warning: {warning}")
        pairs = [(word, target) for word, candidates in lexicon.items() for target in candidates]
    elif kind == NUMERALS:
        pairs = [(word, word) for word in source.words if word.isdecimal()]
    else:
        pairs = [(word, word) for word in source.words]
    pairs = [(first, second) for first, second in pairs if first in sources and second in targets]
    if len(pairs) < MIN_PAIRS:
        problem = f"{len(pairs)} pairs have vectors on both sides"
        raise InputError(f"{seed}: {problem}; valid: {MIN_PAIRS} or more")
    return [sources[first] for first, _ in pairs], [targets[second] for _, second in pairs]


def _find_seed(
    x: Any, y: Any, sides: Sequence[WordVectors], options: MapOptions, learning: Any
) -> Any:
    """Return the first dictionary: two tensors of rows."""
    import torch

    from fairseq_plugins.ops.word_mapping import similarity_seed

    if options.seed_from == UNSUPERVISED:
        with heartbeat("map_vectors: unsupervised seed"):
            sizes = options.seed_words, learning.neighbours, learning.block
            return similarity_seed(x, y, *sizes)
    rows = word_pairs(options.seed_from, sides[0], sides[1], options.dictionary)
    return tuple(torch.tensor(side, device=x.device) for side in rows)


# ---- The maps. ----


class _Progress:
    """Report of the iterations, every few seconds."""

    def __init__(self) -> None:
        self.time = time.monotonic()

    def __call__(self, iteration: Any) -> None:
        if time.monotonic() - self.time >= report_seconds():
            self.time = time.monotonic()
            self.report(iteration)

    @staticmethod
    def report(iteration: Any) -> None:
        number, objective, keep = iteration
        numbers = f"objective {objective:.4f}, similarities seen {keep:.0%}"
        cli.say(f"map_vectors: iteration {number}: {numbers}")


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
        source: vectors of the source, word2vec's text, the most frequent word first.
        target: vectors of the target.
        outputs: mapped vectors of both.
        report: JSON with options, objective of each iteration, certainty, hashes.
        options: options of the maps.
        dictionary_output: gets the pairs of the last dictionary, in MUSE's form.

    Returns:
        The counts of the report.

    Raises:
        InputError: bad vectors, as in :func:`read_sides`; a seed of fewer than two pairs; an
            option out of range; an output or the report in the place of another file.
    """
    with plugins():
        import torch

        from fairseq_plugins.ops import word_mapping
        from fairseq_plugins.ops.neighbours import unit_rows
    inputs: List[Named] = [("--source", source), ("--target", target)]
    if options.dictionary is not None:
        inputs.append(("--dictionary", options.dictionary))
    files: List[Named] = list(zip(OUTPUTS, outputs))
    if dictionary_output is not None:
        files.append(("--dictionary-output", dictionary_output))
    check_places(inputs, [*files, ("--report", report)])
    learning, device = options.check(), find_device(options.device)
    sides = read_sides(source, target, options.max_words)
    x, y = (word_mapping.normalise(torch.from_numpy(side.vectors).to(device)) for side in sides)
    seed = _find_seed(x, y, sides, options, learning)
    progress = _Progress()
    solution = word_mapping.learn_maps(x, y, seed, learning, progress)
    if solution.history:
        progress.report(solution.history[-1])
    mapped = [unit_rows(rows @ to_common) for rows, to_common in zip((x, y), solution.maps)]
    counts = {"seed_pairs": len(seed[0]), **_summarise(solution, mapped, sides, learning)}
    certainty.report("map_vectors", counts["warnings"], counts["not_checked"])
    Path(report).unlink(missing_ok=True)  # it must not stand beside other vectors
    vectors = [WordVectors(side.words, rows.cpu().numpy()) for side, rows in zip(sides, mapped)]
    write_vectors(outputs, "outputs", vectors)
    if dictionary_output is not None:
        _write_dictionary(dictionary_output, solution.pairs, sides)
    paths = [path for _, path in inputs], [path for _, path in files]
    write_manifest(report, "map_vectors", options.as_json(), counts, *paths)
    return counts


def _summarise(
    solution: Any, mapped: List[Any], sides: Sequence[WordVectors], learning: Any
) -> Dict[str, Any]:
    words = [side.words for side in sides]
    verdict = certainty.judge(mapped[0], mapped[1], words, learning.neighbours, learning.block)
    counts = {
        "words": [len(side) for side in words],
        "pairs": len(solution.pairs[0]),
        "iterations": len(solution.history),
        "converged": solution.converged,
        "objective": [round(iteration.objective, 6) for iteration in solution.history],
        "keep": [iteration.keep for iteration in solution.history],
        **verdict.as_json(),
    }
    if not solution.converged:
        warning = f"--iterations {learning.iterations}: ended before it converged"
        counts["warnings"] = [*verdict.warnings, warning]
    return counts


def _write_dictionary(path: PathLike, pairs: Any, sides: Sequence[WordVectors]) -> None:
    """Write the distinct pairs, by the frequency of the source word."""
    rows = sorted(set(zip(*(side.tolist() for side in pairs))))
    entries = [Entry(sides[0].words[i], sides[1].words[j], 1.0, 1) for i, j in rows]
    with atomic_texts([path], "--dictionary-output") as (file,):
        write_entries(file, entries, MUSE)


# ---- The verb. ----


def add_map_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that shape the maps, but for ``--seed``."""
    add_fields(parser, MapOptions, leave_out=["max_words"])
    text = "leave out the re-weighting of the last step: the map is a rotation"
    add_flag(parser, "--orthogonal", text)
    for item in LEARNING:
        metavar = "N" if isinstance(item.default, int) else "R"
        adder(parser)(f"--{item.name}", metavar, item.text, default=item.default)


def map_options(args: argparse.Namespace) -> MapOptions:
    """Return the options of a parsed command line."""
    learning = {item.field: getattr(args, item.name.replace("-", "_")) for item in LEARNING}
    learning.update(seed=args.seed, reweight=not args.orthogonal, block=args.block)
    max_words = getattr(args, "max_words", None)
    files = args.seed_from, args.dictionary, args.seed_words
    return MapOptions(*files, learning, max_words, args.device)


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    parser = cli.parser("map_vectors", __doc__)
    add = adder(parser)
    for side in ("source", "target"):
        add(f"--{side}", "FILE", f"vectors of the {side}, word2vec's text", required=True)
        add(f"--{side}-output", "FILE", f"mapped vectors of the {side}", required=True)
    add("--report", "FILE", "report of the learning, what looks random; JSON", required=True)
    text = f"pairs for --seed-from {DICTIONARY}: MUSE's form, vecmap's, or TSV"
    add("--dictionary", "FILE", text)
    add("--dictionary-output", "FILE", "pairs of the last dictionary, in MUSE's form")
    add_map_options(parser)
    add_fields(parser, MapOptions, leave_out=["seed_from", "seed_words"])
    add("--seed", "N", "seed of the similarities that are seen", default=1)
    add_device_options(add)
    args = parser.parse_args(argv)
    set_threads(args.threads)
    files = args.source, args.target, (args.source_output, args.target_output), args.report
    counts = map_files(*files, map_options(args), args.dictionary_output)
    mutual = f"mutual neighbours {counts['found']['mutual']:.1%}"
    cli.say(f"map_vectors: {args.report}: {counts['iterations']} iterations, {mutual}")
