"""What the fine-tuning sets for generation share: length limits, SPLIT.SOURCE and SPLIT.TARGET, a file per reference."""

import argparse
import functools
import json
from collections import Counter
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import regex

from ..files import atomic_texts
from ..io import InputError, PathLike
from ..pieces.models import decode_line, load_model
from ..steps import write_manifest
from ..text.clean import FORMS, Normaliser

TRAIN = "train"
UNITS = ("words", "characters", "pieces")
END = 1  # </s>, which counts as a piece of a source and of a target


class Example(NamedTuple):
    """One source and its references, each on one line.

    Attributes:
        source: what the model reads.
        targets: the references, at least one; the first is what training sees. An empty one is a missing one.
    """

    source: str
    targets: Tuple[str, ...]


@dataclass(frozen=True)
class Limits:
    """How long sources and targets may be.

    Args:
        max_source: units a source is cut to; 0 = no limit.
        max_target: units a target of train may have, longer ones are dropped; 0 = no limit. References of other splits stay whole.
        unit: one of ``UNITS``; words end at white space, and characters of scripts without spaces are words. Pieces count ``</s>``,
            as fairseq's position limits do.
        model: sentencepiece model, for pieces.
        cut_target: cut longer targets of train instead of dropping them.
    """

    max_source: int
    max_target: int
    unit: str
    model: Optional[str] = None
    cut_target: bool = False

    def __post_init__(self) -> None:
        for option, value in (("max-source", self.max_source), ("max-target", self.max_target)):
            if value < 0:
                raise InputError(f"--{option} {value}: valid: 0 (no limit) or more")
        if self.unit not in UNITS:
            raise InputError(f"--unit {self.unit}: valid: {', '.join(UNITS)}")
        if (self.unit == "pieces") != (self.model is not None):
            given = f"--unit {self.unit} {'with' if self.model else 'without'} --model"
            raise InputError(f"{given}: valid: both --unit pieces and --model FILE, or neither")


@functools.lru_cache(None)
def word_pattern() -> Any:
    """What ends at white space; a character of a script without spaces is a word of its own."""
    from fairseq_plugins.ops.scripts import SPACELESS

    return regex.compile(rf"[{SPACELESS}]|[^\s{SPACELESS}]+")


class Ruler:
    """Measures and cuts text by the limits."""

    def __init__(self, limits: Limits):
        self.limits = limits
        self.model = load_model(limits.model) if limits.model is not None else None
        self.end = END if self.model is not None else 0

    def units(self, text: str) -> List[str]:
        """Words, characters or pieces of a line."""
        if self.model is not None:
            return self.model.encode(text, out_type=str)
        return word_pattern().findall(text) if self.limits.unit == "words" else list(text)

    def cut(self, text: str, kept: str = "") -> Optional[str]:
        """Cut the end of a source so that it fits together with ``kept``, which will follow it; None if nothing is left."""
        if not self.limits.max_source:
            return text
        return self._cut(text, self.limits.max_source - self.end - len(self.units(kept)))

    def cut_target(self, text: str) -> Optional[str]:
        """Cut the end of a target of train; None if nothing is left."""
        return self._cut(text, self.limits.max_target - self.end)

    def _cut(self, text: str, room: int) -> Optional[str]:
        units = self.units(text)
        if len(units) <= room:
            return text
        if room <= 0:
            return None
        if self.model is not None:
            return decode_line(self.model, " ".join(units[:room])) or None
        if self.limits.unit == "words":
            *_, last = islice(word_pattern().finditer(text), room)
            return text[: last.end()]
        return text[:room].strip() or None

    def too_long(self, target: str) -> bool:
        """True for a target of train that has to go."""
        return bool(self.limits.max_target) and len(self.units(target)) + self.end > self.limits.max_target


class Collector:
    """Takes the examples of all splits, counts what was cut and dropped, and writes the files.

    Args:
        splits: their names; each must get an example.
        langs: endings of the files of sources and targets.
        limits: lengths.
        form: Unicode form of every line.
    """

    def __init__(self, splits: Sequence[str], langs: Sequence[str], limits: Limits, form: str = "NFC"):
        if len(set(langs)) != 2 or any(not lang or "/" in lang or "-" in lang for lang in langs):
            raise InputError(f"--langs {' '.join(langs)}: valid: two different names without '/' and '-'")
        self.langs = list(langs)
        self.examples: Dict[str, List[Example]] = {split: [] for split in splits}
        self.ruler = Ruler(limits)
        self.normal = Normaliser(form)
        self.form = form
        self.counts: Counter = Counter()

    def drop(self, split: str, reason: str) -> None:
        """Count an example that does not stay."""
        self.counts[f"{split}: {reason}"] += 1

    def add(self, split: str, source: str, targets: Sequence[str], kept: str = "") -> bool:
        """Take an example, unless a rule drops it.

        Args:
            split: where it goes.
            source: its end is cut where it is too long.
            targets: the references.
            kept: end of the source that is never cut.

        Returns:
            True if it stays.
        """
        text, end = self.normal(source), self.normal(kept)
        lines = tuple(self.normal(target) for target in targets)
        if not text or not lines[0]:
            self.drop(split, "empty")
            return False
        if split == TRAIN and self.ruler.too_long(lines[0]):
            shorter = self.ruler.cut_target(lines[0]) if self.ruler.limits.cut_target else None
            if shorter is None:
                self.drop(split, "target too long")
                return False
            self.counts[f"{split}: target cut"] += 1
            lines = (shorter, *lines[1:])
        cut = self.ruler.cut(text, end)
        if cut is None:
            self.drop(split, "no room for the source")
            return False
        self.counts[f"{split}: source cut"] += cut != text
        self.examples[split].append(Example(f"{cut} {end}".rstrip(), lines))
        return True

    def write(
        self,
        verb: str,
        output: PathLike,
        options: Mapping[str, Any],
        inputs: Sequence[PathLike],
        more: Mapping[str, Any],
    ) -> Dict[str, Any]:
        """Write ``SPLIT.SOURCE``, ``SPLIT.TARGET``, with several references ``SPLIT.TARGET.ref1`` …, and ``VERB.json``.

        Returns:
            The counts of the manifest.

        Raises:
            InputError: a split without an example, or an output that is an input.
        """
        folder, columns = Path(output), {}
        for split, examples in self.examples.items():
            if not examples:
                lost = ", ".join(f"{name} {count}" for name, count in sorted(self.counts.items()) if count) or "nothing"
                raise InputError(f"--inputs: no example for {split} (dropped or cut: {lost}), so nothing was written")
            columns[folder / f"{split}.{self.langs[0]}"] = [example.source for example in examples]
            columns[folder / f"{split}.{self.langs[1]}"] = [example.targets[0] for example in examples]
            width = max(len(example.targets) for example in examples)
            for number in range(width if width > 1 else 0):
                lines = [dict(enumerate(example.targets)).get(number, "") for example in examples]
                columns[folder / f"{split}.{self.langs[1]}.ref{number + 1}"] = lines
        with atomic_texts(list(columns), "--output-dir", inputs) as files:
            for file, lines in zip(files, columns.values()):
                file.writelines(line + "\n" for line in lines)
        counts: Dict[str, Any] = {split: len(examples) for split, examples in self.examples.items()}
        counts.update({"dropped or cut": {name: count for name, count in sorted(self.counts.items()) if count}, **more})
        limits = asdict(self.ruler.limits)
        limits["model"] = Path(limits["model"]).name if limits["model"] else None
        shown = {**options, **limits, "form": self.form, "langs": self.langs}
        write_manifest(folder / f"{verb}.json", verb, shown, counts, inputs, list(columns))
        return counts


def add_options(parser: argparse.ArgumentParser, langs: Sequence[str]) -> None:
    """Add the options that these verbs share."""
    parser.add_argument("--output-dir", required=True, metavar="DIR", help="gets SPLIT.SOURCE and SPLIT.TARGET")
    parser.add_argument("--langs", nargs=2, default=list(langs), metavar="NAME", help="endings of sources and targets")
    parser.add_argument("--form", choices=FORMS, default="NFC", help="Unicode form")
    parser.add_argument("--max-source", type=int, default=512, metavar="N", help="sources are cut to it; 0 = no limit")
    parser.add_argument("--max-target", type=int, default=80, metavar="N", help="longer ones leave train; 0 = no limit")
    parser.add_argument("--cut-target", action="store_true", help="cut them instead, as sources")
    parser.add_argument(
        "--unit",
        choices=UNITS,
        help="what lengths count; default: pieces with --model, else words (Chinese, Japanese and Thai: characters)",
    )
    parser.add_argument("--model", metavar="FILE", help="sentencepiece model, for --unit pieces")


def limits_from_args(args: argparse.Namespace) -> Limits:
    """Return the limits on the command line."""
    unit = args.unit or ("pieces" if args.model else "words")
    return Limits(args.max_source, args.max_target, unit, args.model, args.cut_target)


def named_splits(names: Sequence[str], files: Sequence[str], option: str) -> List[str]:
    """Check that every file has a split of its own.

    Raises:
        InputError: another number of names than files, a name twice, or one that no file can have.
    """
    wrong = [name for name in names if not name or set(name) & set("/. ")]
    if len(names) != len(files) or len(set(names)) != len(names) or wrong:
        raise InputError(
            f"--splits {' '.join(names)}: {len(names)} names for {len(files)} of {option}; valid: different names without '.', '/' "
            "and blanks, one for each file, as train valid test"
        )
    return list(names)


def read_json_text(text: str, where: str, first_line: int = 1) -> Any:
    """Parse JSON.

    Raises:
        InputError: what is wrong, with the line.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = first_line + error.lineno - 1
        raise InputError(f"{where}, line {line}: not JSON ({error.msg} at column {error.colno})") from None
    except RecursionError:
        raise InputError(f"{where}: JSON that is nested too deep") from None


def text_of(record: Any, key: str, where: str) -> str:
    """A string in a JSON object.

    Raises:
        InputError: no object, no such key, or something else than a string.
    """
    if not isinstance(record, dict) or not isinstance(record.get(key), str):
        keys = ", ".join(sorted(record)) if isinstance(record, dict) else type(record).__name__
        raise InputError(f"{where}: no text under {key!r} (found: {keys})")
    return record[key]
