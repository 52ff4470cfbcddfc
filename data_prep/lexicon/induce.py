"""Mapped word vectors to a lexicon of both directions: the nearest words of each word."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from .. import cli
from ..files import atomic_texts
from ..io import InputError, PathLike
from ..options import Options, add_fields, adder, from_args, option
from ..progress import heartbeat
from ..steps import write_manifest
from .certainty import judge, report
from .files import FORMS, MUSE, TSV, Entry, check_places, plugins, write_entries
from .vectors import MIN_WORDS, add_device_options, find_device, read_sides, set_threads

CSLS, COSINE, DOT_PRODUCT = "csls", "cosine", "dot-product"
SCORES = (CSLS, COSINE, DOT_PRODUCT)


@dataclass(frozen=True)
class LexiconOptions(Options):
    """Options of a lexicon; `block` words of each side are compared at a time, on `device`."""

    top: int = option(10, "most candidates of a word, >= 1", minimum=1)
    form: str = option(
        TSV, "columns: source, target, score, rank; or pairs as MUSE's and vecmap's", choices=FORMS
    )
    max_words: Optional[int] = option(
        None, "most frequent words of each side, >= 2 (default: all)", minimum=MIN_WORDS
    )
    neighbours: int = option(10, "nearest words of CSLS, >= 1", minimum=1)
    nearest_by: str = option(
        CSLS,
        "score of two words: csls; cosine (dot product of vectors of length 1); dot-product of the "
        "mapped vectors as they are, as in CSR",
        choices=SCORES,
    )
    block: int = option(4096, "words of each side compared at a time, >= 1", minimum=1)
    device: str = "cpu"

    def as_json(self) -> Dict[str, Any]:
        """Return the options that shape the lexicon, for a manifest."""
        names = ["top", "form", "max_words", "neighbours"]
        if self.nearest_by != CSLS:  # lexicons of earlier versions stay unchanged
            names.append("nearest_by")
        return {name: getattr(self, name) for name in names}


def induce(
    source: PathLike,
    target: PathLike,
    outputs: Sequence[PathLike],
    manifest: PathLike,
    options: LexiconOptions,
) -> Dict[str, Any]:
    """Write the lexicons of mapped vectors, and a manifest.

    Args:
        source: mapped vectors of the source, word2vec's text.
        target: vectors of the target, in the same space.
        outputs: the lexicon from source to target, and optionally the one back.
        manifest: JSON with options, certainty of the lexicon, hashes.
        options: options of the lexicons.

    Returns:
        The counts of the manifest.

    Raises:
        InputError: bad vectors, as in :func:`read_sides`; vectors that are not in one space; an
            output or the manifest in the place of another file; no such device.
    """
    inputs = [("--source", source), ("--target", target)]
    check_places(inputs, [*zip(("--output", "--reverse"), outputs), ("manifest", manifest)])
    device = find_device(options.device)
    sides = read_sides(source, target, options.max_words)
    with plugins():
        import torch

        from fairseq_plugins.ops.neighbours import unit_rows

    vectors = [torch.from_numpy(side.vectors).to(device).float() for side in sides]
    x, y = map(unit_rows, vectors)
    words = [side.words for side in sides]
    with heartbeat(f"induce_lexicon: {len(x):,} and {len(y):,} words"):
        verdict = judge(x, y, words, options.neighbours, options.block)
        if verdict.is_unaligned():
            pair = f"--source {source} and --target {target}"
            valid = "vectors in one space (map_vectors)"
            raise InputError(f"{pair}: {verdict.warnings[0]}; valid: {valid}")
        ranked = rank_words(vectors if options.nearest_by == DOT_PRODUCT else [x, y], options)
    hint = "are both files mapped into one space?"
    warnings = [f"{warning} ({hint})" for warning in verdict.warnings]
    report("induce_lexicon", warnings, verdict.not_checked)
    left_out = 0
    with atomic_texts(outputs, "--output", [source, target]) as opened:
        for side, file in enumerate(opened):
            entries = list_entries(words[side], words[1 - side], ranked[side])
            left_out += write_entries(file, entries, options.form)
        Path(manifest).unlink(missing_ok=True)  # it must not stand beside other lexicons
    if left_out:
        reason = f"a word with a blank does not fit --form {MUSE}"
        cli.say(f"induce_lexicon: warning: {left_out:,} pairs left out: {reason}")
    counts = {"words": [len(side) for side in words], "candidates": ranked[0].places.size(1)}
    counts.update(verdict.as_json())
    files = [source, target]
    write_manifest(manifest, "induce_lexicon", options.as_json(), counts, files, outputs)
    return counts


def rank_words(vectors: Sequence[Any], options: LexiconOptions) -> Tuple[Any, Any]:
    """Return the best partners of each word of both sides.

    Args:
        vectors: (M, C) and (N, C); rows of length 1, unless the dot product of others is asked for.
        options: options of the lexicons.
    """
    from fairseq_plugins.ops.csls import Csls, Products

    x, y = vectors
    if options.nearest_by == CSLS:
        return Csls(x, y, options.neighbours, options.block).ranked(options.top)
    return Products(x, y, options.block).ranked(options.top)


def list_entries(words: List[str], candidates: List[str], ranked: Any) -> Iterator[Entry]:
    """Yield the entries of a side, its words in their order.

    Args:
        words: the N words of the side.
        candidates: words of the other side.
        ranked: ``places`` among the candidates and ``scores``, (N, K) each, the best first.
    """
    for word, places, scores in zip(words, ranked.places.tolist(), ranked.scores.tolist()):
        for rank, (place, score) in enumerate(zip(places, scores), start=1):
            yield Entry(word, candidates[place], score, rank)


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    parser = cli.parser("induce_lexicon", __doc__)
    add = adder(parser)
    add("--source", "FILE", "mapped vectors of the source, word2vec's text", required=True)
    add("--target", "FILE", "vectors of the target, in the same space", required=True)
    add("--output", "FILE", "lexicon from source to target", required=True)
    add("--reverse", "FILE", "lexicon from target to source")
    add_fields(parser, LexiconOptions, leave_out=["block"])
    add_device_options(add)
    args = parser.parse_args(argv)
    set_threads(args.threads)
    outputs = [args.output, args.reverse] if args.reverse else [args.output]
    options = from_args(LexiconOptions, args)
    counts = induce(args.source, args.target, outputs, f"{args.output}.json", options)
    cli.say(f"induce_lexicon: {args.output}: {counts['candidates']} candidates per word")
