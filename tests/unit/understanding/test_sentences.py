"""Test cross_lingual_classification: inputs of encoder and decoder, the head, wrong labels."""

import pytest
import torch
from fairseq.models.bart import BARTModel
from fairseq.tasks import FairseqTask
from torch import nn

from fairseq_plugins.understanding.sentences import class_numbers
from tests import builders, nlu_bins
from tests.builders import EOS, MASK, PAD
from tests.unit.common.making import maker

LABELS = ["no", "yes", "maybe"]
CLASSES = ["no", "yes", "no", "no", "maybe", "no", "yes", "no"]
FIRST, SECOND = builders.sentences(8, 1), builders.sentences(8, 2)
HEAD = {"classification_head_name": "news", "regression_target": False}
make_task = maker("cross_lingual_classification", max_positions=60, **HEAD)


@pytest.fixture(scope="module")
def folder(path):
    nlu_bins.write_texts(path, "input0", "train.de", FIRST)
    nlu_bins.write_texts(path, "input1", "train.de", SECOND)
    nlu_bins.write_classes(path, "train.de", CLASSES, LABELS)
    return path


@pytest.mark.parametrize("has_decoder", [False, True])
def test_pairs_end_with_the_language_and_the_decoders_begin_with_it(folder, has_decoder):
    """The decoder's output at the last </s> has then seen every piece."""
    options = {"input_format": "mbart", "langs": "en_XX,de_DE"}
    task = make_task(folder, add_prev_output_tokens=has_decoder, **options)
    task.load_dataset("train.de")
    data = task.dataset("train.de")
    batch = data.collater([data[index] for index in range(8)])
    assert batch["target"].tolist() == [LABELS.index(label) for label in CLASSES]
    pairs = [[*first, EOS, *second, EOS] for first, second in zip(FIRST, SECOND)]
    expected = {"src_tokens": [[*pair, MASK + 1] for pair in pairs]}
    if has_decoder:
        expected["prev_output_tokens"] = [[MASK + 1, *pair] for pair in pairs]
    assert set(batch["net_input"]) == {*expected, "src_lengths"}
    assert len({len(pair) for pair in pairs}) > 1
    for name, rows in expected.items():
        tensors = [torch.tensor(row) for row in rows]
        assert torch.equal(batch["net_input"][name], builders.pad(tensors, PAD))


def test_a_decoder_is_fed_if_and_only_if_the_model_has_one(folder, monkeypatch):
    monkeypatch.setattr(FairseqTask, "build_model", lambda *arguments: nlu_bins.StandIn(9))
    model = make_task(folder).build_model("cfg")
    classes = {name: head.out_features for name, head in model.sentence_heads.items()}
    assert classes == {"news": 3}
    with pytest.raises(ValueError, match="--add-prev-output-tokens .* StandIn has none"):
        make_task(folder, add_prev_output_tokens=True).build_model("cfg")
    bart = BARTModel.__new__(BARTModel)
    nn.Module.__init__(bart)
    monkeypatch.setattr(BARTModel, "max_positions", lambda self: (600, 600))
    monkeypatch.setattr(FairseqTask, "build_model", lambda *arguments: bart)
    with pytest.raises(ValueError, match="--add-prev-output-tokens .* BARTModel has one"):
        make_task(folder).build_model("cfg")


def test_regression_is_refused(folder):
    with pytest.raises(ValueError, match="--regression-target"):
        make_task(folder, regression_target=True)


@pytest.mark.cases(
    "rows message",
    ([[4], [EOS]], "row 2 of label has 0 symbols"),
    ([[4], [5], [4, 5, EOS]], "row 3 of label has 2 symbols"),
    ([[4], [3], [3, EOS]], "2 rows have a label .*valid: no, yes, maybe"),
    ([[4], [PAD]], "1 rows have"),
)
def test_wrong_labels_are_counted_or_named(rows, message):
    tensors = [torch.tensor(row) for row in rows]
    with pytest.raises(ValueError, match=f"subset test.de: {message}"):
        class_numbers(tensors, nlu_bins.label_dictionary(LABELS), "test.de")
