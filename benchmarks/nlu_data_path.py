"""Compare making batches of understanding tasks with fairseq's sentence classification.

    python -m benchmarks.nlu_data_path [--rows 20000] [--rounds 5]

Dataset and collater over memory-mapped data-bins in one process, rows in their order. All cases
have the same random texts. For questions 22 texts make a passage that is read in windows; an item
is a question with all its windows. The peer is stock ``sentence_prediction`` with
``--init-token``; it neither cuts texts nor counts what it cut. Ratios are those of the time per
token.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import torch
from fairseq.data import Dictionary, FairseqDataset, data_utils
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask

from fairseq_plugins.understanding.answers import SpanQAConfig, SpanQATask
from fairseq_plugins.understanding.sentences import (
    CrossLingualClassificationConfig,
    CrossLingualClassificationTask,
)
from fairseq_plugins.understanding.tags import (
    TokenClassificationConfig,
    TokenClassificationTask,
)

from . import report
from .datasets import SEED, Case, compare_cases, item_columns, make_dictionary, write_rows
from .report import Column

SUBSET, LONGEST = "train.en", 512
PEER = "stock sentence_prediction"
TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-ORG", "I-ORG")
CLASSES = ("no", "yes", "maybe")
WORDS, PIECES = (2, 15), (1, 3)
"""Fewest and most words of a sentence, and pieces of a word; on average 8 and 16, as in WikiAnn."""

TEXTS, WINDOW = 22, 384
"""Texts of a passage and tokens of a window; XQuAD's English passages are about as long."""

Word = Tuple[Sequence[int], str]
"""Pieces of a word, counted from 0, and its tag."""


# ---- Data. ----


def draw_sentences(rows: int, vocab: int) -> Iterator[List[Word]]:
    """Draw sentences of random words."""
    generator = np.random.default_rng(SEED)
    for _ in range(rows):
        words = generator.integers(*WORDS, endpoint=True)
        lengths = generator.integers(*PIECES, words, endpoint=True)
        yield [
            (generator.integers(vocab, size=length).tolist(), str(generator.choice(TAGS)))
            for length in lengths.tolist()
        ]


def write_field(
    folder: Path,
    symbols: Dictionary,
    rows: Iterable[List[int]],
    eos: bool = True,
) -> None:
    """Write one field of a data-bin with its dictionary; ``eos`` appends ``</s>`` to each row."""
    folder.mkdir(parents=True)
    symbols.save(str(folder / "dict.txt"))
    write_rows(folder / SUBSET, ([*row, symbols.eos()] if eos else row for row in rows))


def write_sentences(folder: Path, sentences: List[List[Word]], vocab: int) -> None:
    """Write ``classes`` and ``tags``: the same texts with a class per row, or a tag per word."""
    pieces = make_dictionary(f"p{number}" for number in range(vocab))
    tags = make_dictionary(sorted({tag for words in sentences for _, tag in words}))
    first = pieces.nspecial
    for name in ("classes", "tags"):
        texts = ([first + piece for ids, _ in words for piece in ids] for words in sentences)
        write_field(folder / name / "input0", pieces, texts)
    labels = ([first + number % len(CLASSES)] for number in range(len(sentences)))
    write_field(folder / "classes" / "label", make_dictionary(CLASSES), labels)
    # The first piece of a word has its tag, the others have padding.
    labels = (
        [label for ids, tag in words for label in [tags.index(tag), *[tags.pad()] * (len(ids) - 1)]]
        for words in sentences
    )
    write_field(folder / "tags" / "label", tags, labels)


def write_questions(folder: Path) -> None:
    """Write ``questions``: passages of ``TEXTS`` texts with one question each.

    The text of a passage has one letter per piece.
    """
    source, target = folder / "classes" / "input0", folder / "questions"
    texts = data_utils.load_indexed_dataset(str(source / SUBSET))
    symbols = Dictionary.load(str(source / "dict.txt"))
    rows = [texts[number][:-1].tolist() for number in range(len(texts))]
    passages = [sum(rows[start : start + TEXTS], []) for start in range(0, len(rows), TEXTS)]
    write_field(target / "input0", symbols, rows[::TEXTS])
    write_field(target / "input1", symbols, passages)
    spans = ([edge for n in range(len(pieces)) for edge in (n, n + 1)] for pieces in passages)
    write_field(target / "offsets", symbols, spans, eos=False)
    questions = [
        {
            "id": str(number),
            "passage": number,
            "answers": [{"text": "a", "start": len(pieces) // 2}],
        }
        for number, pieces in enumerate(passages)
    ]
    write_lines(target / "qa", questions)
    write_lines(target / "passages", ["a" * len(pieces) for pieces in passages])


def write_lines(folder: Path, records: Sequence[Any]) -> None:
    """Write one JSON record per line."""
    folder.mkdir()
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (folder / f"{SUBSET}.jsonl").write_text(lines, encoding="utf-8")


# ---- Datasets. ----


def load_subset(task: Any) -> FairseqDataset:
    """Load the dataset of a task."""
    task.load_dataset(SUBSET)
    return task.dataset(SUBSET)


def load_stock(folder: Path) -> FairseqDataset:
    """Load the classes by fairseq's sentence classification."""
    path = str(folder / "classes")
    cfg = SentencePredictionConfig(data=path, num_classes=len(CLASSES), init_token=0)
    cfg.seed, cfg.no_shuffle, cfg.regression_target, cfg.max_positions = SEED, True, False, LONGEST
    return load_subset(SentencePredictionTask.setup_task(cfg))


def load_classes(folder: Path) -> FairseqDataset:
    """Load the same rows and classes by ``cross_lingual_classification``."""
    cfg = CrossLingualClassificationConfig(
        data=str(folder / "classes"),
        seed=SEED,
        max_positions=LONGEST,
        regression_target=False,
    )
    return load_subset(CrossLingualClassificationTask.setup_task(cfg))


def load_tags(folder: Path) -> FairseqDataset:
    """Load the same rows with a tag per word."""
    cfg = TokenClassificationConfig(
        data=str(folder / "tags"),
        seed=SEED,
        max_positions=LONGEST,
    )
    return load_subset(TokenClassificationTask.setup_task(cfg))


def load_questions(folder: Path) -> FairseqDataset:
    """Load questions with the windows of their passages."""
    cfg = SpanQAConfig(data=str(folder / "questions"), seed=SEED, max_positions=WINDOW)
    return load_subset(SpanQATask.setup_task(cfg))


LOADERS = {
    PEER: load_stock,
    "cross_lingual_classification": load_classes,
    "token_classification": load_tags,
    "span_qa": load_questions,
}


def measure(options: argparse.Namespace) -> List[Dict[str, Any]]:
    """Return one row per task."""
    torch.set_num_threads(1)
    sentences = list(draw_sentences(options.rows, options.vocab))
    with tempfile.TemporaryDirectory(prefix="nlu-") as temporary:
        folder = Path(temporary)
        write_sentences(folder, sentences, options.vocab)
        write_questions(folder)
        cases = {}
        for name, load in LOADERS.items():
            case = Case(load(folder), options.batch, tokens=0)
            cases[name] = case._replace(tokens=case.run())
        return compare_cases(cases, PEER, options.rounds)


def render(content: Dict[str, Any]) -> str:
    """Make the table of one machine."""
    columns = [Column("data", "variant"), Column("items", "items", "{:,}"), *item_columns(digits=1)]
    return report.table(columns, content["results"])


def main(argv: Optional[Sequence[str]] = None) -> None:
    """Run the command line."""
    parser = report.build_parser(__doc__, rounds=5)
    parser.add_argument("--rows", type=int, default=20000, help="random sentences")
    parser.add_argument("--vocab", type=int, default=6000, help="pieces of random sentences")
    parser.add_argument("--batch", type=int, default=32, help="rows of a batch")
    options = parser.parse_args(argv)
    report.publish("nlu_data_path", options, measure(options), render)


if __name__ == "__main__":
    main()
