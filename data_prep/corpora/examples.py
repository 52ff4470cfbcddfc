"""Shared by the generation corpora: length limits, SPLIT.SOURCE and SPLIT.TARGET, references."""

import argparse
import functools
from collections import Counter
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import regex

from .. import cli
from ..files import atomic_texts
from ..io import InputError, PathLike
from ..options import Options, add_fields, adder, from_args, option
from ..pieces.segmenters import SentencePiece
from ..steps import write_manifest
from ..text.clean import FORMS, Normaliser
from ..text.sentences import END_OF_SENTENCE, split_sentences

TRAIN = "train"
UNITS = ("words", "characters", "pieces")


class Example(NamedTuple):
    """A source and its references, each on one line.

    Attributes:
        source: what the model reads.
        targets: references, at least one; training uses the first. An empty one is missing.
    """

    source: str
    targets: Tuple[str, ...]


# ---- Limits. ----


@dataclass(frozen=True)
class Limits(Options):
    """Limits of the lengths of sources and targets.

    References of other splits than train stay whole. Words end at white space, and characters of
    scripts without spaces are words. Pieces count ``</s>``, as fairseq's position limits do.
    """

    max_source: int = option(512, "units that sources are cut to; 0 = no limit")
    max_target: int = option(
        80, "most units of a training target, longer ones are dropped; 0 = no limit"
    )
    unit: str = option("words", "unit of lengths", choices=UNITS)
    model: Optional[str] = None
    cut_target: bool = option(False, "cut longer training targets in place of dropping them")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, limit in (("max-source", self.max_source), ("max-target", self.max_target)):
            if limit < 0:
                raise InputError(f"--{name} {limit}: valid: 0 (no limit) or more")
        if (self.unit == "pieces") != (self.model is not None):
            options = f"--unit {self.unit} {'with' if self.model else 'without'} --model"
            raise InputError(f"{options}: valid: both --unit pieces and --model FILE, or neither")


@functools.lru_cache(None)
def word_pattern() -> Any:
    """Return the pattern of words; a character of a script without spaces is a word."""
    from fairseq_plugins.ops.scripts import SPACELESS

    return regex.compile(rf"[{SPACELESS}]|[^\s{SPACELESS}]+")


class Ruler:
    """Measure and cut text by the limits.

    Args:
        limits: limits of lengths.
        separator: text between sentences; no word and no character, but a piece.
    """

    def __init__(self, limits: Limits, separator: str = ""):
        self.limits, self.separator = limits, separator
        self.segmenter = None
        if limits.model is not None:
            keeps_ends = separator == END_OF_SENTENCE
            self.segmenter = SentencePiece(limits.model, keeps_ends=keeps_ends)
        self.end = 1 if self.segmenter is not None else 0  # </s> counts as a piece

    def units(self, text: str) -> List[str]:
        """Return the words, characters or pieces of a line."""
        if self.segmenter is not None:
            return next(self.segmenter.encode([text]))
        if self.limits.unit == "words":
            return [word for word in word_pattern().findall(text) if word != self.separator]
        return list(text)

    def cut_source(self, text: str, ending: str = "") -> Optional[str]:
        """Cut a source so that it fits together with the ending; return None if nothing is left."""
        if not self.limits.max_source:
            return text
        return self._cut(text, self.limits.max_source - self.end - len(self.units(ending)))

    def cut_target(self, text: str) -> Optional[str]:
        """Cut a target of train; return None if nothing is left."""
        return self._cut(text, self.limits.max_target - self.end)

    def _cut(self, text: str, room: int) -> Optional[str]:
        units = self.units(text)
        if len(units) <= room:
            return text
        if room <= 0:
            return None
        if self.segmenter is not None:
            return self.segmenter.decode(" ".join(units[:room])) or None
        if self.limits.unit == "words":
            words = (word for word in word_pattern().finditer(text) if word[0] != self.separator)
            *_, last = islice(words, room)
            return text[: last.end()]
        return text[:room].strip() or None

    def is_too_long(self, target: str) -> bool:
        """Return True for a target of train above the limit."""
        limit = self.limits.max_target
        return bool(limit) and len(self.units(target)) + self.end > limit


# ---- Examples. ----


class Collector:
    """Take the examples of all splits, count what is cut and dropped, and write the files.

    Args:
        splits: names; each must get an example.
        langs: endings of the files of sources and targets.
        limits: limits of lengths.
        form: Unicode form of every line.
        separator: text between the sentences of a source; empty = a space, as in the text.
    """

    def __init__(
        self,
        splits: Sequence[str],
        langs: Sequence[str],
        limits: Limits,
        form: str = "NFC",
        separator: str = "",
    ):
        if len(set(langs)) != 2 or any(not lang or set(lang) & set("/-") for lang in langs):
            valid = "two different names without '/' and '-'"
            raise InputError(f"--langs {' '.join(langs)}: valid: {valid}")
        self.langs = list(langs)
        self.examples: Dict[str, List[Example]] = {split: [] for split in splits}
        self.ruler = Ruler(limits, separator)
        self.separator = separator
        self.normalise = Normaliser(form)
        self.form = form
        self.counts: Counter = Counter()

    def drop(self, split: str, reason: str) -> None:
        """Count an example that does not stay."""
        self.counts[f"{split}: {reason}"] += 1

    def add(self, split: str, source: str, targets: Sequence[str], ending: str = "") -> bool:
        """Take an example, unless a rule drops it.

        Args:
            split: split of the example.
            source: cut at its end if it is too long.
            targets: references.
            ending: end of the source that is never cut.

        Returns:
            True if it stays.

        Raises:
            InputError: a source holds the separator that will stand between its sentences.
        """
        text, end = self._join_sentences(split, source), self.normalise(ending)
        lines = tuple(self.normalise(target) for target in targets)
        if not text or not lines[0]:
            self.drop(split, "empty")
            return False
        if split == TRAIN and self.ruler.is_too_long(lines[0]):
            shorter = None
            if self.ruler.limits.cut_target:
                shorter = self.ruler.cut_target(lines[0])
            if shorter is None:
                self.drop(split, "target too long")
                return False
            self.counts[f"{split}: target cut"] += 1
            lines = (shorter, *lines[1:])
        short = self.ruler.cut_source(text, end)
        if short is None:
            self.drop(split, "no room for the source")
            return False
        self.counts[f"{split}: source cut"] += short != text
        if self.separator:  # may be the last piece before the cut
            short = short.removesuffix(f" {self.separator}")
        self.examples[split].append(Example(f"{short} {end}".rstrip(), lines))
        return True

    def _join_sentences(self, split: str, source: str) -> str:
        """Normalise a source, and put the separator between its sentences."""
        if not self.separator:
            return self.normalise(source)
        if self.separator in source:
            problem = f"a source of {split} holds {self.separator!r}"
            raise InputError(f"--sentence-separator: {problem}; valid: a text that no source holds")
        sentences = (self.normalise(sentence) for sentence in split_sentences(source))
        return f" {self.separator} ".join(filter(None, sentences))

    def write(
        self,
        verb: str,
        output: PathLike,
        options: Mapping[str, Any],
        inputs: Sequence[PathLike],
        more_counts: Optional[Mapping[str, Any]] = None,
    ) -> Dict[str, Any]:
        """Write SPLIT.SOURCE, SPLIT.TARGET, of several references SPLIT.TARGET.ref1 …, VERB.json.

        Returns:
            The counts of the manifest.

        Raises:
            InputError: a split without an example, or an output that is an input.
        """
        cuts = {name: count for name, count in sorted(self.counts.items()) if count}
        columns = self._columns(Path(output), cuts)
        with atomic_texts(list(columns), "--output-dir", inputs) as files:
            for file, lines in zip(files, columns.values()):
                file.writelines(line + "\n" for line in lines)
        counts: Dict[str, Any] = {split: len(rows) for split, rows in self.examples.items()}
        counts.update({"dropped or cut": cuts, **(more_counts or {})})
        limits = asdict(self.ruler.limits)
        limits["model"] = Path(limits["model"]).name if limits["model"] else None
        all_options = {**options, **limits, "form": self.form, "langs": self.langs}
        if self.separator:
            all_options["sentence_separator"] = self.separator
        manifest = Path(output) / f"{verb}.json"
        write_manifest(manifest, verb, all_options, counts, inputs, list(columns))
        return counts

    def _columns(self, folder: Path, cuts: Mapping[str, int]) -> Dict[Path, List[str]]:
        """Return the lines of each output."""
        source, target = self.langs
        columns = {}
        for split, examples in self.examples.items():
            if not examples:
                listed = ", ".join(f"{name} {count}" for name, count in cuts.items()) or "nothing"
                problem = f"no example for {split} (dropped or cut: {listed})"
                raise InputError(f"--inputs: {problem}, so nothing was written")
            columns[folder / f"{split}.{source}"] = [example.source for example in examples]
            columns[folder / f"{split}.{target}"] = [example.targets[0] for example in examples]
            width = max(len(example.targets) for example in examples)
            if width > 1:
                for index in range(width):
                    lines = [_reference(example, index) for example in examples]
                    columns[folder / f"{split}.{target}.ref{index + 1}"] = lines
        return columns


def _reference(example: Example, index: int) -> str:
    return example.targets[index] if index < len(example.targets) else ""


# ---- Options. ----


def add_options(parser: argparse.ArgumentParser, langs: Sequence[str]) -> None:
    """Add the options that the generation corpora share."""
    add = adder(parser)
    add("--output-dir", "DIR", "folder of SPLIT.SOURCE and SPLIT.TARGET", required=True)
    add("--langs", "NAME", "endings of sources and targets", nargs=2, default=list(langs))
    add("--form", None, "Unicode form of lines", choices=FORMS, default="NFC")
    add_fields(parser, Limits, leave_out=["unit"])
    text = "unit of lengths; default: pieces with --model, else words (Chinese, Japanese and Thai:"
    add("--unit", None, f"{text} characters)", choices=UNITS)
    add("--model", "FILE", "sentencepiece model, for --unit pieces")


def add_sentence_option(parser: argparse.ArgumentParser) -> None:
    """Add the option of the readers of documents that are summarised."""
    text = (
        f"text between the sentences of a source, as {END_OF_SENTENCE}, which mBART read; it counts"
    )
    text += " as a piece, not as a word, and preprocess.sh needs --keep-sentence-ends for "
    adder(parser)(
        "--sentence-separator", "TEXT", f"{text}{END_OF_SENTENCE}; default: none", default=""
    )


def collector_from_args(splits: Sequence[str], args: argparse.Namespace) -> Collector:
    """Make the collector of the options of :func:`add_options`."""
    args.unit = args.unit or ("pieces" if args.model else "words")
    separator = getattr(args, "sentence_separator", "")
    if separator.split() != [separator] * bool(separator):
        problem = f"--sentence-separator {separator!r}"
        raise InputError(f"{problem}: valid: a text without blanks, as {END_OF_SENTENCE}")
    return Collector(splits, args.langs, from_args(Limits, args), args.form, separator)


def write_examples(
    collector: Collector,
    verb: str,
    args: argparse.Namespace,
    options: Mapping[str, Any],
    inputs: Sequence[PathLike],
) -> None:
    """Write the files of a verb, and report the number of examples of each split."""
    counts = collector.write(verb, args.output_dir, options, inputs)
    listed = cli.list_counts({split: counts[split] for split in collector.examples})
    cli.say(f"{verb}: {listed}; manifest {Path(args.output_dir) / f'{verb}.json'}")


def check_split_names(names: Sequence[str], files: Sequence[str], option: str) -> None:
    """Check that every file has a split of its own.

    Raises:
        InputError: another number of names than files, a name twice, or one that no file can have.
    """
    is_bad = any(not name or set(name) & set("/. ") for name in names)
    if is_bad or len(names) != len(files) or len(set(names)) != len(names):
        counts = f"{len(names)} names for {len(files)} of {option}"
        valid = "different names without '.', '/' and blanks, one for each file"
        raise InputError(
            f"--splits {' '.join(names)}: {counts}; valid: {valid}, as train valid test"
        )
