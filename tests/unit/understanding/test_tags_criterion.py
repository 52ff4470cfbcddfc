"""token_classification: loss, sample size and counts; accuracy and F1 over several batches, processes and resets."""

import math
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq.logging import metrics

from fairseq_plugins.understanding import tags as own
from fairseq_plugins.understanding.inputs import InputFormat, InputOptions
from fairseq_plugins.understanding.tags import TaggingDataset, read_tags
from tests import nlu_bins
from tests.builders import BOS, EOS, PAD, collated
from tests.nlu_bins import TAGS, TinyTagger
from tests.reference import span_loops

HEAD = "words"
POS = ("NOUN", "VERB", "X")


def criterion(labels=TAGS, head=HEAD):
    task = SimpleNamespace(labels=list(labels), target_dictionary=nlu_bins.label_dictionary(labels))
    return own.TokenClassificationCriterion(own.TokenClassificationCriterionConfig(classification_head_name=head), task)


def dataset(sentences, labels=TAGS):
    text = nlu_bins.Rows([*(piece for pieces, _ in words for piece in pieces), EOS] for words in sentences)
    rows = [np.array(nlu_bins.tag_row(words, labels)) for words in sentences]
    tags = read_tags(rows, text.sizes - 1, nlu_bins.label_dictionary(labels), "test.xx")
    return TaggingDataset(text, InputOptions(InputFormat("xlmr", BOS, EOS), 50, PAD, seed=1), tags)


def tagger(device, classes=5):
    torch.manual_seed(3)
    model = TinyTagger()
    model.register_token_head(HEAD, classes)
    return model.to(device).eval()


def unseen(sentences, every):
    """The sentences, every so manieth word with a tag that the dictionary lacks."""
    number = count(1)
    return [[(pieces, None if next(number) % every == 0 else tag) for pieces, tag in words] for words in sentences]


def expected(model, data, sentences):
    """Scores of the model's own predictions, sentence by sentence, by the slow loops."""
    predicted = []
    device = next(model.parameters()).device
    for row in range(len(data)):
        sample = collated(data, [row], device)
        logits, _ = model(**sample["net_input"], features_only=True, classification_head_name=HEAD)
        predicted.append([TAGS[number] for number in logits.argmax(-1)])
    gold = [[tag for _, tag in words] for words in sentences]
    return span_loops.scores(predicted, gold)


def logged(outputs):
    """What fairseq shows after some steps, each with the logs that it reduces at once."""
    with metrics.aggregate(new_root=True) as shown:
        for logs in outputs:
            own.TokenClassificationCriterion.reduce_metrics(logs)
        return dict(shown.get_smoothed_values())


def summed(logs):
    """What fairseq makes of the logs of several processes, where they can be summed."""
    return {key: sum(log[key] for log in logs) for key in logs[0]}


@pytest.mark.parametrize("every", [10**6, 3])
def test_the_loss_is_summed_over_words_of_known_tags_in_nats(device, every):
    """A word with an unseen tag has no loss and is wrong."""
    model = tagger(device)
    sample = collated(dataset(unseen(nlu_bins.tagged_sentences(3, 1), every)), [0, 1, 2], device)
    loss, size, log = criterion()(model, sample)
    known = sample["target"] >= 0
    logits, _ = model(**sample["net_input"], features_only=True, classification_head_name=HEAD)
    total = sum(
        math.log(sum(math.exp(value) for value in row)) - row[target]
        for row, target in zip(logits[known].tolist(), sample["target"][known].tolist())
    )
    assert loss.item() == pytest.approx(total, rel=1e-5)
    assert float(log["loss"]) == pytest.approx(total, rel=1e-5) and not log["loss"].requires_grad
    assert size == log["sample_size"] == int(known.sum()) and log["words"] == len(known)
    assert (size < len(known)) == (every == 3)
    assert log["ntokens"] == sample["ntokens"] > log["words"] and log["nsentences"] == 3
    assert int(log["words_right"]) == int((logits.argmax(-1) == sample["target"]).sum())
    assert logged([[log]])["accuracy"] == pytest.approx(100 * int(log["words_right"]) / len(known), abs=0.005)


@pytest.mark.parametrize("labels", [TAGS, POS])
def test_a_batch_without_a_target_gives_zeros_and_gradients_of_zero(device, labels):
    model = tagger(device, len(labels))
    for sentences in ([[], []], [[([11], None)], [([12, 13], None)]]):
        sample = collated(dataset(sentences, labels), [0, 1], device)
        loss, size, log = criterion(labels)(model, sample)
        assert (loss.item(), size) == (0.0, 0)
        loss.backward()
        assert all(float(parameter.grad.abs().sum()) == 0.0 for parameter in model.parameters())
        shown = logged([[log]])
        assert set(shown.values()) == {0.0} and len(shown) == (5 if labels is TAGS else 2)  # spans alone have F1
    assert criterion(["O", "B-PER", "MISC"]).scheme is None


def test_the_loss_of_half_precision_logits_is_taken_in_float32(device):
    model, sample = tagger(device), collated(dataset(nlu_bins.tagged_sentences(9, 1)), range(9), device)
    exact, stock = criterion()(model, sample)[0], model.forward
    model.forward = lambda **inputs: (stock(**inputs)[0].bfloat16(), None)
    loss = criterion()(model, sample)[0]
    assert loss.dtype == torch.float32 and loss.item() == pytest.approx(exact.item(), rel=2e-3)


@pytest.mark.parametrize("every", [10**6, 5])
def test_scores_over_batches_and_processes_are_those_of_the_whole_set(device, every):
    sentences = unseen(nlu_bins.tagged_sentences(24, 2), every)
    data, model = dataset(sentences), tagger(device)
    wanted = expected(model, data, sentences)
    assert 0 < wanted["f1"] < 100 and len({round(score, 1) for score in wanted.values()}) == 4

    def logs(parts):
        return [criterion()(model, collated(data, part, device))[2] for part in parts]

    parts = [range(0, 1), range(1, 4), range(4, 17), range(17, 24)]
    one_by_one = logged([[log] for log in logs(parts)])
    several = logged([logs(parts[:3]), logs(parts[3:])])
    processes = logged([[summed(logs(parts[:2]))], [summed(logs(parts[2:]))]])
    nats, words = (sum(float(log[key]) for log in logs(parts)) for key in ("loss", "sample_size"))
    assert one_by_one["loss"] == pytest.approx(nats / words / math.log(2), abs=6e-4)
    for shown in (one_by_one, several, processes):
        for name, score in wanted.items():
            assert shown[name] == pytest.approx(score, abs=0.0051), name
            assert type(shown[name]) is float, "checkpoints keep plain numbers alone"
        assert shown["loss"] == one_by_one["loss"]
