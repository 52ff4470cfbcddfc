"""Words to word vectors: gensim's Word2Vec, written as word2vec's text."""

from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

from .. import cli
from ..io import InputError, PathLike, read_lines
from ..options import Options, add_fields, adder, from_args, option
from ..steps import write_manifest
from .files import check_places, quiet
from .vectors import MIN_WORDS, WordVectors, write_vectors

SKIPGRAM, CBOW = "skipgram", "cbow"


@dataclass(frozen=True)
class VectorOptions(Options):
    """Options of Word2Vec."""

    dim: int = option(200, "numbers per word, >= 1", minimum=1)
    window: int = option(10, "most words to each side, >= 1", minimum=1)
    negative: int = option(10, "sampled words per word, >= 1", minimum=1)
    epochs: int = option(10, "passes over the text, >= 1", minimum=1)
    min_count: int = option(5, "least count of a word, >= 1", minimum=1)
    method: str = option(SKIPGRAM, "method of learning", choices=(SKIPGRAM, CBOW))
    seed: int = option(1, "seed of initial vectors and samples", minimum=0, maximum=2**32 - 1)
    workers: int = option(
        1, "threads of gensim, >= 1; only 1 gives the same vectors each time", minimum=1
    )


class _Sentences:
    """The sentences of a file of words, as often as gensim asks for them."""

    def __init__(self, path: PathLike):
        self.path = path

    def __iter__(self) -> Iterator[List[str]]:
        for line in read_lines(self.path, "--input"):
            yield line.split()


def train_vectors(path: PathLike, options: VectorOptions) -> WordVectors:
    """Train the vectors of a file of words.

    Args:
        path: words separated by blanks, one sentence per line.
        options: options of Word2Vec.

    Returns:
        The words that are frequent enough, the most frequent first.

    Raises:
        InputError: gensim is missing; bad input, as in :func:`read_lines`; fewer than two words
            are frequent enough.
    """
    with quiet("gensim"):  # it reports the end of every thread
        return _train(path, options)


def _train(path: PathLike, options: VectorOptions) -> WordVectors:
    try:
        from gensim.models import Word2Vec
        from gensim.models.callbacks import CallbackAny2Vec
    except ImportError:
        reason = "the package gensim is missing"
        raise InputError(f"word_vectors: {reason}; valid: pip install gensim") from None

    class Progress(CallbackAny2Vec):
        """Report every epoch."""

        epoch = 0

        def on_epoch_end(self, model: Any) -> None:
            self.epoch += 1
            cli.say(f"word_vectors: {path}: epoch {self.epoch} of {options.epochs}")

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
    sentences, epochs = _Sentences(path), options.epochs
    model.build_vocab(sentences)
    count = len(model.wv)
    if count < MIN_WORDS:
        problem = f"{count} words come {options.min_count} times or more (--min-count)"
        valid = "words, separated by blanks, as python -m data_prep words writes them"
        raise InputError(f"--input {path}: {problem}; valid: {MIN_WORDS} or more {valid}")
    size = model.corpus_count
    model.train(sentences, total_examples=size, epochs=epochs, callbacks=[Progress()])
    return WordVectors(list(model.wv.index_to_key), model.wv.vectors)


def write_word_vectors(path: PathLike, output: PathLike, options: VectorOptions) -> Dict[str, int]:
    """Write the vectors of a file of words, and a manifest (OUTPUT.json).

    Returns:
        Counts: ``words``, ``dim``.

    Raises:
        InputError: as in :func:`train_vectors`; an output is the input.
    """
    manifest = Path(f"{output}.json")
    places = [("--output", output), ("manifest of --output", manifest)]
    check_places([("--input", path)], places)
    vectors = train_vectors(path, options)
    manifest.unlink(missing_ok=True)  # it must not stand beside other vectors
    write_vectors([output], "--output", [vectors], [path])
    counts = {"words": len(vectors.words), "dim": options.dim}
    all_options = {**asdict(options), "gensim": metadata.version("gensim")}
    write_manifest(manifest, "word_vectors", all_options, counts, [path], [output])
    return counts


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    parser = cli.parser("word_vectors", __doc__)
    add = adder(parser)
    text = "words separated by blanks, one sentence per line"
    add("--input", "FILE", text, required=True)
    add("--output", "FILE", "vectors, word2vec's text", required=True)
    add_fields(parser, VectorOptions)
    args = parser.parse_args(argv)
    counts = write_word_vectors(args.input, args.output, from_args(VectorOptions, args))
    sizes = f"{counts['words']:,} words, {counts['dim']} dimensions"
    cli.say(f"word_vectors: {args.output}: {sizes}")
