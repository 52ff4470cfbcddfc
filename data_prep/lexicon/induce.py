"""Mapped word vectors to a lexicon of both directions: the nearest words of the other language by CSLS."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence

from .. import cli
from ..files import atomic_texts
from ..io import InputError, PathLike
from ..progress import heartbeat
from ..steps import write_manifest
from .files import FORMS, MUSE, TSV, Entry, check_places, package, write_entries
from .vectors import read_vectors

DEFAULT_TOP = 10
FEWEST_WORDS = 2


@dataclass(frozen=True)
class LexiconOptions:
    """What a lexicon holds.

    Args:
        top: candidates of a word; fewer where the other side has fewer words.
        form: ``tsv`` (source, target, CSLS, rank) or ``muse`` (pairs).
        max_words: most frequent words of each side; None: all.
        neighbours: nearest words of CSLS.
        block: words of each side that are compared at a time.
        device: of torch.
    """

    top: int = DEFAULT_TOP
    form: str = TSV
    max_words: Optional[int] = None
    neighbours: int = 10
    block: int = 4096
    device: str = "cpu"

    def __post_init__(self) -> None:
        for option in ("top", "neighbours", "block"):
            if getattr(self, option) < 1:
                raise InputError(f"--{option} {getattr(self, option)}: valid: 1 or more")
        if self.form not in FORMS:
            raise InputError(f"--form {self.form}: valid: {', '.join(FORMS)}")
        check_max_words(self.max_words)

    def shown(self) -> Dict[str, Any]:
        """For a manifest: what shapes the lexicon."""
        return {
            "top": self.top,
            "form": self.form,
            "max_words": self.max_words,
            "neighbours": self.neighbours,
        }


def induce(
    source: PathLike,
    target: PathLike,
    outputs: Sequence[PathLike],
    manifest: PathLike,
    options: LexiconOptions,
) -> Dict[str, Any]:
    """Write the lexicons of mapped vectors, and a manifest.

    Args:
        source: word2vec's text of the source, mapped.
        target: of the target, in the same space.
        outputs: the lexicon from source to target, and, if it is wanted, the one back.
        manifest: JSON: options, mutual-neighbour rate, margin, objective, what looks random, what was not checked, hashes.
        options: what the lexicons hold.

    Returns:
        The manifest's counts.

    Raises:
        InputError: bad vectors, as in :func:`read_vectors`; other dimensions; vectors that are not in one space; an output or
            the manifest in the place of another file; no such device.
    """
    places = [*zip(("--output", "--reverse"), outputs), ("manifest", manifest)]
    check_places([("--source", source), ("--target", target)], places)
    place = torch_device(options.device)
    names = ((source, "--source"), (target, "--target"))
    sides = [read_vectors(path, name, options.max_words) for path, name in names]
    check_dimensions(sides, source, target)
    with package():
        import torch

        from fairseq_plugins.ops.csls import Csls
        from fairseq_plugins.ops.neighbours import unit_rows

        from .checks import look

    x, y = (unit_rows(torch.from_numpy(side.vectors).to(place)) for side in sides)
    words = [side.words for side in sides]
    with heartbeat(f"induce_lexicon: {len(x):,} and {len(y):,} words"):
        verdict = look(x, y, words, options.neighbours, options.block)
        if verdict.unaligned:
            raise InputError(
                f"--source {source} and --target {target}: {verdict.warnings[0]}; valid: vectors in one space (map_vectors)"
            )
        ranked = Csls(x, y, options.neighbours, options.block).ranked(options.top)
    for warning in verdict.warnings:
        cli.say(f"induce_lexicon: warning: {warning} (are both files mapped into one space?)")
    for text in verdict.not_checked:
        cli.say(f"induce_lexicon: not checked: {text}")
    left_out = 0
    with atomic_texts(outputs, "--output", [source, target]) as files:
        for side, file in enumerate(files):
            left_out += write_entries(
                file, entries(words[side], words[1 - side], ranked[side]), options.form
            )
        Path(manifest).unlink(
            missing_ok=True
        )  # first: it must not stand beside lexicons that it does not describe
    if left_out:
        cli.say(
            f"induce_lexicon: warning: {left_out:,} pairs left out: a word with a blank does not fit --form {MUSE}"
        )
    counts = {
        "words": [len(each) for each in words],
        "candidates": ranked[0].places.size(1),
        **verdict.as_json(),
    }
    write_manifest(manifest, "induce_lexicon", options.shown(), counts, [source, target], outputs)
    return counts


def entries(words: List[str], candidates: List[str], ranked: Any) -> Iterator[Entry]:
    """The entries of a side, its words in their order."""
    for word, places, scores in zip(words, ranked.places.tolist(), ranked.scores.tolist()):
        for rank, (place, score) in enumerate(zip(places, scores), start=1):
            yield Entry(word, candidates[place], score, rank)


def check_max_words(number: Optional[int]) -> None:
    """Check how many words of each side are read.

    Raises:
        InputError: fewer than 2.
    """
    if number is not None and number < FEWEST_WORDS:
        raise InputError(f"--max-words {number}: valid: {FEWEST_WORDS} or more")


def check_dimensions(sides: List[Any], source: PathLike, target: PathLike) -> None:
    """Check that both sides have vectors of one dimension.

    Raises:
        InputError: they have not.
    """
    first, second = (side.vectors.shape[1] for side in sides)
    if first != second:
        raise InputError(
            f"--target {target}: {second} dimensions, but --source {source} has {first}; valid: equal ones"
        )


def torch_device(name: str) -> Any:
    """Return torch's device.

    Raises:
        InputError: there is no such device here.
    """
    import torch

    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"--device {name}: {str(error).splitlines()[0]}; valid here: cpu{_gpu()}"
        ) from None
    return torch.device(name)


def _gpu() -> str:
    import torch

    return ", cuda" if torch.cuda.is_available() else ""


def add_device_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where and in what pieces torch computes."""
    parser.add_argument("--device", default="cpu", metavar="NAME", help="cpu or cuda")
    parser.add_argument(
        "--threads", type=int, metavar="N", help="of torch on the CPU (default: torch's own)"
    )
    parser.add_argument(
        "--block",
        type=int,
        default=4096,
        metavar="N",
        help="words of each side compared at a time: memory is its square",
    )


def set_threads(threads: Optional[int]) -> None:
    """Set torch's threads.

    Raises:
        InputError: fewer than 1.
    """
    import torch

    if threads is not None and threads < 1:
        raise InputError(f"--threads {threads}: valid: 1 or more")
    if threads is not None:
        torch.set_num_threads(threads)


def build_parser() -> argparse.ArgumentParser:
    """Return the options of ``python -m data_prep.induce_lexicon``."""
    parser = cli.parser("induce_lexicon", __doc__)
    parser.add_argument(
        "--source",
        required=True,
        metavar="FILE",
        help="mapped vectors of the source, word2vec's text",
    )
    parser.add_argument(
        "--target",
        required=True,
        metavar="FILE",
        help="mapped vectors of the target, in the same space",
    )
    parser.add_argument(
        "--output", required=True, metavar="FILE", help="the lexicon from source to target"
    )
    parser.add_argument("--reverse", metavar="FILE", help="the lexicon from target to source")
    add_lexicon_options(parser)
    parser.add_argument(
        "--neighbours", type=int, default=10, metavar="N", help="nearest words of CSLS"
    )
    parser.add_argument(
        "--max-words", type=int, metavar="N", help="most frequent words of each side (default: all)"
    )
    add_device_options(parser)
    return parser


def add_lexicon_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what a lexicon holds."""
    parser.add_argument(
        "--top", type=int, default=DEFAULT_TOP, metavar="N", help="candidates of a word"
    )
    parser.add_argument(
        "--form",
        choices=FORMS,
        default=TSV,
        help="source, target, score, rank; or pairs as MUSE's and vecmap's",
    )


def lexicon_options(args: argparse.Namespace) -> LexiconOptions:
    """Return the options of a parsed command line."""
    max_words = getattr(args, "max_words", None)
    return LexiconOptions(args.top, args.form, max_words, args.neighbours, args.block, args.device)


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    args = build_parser().parse_args(argv)
    set_threads(args.threads)
    outputs = [args.output, *([args.reverse] if args.reverse else [])]
    counts = induce(args.source, args.target, outputs, f"{args.output}.json", lexicon_options(args))
    cli.say(f"induce_lexicon: {args.output}: {counts['candidates']} candidates per word")
