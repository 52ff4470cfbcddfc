"""IWSLT 2014 (and years in its layout) to parallel text: train.tags.SRC-TGT.LANG and xml sets."""

from pathlib import Path
from typing import Iterator, List, Optional, Sequence

from .. import cli
from ..io import InputError, PathLike
from ..layout import Pair
from ..options import adder
from ..text.clean import Rules
from .segments import find_file, parallel_segments, parallel_tagged
from .translation import Corpus, Lines, add_options, run

TEST_SETS = "dev2010,dev2012,tst2010,tst2011,tst2012"  # of the 2014 German-English results
VALID_EVERY = 23


class IWSLT(Corpus):
    """Training files with tags; evaluation sets as test, and as valid unless cut from train.

    Args:
        raw: folder of the extracted archives.
        test_sets: names of the sets that are joined to test.
        valid_sets: names of the sets that are joined to valid.
    """

    name = "iwslt14"

    def __init__(self, raw: PathLike, test_sets: Sequence[str], valid_sets: Sequence[str] = ()):
        super().__init__(raw)
        self.sets = {"valid": list(valid_sets), "test": list(test_sets)}
        for name in test_sets:
            if not name or name in valid_sets:
                valid = "names of sets, as tst2012, that are not in --valid-sets"
                raise InputError(f"--test-sets: {name!r}; valid: {valid}")

    def files(self, pair: Pair, split: str) -> List[Path]:
        """Return source and target files, alternating."""
        source, target = pair
        orders = (f"{source}-{target}", f"{target}-{source}")
        files = []
        if split == "train":
            for lang in pair:
                names = [f"train.tags.{order}.{lang}" for order in orders]
                files.append(find_file(self.raw, names, "the training text"))
            return files
        for name in self.sets[split]:
            for lang in pair:
                patterns = [f"IWSLT*.TED*.{name}.{order}.{lang}.xml" for order in orders]
                files.append(find_file(self.raw, patterns, f"the set {name}"))
        return files

    def lines(self, pair: Pair, split: str) -> Iterator[Lines]:
        """Yield the text without tags."""
        files = self.files(pair, split)
        for source, target in zip(files[::2], files[1::2]):
            if split == "train":
                yield from parallel_tagged(source, target)
            else:
                yield from parallel_segments(source, target)


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    parser = cli.parser("iwslt14", __doc__)
    rules = Rules(max_length=175, max_ratio=1.5, dedup="none")
    add_options(parser, "de-en", rules, VALID_EVERY)
    add = adder(parser)
    add("--test-sets", "NAMES", "sets joined in this order to the test set", default=TEST_SETS)
    text = "sets joined to valid, in place of lines of train; sets --valid-every 0"
    add("--valid-sets", "NAMES", text)
    args = parser.parse_args(argv)
    valid_sets = args.valid_sets.split(",") if args.valid_sets else []
    if valid_sets:
        args.valid_every = 0
    elif not args.valid_every:
        raise InputError("--valid-every 0: valid: 2 or more, or --valid-sets")
    run(IWSLT(args.raw, args.test_sets.split(","), valid_sets), args)
