"""Split (multi-)parallel text into train, valid and test by a hash: a sentence never moves."""

import argparse
import hashlib
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Dict, List, Optional, Sequence

from .. import cli
from ..files import atomic_texts
from ..io import InputError, PathLike, read_parallel
from ..layout import SPLITS
from ..options import adder, check_minimum
from ..progress import with_progress
from ..steps import write_manifest

HASH_ON = ("source", "tuple")
HASH_BYTES = 8
HASH_RANGE = 1 << (8 * HASH_BYTES)


@dataclass(frozen=True)
class Shares:
    """Buckets of hashes: test takes the lowest, valid the highest, train those between.

    So test and valid can grow later, and take from train alone.

    Args:
        buckets: number of equal buckets that the hashes fall into.
        valid: buckets of valid, 0 or more.
        test: buckets of test, 0 or more; at least one bucket must be left for train.
        hash_on: ``source`` = the line of the first file (its repetitions stay together whatever
            their translations are), ``tuple`` = the lines of all files.
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
        check_minimum("--valid-buckets", self.valid, 0)
        check_minimum("--test-buckets", self.test, 0)
        if self.valid + self.test >= self.buckets:
            raise InputError(
                f"--valid-buckets {self.valid} and --test-buckets {self.test}: valid: together "
                f"less than the number of buckets ({self.buckets}), so that train gets some"
            )

    def splits(self) -> List[str]:
        """Return the splits that have any bucket."""
        return [name for name in SPLITS if name == "train" or getattr(self, name) > 0]


def shares_from_ratios(
    valid: float, test: float, hash_on: str = "source", salt: str = ""
) -> Shares:
    """Return shares in [0, 1) as buckets, one bucket per hash value.

    Raises:
        InputError: a share outside [0, 1), or both together reach 1.
    """
    for option, ratio in (("valid", valid), ("test", test)):
        if not 0 <= ratio < 1:
            raise InputError(f"--{option}-ratio {ratio}: valid: 0 or more, less than 1")
    if valid + test >= 1:
        ratios = f"--valid-ratio {valid} and --test-ratio {test}"
        raise InputError(f"{ratios}: valid: together less than 1")
    return Shares(HASH_RANGE, int(valid * HASH_RANGE), int(test * HASH_RANGE), hash_on, salt)


def split_of(lines: Sequence[str], shares: Shares) -> str:
    """Return the split of a tuple of lines; it depends on the text and the shares alone."""
    text = lines[0] if shares.hash_on == "source" else "\n".join(lines)
    key = f"{shares.salt}\n{text}".encode()
    number = int.from_bytes(hashlib.blake2b(key, digest_size=HASH_BYTES).digest(), "big")
    bucket = number * shares.buckets // HASH_RANGE
    if bucket < shares.test:
        return "test"
    return "valid" if bucket >= shares.buckets - shares.valid else "train"


def split_files(
    inputs: Sequence[PathLike], langs: Sequence[str], output_dir: PathLike, shares: Shares
) -> Dict[str, int]:
    """Write train.LANG, valid.LANG and test.LANG for every file, and split.json.

    Args:
        inputs: files; line i of each belongs together.
        langs: ending of each file's outputs.
        output_dir: folder of the outputs.
        shares: buckets; a split without a bucket is not written.

    Returns:
        Lines of each split.

    Raises:
        InputError: bad input, as in :func:`read_parallel`, or a split with buckets got no line.
    """
    _check_langs(inputs, langs)
    splits = shares.splits()
    paths = [Path(output_dir) / f"{split}.{lang}" for split in splits for lang in langs]
    counter: Counter = Counter()
    with atomic_texts(paths, "--output-dir", inputs, empty_ok=True) as opened:
        files = {}
        for index, split in enumerate(splits):
            files[split] = opened[index * len(langs) : (index + 1) * len(langs)]
        for lines in with_progress(read_parallel(inputs, "--inputs"), "split"):
            split = split_of(lines, shares)
            counter[split] += 1
            for file, line in zip(files[split], lines):
                file.write(line + "\n")
        counts = {split: counter[split] for split in splits}
        _check_splits(counts)
    outputs = Path(output_dir)
    write_manifest(outputs / "split.json", "split", asdict(shares), counts, inputs, paths)
    return counts


def _check_splits(counts: Dict[str, int]) -> None:
    """Raise InputError if a split has no line; ``atomic_texts`` then writes no file."""
    for split, count in counts.items():
        if count == 0:
            remedy = f"a larger share for {split}, or 0"
            if split == "train":
                remedy = "smaller shares for the others"
            raise InputError(
                f"--inputs: no line of {sum(counts.values())} fell into {split}, so nothing was "
                f"written; valid: more lines, or {remedy}"
            )


def _check_langs(inputs: Sequence[PathLike], langs: Sequence[str]) -> None:
    if len(langs) != len(inputs):
        counts = f"{len(langs)} names for {len(inputs)} files"
        raise InputError(f"--langs {' '.join(langs)}: {counts}; valid: one for each")
    for index, lang in enumerate(langs):
        if not lang or "/" in lang or lang in langs[:index]:
            valid = "different names without '/', one for each of --inputs"
            raise InputError(f"--langs: {lang!r}; valid: {valid}")


def shares_from_args(args: argparse.Namespace) -> Shares:
    """Return the shares of ratios or buckets on the command line.

    Raises:
        InputError: both kinds or none are set, or a number is out of range.
    """
    ratios = args.valid_ratio, args.test_ratio
    buckets = args.buckets, args.valid_buckets, args.test_buckets
    has_ratios = any(ratio is not None for ratio in ratios)
    has_buckets = any(number is not None for number in buckets)
    if has_ratios == has_buckets:
        raise InputError(
            "give either --valid-ratio and/or --test-ratio, or --buckets with --valid-buckets "
            "and/or --test-buckets"
        )
    if has_ratios:
        return shares_from_ratios(ratios[0] or 0.0, ratios[1] or 0.0, args.hash_on, args.salt)
    if args.buckets is None:
        valid = "the number of buckets that --valid-buckets and --test-buckets are part of"
        raise InputError(f"--buckets: missing; valid: {valid}")
    return Shares(args.buckets, buckets[1] or 0, buckets[2] or 0, args.hash_on, args.salt)


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    parser = cli.parser("split", __doc__)
    add = adder(parser)
    text = "parallel text: line i of each file belongs together"
    add("--inputs", "FILE", text, many=True, required=True)
    add("--output-dir", "DIR", "folder of train.LANG, valid.LANG, test.LANG", required=True)
    add("--langs", "LANG", "endings of the outputs; default: those of the inputs", many=True)
    text = "what is hashed: the line of the first file, or the lines of all files"
    add("--hash-on", None, text, choices=HASH_ON, default="source")
    add("--salt", None, "text that is hashed too: gives another split", default="")
    for split, place in (("valid", "highest"), ("test", "lowest")):
        add(f"--{split}-ratio", "R", f"share of {split}, in [0, 1)")
        add(f"--{split}-buckets", "N", f"buckets of {split} (the {place}), >= 0")
    add("--buckets", "N", "number of equal buckets, in place of ratios")
    args = parser.parse_args(argv)
    langs = args.langs or [Path(path).suffix.lstrip(".") for path in args.inputs]
    counts = split_files(args.inputs, langs, args.output_dir, shares_from_args(args))
    cli.say(f"split: {cli.list_counts(counts)} lines in {args.output_dir}")
