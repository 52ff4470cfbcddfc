"""Text files to files of pieces, by sentencepiece or by BPE codes, several files at a time, unchanged ones skipped."""

import argparse
import itertools
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import (
    Any,
    Collection,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
)

from .. import cli
from ..files import atomic_texts
from ..io import InputError, PathLike, check_output_count, read_lines
from ..layout import apply_record, piece_name
from ..parallel import for_each
from ..progress import with_progress
from ..steps import Step
from . import codes as bpe_codes
from . import models as pieces

DEFAULT_MAX_UNKNOWN = 0.2
WARN_UNKNOWN = 0.02  # a larger share is said, and allowed


@dataclass
class PieceCounts:
    """What encoding a file counted."""

    lines: int = 0
    pieces: int = 0
    longest: int = 0
    without_pieces: int = 0
    unknown: int = 0

    def add(self, found: Sequence[str], vocabulary: Optional[Collection[str]]) -> None:
        """Count one line; without a vocabulary every piece is known."""
        self.lines += 1
        self.pieces += len(found)
        self.longest = max(self.longest, len(found))
        self.without_pieces += not found
        if vocabulary is not None:
            self.unknown += sum(piece not in vocabulary for piece in found)


class SentencePieceSegmenter:
    """A sentencepiece model: ``spm``."""

    verb = "spm"
    option = "model"
    packages = ()

    def __init__(self, path: PathLike):
        self.model = pieces.load_model(path)

    def encode(self, lines: Iterable[str]) -> Iterator[List[str]]:
        """Yield the pieces of each line."""
        return pieces.encode_lines(self.model, lines)

    def decode(self, line: str) -> str:
        """Return the text of a line of pieces."""
        return pieces.decode_line(self.model, line)

    def vocabulary(self, dictionary: Optional[PathLike]) -> Optional[Collection[str]]:
        """Return the pieces that will be known: those of the dictionary, or of the model when there is none."""
        return pieces.vocabulary_of(self.model, dictionary)

    def problem(self, line: str, found: Sequence[str]) -> Optional[str]:
        """Say what fairseq would misread, or None."""
        return None


class CodesSegmenter:
    """A file of BPE codes: ``bpe``."""

    verb = "bpe"
    option = "codes"
    packages = ("fastBPE",)  # whose versions are kept in the records

    def __init__(self, path: PathLike):
        self.processor = bpe_codes.load_codes(path)

    def encode(self, lines: Iterable[str]) -> Iterator[List[str]]:
        """Yield the pieces of each line."""
        return bpe_codes.encode_lines(self.processor, lines)

    def decode(self, line: str) -> str:
        """Return the text of a line of pieces."""
        return bpe_codes.decode_line(line)

    def vocabulary(self, dictionary: Optional[PathLike]) -> Optional[Collection[str]]:
        """Return the pieces of the dictionary, or None (all are known): codes alone do not list every piece."""
        return set(pieces.read_dictionary(dictionary)) if dictionary is not None else None

    def problem(self, line: str, found: Sequence[str]) -> Optional[str]:
        """Say which word would not come back from its pieces, or None."""
        word = bpe_codes.lost_word(line, found)
        if word is None:
            return None
        return (
            f"the word {word!r} would not come back from its pieces, because {bpe_codes.CONTINUED} marks where pieces are "
            f"joined; valid: text without words that end in {bpe_codes.CONTINUED}"
        )


SEGMENTERS: Mapping[str, Any] = {"spm": SentencePieceSegmenter, "bpe": CodesSegmenter}


def encode_file(
    segmenter: Any,
    source: PathLike,
    target: PathLike,
    vocabulary: Optional[Collection[str]],
    max_unknown: float = 1.0,
) -> Dict[str, int]:
    """Write the pieces of every line, separated by spaces.

    Args:
        segmenter: one of ``SEGMENTERS``.
        source: text.
        target: pieces; the same number of lines.
        vocabulary: the pieces that the dictionary knows; others are counted as unknown. None: all are known.
        max_unknown: largest share of unknown pieces, in [0, 1].

    Returns:
        The fields of :class:`PieceCounts`.

    Raises:
        InputError: bad input, as in :func:`read_lines`; more unknown pieces than allowed; a piece that fairseq would
            read as another one (it splits at any white space) or as one of its own symbols; a word that would be lost.
    """
    counts = PieceCounts()
    with atomic_texts([target], "--outputs", [source]) as (file,):
        label = f"{segmenter.verb} apply {Path(source).name}"
        lines, again = itertools.tee(with_progress(read_lines(source, "--inputs"), label))
        for number, (found, line) in enumerate(zip(segmenter.encode(lines), again), start=1):
            text = " ".join(found)
            if text.split() != found or not pieces.RESERVED.isdisjoint(found):
                lost = next(piece for piece in found if piece.split() != [piece] or piece in pieces.RESERVED)
                raise InputError(
                    f"--inputs {source}, line {number}: gives the piece {lost!r}, which fairseq would read as something "
                    f"else; valid: text from python -m data_prep.clean without {' '.join(sorted(pieces.RESERVED))}"
                )
            problem = segmenter.problem(line, found)
            if problem:
                raise InputError(f"--inputs {source}, line {number}: {problem}")
            file.write(text + "\n")
            counts.add(found, vocabulary)
        check_unknown(source, counts, max_unknown, segmenter.option)
    return vars(counts)


def check_unknown(source: PathLike, counts: PieceCounts, max_unknown: float, kind: str) -> None:
    """Check the share of unknown pieces; more than ``WARN_UNKNOWN`` are reported.

    Raises:
        InputError: it is larger than allowed.
    """
    if counts.unknown <= min(max_unknown, WARN_UNKNOWN) * counts.pieces:
        return
    share = (
        f"--inputs {source}: {counts.unknown} of {counts.pieces} pieces "
        f"({100 * counts.unknown / counts.pieces:.1f} %) are unknown"
    )
    together = f"do the {kind}, the dictionary and the text belong together?"
    if counts.unknown > max_unknown * counts.pieces:
        raise InputError(f"{share}; valid: at most --max-unknown {max_unknown}; {together}")
    cli.say(f"warning: {share}: {together}")


@dataclass(frozen=True)
class _Plan:
    """What all files of a run share."""

    verb: str
    path: PathLike
    dictionary: Optional[PathLike]
    max_unknown: float
    steps: Optional[PathLike]
    versions: Tuple[Tuple[str, str], ...]


def apply_files(
    verb: str,
    path: PathLike,
    inputs: Sequence[PathLike],
    outputs: Sequence[PathLike],
    dictionary: Optional[PathLike] = None,
    max_unknown: float = DEFAULT_MAX_UNKNOWN,
    steps: Optional[PathLike] = None,
    workers: int = 1,
) -> Dict[str, Dict[str, int]]:
    """Write the pieces of text files.

    Args:
        verb: ``spm`` or ``bpe``.
        path: the sentencepiece model or the codes.
        inputs: text files.
        outputs: one for each input.
        dictionary: dict.txt to count unknown pieces by; default: the model's pieces.
        max_unknown: largest share of unknown pieces in a file, in [0, 1].
        steps: folder of step records; files that were made from the same text and model are then not made again.
        workers: files at a time; the result does not depend on it.

    Returns:
        Output name (with its pair's folder, where there is one) to the counts of :class:`PieceCounts`.
    """
    check_output_count(inputs, outputs)
    if not 0 <= max_unknown <= 1:
        raise InputError(f"--max-unknown {max_unknown}: valid: 0 to 1")
    if workers < 1:
        raise InputError(f"--workers {workers}: valid: 1 or more")
    versions = tuple((name, metadata.version(name)) for name in SEGMENTERS[verb].packages)
    plan = _Plan(verb, path, dictionary, max_unknown, steps, versions)
    _ready.clear()
    _segmenter_and_vocabulary(plan)  # bad models and dictionaries are refused before the first file
    jobs = [(plan, source, target) for source, target in zip(inputs, outputs)]
    found = for_each(_apply_one, jobs, workers, f"{verb} apply")
    return {piece_name(target): counts for target, counts in zip(outputs, found)}


_ready: Dict[_Plan, Tuple[Any, Any]] = {}


def _segmenter_and_vocabulary(plan: _Plan) -> Tuple[Any, Any]:
    """The segmenter of a plan; a worker reads it once, not once per file."""
    if plan not in _ready:
        _ready.clear()
        segmenter = SEGMENTERS[plan.verb](plan.path)
        _ready[plan] = segmenter, segmenter.vocabulary(plan.dictionary)
    return _ready[plan]


def _apply_one(job: Tuple[_Plan, PathLike, PathLike]) -> Dict[str, Any]:
    plan, source, target = job
    name = piece_name(target)
    step = None
    if plan.steps is not None and Path(source).is_file():
        made_from = {"text": source, SEGMENTERS[plan.verb].option: plan.path}
        if plan.dictionary is not None:
            made_from["dict"] = plan.dictionary
        options = {"max_unknown": plan.max_unknown, **dict(plan.versions)}
        step = Step(apply_record(Path(plan.steps), name), made_from, options, [target])
        done = step.recall()
        if done is not None:
            cli.say(f"{plan.verb} apply: {name}: unchanged, skipped")
            return done
        step.begin()
    segmenter, vocabulary = _segmenter_and_vocabulary(plan)
    counts = encode_file(segmenter, source, target, vocabulary, plan.max_unknown)
    if step is not None:
        step.finish(counts)
    cli.say(f"{plan.verb} apply: {name}: " + ", ".join(f"{key} {value:,}" for key, value in counts.items()))
    return counts


def decode_files(segmenter: Any, inputs: Sequence[PathLike], outputs: Sequence[PathLike]) -> None:
    """Write the text of every line of files of pieces."""
    check_output_count(inputs, outputs)
    for source, target in zip(inputs, outputs):
        count = 0
        with atomic_texts([target], "--outputs", [source]) as (file,):
            label = f"{segmenter.verb} decode {Path(source).name}"
            for line in with_progress(read_lines(source, "--inputs"), label):
                file.write(segmenter.decode(line) + "\n")
                count += 1
        cli.say(f"{segmenter.verb} decode: {target}: {count:,} lines")


def add_apply_options(commands: Any, option: str, described: str) -> None:
    """Add the commands ``apply`` and ``decode`` to a verb's parser.

    Args:
        commands: what ``add_subparsers`` returned.
        option: the option that names the model or the codes.
        described: its help text.
    """
    for name, text in (("apply", "text to pieces"), ("decode", "pieces to text")):
        command = commands.add_parser(name, help=text)
        command.add_argument(f"--{option}", required=True, metavar="FILE", help=described)
        command.add_argument("--inputs", nargs="+", required=True, metavar="FILE", help="UTF-8 files")
        command.add_argument("--outputs", nargs="+", required=True, metavar="FILE", help="one for each input")
        if name == "apply":
            command.add_argument("--dict", metavar="FILE", help="count unknown pieces by this dict.txt")
            command.add_argument(
                "--max-unknown", type=float, default=DEFAULT_MAX_UNKNOWN, metavar="R", help="most unknown pieces"
            )
            command.add_argument("--steps", metavar="DIR", help="keep records there; skip files that are unchanged")
            command.add_argument("--workers", type=int, default=1, metavar="N", help="files at a time")


def apply_or_decode(verb: str, args: argparse.Namespace) -> None:
    """Run the commands of :func:`add_apply_options`."""
    segmenter = SEGMENTERS[verb]
    path = getattr(args, segmenter.option)
    if args.command == "decode":
        decode_files(segmenter(path), args.inputs, args.outputs)
    else:
        apply_files(verb, path, args.inputs, args.outputs, args.dict, args.max_unknown, args.steps, args.workers)
