"""TED talks (Qi et al. 2018) to parallel text: all_talks_{train,dev,test}.tsv."""

from pathlib import Path
from typing import Iterator, List, Optional

from .. import cli
from ..io import InputError, read_lines
from ..layout import Pair
from ..text.clean import Rules
from .segments import find_file, resolve_entities
from .translation import Corpus, Lines, add_options, run

MISSING = "__NULL__"
NAMES = {"train": "train", "valid": "dev", "test": "test"}


class TED(Corpus):
    """The three tables; ``__NULL__`` is a missing translation, ``zh_cn`` the column ``zh-cn``."""

    name = "ted"

    def files(self, pair: Pair, split: str) -> List[Path]:
        """Return the table of a split."""
        name = f"all_talks_{NAMES[split]}.tsv"
        return [find_file(self.raw, [name], f"the table of {split}")]

    def lines(self, pair: Pair, split: str) -> Iterator[Lines]:
        """Yield the cells of both languages if both are there, Moses' escapes resolved."""
        path = self.files(pair, split)[0]
        rows = read_lines(path, "--raw", strict=False)
        header = next(rows).rstrip("\r").split("\t")
        columns = [_find_column(header, lang, path) for lang in pair]
        for number, row in enumerate(rows, start=2):
            cells = row.rstrip("\r").split("\t")
            if len(cells) != len(header):
                problem = f"{len(cells)} columns; valid: {len(header)}, as the header"
                raise InputError(f"--raw {path}, line {number}: {problem}")
            source, target = (resolve_entities(cells[column]) for column in columns)
            if MISSING not in (source, target) and source and target:
                yield source, target


def _find_column(header: List[str], lang: str, path: Path) -> int:
    for name in (lang, lang.replace("_", "-")):
        if name in header[1:]:
            return header.index(name)
    valid = f"{', '.join(header[1:])} (with _ for -)"
    raise InputError(f"--pairs: {lang} is no language of {path}; valid: {valid}")


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    parser = cli.parser("ted", __doc__)
    add_options(parser, None, Rules(max_length=0, dedup="none"), 0)
    args = parser.parse_args(argv)
    run(TED(args.raw), args)
