"""Public sets for understanding to a data-bin: classes of sentences, ranking, tags of words, questions on passages."""

import argparse
import dataclasses
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence

from .. import cli
from ..files import write_bytes
from ..io import InputError
from ..pieces.models import read_dictionary
from ..steps import write_manifest
from .conll import FORMATS, Conll
from .layouts import (
    LAYOUTS,
    QUESTIONS,
    RANKING,
    SENTENCES,
    TAGS,
    TRAIN_LANGUAGE,
    Layout,
    layout_named,
)
from .segmenters import CodesPieces, SentencePieces, WordPieces
from .sources import TRANSLATE, Source, names_of, parse_limits, parse_sources
from .tables import LAST, NONE, Table, check_columns, parse_header, parse_map, parse_texts

VERBS = {
    SENTENCES: "one or two texts per row, with a class (XNLI, PAWS-X, news, QADSM, QAM)",
    RANKING: "a query and a document a row, with a grade (WPR)",
    TAGS: "words with tags (NER, parts of speech)",
    QUESTIONS: "questions on passages (XQuAD, MLQA, TyDiQA)",
}
# Of the options that a layout may set; None elsewhere means: not given.
DEFAULTS: Dict[str, Any] = {
    "text": "1,2",
    "label": LAST,
    "query": "1",
    "header": NONE,
    "csv": False,
    "label_map": "",
    "format": None,
    "token_column": None,
    "tag_column": None,
}
SEGMENTERS = ("sentencepiece", "codes", "wordpiece")


class Work(NamedTuple):
    """What a verb does, once its options are read.

    Attributes:
        labels: makes the labels of train; None: there are none.
        write: (data-bin, source, labels, longest) -> counts.
    """

    labels: Optional[Callable[[], Any]]
    write: Callable[..., Any]


def build_parser() -> argparse.ArgumentParser:
    """Return the options of ``python -m data_prep.nlu`` and its verbs."""
    parser = cli.parser("nlu", __doc__)
    commands = parser.add_subparsers(dest="verb", required=True, metavar="|".join(VERBS))
    for verb, text in VERBS.items():
        command = commands.add_parser(verb, help=text, description=text)
        _add_common(command, verb)
        if verb in (SENTENCES, RANKING):
            _add_table(command, verb)
        if verb == TAGS:
            command.add_argument("--format", choices=FORMATS, help="default: by the file's name (.conllu)")
            command.add_argument("--token-column", type=int, metavar="N", help="of CoNLL's words (default: 1)")
            command.add_argument(
                "--tag-column", metavar="COL", help="N, last (CoNLL's default), upos (CoNLL-U's) or xpos"
            )
        if verb != QUESTIONS:
            command.add_argument("--label-map", metavar="OLD=NEW,…", help="other names for labels")
            command.add_argument(
                "--labels", metavar="FILE", help="label/dict.txt of another data-bin, in place of the labels of train"
            )
    return parser


def _add_common(command: argparse.ArgumentParser, verb: str) -> None:
    command.add_argument("output", metavar="OUT", help="the data-bin folder: new, empty, or made by an earlier run")
    command.add_argument(
        "inputs", nargs="*", metavar="SPLIT.LANG=FILE", help="as train.en=train.tsv test.de=test.de.tsv"
    )
    command.add_argument("--sentencepiece", metavar="FILE", help="sentencepiece model")
    command.add_argument("--codes", metavar="FILE", help="BPE codes instead; words are what spaces separate")
    command.add_argument("--wordpiece", metavar="FILE", help="vocab.txt of a BERT instead")
    command.add_argument("--lowercase", action="store_true", help="with --wordpiece: for uncased vocabularies")
    command.add_argument("--dict", metavar="FILE", help="fairseq dictionary; may be left out with --wordpiece")
    command.add_argument(
        "--max-positions", type=int, default=512, metavar="N", help="count rows with more tokens; nothing is cut here"
    )
    command.add_argument(
        "--limit", default="", metavar="N", help="first rows of a split, as 1000 or train=10000,test=500"
    )
    names = ", ".join(name for name, layout in LAYOUTS.items() if layout.verb == verb)
    command.add_argument("--layout", metavar="NAME", help=f"files of a collection: {names}")
    command.add_argument("--folder", metavar="DIR", help="with --layout: where the collection is")
    command.add_argument("--languages", metavar="CODES", help="with --layout: of valid and test (default: all)")
    command.add_argument(
        "--train-languages",
        metavar="CODES",
        help="with --layout: of train, with their gold labels (default: en); translate: en and its machine translations, as "
        "translate.LANG",
    )


def _add_table(command: argparse.ArgumentParser, verb: str) -> None:
    columns = "columns are numbers from 1, last, or names of a header"
    command.add_argument(
        "--text", metavar="COLS", help=f"one or two texts, as 1,2 (default) or query,title+body; {columns}"
    )
    command.add_argument("--label", metavar="COL", help="column of the label (default: last), or none")
    if verb == RANKING:
        command.add_argument("--query", metavar="COL", help="column of the query's id (default: 1)")
    command.add_argument(
        "--header", metavar="SPLITS", help="files that begin with names: all, none (default), or train,valid"
    )
    command.add_argument(
        "--csv",
        action="store_true",
        default=None,
        help="cells may be in quotation marks, as csv writers set them; CR LF is fine",
    )


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    parser = build_parser()
    args, more = parser.parse_known_args(argv)
    unknown = [item for item in more if item.startswith("-")]
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if args.max_positions < 1:
        raise InputError(f"--max-positions {args.max_positions}: valid: 1 or more")
    layout = layout_named(args.layout, args.verb) if args.layout else None
    options = {name: _given(args, name, layout.options if layout else {}) for name in DEFAULTS if hasattr(args, name)}
    items = [*(_layout_items(args, layout) if layout else _no_layout(args)), *args.inputs, *more]
    sources = parse_sources(items, parse_limits(args.limit))
    segmenter = _segmenter(args)
    with tempfile.TemporaryDirectory(prefix="nlu-") as folder:
        dictionary = _dictionary(args, segmenter, Path(folder))
        _run(args, sources, segmenter, dictionary, options, layout.translation_options if layout else {})


def _given(args: argparse.Namespace, name: str, preset: Mapping[str, Any]) -> Any:
    value = getattr(args, name)
    return value if value is not None else preset.get(name, DEFAULTS[name])


def _layout_items(args: argparse.Namespace, layout: Layout) -> List[str]:
    if not args.folder:
        raise InputError("--folder: missing; valid: the folder of the collection, with --layout")
    languages = args.languages.split(",") if args.languages else []
    training = (args.train_languages or TRAIN_LANGUAGE).split(",")
    if "all" in training:
        raise InputError(
            f"--train-languages {args.train_languages}: would train on gold labels of the test languages; valid: codes, as "
            f"{TRAIN_LANGUAGE},de for gold labels in these languages, or {TRANSLATE} for {TRAIN_LANGUAGE} and its machine "
            "translations"
        )
    if TRANSLATE in training and len(training) > 1:
        raise InputError(f"--train-languages {args.train_languages}: valid: {TRANSLATE} alone, or codes of languages")
    if training == [TRANSLATE]:
        return layout.sources(args.layout, args.folder, languages, [TRAIN_LANGUAGE], translate=True)
    return layout.sources(args.layout, args.folder, languages, training)


def _no_layout(args: argparse.Namespace) -> List[str]:
    for option in ("folder", "languages", "train_languages"):
        if getattr(args, option):
            raise InputError(f"--{option.replace('_', '-')} {getattr(args, option)}: valid: only with --layout")
    return []


def _segmenter(args: argparse.Namespace) -> Any:
    given = [name for name in SEGMENTERS if getattr(args, name)]
    if len(given) != 1:
        shown = " and ".join(f"--{name}" for name in given) or "none of them"
        raise InputError(f"{shown} given; valid: one of {', '.join(f'--{name}' for name in SEGMENTERS)}")
    if args.lowercase and not args.wordpiece:
        raise InputError("--lowercase: valid: only with --wordpiece; other models know themselves what they do")
    if not args.wordpiece and not args.dict:
        raise InputError(f"--dict: missing; valid: the fairseq dictionary of --{given[0]}")
    if args.sentencepiece:
        return SentencePieces(args.sentencepiece)
    return CodesPieces(args.codes) if args.codes else WordPieces(args.wordpiece, args.lowercase)


def _dictionary(args: argparse.Namespace, segmenter: Any, folder: Path) -> Path:
    """The dictionary that is given, or that of the WordPiece vocabulary."""
    path = Path(args.dict or folder / "dict.txt")
    if not args.dict:
        write_bytes(path, "".join(segmenter.dictionary_lines()).encode("utf-8"))
    read_dictionary(path, "--dict" if args.dict else "--wordpiece")
    return path


def _work(
    verb: str,
    options: Mapping[str, Any],
    sources: Sequence[Source],
    given: Optional[str],
    translations: Mapping[str, Any],
) -> Work:
    """Read the verb's own options. fairseq, which takes seconds, is imported here and not before."""
    from . import labels as nlu_labels
    from . import questions as nlu_questions
    from . import sentences as nlu_sentences
    from . import tags as nlu_tags

    if verb == QUESTIONS:
        return Work(None, nlu_questions.write_questions)
    mapping = parse_map(options["label_map"])
    if verb == TAGS:
        reader = Conll(options["format"], options["token_column"], options["tag_column"], mapping)
        labels, write = nlu_tags.labels_of(reader, sources), partial(nlu_tags.write_tags, reader)
    else:
        table = _table(options, mapping)
        if translations:
            columns = {**options, "header": NONE, "label_map": "", **translations}
            renaming = {**parse_map(columns["label_map"]), **mapping}
            table = dataclasses.replace(table, translations=_table(columns, renaming))
        writer = nlu_sentences.write_ranking if verb == RANKING else nlu_sentences.write_sentences
        labels, write = nlu_sentences.labels_of(table, sources), partial(writer, table)
        if table.label == NONE and verb == RANKING:
            raise InputError(f"--label {NONE}: valid: the column of the grade")
        if table.label == NONE and given:
            raise InputError(f"--labels {given}: valid: not with --label {NONE}")
        if table.label == NONE:
            return Work(None, write)
    collect = nlu_labels.collect_grades if verb == RANKING else nlu_labels.collect
    return Work(lambda: nlu_labels.read_labels(given) if given else collect(labels), write)


def _table(options: Mapping[str, Any], mapping: Dict[str, str]) -> Table:
    header = parse_header(options["header"])
    texts = parse_texts(options["text"], header)
    query = options.get("query", NONE)
    check_columns("--label", [options["label"]], header)
    check_columns("--query", [query], header)
    return Table(texts, options["label"], query, header, options["csv"], mapping)


def _run(
    args: argparse.Namespace,
    sources: Sequence[Source],
    segmenter: Any,
    dictionary: Path,
    options: Mapping[str, Any],
    translations: Mapping[str, Any],
) -> None:
    work = _work(args.verb, options, sources, getattr(args, "labels", None), translations)
    from .counts import page, table, warn
    from .data_bin import VERB, DataBin, whole_folder

    counts = {}
    with whole_folder(args.output, sources) as folder:
        data = DataBin(folder, dictionary, segmenter)
        labels = work.labels() if work.labels is not None else None
        for source in sources:
            found = counts[source.name] = work.write(data, source, labels, args.max_positions)
            cli.say(f"nlu: {source.name}: {found.kept:,} of {found.read:,} rows, {found.pieces:,} pieces")
            warn(source.name, found)
        data.finish(labels)
        write_bytes(folder / "README.md", page(args.verb, counts, args.max_positions, labels).encode("utf-8"))
        shown = {
            **options,
            "inputs": {source.name: source.path.name for source in sources},
            "pieces": segmenter.option,
            "lowercase": args.lowercase,
            "max_positions": args.max_positions,
            "limit": args.limit,
            "labels": names_of([args.labels]) if getattr(args, "labels", None) else None,
        }
        inputs = [*(source.path for source in sources), segmenter.path, *([args.dict] if args.dict else [])]
        outputs = sorted(path for path in folder.rglob("*") if path.is_file())
        totals = {name: found.as_json() for name, found in counts.items()}
        write_manifest(folder / "manifest.json", f"{VERB} {args.verb}", shown, totals, inputs, outputs, folder)
    print("\n".join(table(counts, args.max_positions)))
    cli.say(f"nlu {args.verb}: {args.output}: {len(sources)} sets; the table is in README.md, hashes in manifest.json")
