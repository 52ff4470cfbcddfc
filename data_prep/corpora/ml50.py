"""ML50 to parallel text: SPLIT.SRC-TGT.LANG, as fairseq's download scripts leave in ML50/raw."""

import re
from pathlib import Path
from typing import Iterator, List, Optional

from .. import cli
from ..io import InputError, read_parallel
from ..layout import LANG, Pair
from ..text.clean import Rules
from .segments import find_file
from .translation import Corpus, Lines, add_options, run

ALL = "all"
TRAIN = re.compile(f"train\\.({LANG}-{LANG})\\.{LANG}")


class ML50(Corpus):
    """Files per direction; training pairs with a sentence of any valid or test are dropped."""

    name = "ml50"
    removes_held_out = True

    def files(self, pair: Pair, split: str) -> List[Path]:
        """Return source and target file."""
        orders = (f"{pair[0]}-{pair[1]}", f"{pair[1]}-{pair[0]}")
        files = []
        for lang in pair:
            names = [f"{split}.{order}.{lang}" for order in orders]
            files.append(find_file(self.raw, names, f"{split} of {orders[0]}"))
        return files

    def lines(self, pair: Pair, split: str) -> Iterator[Lines]:
        """Yield the lines of both files."""
        yield from read_parallel(self.files(pair, split), "--raw", strict=False)

    def directions(self) -> str:
        """Return all directions with training files, as for ``--pairs``.

        Raises:
            InputError: there is none.
        """
        matches = (TRAIN.fullmatch(path.name) for path in self.raw.rglob("train.*"))
        directions = sorted({match[1] for match in matches if match})
        if not directions:
            reason = "no file train.SRC-TGT.LANG, as train.de_DE-en_XX.de_DE"
            raise InputError(f"--raw {self.raw}: {reason}")
        return ",".join(directions)


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    parser = cli.parser("ml50", __doc__)
    add_options(parser, ALL, Rules(max_length=0, dedup="tuple"), 0)
    args = parser.parse_args(argv)
    corpus = ML50(args.raw)
    if args.pairs == ALL:
        args.pairs = corpus.directions()
    run(corpus, args)
