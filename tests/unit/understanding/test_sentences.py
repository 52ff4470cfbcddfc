"""cross_lingual_classification: classes and pairs as they reach the model, the head, labels that training has not."""

import pytest
from fairseq.models.bart import BARTModel
from fairseq.tasks import FairseqTask
from torch import nn

from tests import builders, nlu_bins
from tests.builders import EOS, MASK, PAD
from tests.unit.common.making import maker

LABELS = ["no", "yes", "maybe"]
CLASSES = ["no", "yes", "no", "no", "maybe", "no", "yes", "no"]
FIRST, SECOND = builders.sentences(8, 1), builders.sentences(8, 2)
HEAD = "sentence_classification_head"
setup = maker("cross_lingual_classification", classification_head_name=HEAD, regression_target=False, max_positions=60)


@pytest.fixture(scope="module")
def folder(path):
    for name in ("train.en", "train.de"):
        nlu_bins.write_texts(path, "input0", name, FIRST)
        nlu_bins.write_texts(path, "input1", name, SECOND)
        nlu_bins.write_classes(path, name, CLASSES, LABELS)
    return path


@pytest.mark.parametrize("decoder", [False, True])
def test_the_decoder_of_an_mbart_reads_language_first(folder, decoder):
    """The encoder reads the pairs with the language last. The output above the last </s> has seen every piece."""
    task = setup(folder, input_format="mbart", langs="en_XX,de_DE", add_prev_output_tokens=decoder)
    task.load_dataset("train.de")
    data = task.dataset("train.de")
    batch = data.collater([data[index] for index in range(8)])
    assert batch["target"].tolist() == [0, 1, 0, 0, 2, 0, 1, 0]
    pairs = [[*first, EOS, *second, EOS] for first, second in zip(FIRST, SECOND)]
    wanted = {"src_tokens": [[*pair, MASK + 1] for pair in pairs]}
    if decoder:
        wanted["prev_output_tokens"] = [[MASK + 1, *pair] for pair in pairs]
    assert set(batch["net_input"]) == {*wanted, "src_lengths"}
    assert len({len(pair) for pair in pairs}) > 1
    for name, rows in wanted.items():
        for row, want in zip(batch["net_input"][name].tolist(), rows):
            assert row == want + [PAD] * (len(row) - len(want))


def test_the_head_and_a_decoder_that_is_fed_only_where_there_is_one(folder, monkeypatch):
    monkeypatch.setattr(FairseqTask, "build_model", lambda *arguments: nlu_bins.StandIn(9))
    model = setup(folder, classification_head_name="news").build_model("cfg")
    assert {name: head.out_features for name, head in model.sentence_heads.items()} == {"news": 3}
    with pytest.raises(ValueError, match="--add-prev-output-tokens .* StandIn has none: leave it out"):
        setup(folder, add_prev_output_tokens=True).build_model("cfg")
    decoder = BARTModel.__new__(BARTModel)
    nn.Module.__init__(decoder)
    monkeypatch.setattr(BARTModel, "max_positions", lambda self: (600, 600))
    monkeypatch.setattr(FairseqTask, "build_model", lambda *arguments: decoder)
    with pytest.raises(ValueError, match="--add-prev-output-tokens .* BARTModel has one: give the option"):
        setup(folder).build_model("cfg")
    with pytest.raises(ValueError, match="--max-positions 700: the model has 600 positions"):
        setup(folder, max_positions=700, add_prev_output_tokens=True).build_model("cfg")
    with pytest.raises(ValueError, match="--regression-target: classes only; valid: --task sentence_prediction"):
        setup(folder, regression_target=True)
