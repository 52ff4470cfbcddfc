"""Public sets for understanding to a data-bin: classes, grades, tags, questions on passages."""

import argparse
import dataclasses
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence

from .. import cli
from ..files import write_bytes
from ..io import InputError
from ..layout import MANIFEST
from ..options import add_flag, adder, check_minimum
from ..pieces.dictionary import read_dictionary
from ..pieces.segmenters import Codes, SentencePiece
from ..steps import write_manifest
from . import layouts, questions, sentences, tables, tags
from .counts import Counts, format_page, format_table, warn
from .sources import TRANSLATE, Source, parse_limits, parse_sources
from .wordpiece import WordPiece

VERBS = {
    layouts.SENTENCES: "one or two texts per row, with a class (XNLI, PAWS-X, news, QADSM, QAM)",
    layouts.RANKING: "a query and a document a row, with a grade (WPR)",
    layouts.TAGS: "words with tags (NER, parts of speech)",
    layouts.QUESTIONS: "questions on passages (XQuAD, MLQA, TyDiQA)",
}
# Options that a layout may set; on the command line None stands for the default.
DEFAULTS: Dict[str, Any] = {
    "text": "1,2",
    "label": tables.LAST,
    "query": "1",
    "header": tables.NONE,
    "csv": False,
    "label_map": "",
    "format": None,
    "token_column": None,
    "tag_column": None,
}
SEGMENTERS = ("sentencepiece", "codes", "wordpiece")


# ---- Options. ----


def build_parser() -> argparse.ArgumentParser:
    """Return the options of ``python -m data_prep nlu`` and of its verbs."""
    parser = cli.parser("nlu", __doc__)
    commands = parser.add_subparsers(dest="verb", required=True, metavar="|".join(VERBS))
    for verb, description in VERBS.items():
        command = commands.add_parser(verb, help=description, description=description)
        _add_common_options(command, verb)
        if verb in (layouts.SENTENCES, layouts.RANKING):
            _add_table_options(command, verb)
        add = adder(command)
        if verb == layouts.TAGS:
            text = "format of the files; default: by their names (.conllu)"
            add("--format", None, text, choices=tags.FORMATS)
            add("--token-column", "N", "column of CoNLL's words, from 1 (default: 1)")
            text = "column of tags: N, last (CoNLL's default), upos (CoNLL-U's) or xpos"
            add("--tag-column", "COL", text)
        if verb != layouts.QUESTIONS:
            add("--label-map", "OLD=NEW,…", "new names of labels")
            text = "label/dict.txt of another data-bin, in place of the labels of train"
            add("--labels", "FILE", text)
    return parser


def _add_common_options(command: argparse.ArgumentParser, verb: str) -> None:
    add = adder(command)
    add("output", "OUT", "data-bin folder: new, empty, or made by an earlier run")
    text = "files, as train.en=train.tsv test.de=test.de.tsv"
    add("inputs", "SPLIT.LANG=FILE", text, nargs="*")
    add("--sentencepiece", "FILE", "sentencepiece model")
    add("--codes", "FILE", "BPE codes in place of a model; words are what spaces separate")
    add("--wordpiece", "FILE", "vocab.txt of a BERT in place of a model")
    text = "lower-case the text (--wordpiece: for uncased vocabularies)"
    add_flag(command, "--lowercase", text)
    add("--dict", "FILE", "fairseq dictionary; optional with --wordpiece")
    text = "tokens above which a row is counted as too long, >= 1; nothing is cut here"
    add("--max-positions", "N", text, default=512)
    text = "most rows of a split, as 1000 or train=10000,test=500"
    add("--limit", "ROWS", text, default="")
    add("--layout", "NAME", f"layout of a collection: {', '.join(layouts.layouts_of(verb))}")
    add("--folder", "DIR", "folder of the collection, with --layout")
    add("--languages", "CODES", "languages of valid and test, with --layout (default: all)")
    text = "languages of train, with --layout and their gold labels (default: en); translate: en "
    text += "and its machine translations, as translate.LANG"
    add("--train-languages", "CODES", text)


def _add_table_options(command: argparse.ArgumentParser, verb: str) -> None:
    add = adder(command)
    columns = "columns are numbers from 1, last, or names of a header"
    text = f"columns of one or two texts, as 1,2 (default) or query,title+body; {columns}"
    add("--text", "COLS", text)
    add("--label", "COL", "column of the label (default: last), or none")
    if verb == layouts.RANKING:
        add("--query", "COL", "column of the query's id (default: 1)")
    text = "splits whose files begin with names: all, none (default), or train,valid"
    add("--header", "SPLITS", text)
    text = "accept cells in quotation marks, as csv writers set them, and CR LF"
    add_flag(command, "--csv", text, default=None)


def _read_options(args: argparse.Namespace, layout: Optional[layouts.Layout]) -> Dict[str, Any]:
    """Return the values of ``DEFAULTS``: of the command line, else of the layout."""
    preset = {**DEFAULTS, **(layout.options if layout else {})}
    options = {}
    for name in DEFAULTS:
        if hasattr(args, name):
            choice = getattr(args, name)
            options[name] = preset[name] if choice is None else choice
    return options


def _layout_sources(args: argparse.Namespace, layout: layouts.Layout) -> List[str]:
    if not args.folder:
        raise InputError("--folder: missing; valid: the folder of the collection, with --layout")
    languages = args.languages.split(",") if args.languages else []
    training = (args.train_languages or layouts.TRAIN_LANGUAGE).split(",")
    option = f"--train-languages {args.train_languages}"
    if "all" in training:
        raise InputError(
            f"{option}: would train on gold labels of the test languages; valid: codes, as "
            f"{layouts.TRAIN_LANGUAGE},de for gold labels in these languages, or {TRANSLATE} for "
            f"{layouts.TRAIN_LANGUAGE} and its machine translations"
        )
    translate = TRANSLATE in training
    if translate and len(training) > 1:
        raise InputError(f"{option}: valid: {TRANSLATE} alone, or codes of languages")
    if translate:
        training = [layouts.TRAIN_LANGUAGE]
    return layout.sources(args.layout, args.folder, languages, training, translate)


def _refuse_layout_options(args: argparse.Namespace) -> None:
    for name in ("folder", "languages", "train_languages"):
        if getattr(args, name):
            option = f"--{name.replace('_', '-')} {getattr(args, name)}"
            raise InputError(f"{option}: valid: only with --layout")


class _Segmenter(NamedTuple):
    option: str
    model: Any


def _read_segmenter(args: argparse.Namespace) -> _Segmenter:
    names = [name for name in SEGMENTERS if getattr(args, name)]
    if len(names) != 1:
        choice = " and ".join(f"--{name}" for name in names) or "none of them"
        valid = ", ".join(f"--{name}" for name in SEGMENTERS)
        raise InputError(f"{choice} given; valid: one of {valid}")
    option = f"--{names[0]}"
    if args.lowercase and not args.wordpiece:
        reason = "other models know themselves what they do"
        raise InputError(f"--lowercase: valid: only with --wordpiece; {reason}")
    if not args.wordpiece and not args.dict:
        raise InputError(f"--dict: missing; valid: the fairseq dictionary of {option}")
    if args.sentencepiece:
        return _Segmenter(option, SentencePiece(args.sentencepiece, option))
    if args.codes:
        return _Segmenter(option, Codes(args.codes, option))
    return _Segmenter(option, WordPiece(args.wordpiece, args.lowercase))


def _find_dictionary(args: argparse.Namespace, segmenter: _Segmenter, folder: Path) -> Path:
    """Return --dict, or a dictionary made of the WordPiece vocabulary."""
    if args.dict:
        read_dictionary(args.dict)
        return Path(args.dict)
    path = folder / "dict.txt"
    write_bytes(path, "".join(segmenter.model.dictionary_lines()).encode("utf-8"))
    read_dictionary(path, "--wordpiece")
    return path


# ---- Work. ----


class _Work(NamedTuple):
    """Work of a verb.

    Attributes:
        labels: labels of train; None: there are none.
        write: (data-bin, source, labels, most positions) -> counts.
    """

    labels: Optional[Callable[[], Any]]
    write: Callable[..., Counts]


def _plan(
    args: argparse.Namespace,
    options: Mapping[str, Any],
    sources: Sequence[Source],
    translations: Mapping[str, Any],
) -> _Work:
    if args.verb == layouts.QUESTIONS:
        return _Work(None, questions.write_questions)
    label_map = tables.parse_label_map(options["label_map"])
    if args.verb == layouts.TAGS:
        places = options["token_column"], options["tag_column"]
        reader = tags.Conll(options["format"], *places, label_map)
        labels = partial(tags.training_labels, reader, sources)
        return _Work(_label_reader(args, labels), partial(tags.write_tags, reader))
    table = _build_table(options, label_map)
    if translations:
        columns = {**options, "header": tables.NONE, "label_map": "", **translations}
        renaming = {**tables.parse_label_map(columns["label_map"]), **label_map}
        table = dataclasses.replace(table, translations=_build_table(columns, renaming))
    is_ranking = args.verb == layouts.RANKING
    write = sentences.write_ranking if is_ranking else sentences.write_sentences
    if table.label == tables.NONE:
        if is_ranking:
            raise InputError(f"--label {tables.NONE}: valid: the column of the grade")
        if args.labels:
            raise InputError(f"--labels {args.labels}: valid: not with --label {tables.NONE}")
        return _Work(None, partial(write, table))
    labels = partial(sentences.training_labels, table, sources)
    return _Work(_label_reader(args, labels), partial(write, table))


def _label_reader(args: argparse.Namespace, labels: Callable[[], Any]) -> Callable[[], Any]:
    """Return the function that reads --labels, or collects those of train."""

    def read_all() -> Any:
        from .data_bin import collect_grades, collect_labels, read_labels

        if args.labels:
            return read_labels(args.labels)
        if args.verb == layouts.RANKING:
            return collect_grades(labels())
        return collect_labels(labels())

    return read_all


def _build_table(options: Mapping[str, Any], label_map: Dict[str, str]) -> tables.Table:
    header = tables.parse_header(options["header"])
    texts = tables.parse_texts(options["text"], header)
    query = options.get("query", tables.NONE)
    tables.check_columns("--label", [options["label"]], header)
    tables.check_columns("--query", [query], header)
    return tables.Table(texts, options["label"], query, header, options["csv"], label_map)


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    parser = build_parser()
    args, extras = parser.parse_known_args(argv)
    unknown = [item for item in extras if item.startswith("-")]
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    check_minimum("--max-positions", args.max_positions, 1)
    items = [*args.inputs, *extras]
    layout = None
    if args.layout:
        layout = layouts.layout_named(args.layout, args.verb)
        items = [*_layout_sources(args, layout), *items]
    else:
        _refuse_layout_options(args)
    options = _read_options(args, layout)
    sources = parse_sources(items, parse_limits(args.limit))
    segmenter = _read_segmenter(args)
    work = _plan(args, options, sources, layout.translation_options if layout else {})
    with tempfile.TemporaryDirectory(prefix="nlu-") as folder:
        dictionary = _find_dictionary(args, segmenter, Path(folder))
        _write_folder(args, sources, segmenter, dictionary, options, work)


def _write_folder(
    args: argparse.Namespace,
    sources: Sequence[Source],
    segmenter: _Segmenter,
    dictionary: Path,
    options: Mapping[str, Any],
    work: _Work,
) -> None:
    from .data_bin import VERB, DataBin, whole_folder  # imports fairseq, which takes seconds

    counts: Dict[str, Counts] = {}
    label_file = getattr(args, "labels", None)
    with whole_folder(args.output, sources) as folder:
        data = DataBin(folder, dictionary, segmenter.model)
        labels = work.labels() if work.labels is not None else None
        for source in sources:
            part = counts[source.name] = work.write(data, source, labels, args.max_positions)
            rows = f"{part.kept:,} of {part.read:,} rows"
            cli.say(f"nlu: {source.name}: {rows}, {part.pieces:,} pieces")
            warn(source.name, part)
        data.finish(labels)
        names = labels.names if labels is not None else None
        page = format_page(args.verb, counts, args.max_positions, names)
        write_bytes(folder / "README.md", page.encode("utf-8"))
        all_options = {
            **options,
            "inputs": {source.name: source.path.name for source in sources},
            "pieces": segmenter.option,
            "lowercase": args.lowercase,
            "max_positions": args.max_positions,
            "limit": args.limit,
            "labels": [Path(label_file).name] if label_file else None,
        }
        inputs = [*(source.path for source in sources), segmenter.model.path]
        if args.dict:
            inputs.append(args.dict)
        outputs = sorted(path for path in folder.rglob("*") if path.is_file())
        totals = {name: part.as_json() for name, part in counts.items()}
        verb = f"{VERB} {args.verb}"
        write_manifest(folder / MANIFEST, verb, all_options, totals, inputs, outputs, folder)
    print("\n".join(format_table(counts, args.max_positions)))
    places = "the table is in README.md, hashes in manifest.json"
    cli.say(f"nlu {args.verb}: {args.output}: {len(sources)} sets; {places}")
