"""Two texts to lexicons of both directions: words, vectors, one space, nearest words."""

import argparse
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import (
    Any,
    Callable,
    ContextManager,
    Dict,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
)

from .. import cli
from ..files import leftovers, locked
from ..io import InputError, PathLike, read_json
from ..layout import MANIFEST, STEPS_FOLDER, parse_pairs
from ..options import add_fields, adder, from_args
from ..steps import Step, write_manifest
from . import induce, mapping, words
from .files import Named, check_places, check_readable, read_version
from .induce import LexiconOptions
from .mapping import MapOptions
from .vectors import add_device_options, set_threads
from .word_vectors import VectorOptions, write_word_vectors

KINDS = ("words", "vectors", "mapped")


class PipelineOptions(NamedTuple):
    """Options of all steps.

    Attributes:
        cased: keep upper case.
        segmenters: segmenter of each language, or None.
        vectors: options of the word vectors.
        mapping: options of the maps.
        lexicon: options of the lexicons.
    """

    cased: bool
    segmenters: Sequence[Optional[str]]
    vectors: VectorOptions
    mapping: MapOptions
    lexicon: LexiconOptions

    def as_json(self) -> Dict[str, Any]:
        """Return the options for a manifest."""
        text = {"cased": self.cased, "segmenters": list(self.segmenters)}
        steps = {"vectors": asdict(self.vectors), "map": self.mapping.as_json()}
        return {**text, **steps, **self.lexicon.as_json()}


class Pipeline:
    """The steps of a pair of languages; finished steps are skipped.

    All but the lexicons is in OUT/SOURCE-TARGET. Before a step is done again, the manifest is
    removed: it always describes what is there. The last step replaces both lexicons, which stay
    until then. A run in the other direction writes the same two files: its manifest lists them
    too, so it is removed as well before that step.

    Args:
        output: the folder OUT.
        pair: the two languages.
        texts: their texts.
    """

    def __init__(self, output: PathLike, pair: Sequence[str], texts: Sequence[PathLike]):
        self.pair, self.texts = list(pair), [Path(text) for text in texts]
        self.top = Path(output)
        forward, backward = "-".join(pair), "-".join(pair[::-1])
        self.folder = self.top / forward
        self.lexicons = [self.top / f"{name}.tsv" for name in (forward, backward)]
        self.manifest = self.folder / MANIFEST
        self.opposite_manifest = self.top / backward / MANIFEST
        self.map_report = self.folder / "map.json"
        self.lexicon_report = self.folder / "lexicon.json"

    def file(self, kind: str, language: str) -> Path:
        """Return the file of a kind of a language."""
        return self.folder / kind / f"{language}.{'txt' if kind == 'words' else 'vec'}"

    def files(self, kind: str) -> List[Path]:
        """Return the files of a kind of both languages."""
        return [self.file(kind, language) for language in self.pair]

    def outputs(self) -> List[Path]:
        """Return the files that the manifest describes."""
        return [*(path for kind in KINDS for path in self.files(kind)), *self.lexicons]

    def check(self, inputs: Sequence[Named]) -> None:
        """Check, before any work, that no input is overwritten.

        Args:
            inputs: option and file.

        Raises:
            InputError: an input is a file of the folder that is written, or OUT is a file.
        """
        if self.top.exists() and not self.top.is_dir():
            valid = "a folder, which need not be there"
            raise InputError(f"--out {self.top}: a file; valid: {valid}")
        files = [*self.outputs(), self.map_report, self.lexicon_report, self.manifest]
        files += [Path(f"{path}.json") for kind in KINDS[:2] for path in self.files(kind)]
        check_places(inputs, [("--out", path) for path in files])

    def locked(self) -> ContextManager[None]:
        """Keep other runs of this pair, in either direction, out of OUT; a kill frees it.

        Raises:
            InputError: another run is at work there.
        """
        lock = self.top / f".{'-'.join(sorted(self.pair))}.lock"
        return locked(lock, f"--out {self.top} ({'-'.join(self.pair)})")

    def remove_leftovers(self) -> None:
        """Remove what a kill left unfinished of this pair; another pair may be at work in OUT."""
        folders = [self.folder / name for name in (".", *KINDS, STEPS_FOLDER)]
        paths = [path for folder in folders for path in leftovers(folder)]
        for lexicon in self.lexicons:
            paths += leftovers(self.top, lexicon.name)
        for path in paths:
            path.unlink(missing_ok=True)

    def run_step(
        self,
        name: str,
        inputs: Mapping[str, Path],
        options: Mapping[str, Any],
        outputs: Sequence[Path],
        work: Callable[[], Any],
    ) -> None:
        """Run a step, unless it was finished with the same inputs and options."""
        step = Step(self.folder / STEPS_FOLDER / f"{name}.json", inputs, options, outputs)
        if step.recall() is not None:
            cli.say(f"lexicon: {name}: unchanged, skipped")
            return
        cli.say(f"lexicon: {name}")
        step.begin()
        self.manifest.unlink(missing_ok=True)
        if set(outputs) & set(self.lexicons):  # the opposite run's manifest lists these files too
            self.opposite_manifest.unlink(missing_ok=True)
        work()
        step.finish({})

    def run(self, options: PipelineOptions) -> None:
        """Run all steps and write the manifest.

        Raises:
            InputError: an option or a file that cannot be used, before the first step; another
                run is at work there; as in the steps.
        """
        self._check_options(options)
        with self.locked():
            self.remove_leftovers()
            self._run_text_steps(options)
            self._run_lexicon_steps(options)
            counts = {}
            for name, path in (("map", self.map_report), ("lexicon", self.lexicon_report)):
                counts[name] = dict((read_json(path) or {}).get("counts", {}))
            for name in ("objective", "keep"):
                counts["map"].pop(name, None)
            outputs, content = self.outputs(), options.as_json()
            write_manifest(self.manifest, "lexicon", content, counts, self.texts, outputs)

    def _check_options(self, options: PipelineOptions) -> None:
        inputs: List[Named] = [*zip(("--source", "--target"), self.texts)]
        for option, path in inputs:
            check_readable(path, option, "a text file")
        for segmenter in options.segmenters:
            words.load_segmenter(segmenter or words.SPACES)
        options.mapping.check()
        if options.mapping.dictionary is not None:
            inputs.append(("--dictionary", options.mapping.dictionary))
        self.check(inputs)

    def _run_text_steps(self, options: PipelineOptions) -> None:
        cased = options.cased
        for language, path, segmenter in zip(self.pair, self.texts, options.segmenters):
            output = self.file("words", language)
            cut = partial(words.write_words, [path], [output], segmenter, cased)
            text_options = words.describe_options(segmenter, cased)
            self.run_step(f"words.{language}", {"text": path}, text_options, [output], cut)
        vector_options = {**asdict(options.vectors), "gensim": read_version("gensim")}
        for language in self.pair:
            source, output = self.file("words", language), self.file("vectors", language)
            train = partial(write_word_vectors, source, output, options.vectors)
            inputs = {"words": source}
            self.run_step(f"vectors.{language}", inputs, vector_options, [output], train)

    def _run_lexicon_steps(self, options: PipelineOptions) -> None:
        source, target = self.files("vectors")
        mapped = self.file("mapped", self.pair[0]), self.file("mapped", self.pair[1])
        inputs = {"source": source, "target": target}
        if options.mapping.dictionary is not None:
            inputs["dictionary"] = Path(options.mapping.dictionary)
        report = self.map_report
        learn = partial(mapping.map_files, source, target, mapped, report, options.mapping)
        self.run_step("map", inputs, options.mapping.as_json(), [*mapped, report], learn)
        source, target = mapped
        inputs = {"source": source, "target": target}
        report = self.lexicon_report
        work = partial(induce.induce, source, target, self.lexicons, report, options.lexicon)
        outputs = [*self.lexicons, report]
        self.run_step("lexicon", inputs, options.lexicon.as_json(), outputs, work)


def languages_from_args(args: argparse.Namespace) -> List[str]:
    """Return the two languages.

    Raises:
        InputError: a language is neither an option nor the ending of its file; both are the same.
    """
    languages = []
    for side in ("source", "target"):
        path, language = getattr(args, side), getattr(args, f"{side}_lang")
        if language is None:
            language = Path(path).suffix[1:]
        if not language:
            problem = f"missing, and --{side} {path} has no ending that names it"
            raise InputError(f"--{side}-lang: {problem}; valid: a code, as en")
        languages.append(language)
    try:
        parse_pairs("-".join(languages))
    except InputError:
        options = f"--source-lang {languages[0]}, --target-lang {languages[1]}"
        valid = "two different codes without '-', '/', ',' or white space"
        raise InputError(f"{options}: valid: {valid}") from None
    return languages


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    parser = cli.parser("lexicon", f"{__doc__} Finished steps are skipped.")
    add = adder(parser)
    add("--source", "FILE", "text of one language, one sentence per line", required=True)
    text = "text of the other language; the two need not be translations"
    add("--target", "FILE", text, required=True)
    text = "folder of SOURCE-TARGET.tsv, TARGET-SOURCE.tsv, and the files of the steps"
    add("--out", "DIR", text, required=True)
    words.add_word_options(parser)
    for side in ("source", "target"):
        add(f"--{side}-lang", "LANG", f"language of --{side}; default: the ending of the file")
        add(f"--{side}-segmenter", "NAME", f"segmenter of --{side} alone")
    add_fields(parser, VectorOptions)
    add("--dictionary", "FILE", "pairs to begin with, for --seed-from dictionary")
    mapping.add_map_options(parser)
    add_fields(parser, LexiconOptions, leave_out=["max_words", "neighbours", "block"])
    add_device_options(add)
    args = parser.parse_args(argv)
    pipeline = Pipeline(args.out, languages_from_args(args), (args.source, args.target))
    vectors = from_args(VectorOptions, args)
    set_threads(args.threads)
    segmenters = [args.source_segmenter, args.target_segmenter]
    segmenters = [segmenter or args.segmenter for segmenter in segmenters]
    map_options, lexicon = mapping.map_options(args), from_args(LexiconOptions, args)
    pipeline.run(PipelineOptions(args.cased, segmenters, vectors, map_options, lexicon))
    files = f"{pipeline.lexicons[0]} and {pipeline.lexicons[1]}"
    cli.say(f"lexicon: {files}; hashes and what was found in {pipeline.manifest}")
