"""WMT 2014 English-German and English-French to parallel text: the training corpora, newstest2014 as test."""

from pathlib import Path
from typing import Dict, Iterator, List, Optional, Tuple

from .. import cli
from ..io import InputError, PathLike, read_parallel
from ..layout import Pair, parse_pairs
from ..text.clean import Rules
from .segments import find, parallel_segments
from .translation import Corpus, Lines, add_options, run

# Pair -> names of the corpora (their files are NAME.de and NAME.en), one validation line in so many, code of the test set.
CORPORA: Dict[str, Tuple[Tuple[str, ...], int, str]] = {
    "de": (("europarl-v7.de-en", "commoncrawl.de-en", "news-commentary-v9.de-en"), 100, "deen"),
    "fr": (
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


class WMT14(Corpus):
    """Plain training files, sgm test sets; valid is cut from train, or an older test set (plain or sgm)."""

    name = "wmt14"

    def __init__(self, raw: PathLike, valid_set: Optional[str] = None):
        super().__init__(raw)
        self.valid_set = valid_set

    def files(self, pair: Pair, split: str) -> List[Path]:
        """Return source and target files, alternating."""
        corpora, _, code = CORPORA[foreign(pair)]
        if split == "train":
            return [find(self.raw, [f"{name}.{lang}"], f"the corpus {name}") for name in corpora for lang in pair]
        if split == "valid" and self.valid_set is None:
            return []
        if split == "valid":
            name = self.valid_set
            sides = [[f"{name}.{lang}", f"{name}-src.{lang}.sgm", f"{name}-ref.{lang}.sgm"] for lang in pair]
        else:
            name = "newstest2014"
            sides = [[f"{name}-{code}-{role}.{lang}.sgm"] for role, lang in zip(("src", "ref"), pair)]
        return [find(self.raw, patterns, f"the set {name}") for patterns in sides]

    def lines(self, pair: Pair, split: str) -> Iterator[Lines]:
        """Yield the lines of all corpora, one after the other, or of an evaluation set."""
        files = self.files(pair, split)
        for source, target in zip(files[::2], files[1::2]):
            if source.suffix == ".sgm" and target.suffix == ".sgm":
                yield from parallel_segments(source, target)
            else:
                yield from read_parallel([source, target], "--raw", strict=False)


def foreign(pair: Pair) -> str:
    """Return the language of a pair that is not English.

    Raises:
        InputError: not a pair of this corpus.
    """
    langs = [lang for lang in pair if lang != "en"]
    if len(langs) != 1 or langs[0] not in CORPORA:
        raise InputError(f"--pairs {'-'.join(pair)}: valid: en-de, de-en, en-fr, fr-en")
    return langs[0]


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    parser = cli.parser("wmt14", __doc__)
    add_options(parser, "en-de", Rules(max_length=250, max_ratio=1.5, dedup="none"), -1)
    parser.add_argument("--valid-set", metavar="NAME", help="this set as valid, as newstest2013; sets --valid-every 0")
    args = parser.parse_args(argv)
    every = {CORPORA[foreign(pair)][1] for pair in parse_pairs(args.pairs)}
    if args.valid_set is not None:
        args.valid_every = 0
    elif args.valid_every == -1 and len(every) > 1:
        raise InputError(
            f"--pairs {args.pairs}: their valid is cut differently; valid: one run a pair, or --valid-every N"
        )
    elif args.valid_every == -1:
        args.valid_every = every.pop()
    elif not args.valid_every:
        raise InputError("--valid-every 0: valid: 2 or more, or --valid-set")
    run(WMT14(args.raw, args.valid_set), args)
