"""Options of the understanding tasks and of ``nlu_encoder``.

The folders of these tasks are other than those of the world: they are made where they are asked for, as ``{data}/NAME`` would be.
"""

import functools
import tempfile
from pathlib import Path
from typing import Any, Dict, List

import torch

from tests import data_bins, nlu_bins, question_builders
from tests.contract.effects import BASES, Run, flips, outcome, seen_by

GRADES = ["0", "1", "2"]
SUBSETS = ("train.en", "train.de")
COUNTS = (12, 4)


def _classes(folder: Path, count: int, seed: int, name: str) -> None:
    nlu_bins.write_texts(folder, "input0", name, data_bins.sentences(count, seed))
    nlu_bins.write_classes(folder, name, [GRADES[number % 3] for number in range(count)], GRADES)


def _tags(folder: Path, count: int, seed: int, name: str) -> None:
    nlu_bins.write_tagged(folder, name, nlu_bins.tagged_sentences(count, seed))


def _questions(folder: Path, count: int, seed: int, name: str) -> None:
    question_builders.write_questions(folder, name, *question_builders.random_questions(count, seed))


def _queries(folder: Path, count: int, seed: int, name: str) -> None:
    question_builders.write_ranking(folder, name, question_builders.random_ranking(count, seed, GRADES), GRADES)


WRITERS = {
    "cross_lingual_classification": (_classes, "sentence_prediction"),
    "token_classification": (_tags, "token_classification"),
    "span_qa": (_questions, "span_qa"),
    "relevance_ranking": (_queries, "relevance_ranking"),
}


@functools.lru_cache(None)
def _made() -> "tempfile.TemporaryDirectory[str]":
    """Two folders a task: the second one has one language alone and fewer rows."""
    made = tempfile.TemporaryDirectory(prefix="effects-nlu-")
    for task, (write, _) in WRITERS.items():
        for number, subsets in enumerate((SUBSETS, SUBSETS[:1])):
            for seed, (name, count) in enumerate(zip(subsets, COUNTS), start=1):
                write(Path(made.name) / f"{task}{number}", count - 2 * number, seed, name)
    return made


def _folder(task: str, number: int = 0) -> str:
    return str(Path(_made().name) / f"{task}{number}")


def _subset(run: Run, name: str = "train.en") -> Any:
    run.task.load_dataset(name)
    return run.task.dataset(name)


def _first_input(run: Run) -> List[int]:
    item = _subset(run)[0]
    while "rows" in item:
        item = item["rows"][0]
    return list(item["tokens"].tolist())


def _symbols(run: Run) -> List[str]:
    return list(run.task.source_dictionary.symbols)


def _shares(run: Run) -> List[float]:
    return list(_subset(run, ",".join(SUBSETS)).probabilities)


PREDICTION_TESTS = {
    "cross_lingual_classification": "test_classes_of_sentences",
    "token_classification": "test_tags_of_words",
    "span_qa": "test_answers_to_questions",
    "relevance_ranking": "test_scores_of_documents",
}
SIZES = [
    *(
        "--encoder-family",
        "mbart",
        "--encoder-layers",
        "1",
        "--encoder-embed-dim",
        "16",
        "--encoder-ffn-embed-dim",
        "24",
    ),
    *("--encoder-heads", "2"),
]
LANGUAGES = ["--input-format", "mbart50", "--langs", "en_XX,de_DE"]

for _task, (_, _criterion) in WRITERS.items():
    BASES[f"task {_task}"] = [
        _folder(_task),
        "--task",
        _task,
        "--criterion",
        _criterion,
        "--arch",
        "nlu_encoder",
        *SIZES,
    ]
    _room = ["--max-question", "3"] if _task == "span_qa" else []
    flips(f"task {_task}: data", [(_folder(_task), _folder(_task, 1))], lambda run: len(_subset(run)))
    flips(f"task {_task}: input_format", ["--input-format", "bert"], _first_input, base=LANGUAGES)
    flips(
        f"task {_task}: max_positions", ["--max-positions", "9"], lambda run: int(_subset(run).sizes.sum()), base=_room
    )
    flips(f"task {_task}: langs", ["--langs", "de_DE,en_XX"], _first_input, base=LANGUAGES)
    # Braces are doubled where a command line is filled in.
    flips(f"task {_task}: language_template", ["--language-template", "__{{}}__"], _symbols, base=LANGUAGES)
    flips(f"task {_task}: language_codes", ["--language-codes", "en=de_DE"], _first_input, base=LANGUAGES)
    flips(f"task {_task}: sampling_temperature", ["--sampling-temperature", "9"], _shares)
    seen_by(f"task {_task}: predictions", f"tests/unit/tasks/test_nlu_predictions.py::{PREDICTION_TESTS[_task]}")

flips(
    "task token_classification: classification_head_name",
    ["--classification-head-name", "tags"],
    lambda run: sorted(run.model.token_heads),
)
seen_by(
    "task cross_lingual_classification: add_prev_output_tokens",
    "tests/unit/tasks/test_cross_lingual_classification.py::test_the_decoder_of_an_mbart_reads_language_first",
)
for _name, _test in {
    "max_question": "tasks/test_span_qa.py::test_options_reach_the_windows",
    "window_stride": "tasks/test_span_qa.py::test_options_reach_the_windows",
    "max_answer": "criterions/test_span_qa.py::test_answers_are_the_loops",
    "answer_normalisation": "tasks/test_span_qa.py::test_the_language_of_the_comparison",
}.items():
    seen_by(f"task span_qa: {_name}", f"tests/unit/{_test}")
seen_by(
    "criterion relevance_ranking: ndcg_k",
    "tests/unit/criterions/test_relevance_ranking.py::test_ndcg_is_that_of_the_whole_set",
)

# ---- nlu_encoder. ----

BASES["model nlu_encoder"] = BASES["task cross_lingual_classification"]


def _features(run: Run, training: bool = False) -> float:
    run.model.train(training)
    torch.manual_seed(3)
    return float(run.model(_batch(run))[0].abs().sum())


def _batch(run: Run) -> torch.Tensor:
    return torch.tensor([_first_input(run)])


def _head(run: Run, training: bool = False) -> float:
    run.model.train(training)
    torch.manual_seed(3)
    name = run.task.cfg.classification_head_name
    return float(run.model(_batch(run), classification_head_name=name)[0].abs().sum())


def _built(run: Run) -> str:
    return outcome(lambda: run.model)


NO_DROPOUT = ["--dropout", "0", "--attention-dropout", "0", "--head-dropout", "0"]
ENCODER: Dict[str, Any] = {
    # The dictionary of this data is not that of the world's masked LM; sizes are not either: the message names the file.
    "pretrained_encoder": (["--pretrained-encoder", "{mlm}"], _built, []),
    "encoder_family": (["--encoder-family", "xlmr"], Run.shapes, []),
    "encoder_layers": (["--encoder-layers", "2"], Run.shapes, []),
    "encoder_embed_dim": (["--encoder-embed-dim", "8"], Run.shapes, []),
    "encoder_ffn_embed_dim": (["--encoder-ffn-embed-dim", "12"], Run.shapes, []),
    "encoder_heads": (["--encoder-heads", "4"], _features, []),
    "max_source_positions": (
        ["--max-source-positions", "50"],
        lambda run: run.model.max_positions(),
        ["--max-positions", "40"],
    ),
    "sentence_pooling": (["--sentence-pooling", "last"], _head, []),
    "dropout": (["--dropout", "0.5"], lambda run: _features(run, training=True), NO_DROPOUT),
    "attention_dropout": (["--attention-dropout", "0.5"], lambda run: _features(run, training=True), NO_DROPOUT),
    "activation_dropout": (["--activation-dropout", "0.5"], lambda run: _features(run, training=True), NO_DROPOUT),
    "encoder_layerdrop": (["--encoder-layerdrop", "0.9"], lambda run: _features(run, training=True), NO_DROPOUT),
    "head_dropout": (["--head-dropout", "0.5"], lambda run: _head(run, training=True), NO_DROPOUT),
}
for _name, (_flip, _observe, _base) in ENCODER.items():
    flips(f"model nlu_encoder: {_name}", _flip, _observe, base=_base)
seen_by(
    "model nlu_encoder: unnamed_rows", "tests/unit/models/test_nlu_model.py::test_rows_that_nothing_names_are_refused"
)
seen_by("model nlu_encoder: embedding_mismatch", "tests/unit/models/test_nlu_model.py::test_rows_by_policy")
seen_by(
    "model nlu_encoder: checkpoint_activations",
    "tests/unit/models/test_nlu_heads.py::test_the_remaining_options_reach_the_encoder",
)
