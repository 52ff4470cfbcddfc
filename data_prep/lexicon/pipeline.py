"""Two texts to lexicons of both directions: words, word vectors, one space, nearest words. Finished steps are skipped."""

import argparse
from functools import partial
from pathlib import Path
from typing import Any, Callable, ContextManager, Dict, List, Mapping, Optional, Sequence

from .. import cli
from ..files import leftovers, locked
from ..io import InputError, PathLike, read_json
from ..layout import parse_pairs
from ..steps import Step, write_manifest
from . import induce as induce_lexicon
from . import mapping as map_vectors
from . import word_vectors, words
from .files import Named, check_places, check_readable, version

MANIFEST, MAP_REPORT, LEXICON_REPORT = "manifest.json", "map.json", "lexicon.json"
KINDS = ("words", "vectors", "mapped")


class Pipeline:
    """The steps of one pair of languages.

    Everything but the lexicons is in ``OUT/SOURCE-TARGET``. Before a step is done again, the manifest is removed: where it is, it
    describes what is there. The lexicons of an earlier run stay until the last step replaces both of them, and a run in the other
    direction has the same ones: before it, its manifest is removed too.

    Args:
        output: the folder OUT.
        pair: the two languages.
        texts: their texts.
    """

    def __init__(self, output: PathLike, pair: Sequence[str], texts: Sequence[PathLike]):
        self.pair, self.texts = list(pair), [Path(text) for text in texts]
        self.top = Path(output)
        self.folder = self.top / "-".join(pair)
        self.lexicons = [self.top / f"{first}-{second}.tsv" for first, second in (pair, pair[::-1])]
        self.manifest = self.folder / MANIFEST
        self.opposite = self.top / "-".join(pair[::-1]) / MANIFEST
        self.map_report, self.lexicon_report = (
            self.folder / MAP_REPORT,
            self.folder / LEXICON_REPORT,
        )
        self.skipped: List[str] = []

    def file(self, kind: str, language: str) -> Path:
        """The file of a kind of a language."""
        return self.folder / kind / f"{language}.{'txt' if kind == 'words' else 'vec'}"

    def files(self, kind: str) -> List[Path]:
        """Those of both languages."""
        return [self.file(kind, language) for language in self.pair]

    def outputs(self) -> List[Path]:
        """What the manifest describes."""
        return [*(path for kind in KINDS for path in self.files(kind)), *self.lexicons]

    def check(self, inputs: Sequence[Named]) -> None:
        """Check, before any work, that no input is overwritten.

        Args:
            inputs: option and file.

        Raises:
            InputError: one is a file of the folder that is written, or OUT is a file.
        """
        if self.top.exists() and not self.top.is_dir():
            raise InputError(f"--out {self.top}: a file; valid: a folder, which need not be there")
        made = [*self.outputs(), self.map_report, self.lexicon_report, self.manifest]
        notes = [Path(f"{path}.json") for kind in KINDS[:2] for path in self.files(kind)]
        check_places(inputs, [("--out", path) for path in (*made, *notes)])

    def locked(self) -> ContextManager[None]:
        """Keep other runs of this pair, in either direction, out of OUT. A kill frees it.

        Raises:
            InputError: another run is at work there.
        """
        return locked(
            self.top / f".{'-'.join(sorted(self.pair))}.lock",
            f"--out {self.top} ({'-'.join(self.pair)})",
        )

    def run(
        self,
        name: str,
        inputs: Mapping[str, Path],
        options: Mapping[str, Any],
        outputs: Sequence[Path],
        work: Callable[[], Any],
    ) -> None:
        """Do a step, unless it was done with the same inputs and options."""
        step = Step(self.folder / ".steps" / f"{name}.json", inputs, options, outputs)
        if step.recall() is not None:
            self.skipped.append(name)
            cli.say(f"lexicon: {name}: unchanged, skipped")
            return
        cli.say(f"lexicon: {name}")
        step.begin()
        self.manifest.unlink(missing_ok=True)
        if set(outputs) & set(self.lexicons):
            self.opposite.unlink(missing_ok=True)
        work()
        step.finish({})

    def clean(self) -> None:
        """Remove what a kill left unfinished of this pair; another pair may be at work in OUT."""
        folders = [self.folder / name for name in (".", *KINDS, ".steps")]
        paths = [path for folder in folders for path in leftovers(folder)]
        paths += [path for lexicon in self.lexicons for path in leftovers(self.top, lexicon.name)]
        for path in paths:
            path.unlink(missing_ok=True)


def make_lexicons(
    pipeline: Pipeline,
    text: Mapping[str, Any],
    vectors: word_vectors.VectorOptions,
    mapping: map_vectors.MapOptions,
    lexicon: induce_lexicon.LexiconOptions,
) -> Dict[str, Any]:
    """Do all steps.

    Args:
        pipeline: the pair, its texts and its folder.
        text: ``cased``, and ``segmenters``, one for each language or None.
        vectors: of the word vectors.
        mapping: of the maps.
        lexicon: of the lexicons.

    Returns:
        The manifest's counts.

    Raises:
        InputError: an option or a file that cannot be used, before the first step; another run is at work there; as in the steps.
    """
    _check(pipeline, text["segmenters"], mapping)
    with pipeline.locked():
        pipeline.clean()
        _words_and_vectors(pipeline, text, vectors)
        _map_and_induce(pipeline, mapping, lexicon)
        reports = {"map": pipeline.map_report, "lexicon": pipeline.lexicon_report}
        counts = {name: (read_json(path) or {}).get("counts", {}) for name, path in reports.items()}
        counts["map"] = {
            name: value
            for name, value in counts["map"].items()
            if name not in ("objective", "keep")
        }
        options = {**text, "vectors": vars(vectors), "map": mapping.shown(), **lexicon.shown()}
        write_manifest(
            pipeline.manifest, "lexicon", options, counts, pipeline.texts, pipeline.outputs()
        )
    return counts


def _check(
    pipeline: Pipeline, segmenters: Sequence[Optional[str]], mapping: map_vectors.MapOptions
) -> None:
    """What can be known before the first step."""
    inputs: List[Named] = [*zip(("--source", "--target"), pipeline.texts)]
    for option, path in inputs:
        check_readable(path, option, "a text file")
    for segmenter in segmenters:
        words.load_segmenter(segmenter or words.SPACES)
    mapping.check()
    if mapping.dictionary is not None:
        inputs.append(("--dictionary", mapping.dictionary))
    pipeline.check(inputs)


def _words_and_vectors(
    pipeline: Pipeline, text: Mapping[str, Any], vectors: word_vectors.VectorOptions
) -> None:
    for language, path, segmenter in zip(pipeline.pair, pipeline.texts, text["segmenters"]):
        chosen = {"segmenter": segmenter, "cased": text["cased"]}
        output = pipeline.file("words", language)
        cut = partial(words.write_words, [path], [output], **chosen)
        pipeline.run(f"words.{language}", {"text": path}, words.shown(**chosen), [output], cut)
    for language in pipeline.pair:
        source, output = pipeline.file("words", language), pipeline.file("vectors", language)
        train = partial(word_vectors.write_word_vectors, source, output, vectors)
        shown = {**vars(vectors), "gensim": version("gensim")}
        pipeline.run(f"vectors.{language}", {"words": source}, shown, [output], train)


def _map_and_induce(
    pipeline: Pipeline, mapping: map_vectors.MapOptions, lexicon: induce_lexicon.LexiconOptions
) -> None:
    vectors, mapped = pipeline.files("vectors"), pipeline.files("mapped")
    report, second_report = pipeline.map_report, pipeline.lexicon_report
    inputs = dict(zip(("source", "target"), vectors))
    if mapping.dictionary is not None:
        inputs["dictionary"] = Path(mapping.dictionary)
    learn = partial(
        map_vectors.map_files, vectors[0], vectors[1], (mapped[0], mapped[1]), report, mapping
    )
    pipeline.run("map", inputs, mapping.shown(), [*mapped, report], learn)
    inputs = dict(zip(("source", "target"), mapped))
    induce = partial(
        induce_lexicon.induce, mapped[0], mapped[1], pipeline.lexicons, second_report, lexicon
    )
    pipeline.run("lexicon", inputs, lexicon.shown(), [*pipeline.lexicons, second_report], induce)


def build_parser() -> argparse.ArgumentParser:
    """Return the options of ``python -m data_prep.lexicon``."""
    parser = cli.parser("lexicon", __doc__)
    parser.add_argument(
        "--source",
        required=True,
        metavar="FILE",
        help="text of one language, one sentence per line",
    )
    parser.add_argument(
        "--target",
        required=True,
        metavar="FILE",
        help="text of the other; the two need not be translations",
    )
    parser.add_argument(
        "--out",
        required=True,
        metavar="DIR",
        help="gets SOURCE-TARGET.tsv, TARGET-SOURCE.tsv, and a folder",
    )
    parser.add_argument("--source-lang", metavar="LANG", help="default: the ending of --source")
    parser.add_argument("--target-lang", metavar="LANG", help="default: the ending of --target")
    words.add_word_options(parser)
    parser.add_argument("--source-segmenter", metavar="NAME", help="of --source alone")
    parser.add_argument("--target-segmenter", metavar="NAME", help="of --target alone")
    word_vectors.add_vector_options(parser)
    parser.add_argument(
        "--dictionary", metavar="FILE", help="with --seed-from dictionary: pairs to begin with"
    )
    map_vectors.add_map_options(parser)
    induce_lexicon.add_lexicon_options(parser)
    induce_lexicon.add_device_options(parser)
    return parser


def languages(args: argparse.Namespace) -> List[str]:
    """Return the two languages.

    Raises:
        InputError: one is neither given nor the ending of its file; both are the same.
    """
    found = []
    for side in ("source", "target"):
        path, given = getattr(args, side), getattr(args, f"{side}_lang")
        language = given if given is not None else Path(path).suffix[1:]
        if not language:
            raise InputError(
                f"--{side}-lang: missing, and --{side} {path} has no ending that names it; valid: a code, as en"
            )
        found.append(language)
    try:
        parse_pairs("-".join(found))
    except InputError:
        raise InputError(
            f"--source-lang {found[0]}, --target-lang {found[1]}: valid: two different codes without '-', '/', ',' or white space"
        ) from None
    return found


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    args = build_parser().parse_args(argv)
    pipeline = Pipeline(args.out, languages(args), (args.source, args.target))
    vectors = word_vectors.vector_options(args)
    induce_lexicon.set_threads(args.threads)
    mapping = map_vectors.map_options(args)
    lexicon = induce_lexicon.lexicon_options(args)
    segmenters = [args.source_segmenter or args.segmenter, args.target_segmenter or args.segmenter]
    text = {"segmenters": segmenters, "cased": args.cased}
    make_lexicons(pipeline, text, vectors, mapping, lexicon)
    cli.say(
        f"lexicon: {pipeline.lexicons[0]} and {pipeline.lexicons[1]}; hashes and what was found in {pipeline.manifest}"
    )
