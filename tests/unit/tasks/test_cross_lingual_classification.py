"""cross_lingual_classification: classes and pairs as they reach the model, the head, labels that training has not."""

import logging
from pathlib import Path
from typing import Any, List, Tuple

import pytest
from fairseq.criterions.sentence_prediction import SentencePredictionConfig, SentencePredictionCriterion
from fairseq.models import BaseFairseqModel
from fairseq.models.bart import BARTModel
from fairseq.tasks import FairseqTask
from torch import nn

from fairseq_plugins.tasks.cross_lingual_classification import (
    CrossLingualClassificationConfig,
    CrossLingualClassificationTask,
)
from tests import data_bins, nlu_bins
from tests.builders import EOS, MASK, PAD, VOCAB

LABELS = ["no", "yes", "maybe"]
CLASSES = ["no", "yes", "no", "no", "maybe", "no", "yes", "no"]
FIRST, SECOND = data_bins.sentences(8, 1), data_bins.sentences(8, 2)
HEAD = "sentence_classification_head"


class TinyClassifier(BaseFairseqModel):
    """A bag of pieces with the heads that the criterion asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCAB + 2, 6, padding_idx=PAD)
        self.classification_heads = nn.ModuleDict()

    def register_classification_head(self, name: str, num_classes: int) -> None:
        """Add a head."""
        self.classification_heads[name] = nn.Linear(6, num_classes)

    def forward(self, src_tokens: Any, src_lengths: Any, features_only: bool, classification_head_name: str) -> Any:
        """(B, S) -> (B, classes)."""
        return self.classification_heads[classification_head_name](self.embedding(src_tokens).sum(dim=1)), {}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pairs in English and German with the same classes."""
    path = tmp_path_factory.mktemp("pairs")
    for name in ("train.en", "train.de"):
        nlu_bins.write_texts(path, "input0", name, FIRST)
        nlu_bins.write_texts(path, "input1", name, SECOND)
        nlu_bins.write_classes(path, name, CLASSES, LABELS)
    return path


def setup(folder: Path, **options: Any) -> CrossLingualClassificationTask:
    """As the trainer does."""
    defaults = {"data": str(folder), "seed": 1, "classification_head_name": HEAD, "regression_target": False}
    task = CrossLingualClassificationTask.setup_task(CrossLingualClassificationConfig(**{**defaults, **options}))
    assert isinstance(task, CrossLingualClassificationTask)
    return task


def with_head(task: Any, monkeypatch: pytest.MonkeyPatch) -> Tuple[Any, List[Any]]:
    """The model that the task builds, and what fairseq was asked for."""
    asked: List[Any] = []

    def build(self: Any, *arguments: Any) -> Any:
        asked.append(arguments)
        return TinyClassifier()

    monkeypatch.setattr(FairseqTask, "build_model", build)
    return task.build_model("cfg", True), asked


def test_a_batch_has_pairs_and_classes(folder: Path) -> None:
    task = setup(folder, input_format="mbart", langs="en_XX,de_DE")
    task.load_dataset("train.de")
    data = task.dataset("train.de")
    batch = data.collater([data[index] for index in range(8)])
    assert batch["target"].tolist() == [0, 1, 0, 0, 2, 0, 1, 0]
    rows = batch["net_input"]["src_tokens"].tolist()
    wanted = [[*first, EOS, *second, EOS, MASK + 1] for first, second in zip(FIRST, SECOND)]
    assert [row[: len(want)] for row, want in zip(rows, wanted)] == wanted


def test_the_decoder_of_an_mbart_reads_language_first(folder: Path) -> None:
    """Its output above the last </s> has seen every piece; padding stays on the right."""
    task = setup(folder, input_format="mbart", langs="en_XX,de_DE", add_prev_output_tokens=True)
    task.load_dataset("train.de")
    data = task.dataset("train.de")
    batch = data.collater([data[index] for index in range(8)])
    rows = batch["net_input"]["prev_output_tokens"].tolist()
    wanted = [[MASK + 1, *first, EOS, *second, EOS] for first, second in zip(FIRST, SECOND)]
    assert [row[: len(want)] for row, want in zip(rows, wanted)] == wanted
    assert all(set(row[len(want) :]) <= {PAD} for row, want in zip(rows, wanted))
    assert len({len(want) for want in wanted}) > 1


def test_a_decoder_is_fed_only_where_there_is_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="--add-prev-output-tokens .* TinyClassifier has none: leave it out"):
        with_head(setup(folder, add_prev_output_tokens=True), monkeypatch)
    decoder = BARTModel.__new__(BARTModel)
    nn.Module.__init__(decoder)
    monkeypatch.setattr(BARTModel, "max_positions", lambda self: (600, 600))
    monkeypatch.setattr(FairseqTask, "build_model", lambda *arguments: decoder)
    with pytest.raises(ValueError, match="--add-prev-output-tokens .* BARTModel has one: give the option"):
        setup(folder).build_model("cfg")
    with pytest.raises(ValueError, match="--max-positions 700: the model has 600 positions"):
        setup(folder, max_positions=700, add_prev_output_tokens=True).build_model("cfg")


def test_shares_of_the_classes_are_logged(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    setup(folder).load_dataset("train.en")
    assert "train.en: no 62.5 %, yes 25.0 %, maybe 12.5 %" in caplog.messages


def test_the_model_gets_a_head_of_the_criterions_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = setup(folder, classification_head_name="news")
    model, asked = with_head(task, monkeypatch)
    assert {name: head.out_features for name, head in model.classification_heads.items()} == {"news": 3}
    assert asked == [("cfg", True)]


def test_the_stock_criterion_takes_its_batches(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = setup(folder)
    task.load_dataset("train.en,train.de")
    model, _ = with_head(task, monkeypatch)
    data = task.dataset("train.en,train.de")
    batch = data.collater([data[index] for index in range(16)])
    criterion = SentencePredictionCriterion(SentencePredictionConfig(), task)
    loss, size, logged = criterion(model, batch)
    logits, _ = model(**batch["net_input"], features_only=True, classification_head_name=HEAD)
    assert size == 16
    assert loss.item() == pytest.approx(nn.functional.cross_entropy(logits, batch["target"], reduction="sum").item())
    assert int(logged["ncorrect"]) == int((logits.argmax(-1) == batch["target"]).sum())


def test_regression_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="--regression-target: classes only; valid: --task sentence_prediction"):
        setup(folder, regression_target=True)


def test_a_label_that_training_has_not_is_refused(folder: Path, tmp_path: Path) -> None:
    nlu_bins.write_texts(tmp_path, "input0", "test.fr", FIRST[:3])
    nlu_bins.write_classes(tmp_path, "test.fr", ["no", "unheard", "yes"], LABELS)
    with pytest.raises(
        ValueError, match=r"subset test\.fr: 1 rows have a label that training has not; valid: no, yes, "
    ):
        setup(tmp_path).load_dataset("test.fr")


def test_labels_of_another_number_of_rows_are_refused(folder: Path, tmp_path: Path) -> None:
    nlu_bins.write_texts(tmp_path, "input0", "test.fr", FIRST[:3])
    nlu_bins.write_classes(tmp_path, "test.fr", ["no", "yes"], LABELS)
    with pytest.raises(ValueError, match="label has 2 rows, input0 3"):
        setup(tmp_path).load_dataset("test.fr")


def test_a_subset_without_labels_is_refused(folder: Path, tmp_path: Path) -> None:
    nlu_bins.write_texts(tmp_path, "input0", "test.fr", FIRST[:3])
    nlu_bins.write_classes(tmp_path, "train.en", CLASSES, LABELS)
    with pytest.raises(ValueError, match=r"subset test\.fr: .*test\.fr\.bin is missing; subsets there: train\.en;"):
        setup(tmp_path).load_dataset("test.fr")
