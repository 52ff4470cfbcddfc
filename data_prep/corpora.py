"""XGiga, XQG, WikiLingua, NCLS, XGLUE's generation tasks, or files of lines to source and target files."""

import argparse
import re
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from . import cli
from .generation_text import Collector, add_options, limits_from_args, named_splits
from .io import InputError, PathLike, read_lines, read_parallel
from .question_generation import SEPARATOR

LANGS = ("source", "target")
LINES, NCLS = "lines", "ncls"


class Layout(NamedTuple):
    """Where a corpus keeps its files.

    Attributes:
        splits: train, valid, test -> what the files call them.
        source, target: files below the folder; ``{split}``, ``{source}`` and ``{target}`` are filled in, ``{name}`` is the source
            language's English name.
        answer: a file of what stands behind the separator at the end of a source and is never cut; empty for none.
    """

    splits: Dict[str, str]
    source: str
    target: str
    answer: str = ""


class Row(NamedTuple):
    """An example before limits; ``answer`` as in :class:`Layout`."""

    source: str
    target: str
    answer: str = ""


DEV = {"train": "train", "valid": "dev", "test": "test"}
VAL = {"train": "train", "valid": "val", "test": "test"}
SAME = {"train": "train", "valid": "valid", "test": "test"}

LAYOUTS = {
    "xgiga": Layout(DEV, "{split}.x.{source}", "{split}.y.{target}"),
    "xqg": Layout(DEV, "{split}.e.{source}.lc", "{split}.q.{target}.lc", "{split}.a.{source}.lc"),
    "wikilingua": Layout(VAL, "{name}/{split}.src.{source}", "{name}/{split}.tgt.{target}"),
    "xglue-ntg": Layout(DEV, "NTG/xglue.ntg.{source}.src.{split}", "NTG/xglue.ntg.{target}.tgt.{split}"),
    "xglue-qg": Layout(DEV, "QG/xglue.qg.{source}.src.{split}", "QG/xglue.qg.{target}.tgt.{split}"),
    NCLS: Layout(SAME, "EN2ZHSUM/EN2ZHSUM_{split}.txt", ""),
}
"""``ncls``: documents in English, summaries in Chinese; the other direction has no articles of its own (they are LCSTS's)."""

NAMES = dict(
    part.split(":")
    for part in (
        "ar:arabic cs:czech de:german en:english es:spanish fr:french hi:hindi id:indonesian it:italian ja:japanese ko:korean "
        "nl:dutch pt:portuguese ru:russian th:thai tr:turkish vi:vietnamese zh:chinese"
    ).split()
)
OPENS = re.compile(r"<(Article|EN-REF\d*|ZH-REF\d*)(-human-corrected)?>$")


def read_layout(
    layout: Layout, folder: PathLike, split: str, source: str, target: str
) -> Tuple[List[Path], Iterator[Row]]:
    """The files of a split, and its rows. Raises InputError: a file is missing, or files of unequal length."""
    names = {"split": layout.splits[split], "source": source, "target": target, "name": NAMES.get(source, source)}
    patterns = [layout.source, layout.target, layout.answer]
    files = [Path(folder) / pattern.format(**names) for pattern in patterns if pattern]
    for file in files:
        if not file.is_file():
            raise InputError(
                f"--folder {folder}: no {file.relative_to(folder)}; valid: the folder of the extracted corpus"
            )
    if layout is LAYOUTS[NCLS]:
        return files, read_ncls(files[0], target)
    return files, (Row(*row) for row in read_parallel(files, "--folder", strict=False))


def read_ncls(path: PathLike, target: str) -> Iterator[Row]:
    """Articles and summaries of a file of NCLS: ``<doc …>`` with ``<Article>`` and, for each sentence of the summary, references.

    Args:
        path: the file.
        target: ``en`` or ``zh``. Of the test set the corrected Chinese sentences are taken, where there are any.

    Raises InputError: another language, or a document without article or summary.
    """
    if target not in ("en", "zh"):
        raise InputError(f"--to {target}: valid with --layout {NCLS}: zh, en")
    article: List[str] = []
    plain: List[str] = []
    corrected: List[str] = []
    into: Optional[List[str]] = None
    for number, line in enumerate(read_lines(path, "--folder", strict=False), start=1):
        text = line.strip()
        opened = OPENS.match(text)
        if opened:
            kind, human = opened[1], opened[2]
            wanted = kind == "Article" or kind.startswith(f"{target.upper()}-REF")
            into = (article if kind == "Article" else corrected if human else plain) if wanted else None
        elif text == "</doc>":
            if not article or not (plain or corrected):
                raise InputError(f"--folder {path}, line {number}: a document without article or {target} summary")
            yield Row(" ".join(article), " ".join(corrected or plain))
            article, plain, corrected, into = [], [], [], None
        elif text.startswith("<") and text.endswith(">"):
            into = None
        elif into is not None and text:
            into.append(text)


def collect(rows: Iterator[Row], split: str, collector: Collector, separator: str) -> None:
    """Take the rows of a split. Raises InputError: a source or an answer holds the separator that will stand between them."""
    for row in cli.with_progress(rows, "corpora"):
        if row.answer and separator in f"{row.source} {row.answer}":
            raise InputError(f"{split}: a text holds the separator {separator!r}; valid: another --separator")
        answer = collector.normal(row.answer) if row.answer else ""
        collector.add(split, row.source, [row.target], f"{separator} {answer}" if answer else "")


def build_parser() -> argparse.ArgumentParser:
    """Return the options of ``python -m data_prep.corpora``."""
    parser = cli.parser("corpora", __doc__)
    parser.add_argument(
        "--layout", required=True, choices=[*LAYOUTS, LINES], help="whose files; lines: those named below"
    )
    parser.add_argument("--folder", metavar="DIR", help="the extracted corpus")
    parser.add_argument("--from", dest="source", default="en", metavar="LANG", help="language of the sources")
    parser.add_argument("--to", dest="target", metavar="LANG", help="of the targets; default: that of the sources")
    parser.add_argument("--splits", nargs="+", default=["train", "valid", "test"], metavar="NAME", help="that are read")
    parser.add_argument("--sources", nargs="+", metavar="FILE", help="of --layout lines: one for each split")
    parser.add_argument("--targets", nargs="+", metavar="FILE", help="of --layout lines: one for each split")
    parser.add_argument("--separator", default=SEPARATOR, help="between passage and answer")
    add_options(parser, LANGS)
    return parser


def _opened(args: argparse.Namespace) -> List[Tuple[str, List[Path], Iterator[Row]]]:
    """Split, files and rows of what the command line names."""
    if args.layout == LINES:
        if not (args.sources and args.targets) or args.folder:
            raise InputError("--layout lines: valid: --sources FILE… and --targets FILE…, without --folder")
        named_splits(args.splits, args.sources, "--sources")
        named_splits(args.splits, args.targets, "--targets")
        pairs = [[Path(one), Path(two)] for one, two in zip(args.sources, args.targets)]
        return [
            (split, pair, (Row(*row) for row in read_parallel(pair, "--sources", strict=False)))
            for split, pair in zip(args.splits, pairs)
        ]
    if args.folder is None or args.sources or args.targets:
        raise InputError(f"--layout {args.layout}: valid: --folder DIR alone")
    layout = LAYOUTS[args.layout]
    unknown = [split for split in args.splits if split not in layout.splits]
    if unknown or len(set(args.splits)) < len(args.splits):
        raise InputError(f"--splits {' '.join(args.splits)}: valid: of {', '.join(layout.splits)}, each once")
    target = args.target or ("zh" if args.layout == NCLS else args.source)
    return [(split, *read_layout(layout, args.folder, split, args.source, target)) for split in args.splits]


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    args = build_parser().parse_args(argv)
    opened = _opened(args)
    collector = Collector(args.splits, args.langs, limits_from_args(args), args.form)
    for split, _, rows in opened:
        collect(rows, split, collector, args.separator)
    options = {name: getattr(args, name) for name in ("layout", "source", "target", "splits", "separator")}
    inputs: Sequence[Path] = [file for _, files, _ in opened for file in files]
    counts = collector.write("corpora", args.output_dir, options, inputs, {})
    listed = ", ".join(f"{name} {counts[name]:,}" for name in args.splits)
    cli.say(f"corpora: {listed}; manifest {Path(args.output_dir) / 'corpora.json'}")


if __name__ == "__main__":
    cli.run("corpora", main)
