"""Words to word vectors: gensim's Word2Vec, written as word2vec's text."""

import argparse
from dataclasses import asdict, dataclass, fields
from importlib import metadata
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

from .. import cli
from ..io import InputError, PathLike, read_lines
from ..steps import write_manifest
from .files import check_places, quiet
from .vectors import WordVectors, write_vectors

SKIPGRAM, CBOW = "skipgram", "cbow"
METHODS = (SKIPGRAM, CBOW)


@dataclass(frozen=True)
class VectorOptions:
    """What shapes the vectors.

    Args:
        dim: numbers per word.
        window: words to each side, at most.
        negative: sampled words per word.
        epochs: passes over the text.
        min_count: rarer words are left out.
        method: ``skipgram`` or ``cbow``.
        seed: of the initial vectors and the samples.
        workers: threads; only 1 gives the same vectors each time.
    """

    dim: int = 200
    window: int = 10
    negative: int = 10
    epochs: int = 10
    min_count: int = 5
    method: str = SKIPGRAM
    seed: int = 1
    workers: int = 1

    def __post_init__(self) -> None:
        for name in ("dim", "window", "negative", "epochs", "min_count", "workers"):
            if getattr(self, name) < 1:
                raise InputError(
                    f"--{name.replace('_', '-')} {getattr(self, name)}: valid: 1 or more"
                )
        if not 0 <= self.seed < 2**32:
            raise InputError(f"--seed {self.seed}: valid: 0 to 4294967295")
        if self.method not in METHODS:
            raise InputError(f"--method {self.method}: valid: {', '.join(METHODS)}")


class Sentences:
    """The sentences of a file of words, as often as they are asked for."""

    def __init__(self, path: PathLike):
        self.path = path

    def __iter__(self) -> Iterator[List[str]]:
        for line in read_lines(self.path, "--input"):
            yield line.split()


def train_vectors(path: PathLike, options: VectorOptions) -> WordVectors:
    """Train the vectors of a file of words.

    Args:
        path: words separated by blanks, one sentence per line.
        options: what shapes the vectors.

    Returns:
        The words that are frequent enough, the most frequent first.

    Raises:
        InputError: gensim is missing; bad input, as in :func:`read_lines`; fewer than two words are frequent enough.
    """
    with quiet("gensim"):  # it tells every thread's end, once fairseq has made its notes visible
        return _train(path, options)


def _train(path: PathLike, options: VectorOptions) -> WordVectors:
    try:
        from gensim.models import Word2Vec
        from gensim.models.callbacks import CallbackAny2Vec
    except ImportError:
        raise InputError(
            "word_vectors: the package gensim is missing; valid: pip install gensim"
        ) from None

    class Progress(CallbackAny2Vec):
        """One line per epoch."""

        done = 0

        def on_epoch_end(self, model: Any) -> None:
            self.done += 1
            cli.say(f"word_vectors: {path}: epoch {self.done} of {options.epochs}")

    model = Word2Vec(
        vector_size=options.dim,
        window=options.window,
        negative=options.negative,
        epochs=options.epochs,
        min_count=options.min_count,
        sg=int(options.method == SKIPGRAM),
        seed=options.seed,
        workers=options.workers,
    )
    sentences = Sentences(path)
    model.build_vocab(sentences)
    if len(model.wv) < 2:
        raise InputError(
            f"--input {path}: {len(model.wv)} words come {options.min_count} times or more (--min-count); valid: 2 or more "
            "words, separated by blanks, as python -m data_prep.words writes them"
        )
    model.train(
        sentences, total_examples=model.corpus_count, epochs=options.epochs, callbacks=[Progress()]
    )
    return WordVectors(list(model.wv.index_to_key), model.wv.vectors)


def write_word_vectors(path: PathLike, output: PathLike, options: VectorOptions) -> Dict[str, int]:
    """Write the vectors of a file of words, and a manifest (the output's name + ``.json``).

    Returns:
        Counts: ``words``, ``dim``.

    Raises:
        InputError: as in :func:`train_vectors`; an output is the input.
    """
    manifest = Path(f"{output}.json")
    check_places([("--input", path)], [("--output", output), ("manifest of --output", manifest)])
    found = train_vectors(path, options)
    manifest.unlink(missing_ok=True)  # never beside other vectors
    write_vectors([output], "--output", [found], [path])
    counts = {"words": len(found.words), "dim": options.dim}
    shown = {**asdict(options), "gensim": metadata.version("gensim")}
    write_manifest(manifest, "word_vectors", shown, counts, [path], [output])
    return counts


def build_parser() -> argparse.ArgumentParser:
    """Return the options of ``python -m data_prep.word_vectors``."""
    parser = cli.parser("word_vectors", __doc__)
    parser.add_argument(
        "--input",
        required=True,
        metavar="FILE",
        help="words separated by blanks, one sentence per line",
    )
    parser.add_argument("--output", required=True, metavar="FILE", help="word2vec's text")
    add_vector_options(parser)
    return parser


def add_vector_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of :class:`VectorOptions`."""
    helps = {
        "dim": "numbers per word",
        "window": "words to each side, at most",
        "negative": "sampled words per word",
        "epochs": "passes over the text",
        "min_count": "leave out rarer words",
        "method": "how the vectors are learned",
        "seed": "of everything random",
        "workers": "threads of gensim; only 1 gives the same vectors each time",
    }
    for field in fields(VectorOptions):
        number = field.name != "method"
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=int if number else str,
            default=field.default,
            choices=None if number else METHODS,
            metavar="N" if number else None,
            help=helps[field.name],
        )


def vector_options(args: Any) -> VectorOptions:
    """Return the options of a parsed command line."""
    return VectorOptions(
        **{field.name: getattr(args, field.name) for field in fields(VectorOptions)}
    )


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    args = build_parser().parse_args(argv)
    counts = write_word_vectors(args.input, args.output, vector_options(args))
    cli.say(f"word_vectors: {args.output}: {counts['words']:,} words, {counts['dim']} dimensions")
