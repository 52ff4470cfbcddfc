"""IWSLT 2014 (and other years in its layout) to parallel text: train.tags.SRC-TGT.LANG and IWSLT*.TED*.SET.SRC-TGT.LANG.xml."""

from pathlib import Path
from typing import Iterator, List, Optional, Sequence

from .. import cli
from ..io import InputError, PathLike
from ..layout import Pair
from ..text.clean import Rules
from .segments import find, parallel_segments, parallel_tagged
from .translation import Corpus, Lines, add_options, run

TEST_SETS = "dev2010,dev2012,tst2010,tst2011,tst2012"  # what the 2014 German-English results in the literature use
VALID_EVERY = 23


class IWSLT(Corpus):
    """Training files with tags; valid is cut from them, or is an evaluation set; test is several evaluation sets."""

    name = "iwslt14"

    def __init__(self, raw: PathLike, test_sets: Sequence[str], valid_sets: Sequence[str] = ()):
        super().__init__(raw)
        self.sets = {"valid": list(valid_sets), "test": list(test_sets)}
        for name in self.sets["test"]:
            if not name or name in self.sets["valid"]:
                raise InputError(
                    f"--test-sets: {name!r}; valid: names of sets, as tst2012, that are not in --valid-sets"
                )

    def files(self, pair: Pair, split: str) -> List[Path]:
        """Return source and target files, alternating."""
        source, target = pair
        orders = (f"{source}-{target}", f"{target}-{source}")
        if split == "train":
            return [find(self.raw, [f"train.tags.{o}.{lang}" for o in orders], "the training text") for lang in pair]
        return [
            find(self.raw, [f"IWSLT*.TED*.{name}.{o}.{lang}.xml" for o in orders], f"the set {name}")
            for name in self.sets[split]
            for lang in pair
        ]

    def lines(self, pair: Pair, split: str) -> Iterator[Lines]:
        """Yield the text without tags."""
        files = self.files(pair, split)
        read = parallel_tagged if split == "train" else parallel_segments
        for source, target in zip(files[::2], files[1::2]):
            yield from read(source, target)


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    parser = cli.parser("iwslt14", __doc__)
    add_options(parser, "de-en", Rules(max_length=175, max_ratio=1.5, dedup="none"), VALID_EVERY)
    parser.add_argument("--test-sets", default=TEST_SETS, metavar="NAMES", help="joined in this order to the test set")
    parser.add_argument("--valid-sets", metavar="NAMES", help="these instead of lines of train; sets --valid-every 0")
    args = parser.parse_args(argv)
    valid_sets = args.valid_sets.split(",") if args.valid_sets else []
    if valid_sets:
        args.valid_every = 0
    elif not args.valid_every:
        raise InputError("--valid-every 0: valid: 2 or more, or --valid-sets")
    run(IWSLT(args.raw, args.test_sets.split(","), valid_sets), args)
