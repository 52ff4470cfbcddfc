"""XGiga, XQG, WikiLingua, NCLS, XGLUE's generation tasks, or lines, to source and target."""

import argparse
import re
from pathlib import Path
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .. import cli
from ..io import InputError, PathLike, read_lines, read_parallel
from ..layout import SPLITS
from ..options import adder
from ..progress import with_progress
from . import examples
from .question_generation import SEPARATOR

VERB = "corpora"
LANGS = ("source", "target")
LINES, NCLS = "lines", "ncls"
NCLS_TARGETS = {"en": "zh", "zh": "en"}


class Layout(NamedTuple):
    """Places of a corpus' files.

    Attributes:
        splits: train, valid, test -> names in the files.
        source: file of sources below the folder; ``{split}``, ``{source}`` and ``{target}`` are
            filled in, ``{name}`` with the source language's English name, ``{direction}`` with
            both languages as ``EN2ZH``.
        target: file of targets.
        answer: file of texts that are added to the sources after the separator and never cut;
            empty for none.
        directions: pairs of languages; empty if the names of the files tell.
        monolingual: True if sources and targets are in one language, as line *i* of two languages
            need not belong together.
    """

    splits: Dict[str, str]
    source: str
    target: str
    answer: str = ""
    directions: Tuple[str, ...] = ()
    monolingual: bool = False


class Row(NamedTuple):
    """An example before limits; `answer` as in :class:`Layout`."""

    source: str
    target: str
    answer: str = ""


class SplitRows(NamedTuple):
    """A split with its files and rows."""

    split: str
    files: List[Path]
    rows: Iterator[Row]


DEV = {"train": "train", "valid": "dev", "test": "test"}
VAL = {"train": "train", "valid": "val", "test": "test"}
SAME = {split: split for split in SPLITS}


def _xglue(task: str) -> Layout:
    """Return the layout of a generation task of XGLUE."""
    stem = f"{task}/xglue.{task.lower()}"
    source, target = f"{stem}.{{source}}.src.{{split}}", f"{stem}.{{target}}.tgt.{{split}}"
    return Layout(DEV, source, target, monolingual=True)


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
    "xglue-ntg": _xglue("NTG"),
    "xglue-qg": _xglue("QG"),
    NCLS: Layout(
        SAME, "{direction}SUM/{direction}SUM_{split}.txt", "", directions=("en-zh", "zh-en")
    ),
}

NAMES = {
    "ar": "arabic",
    "cs": "czech",
    "de": "german",
    "en": "english",
    "es": "spanish",
    "fr": "french",
    "hi": "hindi",
    "id": "indonesian",
    "it": "italian",
    "ja": "japanese",
    "ko": "korean",
    "nl": "dutch",
    "pt": "portuguese",
    "ru": "russian",
    "th": "thai",
    "tr": "turkish",
    "vi": "vietnamese",
    "zh": "chinese",
}
PART = re.compile(r"<(Article|(?:EN|ZH)-REF\d*|(?:en|zh)-summary)(-human-corrected)?>$")
DOCUMENT = re.compile(r"<doc id=[\"']?([^\"'>]+)")


def check_direction(name: str, source: str, target: str) -> None:
    """Raise InputError unless the corpus of a layout has the direction."""
    layout = LAYOUTS[name]
    directions = (f"{source}-{source}",) if layout.monolingual else layout.directions
    if directions and f"{source}-{target}" not in directions:
        options = ["--from {} --to {}".format(*pair.split("-")) for pair in directions]
        valid = f"valid with --layout {name}: {' or '.join(options)}"
        raise InputError(f"--from {source} --to {target}: {valid}")


def read_layout(
    layout: Layout,
    folder: PathLike,
    split: str,
    languages: Tuple[str, str],
    articles: Mapping[str, str],
) -> SplitRows:
    """Return the files and rows of a split; `articles` as in :func:`read_ncls`.

    Raises:
        InputError: a file is missing, or files of unequal length.
    """
    source, target = languages
    names = {"split": layout.splits[split], "source": source, "target": target}
    names["name"] = NAMES.get(source, source)
    names["direction"] = f"{source}2{target}".upper()
    patterns = [layout.source, layout.target, layout.answer]
    files = [Path(folder) / pattern.format_map(names) for pattern in patterns if pattern]
    for file in files:
        if not file.is_file():
            problem = f"no {file.relative_to(folder)} (--from {source} --to {target})"
            valid = "the folder of the extracted corpus, and languages that it has"
            raise InputError(f"--folder {folder}: {problem}; valid: {valid}")
    if layout is LAYOUTS[NCLS]:
        return SplitRows(split, files, read_ncls(files[0], target, articles))
    rows = read_parallel(files, "--folder", strict=False)
    return SplitRows(split, files, (Row(*row) for row in rows))


def read_ncls(path: PathLike, target: str, articles: Mapping[str, str]) -> Iterator[Row]:
    """Yield articles and summaries of a file of NCLS.

    A document of EN2ZHSUM is ``<doc id=…>`` with ``<Article>`` and references for each sentence of
    the summary. A document of ZH2ENSUM has ``<en-summary>`` and no article: its article is LCSTS's
    text of the same id.

    Args:
        path: the file.
        target: ``en`` or ``zh``. Sentences that people corrected take precedence.
        articles: id -> text, for documents without an article.

    Raises:
        InputError: a document without article or summary.
    """
    document = ""
    article: List[str] = []
    plain: List[str] = []
    corrected: List[str] = []
    part: Optional[List[str]] = None  # that the next lines belong to
    for number, line in enumerate(read_lines(path, "--folder", strict=False), start=1):
        text = line.strip()
        start, tag = DOCUMENT.match(text), PART.match(text)
        if start:
            document = start[1]
        elif tag:
            part = None
            if tag[1] == "Article":
                part = article
            elif tag[1][:2].lower() == target:
                part = corrected if tag[2] else plain
        elif text == "</doc>":
            source = "\n".join(article) or articles.get(document, "")
            summary = " ".join(corrected or plain)
            if not source or not (plain or corrected):
                problem = f"a document without article or {target} summary"
                if not source:
                    remedy = "--articles PART_I.txt, with this document"
                    problem += f"; valid for articles of LCSTS: {remedy}"
                raise InputError(f"--folder {path}, line {number}: {problem}")
            yield Row(source, summary)
            document, article, plain, corrected, part = "", [], [], [], None
        elif text.startswith("<") and text.endswith(">"):
            part = None
        elif part is not None and text:
            part.append(text)


def read_articles(path: PathLike) -> Dict[str, str]:
    """Return the texts of a file of LCSTS by id: ``<doc id=…>`` with ``<short_text>``.

    Raises:
        InputError: bad text, as in :func:`read_lines`, or no document.
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
            articles[document] = f"{articles[document]}\n{text}" if document in articles else text
    if not articles:
        raise InputError(f"--articles {path}: no text; valid: PART_I.txt of LCSTS")
    return articles


def collect(part: SplitRows, collector: examples.Collector, separator: str) -> None:
    """Take the rows of a split.

    Raises:
        InputError: a source or an answer holds the separator that will stand between them.
    """
    for row in with_progress(part.rows, VERB):
        if row.answer and separator in f"{row.source} {row.answer}":
            problem = f"a text holds the separator {separator!r}"
            raise InputError(f"{part.split}: {problem}; valid: another --separator")
        answer = collector.normalise(row.answer) if row.answer else ""
        ending = f"{separator} {answer}" if answer else ""
        collector.add(part.split, row.source, [row.target], ending)


def _languages(args: argparse.Namespace) -> Tuple[str, str]:
    """Return the languages of sources and targets."""
    source = args.source or "en"
    default = NCLS_TARGETS.get(source, "zh") if args.layout == NCLS else source
    return source, args.target or default


def _open_lines(args: argparse.Namespace) -> List[SplitRows]:
    option = "--layout lines"
    if not (args.sources and args.targets) or args.folder:
        valid = "--sources FILE… and --targets FILE…, without --folder"
        raise InputError(f"{option}: valid: {valid}")
    if args.source or args.target or args.articles:
        raise InputError(f"{option}: valid: without --from, --to and --articles")
    examples.check_split_names(args.splits, args.sources, "--sources")
    examples.check_split_names(args.splits, args.targets, "--targets")
    parts = []
    for split, source, target in zip(args.splits, args.sources, args.targets):
        files = [Path(source), Path(target)]
        rows = read_parallel(files, "--sources", strict=False)
        parts.append(SplitRows(split, files, (Row(*row) for row in rows)))
    return parts


def _open_layout(args: argparse.Namespace) -> List[SplitRows]:
    if args.folder is None or args.sources or args.targets:
        raise InputError(f"--layout {args.layout}: valid: --folder DIR alone")
    layout = LAYOUTS[args.layout]
    _check_splits(args.splits, layout)
    languages = _languages(args)
    check_direction(args.layout, *languages)
    if args.articles and (args.layout, languages[0]) != (NCLS, "zh"):
        raise InputError(f"--articles {args.articles}: valid with --layout {NCLS} --from zh")
    articles = read_articles(args.articles) if args.articles else {}
    return [read_layout(layout, args.folder, split, languages, articles) for split in args.splits]


def _check_splits(splits: Sequence[str], layout: Layout) -> None:
    if set(splits) - set(layout.splits) or len(set(splits)) < len(splits):
        valid = f"of {', '.join(layout.splits)}, each once"
        raise InputError(f"--splits {' '.join(splits)}: valid: {valid}")


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    parser = cli.parser(VERB, __doc__)
    add = adder(parser)
    text = "layout of the files; lines: files of --sources and --targets"
    add("--layout", None, text, required=True, choices=[*LAYOUTS, LINES])
    add("--folder", "DIR", "folder of the extracted corpus")
    add("--from", "LANG", "language of the sources; default: en", dest="source")
    text = "language of the targets; default: that of the sources (ncls: the other language)"
    add("--to", "LANG", text, dest="target")
    add("--articles", "FILE", "articles of --layout ncls --from zh: PART_I.txt of LCSTS")
    add("--splits", "NAME", "splits to read", many=True, default=list(SPLITS))
    for side in ("sources", "targets"):
        add(f"--{side}", "FILE", f"{side} of --layout lines, a file for each split", many=True)
    add("--separator", None, "text between passage and answer", default=SEPARATOR)
    examples.add_options(parser, LANGS)
    examples.add_sentence_option(parser)
    args = parser.parse_args(argv)
    options = {name: getattr(args, name) for name in ("layout", "splits", "separator")}
    if args.layout == LINES:
        parts = _open_lines(args)
    else:
        parts = _open_layout(args)
        options["source"], options["target"] = _languages(args)
    collector = examples.collector_from_args(args.splits, args)
    for part in parts:
        collect(part, collector, args.separator)
    inputs = [file for part in parts for file in part.files]
    if args.articles:
        inputs.append(Path(args.articles))
    examples.write_examples(collector, VERB, args, options, inputs)
