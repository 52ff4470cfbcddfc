"""Split (multi-)parallel text into train, valid and test by a hash of the line: a sentence never moves."""

import argparse
import hashlib
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Dict, List, Optional, Sequence

from .. import cli
from ..files import atomic_texts
from ..io import InputError, PathLike, read_parallel
from ..progress import with_progress
from ..steps import write_manifest

SPLITS = ("train", "valid", "test")
HASH_ON = ("source", "tuple")
HASH_BYTES = 8
HASH_RANGE = 1 << (8 * HASH_BYTES)


@dataclass(frozen=True)
class Shares:
    """Which hashes go where: test takes the lowest buckets, valid the highest, train those between.

    So test and valid can grow later, and only take from train.

    Args:
        buckets: number of equal buckets the hashes fall into.
        valid: buckets of valid, 0 or more.
        test: buckets of test, 0 or more; at least one bucket must be left for train.
        hash_on: ``source`` = the first file's line alone (its repetitions stay together whatever their translations
            are), ``tuple`` = the lines of all files.
        salt: another text gives another split.
    """

    buckets: int
    valid: int
    test: int
    hash_on: str = "source"
    salt: str = ""

    def __post_init__(self) -> None:
        if self.hash_on not in HASH_ON:
            raise InputError(f"--hash-on {self.hash_on}: valid: {', '.join(HASH_ON)}")
        if not 1 <= self.buckets <= HASH_RANGE:
            raise InputError(f"--buckets {self.buckets}: valid: 1 to 2^{8 * HASH_BYTES}")
        for option, value in (("valid", self.valid), ("test", self.test)):
            if value < 0:
                raise InputError(f"--{option}-buckets {value}: valid: 0 or more")
        if self.valid + self.test >= self.buckets:
            raise InputError(
                f"--valid-buckets {self.valid} and --test-buckets {self.test}: valid: together less than the number of "
                f"buckets ({self.buckets}), so that something is left for train"
            )

    def wanted(self) -> List[str]:
        """Return the splits that have any bucket."""
        return [name for name in SPLITS if name == "train" or getattr(self, name) > 0]


def shares_from_ratios(valid: float, test: float, hash_on: str = "source", salt: str = "") -> Shares:
    """Return shares in [0, 1) as buckets, one bucket a hash value.

    Raises:
        InputError: a share outside [0, 1), or both together reach 1.
    """
    for option, value in (("valid", valid), ("test", test)):
        if not 0 <= value < 1:
            raise InputError(f"--{option}-ratio {value}: valid: 0 or more, less than 1")
    if valid + test >= 1:
        raise InputError(f"--valid-ratio {valid} and --test-ratio {test}: valid: together less than 1")
    return Shares(HASH_RANGE, int(valid * HASH_RANGE), int(test * HASH_RANGE), hash_on, salt)


def split_of(lines: Sequence[str], shares: Shares) -> str:
    """Return the split of a tuple of lines; it depends on nothing but the text and the shares."""
    text = lines[0] if shares.hash_on == "source" else "\n".join(lines)
    key = f"{shares.salt}\n{text}".encode()
    value = int.from_bytes(hashlib.blake2b(key, digest_size=HASH_BYTES).digest(), "big")
    bucket = value * shares.buckets // HASH_RANGE
    if bucket < shares.test:
        return "test"
    return "valid" if bucket >= shares.buckets - shares.valid else "train"


def split_files(
    inputs: Sequence[PathLike], langs: Sequence[str], output_dir: PathLike, shares: Shares
) -> Dict[str, int]:
    """Write ``train.LANG``, ``valid.LANG`` and ``test.LANG`` for every file, and ``split.json``.

    Args:
        inputs: the files; line i of each belongs together.
        langs: the ending of each file's outputs.
        output_dir: where the outputs go.
        shares: which hashes go where; a split without a bucket is not written.

    Returns:
        Lines of each split.

    Raises:
        InputError: bad input, as in :func:`read_parallel`, or a split that was asked for got no line.
    """
    _check_langs(inputs, langs)
    names = shares.wanted()
    paths = [Path(output_dir) / f"{name}.{lang}" for name in names for lang in langs]
    counts: Counter = Counter()
    with atomic_texts(paths, "--output-dir", inputs, empty_ok=True) as files:
        of_split = {name: files[i * len(langs) : (i + 1) * len(langs)] for i, name in enumerate(names)}
        for lines in with_progress(read_parallel(inputs, "--inputs"), "split"):
            name = split_of(lines, shares)
            counts[name] += 1
            for file, line in zip(of_split[name], lines):
                file.write(line + "\n")
        for name in names:
            if counts[name] == 0:
                remedy = "smaller shares for the others" if name == "train" else f"a larger share for {name}, or 0"
                raise InputError(
                    f"--inputs: no line of {sum(counts.values())} fell into {name}, so nothing was written; "
                    f"valid: more lines, or {remedy}"
                )
    result = {name: counts[name] for name in names}
    write_manifest(Path(output_dir) / "split.json", "split", asdict(shares), result, inputs, paths)
    return result


def _check_langs(inputs: Sequence[PathLike], langs: Sequence[str]) -> None:
    if len(langs) != len(inputs):
        raise InputError(f"--langs {' '.join(langs)}: {len(langs)} names for {len(inputs)} files; valid: one for each")
    for index, lang in enumerate(langs):
        if not lang or "/" in lang or lang in langs[:index]:
            raise InputError(f"--langs: {lang!r}; valid: different names without '/', one for each of --inputs")


def build_parser() -> argparse.ArgumentParser:
    """Return the options of ``python -m data_prep.split``."""
    parser = cli.parser("split", __doc__)
    parser.add_argument("--inputs", nargs="+", required=True, metavar="FILE", help="line i of each belongs together")
    parser.add_argument("--output-dir", required=True, metavar="DIR", help="gets train.LANG, valid.LANG, test.LANG")
    parser.add_argument("--langs", nargs="+", metavar="LANG", help="endings of the outputs; default: the inputs'")
    parser.add_argument("--hash-on", choices=HASH_ON, default="source", help="first file's line, or all")
    parser.add_argument("--salt", default="", help="another text gives another split")
    parser.add_argument("--valid-ratio", type=float, metavar="R", help="share of valid in [0, 1)")
    parser.add_argument("--test-ratio", type=float, metavar="R", help="share of test in [0, 1)")
    parser.add_argument("--buckets", type=int, metavar="N", help="instead of ratios: number of equal buckets")
    parser.add_argument("--valid-buckets", type=int, metavar="N", help="buckets of valid (the highest)")
    parser.add_argument("--test-buckets", type=int, metavar="N", help="buckets of test (the lowest)")
    return parser


def shares_from_args(args: argparse.Namespace) -> Shares:
    """Return the shares that ratios or buckets on the command line ask for.

    Raises:
        InputError: both kinds or none are given, or a value is out of range.
    """
    ratios = args.valid_ratio is not None or args.test_ratio is not None
    bucketed = args.buckets is not None or args.valid_buckets is not None or args.test_buckets is not None
    if ratios == bucketed:
        raise InputError(
            "give either --valid-ratio and/or --test-ratio, or --buckets with --valid-buckets and/or --test-buckets"
        )
    if ratios:
        return shares_from_ratios(args.valid_ratio or 0.0, args.test_ratio or 0.0, args.hash_on, args.salt)
    if args.buckets is None:
        raise InputError("--buckets: missing; valid: how many buckets --valid-buckets and --test-buckets are of")
    return Shares(args.buckets, args.valid_buckets or 0, args.test_buckets or 0, args.hash_on, args.salt)


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    args = build_parser().parse_args(argv)
    langs = args.langs or [Path(path).suffix.lstrip(".") for path in args.inputs]
    counts = split_files(args.inputs, langs, args.output_dir, shares_from_args(args))
    listed = ", ".join(f"{name} {count:,}" for name, count in counts.items())
    cli.say(f"split: {listed} lines in {args.output_dir}")
