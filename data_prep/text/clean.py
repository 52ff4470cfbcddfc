"""Clean (multi-)parallel text: normalise every line, drop unusable ones, report the reasons."""

import hashlib
import re
import unicodedata
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Set, TextIO, Tuple

from .. import cli
from ..files import atomic_texts
from ..io import LINE_BREAKERS, InputError, PathLike, check_output_count, read_parallel
from ..options import Options, add_fields, add_file_options, adder, from_args, option
from ..progress import with_progress
from ..steps import write_manifest

FORMS = ("NFC", "NFKC", "none")
UNITS = ("words", "characters")
DEDUP = ("tuple", "first", "any", "none")
REASONS = ("empty", "too short", "too long", "length ratio", "duplicate")
DIGEST_BYTES = 16

# Control characters that are no white space, byte order marks anywhere, and non-characters.
# Joiners, directional marks and zero-width spaces stay: scripts need them.
CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ufeff\ufdd0-\ufdef\ufffe\uffff]")


@dataclass(frozen=True)
class Rules(Options):
    """Conditions that a line must meet to stay.

    Words end at white space (take characters for Chinese, Thai ...). `dedup` drops a tuple seen
    before as a whole (``tuple``), in the first file (``first``), or in any file (``any``).
    """

    form: str = option("NFC", "Unicode form of lines", choices=FORMS)
    unit: str = option("words", "unit of lengths", choices=UNITS)
    min_length: int = option(1, "fewest units of a line, >= 1", minimum=1)
    max_length: int = option(250, "most units of a (training) line; 0 = no limit")
    max_ratio: float = option(0.0, "largest ratio of line lengths in a tuple, >= 1; 0 = no limit")
    dedup: str = option("tuple", "what makes a duplicate, which is dropped", choices=DEDUP)
    normalise_only: bool = option(False, "drop nothing (test sets), whatever the limits are")
    lower_case: bool = option(False, "lower-case all lines, of every split")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_length != 0 and self.max_length < self.min_length:
            valid = f"0 (no limit), or at least --min-length ({self.min_length})"
            raise InputError(f"--max-length {self.max_length}: valid: {valid}")
        if self.max_ratio != 0 and not self.max_ratio >= 1:
            raise InputError(f"--max-ratio {self.max_ratio}: valid: 0 (no limit) or 1 or more")

    def normaliser(self) -> "Normaliser":
        """Return the repair of a line."""
        return Normaliser(self.form, self.lower_case)

    def as_json(self) -> Dict[str, Any]:
        """Return the options for a manifest; lower-casing only if it is on."""
        options = asdict(self)
        if not self.lower_case:
            del options["lower_case"]
        return options


class Normaliser:
    """Fix the characters of a line, and count the lines that each fix changed (``changed``)."""

    def __init__(self, form: str, lower_case: bool = False):
        self.changed: Counter = Counter()
        # In this order no later fix makes work for an earlier one: cleaning twice changes nothing.
        case: Sequence[Tuple[str, Callable[[str], str]]] = (("capitals", str.lower),)
        self.steps: Sequence[Tuple[str, Callable[[str], str]]] = (
            *(case if lower_case else ()),
            ("carriage return at the end", lambda line: line.removesuffix("\r")),
            ("line separators", lambda line: LINE_BREAKERS.sub(_blank, line)),
            ("control characters", lambda line: CONTROL.sub("", line)),
            ("unicode form", lambda line: _in_form(form, line)),
            ("white space", lambda line: " ".join(line.split())),
        )

    def __call__(self, line: str) -> str:
        """Return the line in clean characters, its words separated by single spaces."""
        for name, step in self.steps:
            fixed = step(line)
            if fixed != line:
                self.changed[name] += 1
            line = fixed
        return line


def _in_form(form: str, line: str) -> str:
    if form == "none":
        return line
    return unicodedata.normalize("NFC" if form == "NFC" else "NFKC", line)


def _blank(match: "re.Match[str]") -> str:
    return "" if match[0] == "\x00" else " "


class Verdict(NamedTuple):
    """Why a tuple is dropped: one of ``REASONS``, and the details."""

    reason: str
    details: str


def digest_line(line: str) -> bytes:
    """Return 16 bytes that stand for a line."""
    return hashlib.blake2b(line.encode("utf-8"), digest_size=DIGEST_BYTES).digest()


class Filter:
    """Decide which tuples stay; to drop duplicates, 16 bytes are held for each distinct line.

    Args:
        rules: conditions.
        names: of the files, for details.
    """

    def __init__(self, rules: Rules, names: Sequence[str]):
        self.rules = rules
        self.names = names
        self.digests: Set[bytes] = set()

    def __call__(self, lines: Sequence[str]) -> Optional[Verdict]:
        """Return None for a tuple that stays, else why it is dropped."""
        if self.rules.normalise_only:
            return None
        for name, line in zip(self.names, lines):
            if not line:
                return Verdict("empty", name)
        return self._check_lengths(lines) or self._check_duplicate(lines)

    def _check_lengths(self, lines: Sequence[str]) -> Optional[Verdict]:
        rules = self.rules
        in_words = rules.unit == "words"
        lengths = [len(line.split()) if in_words else len(line) for line in lines]
        for name, length in zip(self.names, lengths):
            if length < rules.min_length:
                return Verdict("too short", f"{name}: {length} {rules.unit}")
            if rules.max_length and length > rules.max_length:
                return Verdict("too long", f"{name}: {length} {rules.unit}")
        ratio = max(lengths) / min(lengths)
        if rules.max_ratio and ratio > rules.max_ratio:
            return Verdict("length ratio", f"{ratio:.2f}")
        return None

    def _check_duplicate(self, lines: Sequence[str]) -> Optional[Verdict]:
        dedup = self.rules.dedup
        if dedup == "none":
            return None
        if dedup == "tuple":
            keys = ["\n".join(lines)]
        elif dedup == "first":
            keys = [lines[0]]
        else:
            keys = [f"{column}\n{line}" for column, line in enumerate(lines)]
        digests = [digest_line(key) for key in keys]
        if not self.digests.isdisjoint(digests):
            return Verdict("duplicate", f"by {dedup}")
        self.digests.update(digests)
        return None


class CleanCounts(NamedTuple):
    """Counts of a run.

    Attributes:
        read: lines of each input.
        kept: lines of each output.
        dropped: reason -> lines.
        changed: fix -> lines that it changed.
    """

    read: int
    kept: int
    dropped: Dict[str, int]
    changed: Dict[str, int]


def clean_files(
    inputs: Sequence[PathLike],
    outputs: Sequence[PathLike],
    rules: Rules,
    manifest: PathLike,
    dropped_table: Optional[PathLike] = None,
) -> CleanCounts:
    """Clean files whose lines belong together, and write the manifest.

    Args:
        inputs: files; line i of each belongs together.
        outputs: one for each input.
        rules: conditions for lines to stay.
        manifest: JSON with options, counts, hashes.
        dropped_table: gets line number, reason and details of every dropped tuple, tab-separated.

    Raises:
        InputError: bad input, as in :func:`read_parallel`, or no line would be left.
    """
    check_output_count(inputs, outputs)
    normaliser = rules.normaliser()
    check = Filter(rules, [Path(path).name for path in inputs])
    drops: Counter = Counter()
    count = 0
    paths = [*outputs, dropped_table] if dropped_table else outputs
    with atomic_texts(paths, "--outputs", inputs) as opened:
        files, table = opened[: len(outputs)], opened[-1] if dropped_table else None
        _write_row(table, "line", "reason", "details")
        for lines in with_progress(read_parallel(inputs, "--inputs", strict=False), "clean"):
            count += 1
            lines = tuple(normaliser(line) for line in lines)
            verdict = check(lines)
            if verdict is None:
                for file, line in zip(files, lines):
                    file.write(line + "\n")
            else:
                drops[verdict.reason] += 1
                _write_row(table, str(count), *verdict)
        drop_counts = {reason: drops[reason] for reason in REASONS}
        remainder = count - sum(drop_counts.values())
        if not remainder:
            listed = _list_nonzero(drop_counts)
            raise InputError(f"--inputs: none of {count} lines would be left; dropped: {listed}")
    changed = {name: normaliser.changed[name] for name, _ in normaliser.steps}
    counts = CleanCounts(count, remainder, drop_counts, changed)
    write_manifest(manifest, "clean", rules.as_json(), counts._asdict(), inputs, outputs)
    return counts


def _write_row(table: Optional[TextIO], *cells: str) -> None:
    if table is not None:
        table.write("\t".join(cells) + "\n")


def _list_nonzero(counts: Dict[str, int]) -> str:
    return cli.list_counts({name: count for name, count in counts.items() if count}) or "nothing"


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    parser = cli.parser("clean", __doc__)
    text = "parallel text: line i of each file belongs together"
    add_file_options(parser, text, "clean text, a file for each input")
    add_fields(parser, Rules)
    add = adder(parser)
    add("--manifest", "FILE", "manifest, JSON; default: clean.json beside the first output")
    add("--dropped-table", "FILE", "TSV with a row for every dropped line (default: none)")
    args = parser.parse_args(argv)
    rules = from_args(Rules, args)
    manifest = args.manifest or Path(args.outputs[0]).parent / "clean.json"
    counts = clean_files(args.inputs, args.outputs, rules, manifest, args.dropped_table)
    cli.say(f"clean: dropped: {_list_nonzero(counts.dropped)}")
    cli.say(f"clean: changed: {_list_nonzero(counts.changed)}")
    cli.say(f"clean: kept {counts.kept:,} of {counts.read:,} lines; manifest {manifest}")
