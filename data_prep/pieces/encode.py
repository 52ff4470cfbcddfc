"""Text files to files of pieces, several files at a time; unchanged files are skipped."""

import argparse
import itertools
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Collection, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .. import cli
from ..files import atomic_texts
from ..io import InputError, PathLike, check_output_count, read_lines
from ..layout import apply_record, piece_name
from ..options import add_file_options, add_flag, adder, check_minimum
from ..parallel import for_each
from ..progress import with_progress
from ..steps import Step
from ..text.sentences import END_OF_SENTENCE
from .dictionary import RESERVED
from .segmenters import Codes, SentencePiece

DEFAULT_MAX_UNKNOWN = 0.2
WARN_UNKNOWN = 0.02  # share of unknown pieces from which a warning is printed
SEGMENTERS: Mapping[str, Any] = {"spm": SentencePiece, "bpe": Codes}


@dataclass
class PieceCounts:
    """Counts of an encoded file."""

    lines: int = 0
    pieces: int = 0
    longest: int = 0
    without_pieces: int = 0
    unknown: int = 0

    def add(self, pieces: Sequence[str], vocabulary: Optional[Collection[str]]) -> None:
        """Count a line; without a vocabulary every piece is known, and ``</s>`` always is."""
        self.lines += 1
        self.pieces += len(pieces)
        self.longest = max(self.longest, len(pieces))
        self.without_pieces += not pieces
        if vocabulary is not None:
            self.unknown += sum(
                piece not in vocabulary and piece != END_OF_SENTENCE for piece in pieces
            )


@dataclass(frozen=True)
class _Plan:
    """Choices that all files of a run share."""

    verb: str
    path: PathLike
    dictionary: Optional[PathLike]
    max_unknown: float
    steps: Optional[PathLike]
    versions: Tuple[Tuple[str, str], ...]
    keeps_ends: bool = False


class _Job(NamedTuple):
    plan: _Plan
    source: PathLike
    target: PathLike


def apply_files(
    verb: str,
    path: PathLike,
    inputs: Sequence[PathLike],
    outputs: Sequence[PathLike],
    dictionary: Optional[PathLike] = None,
    max_unknown: float = DEFAULT_MAX_UNKNOWN,
    steps: Optional[PathLike] = None,
    workers: int = 1,
    keeps_ends: bool = False,
) -> Dict[str, Dict[str, int]]:
    """Write the pieces of text files, separated by spaces.

    Args:
        verb: ``spm`` or ``bpe``.
        path: the sentencepiece model or the codes.
        inputs: text files.
        outputs: one for each input.
        dictionary: dict.txt to count unknown pieces by; default: the pieces of the model.
        max_unknown: largest share of unknown pieces in a file, in [0, 1].
        steps: folder of step records; files that were made from the same text and model are then
            not made again.
        workers: files at a time; the result does not depend on it.
        keeps_ends: a word ``</s>`` of the text is fairseq's symbol.

    Returns:
        Output name (with its pair's folder, if there is one) -> fields of :class:`PieceCounts`.

    Raises:
        InputError: bad input, as in :func:`read_lines`; more unknown pieces than allowed; a piece
            that fairseq would read as another one (it splits at any white space) or as one of its
            own symbols; a word that would be lost.
    """
    check_output_count(inputs, outputs)
    if not 0 <= max_unknown <= 1:
        raise InputError(f"--max-unknown {max_unknown}: valid: 0 to 1")
    check_minimum("--workers", workers, 1)
    versions = tuple((name, metadata.version(name)) for name in SEGMENTERS[verb].packages)
    plan = _Plan(verb, path, dictionary, max_unknown, steps, versions, keeps_ends)
    _loaded.clear()
    _load(plan)  # bad models and dictionaries are refused before the first file
    jobs = [_Job(plan, source, target) for source, target in zip(inputs, outputs)]
    counts = for_each(_apply_job, jobs, workers, f"{verb} apply")
    return {piece_name(target): part for target, part in zip(outputs, counts)}


_loaded: Dict[_Plan, Tuple[Any, Optional[Collection[str]]]] = {}


def _load(plan: _Plan) -> Tuple[Any, Optional[Collection[str]]]:
    """Return segmenter and vocabulary of a plan; a worker reads them once, not once per file."""
    if plan not in _loaded:
        _loaded.clear()
        segmenter = SEGMENTERS[plan.verb](plan.path, keeps_ends=plan.keeps_ends)
        _loaded[plan] = segmenter, segmenter.vocabulary(plan.dictionary)
    return _loaded[plan]


def _apply_job(job: _Job) -> Dict[str, Any]:
    plan, name = job.plan, piece_name(job.target)
    step = None
    if plan.steps is not None and Path(job.source).is_file():
        made_from = {"text": job.source, SEGMENTERS[plan.verb].kind: plan.path}
        if plan.dictionary is not None:
            made_from["dict"] = plan.dictionary
        options = {"max_unknown": plan.max_unknown, **dict(plan.versions)}
        if plan.keeps_ends:
            options["keep_sentence_ends"] = True
        step = Step(apply_record(Path(plan.steps), name), made_from, options, [job.target])
        counts = step.recall()
        if counts is not None:
            cli.say(f"{plan.verb} apply: {name}: unchanged, skipped")
            return counts
        step.begin()
    counts = vars(_encode_file(job))
    if step is not None:
        step.finish(counts)
    cli.say(f"{plan.verb} apply: {name}: {cli.list_counts(counts)}")
    return counts


def _encode_file(job: _Job) -> PieceCounts:
    segmenter, vocabulary = _load(job.plan)
    source, counts = job.source, PieceCounts()
    label = f"{segmenter.verb} apply {Path(source).name}"
    with atomic_texts([job.target], "--outputs", [source]) as (file,):
        lines, copy = itertools.tee(with_progress(read_lines(source, "--inputs"), label))
        rows = zip(segmenter.encode(lines), copy)
        for number, (pieces, line) in enumerate(rows, start=1):
            text = " ".join(pieces)
            plain = pieces
            if segmenter.keeps_ends:
                plain = [piece for piece in pieces if piece != END_OF_SENTENCE]
            problem = _find_problem(" ".join(plain), plain) or segmenter.find_problem(line, pieces)
            if problem:
                raise InputError(f"--inputs {source}, line {number}: {problem}")
            file.write(text + "\n")
            counts.add(pieces, vocabulary)
        _check_unknown(source, counts, job.plan.max_unknown, segmenter.kind)
    return counts


def _find_problem(text: str, pieces: List[str]) -> Optional[str]:
    if text.split() == pieces and RESERVED.isdisjoint(pieces):
        return None
    piece = next(piece for piece in pieces if piece.split() != [piece] or piece in RESERVED)
    valid = f"text from python -m data_prep clean without {' '.join(sorted(RESERVED))}"
    misread = f"gives the piece {piece!r}, which fairseq would read as something else"
    return f"{misread}; valid: {valid}"


def _check_unknown(source: PathLike, counts: PieceCounts, max_unknown: float, kind: str) -> None:
    if counts.unknown <= min(max_unknown, WARN_UNKNOWN) * counts.pieces:
        return
    percent = f"{100 * counts.unknown / counts.pieces:.1f} %"
    share = f"{counts.unknown} of {counts.pieces} pieces ({percent}) are unknown"
    hint = f"do the {kind}, the dictionary and the text belong together?"
    if counts.unknown > max_unknown * counts.pieces:
        valid = f"valid: at most --max-unknown {max_unknown}"
        raise InputError(f"--inputs {source}: {share}; {valid}; {hint}")
    cli.say(f"warning: --inputs {source}: {share}: {hint}")


def decode_files(segmenter: Any, inputs: Sequence[PathLike], outputs: Sequence[PathLike]) -> None:
    """Write the text of every line of files of pieces."""
    check_output_count(inputs, outputs)
    for source, target in zip(inputs, outputs):
        count = 0
        label = f"{segmenter.verb} decode {Path(source).name}"
        with atomic_texts([target], "--outputs", [source]) as (file,):
            for line in with_progress(read_lines(source, "--inputs"), label):
                file.write(segmenter.decode(line) + "\n")
                count += 1
        cli.say(f"{segmenter.verb} decode: {target}: {count:,} lines")


def add_apply_options(commands: Any, kind: str, text: str) -> None:
    """Add the commands ``apply`` and ``decode`` to a verb's parser.

    Args:
        commands: what ``add_subparsers`` returned.
        kind: option that names the model or the codes, without dashes.
        text: its help text.
    """
    for name, description in (("apply", "text to pieces"), ("decode", "pieces to text")):
        command = commands.add_parser(name, help=description)
        add = adder(command)
        add(f"--{kind}", "FILE", text, required=True)
        add_file_options(command, "UTF-8 files", "output files, one for each input")
        ends = f"{END_OF_SENTENCE} between words is fairseq's symbol, not text"
        add_flag(command, "--keep-sentence-ends", ends)
        if name == "apply":
            add("--dict", "FILE", "dict.txt to count unknown pieces by")
            share = "largest share of unknown pieces in a file, in [0, 1]"
            add("--max-unknown", "R", share, default=DEFAULT_MAX_UNKNOWN)
            add("--steps", "DIR", "folder of records; files that are unchanged are skipped")
            add("--workers", "N", "files at a time, >= 1", default=1)


def apply_or_decode(verb: str, args: argparse.Namespace) -> None:
    """Run the commands of :func:`add_apply_options`."""
    segmenter = SEGMENTERS[verb]
    path = getattr(args, segmenter.kind)
    if args.command == "decode":
        decode_files(segmenter(path, keeps_ends=args.keep_sentence_ends), args.inputs, args.outputs)
        return
    files = args.inputs, args.outputs
    settings = args.dict, args.max_unknown, args.steps, args.workers, args.keep_sentence_ends
    apply_files(verb, path, *files, *settings)
