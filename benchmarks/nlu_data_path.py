"""Making batches of understanding tasks on one process: our inputs and tags against fairseq's own sentence classification.

    python -m benchmarks.nlu_data_path [--rows 20000] [--rounds 5] [--tagged FILE --pieces MODEL]

Dataset and collater over memory-mapped data-bins, rows in their order. All cases have the same texts: random words, or those of a
file with a word and its tag a line and an empty line between sentences, cut into the pieces of a sentencepiece model. For questions
22 texts make a passage, read in windows; an item is a question with all its windows. The peer is
stock ``sentence_prediction`` with ``--init-token``; it cuts nothing and counts nothing. Ratios are of the time a token.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Sequence, Tuple

import numpy as np
import torch
from fairseq.data import Dictionary, FairseqDataset, data_utils
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask
from sentencepiece import SentencePieceProcessor

from fairseq_plugins.tasks.cross_lingual_classification import (
    CrossLingualClassificationConfig,
    CrossLingualClassificationTask,
)
from fairseq_plugins.tasks.span_qa import SpanQAConfig, SpanQATask
from fairseq_plugins.tasks.token_classification import TokenClassificationConfig, TokenClassificationTask

from . import measure, report

SUBSET, LONGEST = "train.en", 512
TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-ORG", "I-ORG")
CLASSES = ("no", "yes", "maybe")
WORDS, PIECES = (2, 15), (1, 3)
"""Random sentences: fewest and most words of a sentence, pieces of a word; 8 words and 16 pieces on average, as WikiAnn has."""

TEXTS, WINDOW = 22, 384
"""Texts of a passage, and tokens of a window; XQuAD's English passages have about as many pieces (of 6,000 kinds)."""

Word = Tuple[Sequence[int], str]
"""Pieces of a word, counted from 0, and its tag."""


class Case(NamedTuple):
    """A dataset, and what its batches are counted by.

    Attributes:
        name: in the table.
        dataset: items and collater.
    """

    name: str
    dataset: FairseqDataset

    def run(self, batch: int) -> int:
        """Every item once, so many in a batch; returns the number of tokens."""
        total = 0
        for start in range(0, len(self.dataset), batch):
            rows = range(start, min(start + batch, len(self.dataset)))
            total += int(self.dataset.collater([self.dataset[row] for row in rows])["ntokens"])
        return total


# ---- Data. ----


def random_sentences(rows: int, vocab: int) -> Iterator[List[Word]]:
    """Sentences of random words."""
    generator = np.random.default_rng(1)
    for _ in range(rows):
        words = generator.integers(WORDS[0], WORDS[1], endpoint=True)
        lengths = generator.integers(PIECES[0], PIECES[1], words, endpoint=True)
        yield [
            (generator.integers(vocab, size=length).tolist(), str(generator.choice(TAGS)))
            for length in lengths.tolist()
        ]


def file_sentences(path: Path, model: SentencePieceProcessor) -> Iterator[List[Word]]:
    """Sentences of a tagged file, each word cut into pieces by itself."""
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        lines = [line.split("\t") for line in block.splitlines() if line]
        if lines:
            pieces = model.encode([line[0] for line in lines])
            yield [(ids or [model.unk_id()], line[-1]) for ids, line in zip(pieces, lines)]


def write_rows(folder: Path, symbols: Dictionary, rows: Iterator[List[int]], eos: bool = True) -> None:
    """A memory-mapped dataset with its dictionary; every row gets its ``</s>``, unless told otherwise."""
    folder.mkdir(parents=True)
    symbols.save(str(folder / "dict.txt"))
    builder = MMapIndexedDatasetBuilder(str(folder / f"{SUBSET}.bin"), dtype=np.int32)
    for row in rows:
        builder.add_item(torch.tensor([*row, symbols.eos()] if eos else row))
    builder.finalize(str(folder / f"{SUBSET}.idx"))


def of_symbols(names: Sequence[str]) -> Dictionary:
    """A dictionary of these."""
    symbols = Dictionary()
    for name in names:
        symbols.add_symbol(name)
    return symbols


def write_data(folder: Path, sentences: List[List[Word]], vocab: int) -> None:
    """``classes`` and ``tags``: the same texts with a class a row, and with a tag a word."""
    pieces = of_symbols([f"p{number}" for number in range(vocab)])
    tags = of_symbols(sorted({tag for words in sentences for _, tag in words}))
    classes = of_symbols(CLASSES)
    first = pieces.nspecial
    for name in ("classes", "tags"):
        texts = ([first + piece for ids, _ in words for piece in ids] for words in sentences)
        write_rows(folder / name / "input0", pieces, texts)
    rows = ([first + number % len(CLASSES)] for number in range(len(sentences)))
    write_rows(folder / "classes" / "label", classes, rows)
    rows = (
        [piece for ids, tag in words for piece in [tags.index(tag), *[tags.pad()] * (len(ids) - 1)]]
        for words in sentences
    )
    write_rows(folder / "tags" / "label", tags, rows)


def write_questions(folder: Path) -> None:
    """``questions``: passages of several texts, whose pieces have a letter each, and a question on each."""
    texts = data_utils.load_indexed_dataset(str(folder / "classes" / "input0" / SUBSET))
    symbols, target = Dictionary.load(str(folder / "classes" / "input0" / "dict.txt")), folder / "questions"
    rows = [texts[row][:-1].tolist() for row in range(len(texts))]
    passages = [sum(rows[start : start + TEXTS], []) for start in range(0, len(rows), TEXTS)]
    write_rows(target / "input0", symbols, iter(rows[::TEXTS]))
    write_rows(target / "input1", symbols, iter(passages))
    offsets = ([edge for place in range(len(pieces)) for edge in (place, place + 1)] for pieces in passages)
    write_rows(target / "offsets", symbols, offsets, eos=False)
    answers = [[{"text": "a", "start": len(pieces) // 2}] for pieces in passages]
    asked = [{"id": str(row), "passage": row, "answers": answer} for row, answer in enumerate(answers)]
    for name, values in (("qa", asked), ("passages", ["a" * len(pieces) for pieces in passages])):
        (target / name).mkdir()
        lines = "".join(json.dumps(value) + "\n" for value in values)
        (target / name / f"{SUBSET}.jsonl").write_text(lines, encoding="utf-8")


# ---- Cases. ----


def loaded(task: Any) -> FairseqDataset:
    """The subset of a task."""
    task.load_dataset(SUBSET)
    return task.dataset(SUBSET)


def stock(folder: Path) -> Case:
    """fairseq's sentence classification."""
    cfg = SentencePredictionConfig(data=str(folder / "classes"), num_classes=len(CLASSES), init_token=0)
    cfg.seed, cfg.no_shuffle, cfg.regression_target, cfg.max_positions = 1, True, False, LONGEST
    return Case("stock sentence_prediction", loaded(SentencePredictionTask.setup_task(cfg)))


def sentence_classes(folder: Path) -> Case:
    """The same rows and classes by our task."""
    cfg = CrossLingualClassificationConfig(
        data=str(folder / "classes"), seed=1, max_positions=LONGEST, regression_target=False
    )
    return Case("cross_lingual_classification", loaded(CrossLingualClassificationTask.setup_task(cfg)))


def word_tags(folder: Path) -> Case:
    """The same rows with a tag a word."""
    cfg = TokenClassificationConfig(data=str(folder / "tags"), seed=1, max_positions=LONGEST, train_subset=SUBSET)
    return Case("token_classification", loaded(TokenClassificationTask.setup_task(cfg)))


def question_windows(folder: Path) -> Case:
    """Questions with the windows of their passages."""
    write_questions(folder)
    cfg = SpanQAConfig(data=str(folder / "questions"), seed=1, max_positions=WINDOW)
    return Case("span_qa", loaded(SpanQATask.setup_task(cfg)))


CASES: List[Callable[[Path], Case]] = [stock, sentence_classes, word_tags, question_windows]
"""The first is the peer. A case gets the folder of :func:`write_data` and may read or write other data in it."""


def compare(options: argparse.Namespace) -> List[Dict[str, Any]]:
    """Rows of the table."""
    if options.tagged:
        model = SentencePieceProcessor(model_file=options.pieces)
        sentences, vocab = list(file_sentences(Path(options.tagged), model)), model.get_piece_size()
    else:
        sentences, vocab = list(random_sentences(options.rows, options.vocab)), options.vocab
    with tempfile.TemporaryDirectory(prefix="nlu-") as folder:
        write_data(Path(folder), sentences, vocab)
        cases = [make(Path(folder)) for make in CASES]
        tokens = {case.name: case.run(options.batch) for case in cases}
        calls = {case.name: (lambda case=case: case.run(options.batch)) for case in cases}
        timings = measure.time_side_by_side(calls, options.rounds, torch.device("cpu"))
    rows = []
    for case in cases:
        seconds = timings[case.name].median
        scale = tokens[cases[0].name] / tokens[case.name]
        ratio = timings[case.name].ratio_to(timings[cases[0].name])
        rows.append(
            {
                "variant": case.name,
                "items": len(case.dataset),
                "items_per_s": round(len(case.dataset) / seconds),
                "tokens_per_s": round(tokens[case.name] / seconds),
                "microseconds_per_item": round(1e6 * seconds / len(case.dataset), 1),
                "time_ratio": [round(scale * value, 3) for value in ratio],
            }
        )
    return rows


def render(content: Dict[str, Any]) -> str:
    """The table of one machine."""
    rows = [
        [
            row["variant"],
            f"{row['items']:,}",
            f"{row['items_per_s']:,}",
            f"{row['tokens_per_s']:,}",
            f"{row['microseconds_per_item']:,.1f}",
            f"{row['time_ratio'][0]:.2f} ({row['time_ratio'][1]:.2f} to {row['time_ratio'][2]:.2f})",
        ]
        for row in content["results"]
    ]
    columns = ["data", "items", "items/s", "tokens/s", "µs an item", "time ratio a token (range)"]
    return report.table(columns, rows)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20000, help="random sentences")
    parser.add_argument("--vocab", type=int, default=6000, help="pieces of random sentences")
    parser.add_argument("--tagged", metavar="FILE", help="word<TAB>tag a line, an empty line between sentences")
    parser.add_argument("--pieces", metavar="MODEL", help="sentencepiece model for --tagged")
    parser.add_argument("--batch", type=int, default=32, help="rows of a batch")
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds")
    options = parser.parse_args()
    if bool(options.tagged) != bool(options.pieces):
        parser.error("--tagged and --pieces: give both or none")
    torch.set_num_threads(1)
    results = compare(options)
    shown = {
        key: Path(value).name if key in ("tagged", "pieces") and value else value
        for key, value in vars(options).items()
    }
    path = report.write("nlu_data_path", torch.device("cpu"), shown, results)
    print(render({"results": results}))
    measure.say(f"wrote {path.relative_to(report.RESULTS.parent.parent)}")


if __name__ == "__main__":
    main()
