"""Test the criterion of token_classification: its loss, and the scores of a set."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fairseq.logging import metrics

from fairseq_plugins.understanding.inputs import InputFormat, InputOptions
from fairseq_plugins.understanding.tags import (
    TaggingDataset,
    TokenClassificationCriterion,
    TokenClassificationCriterionConfig,
    read_tags,
)
from tests import nlu_bins
from tests.builders import BOS, EOS, PAD, collated
from tests.nlu_bins import TAGS
from tests.reference import span_loops

HEAD = "words"
POS = ("NOUN", "VERB", "X")


def make_criterion(labels=TAGS):
    dictionary = nlu_bins.label_dictionary(labels)
    task = SimpleNamespace(labels=list(labels), target_dictionary=dictionary)
    cfg = TokenClassificationCriterionConfig(classification_head_name=HEAD)
    return TokenClassificationCriterion(cfg, task)


def dataset(sentences, labels=TAGS):
    text = nlu_bins.Rows(
        [*(piece for word, _ in words for piece in word), EOS] for words in sentences
    )
    rows = [np.array(nlu_bins.tag_row(words, labels)) for words in sentences]
    tags = read_tags(rows, text.sizes - 1, nlu_bins.label_dictionary(labels), "test.xx")
    options = InputOptions(InputFormat("xlmr", BOS, EOS), 50, PAD, seed=1)
    return TaggingDataset(text, options, tags)


def tagger(device, classes=5):
    torch.manual_seed(3)
    model = nlu_bins.StandIn()
    model.register_token_head(HEAD, classes)
    return model.to(device).eval()


def logits_of(model, sample):
    return model(**sample["net_input"], features_only=True, classification_head_name=HEAD)[0]


def tagged_sentences(count, seed, unseen=False):
    """Random tagged sentences; with ``unseen`` the dictionary lacks some tags."""
    sentences = nlu_bins.tagged_sentences(count, seed)
    return nlu_bins.without_tag(sentences, "B-LOC") if unseen else sentences


def reduce(steps):
    """The numbers that fairseq logs after steps, each of which reduces a list of logs."""
    with metrics.aggregate(new_root=True) as meters:
        for logs in steps:
            TokenClassificationCriterion.reduce_metrics(logs)
        return dict(meters.get_smoothed_values())


@pytest.mark.parametrize("unseen", [False, True])
def test_the_loss_is_summed_over_words_with_known_tags(device, unseen):
    model, sentences = tagger(device), tagged_sentences(3, 1, unseen)
    sample = collated(dataset(sentences), range(3), device)
    loss, size, log = make_criterion()(model, sample)
    logits, target = logits_of(model, sample), sample["target"]
    expected = F.cross_entropy(logits, target, ignore_index=-1, reduction="sum").item()
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    assert log["loss"].item() == loss.item() and not log["loss"].requires_grad
    assert size == log["sample_size"] == int((target >= 0).sum())
    assert log["words"] == len(target) and (size < len(target)) == unseen
    assert log["ntokens"] == sample["ntokens"] > log["words"] and log["nsentences"] == 3
    correct = int((logits.argmax(-1) == target).sum())
    assert int(log["words_right"]) == correct
    assert reduce([[log]])["accuracy"] == pytest.approx(100 * correct / len(target), abs=0.005)


@pytest.mark.parametrize(("labels", "scores"), [(TAGS, 5), (POS, 2)])
def test_a_batch_without_targets_has_zero_loss_and_gradients(device, labels, scores):
    """Labels that are no spans have no F1."""
    model = tagger(device, len(labels))
    for sentences in ([[], []], [[([11], None)], [([12, 13], None)]]):
        sample = collated(dataset(sentences, labels), range(2), device)
        loss, size, log = make_criterion(labels)(model, sample)
        assert (loss.item(), size) == (0.0, 0)
        loss.backward()
        assert not any(parameter.grad.any() for parameter in model.parameters())
        logged = reduce([[log]])
        assert set(logged.values()) == {0.0} and len(logged) == scores


def test_the_loss_of_half_precision_logits_is_float32(device):
    model, criterion = tagger(device), make_criterion()
    sample = collated(dataset(tagged_sentences(9, 1)), range(9), device)
    expected, forward = criterion(model, sample)[0].item(), model.forward
    model.forward = lambda **inputs: (forward(**inputs)[0].bfloat16(), None)
    loss = criterion(model, sample)[0]
    assert loss.dtype == torch.float32 and loss.item() == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize("unseen", [False, True])
def test_scores_over_batches_and_processes_are_those_of_the_set(device, unseen):
    sentences = tagged_sentences(24, 2, unseen)
    data, model, criterion = dataset(sentences), tagger(device), make_criterion()
    predicted = []
    for row in range(len(data)):
        classes = logits_of(model, collated(data, [row], device)).argmax(-1)
        predicted.append([TAGS[number] for number in classes])
    gold = [[tag for _, tag in words] for words in sentences]
    expected = span_loops.scores(predicted, gold)
    assert 0 < expected["f1"] < 100 and len(set(expected.values())) == 4
    parts = [range(1), range(1, 4), range(4, 17), range(17, 24)]
    logs = [criterion(model, collated(data, part, device))[2] for part in parts]
    nats, words = (sum(float(log[key]) for log in logs) for key in ("loss", "sample_size"))
    summed = {key: sum(log[key] for log in logs[:2]) for key in logs[0]}  # by fast statistics
    for steps in ([[log] for log in logs], [[summed], logs[2:]]):
        logged = reduce(steps)
        assert logged["loss"] == pytest.approx(nats / words / math.log(2), abs=6e-4)
        scores = {name: logged[name] for name in expected}
        assert scores == pytest.approx(expected, abs=0.0051)
        assert set(map(type, scores.values())) == {float}  # checkpoints keep plain numbers only


def test_labels_without_prefix_beside_tags_are_warned_of(caplog):
    assert make_criterion(["O", "B-PER", "MISC"]).scheme is None
    assert "B-PER beside MISC" in caplog.text
