"""XGiga, XQG, WikiLingua, NCLS, XGLUE's generation tasks, or files of lines to source and target files."""

import argparse
import re
from pathlib import Path
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from .. import cli
from ..io import InputError, PathLike, read_lines, read_parallel
from ..progress import with_progress
from .examples import Collector, add_options, limits_from_args, named_splits
from .question_generation import SEPARATOR

LANGS = ("source", "target")
LINES, NCLS = "lines", "ncls"
OTHER = {"en": "zh", "zh": "en"}
"""The two languages of NCLS."""


class Layout(NamedTuple):
    """Where a corpus keeps its files.

    Attributes:
        splits: train, valid, test -> what the files call them.
        source, target: files below the folder; ``{split}``, ``{source}`` and ``{target}`` are filled in, ``{name}`` is the source
            language's English name, ``{direction}`` both languages as ``EN2ZH``.
        answer: a file of what stands behind the separator at the end of a source and is never cut; empty for none.
        directions: pairs of languages that there are; empty where the names of the files tell.
        monolingual: True where sources and targets are in one language, as line *i* of two languages need not
            belong together.
    """

    splits: Dict[str, str]
    source: str
    target: str
    answer: str = ""
    directions: Tuple[str, ...] = ()
    monolingual: bool = False


class Row(NamedTuple):
    """An example before limits; ``answer`` as in :class:`Layout`."""

    source: str
    target: str
    answer: str = ""


DEV = {"train": "train", "valid": "dev", "test": "test"}
VAL = {"train": "train", "valid": "val", "test": "test"}
SAME = {"train": "train", "valid": "valid", "test": "test"}

LAYOUTS = {
    "xgiga": Layout(DEV, "{split}.x.{source}", "{split}.y.{target}", monolingual=True),
    "xqg": Layout(
        DEV,
        "{split}.e.{source}.lc",
        "{split}.q.{target}.lc",
        "{split}.a.{source}.lc",
        monolingual=True,
    ),
    "wikilingua": Layout(VAL, "{name}/{split}.src.{source}", "{name}/{split}.tgt.{target}"),
    "xglue-ntg": Layout(
        DEV,
        "NTG/xglue.ntg.{source}.src.{split}",
        "NTG/xglue.ntg.{target}.tgt.{split}",
        monolingual=True,
    ),
    "xglue-qg": Layout(
        DEV,
        "QG/xglue.qg.{source}.src.{split}",
        "QG/xglue.qg.{target}.tgt.{split}",
        monolingual=True,
    ),
    NCLS: Layout(
        SAME,
        "{direction}SUM/{direction}SUM_{split}.txt",
        "",
        directions=("en-zh", "zh-en"),
    ),
}

NAMES = dict(
    part.split(":")
    for part in (
        "ar:arabic cs:czech de:german en:english es:spanish fr:french hi:hindi id:indonesian it:italian ja:japanese ko:korean "
        "nl:dutch pt:portuguese ru:russian th:thai tr:turkish vi:vietnamese zh:chinese"
    ).split()
)
OPENS = re.compile(r"<(Article|(?:EN|ZH)-REF\d*|(?:en|zh)-summary)(-human-corrected)?>$")
DOCUMENT = re.compile(r"<doc id=[\"']?([^\"'>]+)")


def check_direction(name: str, source: str, target: str) -> None:
    """Raise InputError unless the corpus of this layout has the direction."""
    layout = LAYOUTS[name]
    directions = (f"{source}-{source}",) if layout.monolingual else layout.directions
    if directions and f"{source}-{target}" not in directions:
        valid = " or ".join("--from {} --to {}".format(*pair.split("-")) for pair in directions)
        raise InputError(f"--from {source} --to {target}: valid with --layout {name}: {valid}")


def read_layout(
    layout: Layout,
    folder: PathLike,
    split: str,
    source: str,
    target: str,
    articles: Mapping[str, str],
) -> Tuple[List[Path], Iterator[Row]]:
    """Return the files of a split, and its rows; ``articles`` as in :func:`read_ncls`.

    Raises InputError: a file is missing, or files of unequal length.
    """
    names = {"split": layout.splits[split], "source": source, "target": target, "name": NAMES.get(source, source)}
    names["direction"] = f"{source}2{target}".upper()
    patterns = [layout.source, layout.target, layout.answer]
    files = [Path(folder) / pattern.format(**names) for pattern in patterns if pattern]
    for file in files:
        if not file.is_file():
            raise InputError(
                f"--folder {folder}: no {file.relative_to(folder)} (--from {source} --to {target}); valid: the folder "
                "of the extracted corpus, and languages that it has"
            )
    if layout is LAYOUTS[NCLS]:
        return files, read_ncls(files[0], target, articles)
    return files, (Row(*row) for row in read_parallel(files, "--folder", strict=False))


def read_ncls(path: PathLike, target: str, articles: Mapping[str, str]) -> Iterator[Row]:
    """Yield articles and summaries of a file of NCLS.

    A document of EN2ZHSUM is ``<doc id=…>`` with ``<Article>`` and references for each sentence of the summary.
    A document of ZH2ENSUM has ``<en-summary>`` and no article: its article is LCSTS's text of the same id.

    Args:
        path: the file.
        target: ``en`` or ``zh``. Sentences that people corrected are taken where there are any.
        articles: id -> text, for documents without an article.

    Raises InputError: a document without article or summary.
    """
    document = ""
    article: List[str] = []
    plain: List[str] = []
    corrected: List[str] = []
    into: Optional[List[str]] = None
    for number, line in enumerate(read_lines(path, "--folder", strict=False), start=1):
        text = line.strip()
        start, part = DOCUMENT.match(text), OPENS.match(text)
        if start:
            document = start[1]
        elif part:
            kind, human = part[1], part[2]
            if kind == "Article":
                into = article
            elif kind[:2].lower() == target:
                into = corrected if human else plain
            else:
                into = None
        elif text == "</doc>":
            source = " ".join(article) or articles.get(document, "")
            if not source or not (plain or corrected):
                error = f"--folder {path}, line {number}: a document without article or {target} summary"
                if not source:
                    error += "; valid for articles of LCSTS: --articles PART_I.txt, with this document"
                raise InputError(error)
            yield Row(source, " ".join(corrected or plain))
            document, article, plain, corrected, into = "", [], [], [], None
        elif text.startswith("<") and text.endswith(">"):
            into = None
        elif into is not None and text:
            into.append(text)


def read_articles(path: PathLike) -> Dict[str, str]:
    """Return the texts of a file of LCSTS by id: ``<doc id=…>`` with ``<summary>`` and ``<short_text>``.

    Raises InputError: bad text, as in :func:`read_lines`, or no document.
    """
    articles: Dict[str, str] = {}
    document, is_text = "", False
    for line in read_lines(path, "--articles", strict=False):
        text = line.strip()
        start = DOCUMENT.match(text)
        if start:
            document = start[1]
        elif text.startswith("<") and text.endswith(">"):
            is_text = text == "<short_text>"
        elif is_text and text:
            articles[document] = f"{articles[document]} {text}" if document in articles else text
    if not articles:
        raise InputError(f"--articles {path}: no text; valid: PART_I.txt of LCSTS")
    return articles


def collect(rows: Iterator[Row], split: str, collector: Collector, separator: str) -> None:
    """Take the rows of a split. Raises InputError: a source or an answer holds the separator that will stand between them."""
    for row in with_progress(rows, "corpora"):
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
    parser.add_argument("--from", dest="source", metavar="LANG", help="language of the sources; default: en")
    parser.add_argument(
        "--to",
        dest="target",
        metavar="LANG",
        help="language of the targets; default: that of the sources (ncls: the other language)",
    )
    parser.add_argument(
        "--articles",
        metavar="FILE",
        help="articles of --layout ncls --from zh: PART_I.txt of LCSTS",
    )
    parser.add_argument("--splits", nargs="+", default=["train", "valid", "test"], metavar="NAME", help="that are read")
    parser.add_argument("--sources", nargs="+", metavar="FILE", help="of --layout lines: one for each split")
    parser.add_argument("--targets", nargs="+", metavar="FILE", help="of --layout lines: one for each split")
    parser.add_argument("--separator", default=SEPARATOR, help="between passage and answer")
    add_options(parser, LANGS)
    return parser


def _languages(args: argparse.Namespace) -> Tuple[str, str]:
    """Return the languages of sources and targets, of a layout that has any."""
    source = args.source or "en"
    return source, args.target or (OTHER.get(source, "zh") if args.layout == NCLS else source)


def _opened(args: argparse.Namespace) -> List[Tuple[str, List[Path], Iterator[Row]]]:
    """Split, files and rows of what the command line names."""
    if args.layout == LINES:
        if not (args.sources and args.targets) or args.folder:
            raise InputError("--layout lines: valid: --sources FILE… and --targets FILE…, without --folder")
        if args.source or args.target or args.articles:
            raise InputError("--layout lines: valid: without --from, --to and --articles")
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
    source, target = _languages(args)
    check_direction(args.layout, source, target)
    if args.articles and (args.layout, source) != (NCLS, "zh"):
        raise InputError(f"--articles {args.articles}: valid with --layout {NCLS} --from zh")
    articles = read_articles(args.articles) if args.articles else {}
    return [(split, *read_layout(layout, args.folder, split, source, target, articles)) for split in args.splits]


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    args = build_parser().parse_args(argv)
    opened = _opened(args)
    collector = Collector(args.splits, args.langs, limits_from_args(args), args.form)
    for split, _, rows in opened:
        collect(rows, split, collector, args.separator)
    options = {name: getattr(args, name) for name in ("layout", "splits", "separator")}
    if args.layout != LINES:
        options["source"], options["target"] = _languages(args)
    inputs = [file for _, files, _ in opened for file in files]
    inputs += [Path(args.articles)] if args.articles else []
    counts = collector.write("corpora", args.output_dir, options, inputs, {})
    listed = ", ".join(f"{name} {counts[name]:,}" for name in args.splits)
    cli.say(f"corpora: {listed}; manifest {Path(args.output_dir) / 'corpora.json'}")
