"""Clean parallel or multi-parallel text: normalise every line, drop the unusable ones, say what was dropped and why."""

import argparse
import hashlib
import re
import unicodedata
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Callable, Dict, List, Optional, Sequence, Set, TextIO, Tuple

from .. import cli
from ..files import atomic_texts
from ..io import LINE_BREAKERS, InputError, PathLike, check_output_count, read_parallel
from ..progress import with_progress
from ..steps import write_manifest

FORMS = ("NFC", "NFKC", "none")
UNITS = ("words", "characters")
DEDUP = ("tuple", "first", "any", "none")
REASONS = ("empty", "too short", "too long", "length ratio", "duplicate")
DIGEST_BYTES = 16

# Control characters that are no white space, byte order marks wherever they stand, and non-characters. Joiners,
# directional marks and zero-width spaces stay: scripts need them.
CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ufeff\ufdd0-\ufdef\ufffe\uffff]")


@dataclass(frozen=True)
class Rules:
    """What a line must be like to stay.

    Args:
        form: Unicode form, one of ``FORMS``.
        unit: what lengths count, one of ``UNITS`` (words end at white space; take characters for Chinese, Thai ...).
        min_length: fewest units a line may have in any file.
        max_length: most units a line may have in any file; 0 = no limit.
        max_ratio: most times the longest line of a tuple may be longer than the shortest, >= 1; 0 = no limit.
        dedup: drop a tuple seen before as a whole, in the first file, or in any file; or keep repetitions.
        normalise_only: drop nothing (test sets); the limits are then not looked at.
    """

    form: str = "NFC"
    unit: str = "words"
    min_length: int = 1
    max_length: int = 250
    max_ratio: float = 0.0
    dedup: str = "tuple"
    normalise_only: bool = False

    def __post_init__(self) -> None:
        choices = (("form", self.form, FORMS), ("unit", self.unit, UNITS), ("dedup", self.dedup, DEDUP))
        for option, value, valid in choices:
            if value not in valid:
                raise InputError(f"--{option} {value}: valid: {', '.join(valid)}")
        if self.min_length < 1:
            raise InputError(f"--min-length {self.min_length}: valid: 1 or more")
        if self.max_length != 0 and self.max_length < self.min_length:
            raise InputError(
                f"--max-length {self.max_length}: valid: 0 (no limit), or at least --min-length ({self.min_length})"
            )
        if self.max_ratio != 0 and not self.max_ratio >= 1:
            raise InputError(f"--max-ratio {self.max_ratio}: valid: 0 (no limit) or 1 or more")


class Normaliser:
    """Fixes the characters of a line and counts the lines that each fix changed (``changed``)."""

    def __init__(self, form: str):
        self.changed: Counter = Counter()
        # The order matters: after the last step none of the earlier ones would find anything (clean is idempotent).
        self.steps: Sequence[Tuple[str, Callable[[str], str]]] = (
            ("carriage return at the end", lambda line: line[:-1] if line.endswith("\r") else line),
            ("line separators", lambda line: LINE_BREAKERS.sub(_blank, line)),
            ("control characters", lambda line: CONTROL.sub("", line)),
            ("unicode form", lambda line: _in_form(form, line)),
            ("white space", lambda line: " ".join(line.split())),
        )

    def __call__(self, line: str) -> str:
        """Return the line in clean characters, words separated by single spaces."""
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


class Filter:
    """Decides which tuples stay. Holds 16 bytes for each distinct line seen, when duplicates are dropped."""

    def __init__(self, rules: Rules, names: Sequence[str]):
        self.rules = rules
        self.names = names
        self.seen: Set[bytes] = set()

    def __call__(self, lines: Sequence[str]) -> Optional[Tuple[str, str]]:
        """Return None for a tuple that stays, else (one of ``REASONS``, the details)."""
        if self.rules.normalise_only:
            return None
        for name, line in zip(self.names, lines):
            if not line:
                return "empty", name
        return self._length(lines) or self._duplicate(lines)

    def _length(self, lines: Sequence[str]) -> Optional[Tuple[str, str]]:
        rules = self.rules
        lengths = [len(line.split()) if rules.unit == "words" else len(line) for line in lines]
        for name, length in zip(self.names, lengths):
            if length < rules.min_length:
                return "too short", f"{name}: {length} {rules.unit}"
            if rules.max_length and length > rules.max_length:
                return "too long", f"{name}: {length} {rules.unit}"
        ratio = max(lengths) / min(lengths)
        if rules.max_ratio and ratio > rules.max_ratio:
            return "length ratio", f"{ratio:.2f}"
        return None

    def _duplicate(self, lines: Sequence[str]) -> Optional[Tuple[str, str]]:
        keys = {
            "none": [],
            "tuple": ["\n".join(lines)],
            "first": [lines[0]],
            "any": [f"{column}\n{line}" for column, line in enumerate(lines)],
        }[self.rules.dedup]
        digests = [hashlib.blake2b(key.encode("utf-8"), digest_size=DIGEST_BYTES).digest() for key in keys]
        if any(digest in self.seen for digest in digests):
            return "duplicate", f"by {self.rules.dedup}"
        self.seen.update(digests)
        return None


def clean_files(
    inputs: Sequence[PathLike],
    outputs: Sequence[PathLike],
    rules: Rules,
    manifest: PathLike,
    dropped_table: Optional[PathLike] = None,
) -> Dict[str, object]:
    """Clean files whose lines belong together, and write the manifest.

    Args:
        inputs: the files; line i of each belongs together.
        outputs: one for each input.
        rules: what stays.
        manifest: JSON with options, counts, hashes.
        dropped_table: also write line number, reason and details of every dropped tuple, tab-separated.

    Returns:
        The counts of the manifest: ``read``, ``kept``, ``dropped`` (reason to number), ``changed`` (fix to lines).

    Raises:
        InputError: bad input, as in :func:`read_parallel`, or nothing would be left.
    """
    check_output_count(inputs, outputs)
    normaliser = Normaliser(rules.form)
    select = Filter(rules, [Path(path).name for path in inputs])
    dropped: Counter = Counter()
    read = 0
    paths = [*outputs, *([dropped_table] if dropped_table else [])]
    with atomic_texts(paths, "--outputs", inputs) as opened:
        files, table = opened[: len(outputs)], opened[-1] if dropped_table else None
        _row(table, "line", "reason", "details")
        for lines in with_progress(read_parallel(inputs, "--inputs", strict=False), "clean"):
            read += 1
            lines = tuple(normaliser(line) for line in lines)
            verdict = select(lines)
            if verdict is None:
                for file, line in zip(files, lines):
                    file.write(line + "\n")
            else:
                dropped[verdict[0]] += 1
                _row(table, str(read), *verdict)
        if read == sum(dropped.values()):
            listed = _listed({reason: dropped[reason] for reason in REASONS})
            raise InputError(f"--inputs: none of {read} lines would be left; dropped: {listed}")
    counts = {
        "read": read,
        "kept": read - sum(dropped.values()),
        "dropped": {reason: dropped[reason] for reason in REASONS},
        "changed": {name: normaliser.changed[name] for name, _ in normaliser.steps},
    }
    write_manifest(manifest, "clean", asdict(rules), counts, inputs, outputs)
    return counts


def _row(table: Optional[TextIO], *cells: str) -> None:
    if table is not None:
        table.write("\t".join(cells) + "\n")


def _listed(counts: Dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items() if count) or "nothing"


def build_parser() -> argparse.ArgumentParser:
    """Return the options of ``python -m data_prep.clean``."""
    parser = cli.parser("clean", __doc__)
    parser.add_argument("--inputs", nargs="+", required=True, metavar="FILE", help="line i of each belongs together")
    parser.add_argument("--outputs", nargs="+", required=True, metavar="FILE", help="one for each input, same order")
    parser.add_argument("--form", choices=FORMS, default=Rules.form, help="Unicode form")
    parser.add_argument("--unit", choices=UNITS, default=Rules.unit, help="what lengths count")
    parser.add_argument("--min-length", type=int, default=Rules.min_length, metavar="N", help="fewest units")
    parser.add_argument("--max-length", type=int, default=Rules.max_length, metavar="N", help="most; 0 = no limit")
    parser.add_argument(
        "--max-ratio", type=float, default=Rules.max_ratio, metavar="R", help="longest / shortest line; 0 = no limit"
    )
    parser.add_argument(
        "--dedup", choices=DEDUP, default=Rules.dedup, help="drop tuples seen before: whole, by first file, by any file"
    )
    parser.add_argument("--normalise-only", action="store_true", help="drop nothing (test sets); the limits are off")
    parser.add_argument("--manifest", metavar="FILE", help="JSON; default: clean.json beside the first output")
    parser.add_argument("--dropped-table", metavar="FILE", help="TSV with a row for every dropped line (default: none)")
    return parser


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    args = build_parser().parse_args(argv)
    rules = Rules(
        args.form, args.unit, args.min_length, args.max_length, args.max_ratio, args.dedup, args.normalise_only
    )
    manifest = args.manifest or Path(args.outputs[0]).parent / "clean.json"
    counts = clean_files(args.inputs, args.outputs, rules, manifest, args.dropped_table)
    for name in ("dropped", "changed"):
        part = counts[name]
        assert isinstance(part, dict)
        cli.say(f"clean: {name}: {_listed(part)}")
    cli.say(f"clean: kept {counts['kept']:,} of {counts['read']:,} lines; manifest {manifest}")
