"""WMT 2014 English-German and English-French to parallel text; newstest2014 is test."""

from pathlib import Path
from typing import Iterator, List, NamedTuple, Optional, Tuple

from .. import cli
from ..io import InputError, PathLike, read_parallel
from ..layout import Pair, parse_pairs
from ..options import adder
from ..text.clean import Rules
from .segments import find_file, parallel_segments
from .translation import Corpus, Lines, add_options, run

TEST_SET = "newstest2014"


class TrainingSet(NamedTuple):
    """Training text of a language with English.

    Attributes:
        names: corpora; their files are NAME.LANG.
        valid_every: one in so many training lines is cut off as valid.
        code: code of the pair in the names of the test set.
    """

    names: Tuple[str, ...]
    valid_every: int
    code: str


TRAINING = {
    "de": TrainingSet(
        ("europarl-v7.de-en", "commoncrawl.de-en", "news-commentary-v9.de-en"), 100, "deen"
    ),
    "fr": TrainingSet(
        (
            "europarl-v7.fr-en",
            "commoncrawl.fr-en",
            "undoc.2000.fr-en",
            "news-commentary-v9.fr-en",
            "giga-fren.release2.fixed",
        ),
        1333,
        "fren",
    ),
}
CUT_FROM_TRAIN = -1  # --valid-every: the number of the pair's training set


class WMT14(Corpus):
    """Plain training files, sgm test sets; valid is cut from train, or an older test set.

    Args:
        raw: folder of the extracted archives.
        valid_set: test set (plain or sgm) that becomes valid; None: cut from train.
    """

    name = "wmt14"

    def __init__(self, raw: PathLike, valid_set: Optional[str] = None):
        super().__init__(raw)
        self.valid_set = valid_set

    def files(self, pair: Pair, split: str) -> List[Path]:
        """Return source and target files, alternating."""
        training = TRAINING[foreign_language(pair)]
        if split == "train":
            return [
                find_file(self.raw, [f"{name}.{lang}"], f"the corpus {name}")
                for name in training.names
                for lang in pair
            ]
        if split == "test":
            name = TEST_SET
            patterns = [
                [f"{name}-{training.code}-{role}.{lang}.sgm"]
                for role, lang in zip(("src", "ref"), pair)
            ]
        elif self.valid_set is not None:
            name = self.valid_set
            patterns = [
                [f"{name}.{lang}", f"{name}-src.{lang}.sgm", f"{name}-ref.{lang}.sgm"]
                for lang in pair
            ]
        else:
            return []
        return [find_file(self.raw, side, f"the set {name}") for side in patterns]

    def lines(self, pair: Pair, split: str) -> Iterator[Lines]:
        """Yield the lines of all corpora, one after the other, or of an evaluation set."""
        files = self.files(pair, split)
        for source, target in zip(files[::2], files[1::2]):
            if source.suffix == ".sgm" and target.suffix == ".sgm":
                yield from parallel_segments(source, target)
            else:
                yield from read_parallel([source, target], "--raw", strict=False)


def foreign_language(pair: Pair) -> str:
    """Return the language of a pair that is not English.

    Raises:
        InputError: not a pair of this corpus.
    """
    langs = [lang for lang in pair if lang != "en"]
    if len(langs) != 1 or langs[0] not in TRAINING:
        raise InputError(f"--pairs {'-'.join(pair)}: valid: en-de, de-en, en-fr, fr-en")
    return langs[0]


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    parser = cli.parser("wmt14", __doc__)
    rules = Rules(max_length=250, max_ratio=1.5, dedup="none")
    add_options(parser, "en-de", rules, CUT_FROM_TRAIN)
    text = "test set as valid, as newstest2013; sets --valid-every 0"
    adder(parser)("--valid-set", "NAME", text)
    args = parser.parse_args(argv)
    pairs = parse_pairs(args.pairs)
    intervals = {TRAINING[foreign_language(pair)].valid_every for pair in pairs}
    if args.valid_set is not None:
        args.valid_every = 0
    elif args.valid_every == CUT_FROM_TRAIN and len(intervals) > 1:
        valid = "one run a pair, or --valid-every N"
        raise InputError(f"--pairs {args.pairs}: their valid is cut differently; valid: {valid}")
    elif args.valid_every == CUT_FROM_TRAIN:
        args.valid_every = intervals.pop()
    elif not args.valid_every:
        raise InputError("--valid-every 0: valid: 2 or more, or --valid-set")
    run(WMT14(args.raw, args.valid_set), args)
