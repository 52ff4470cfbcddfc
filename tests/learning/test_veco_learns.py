"""Test that VECO's pre-training learns a word-for-word code from pairs.

Objectives that see the translation predict a masked word; the others can only guess: the words of
a sentence are random and differ, so nothing in a segment itself determines a masked word.
"""

import math

import pytest
import torch
from torch import nn

from fairseq_plugins.veco.criterion import CrossSequenceMLMConfig, CrossSequenceMLMCriterion
from tests import builders, veco_builders
from tests.learning import training

WORDS, ROWS, UPDATES = 6, 32, 350
NAMES = ("is_mlm", "cs_mlm", "tlm")


def pairs(count, seed):
    """Draw sentences of four different words and the same in the other language."""
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randperm(WORDS, generator=generator)[:4] for _ in range(count)]
    left = [(builders.FIRST_PIECE + row).tolist() for row in rows]
    right = [(builders.FIRST_PIECE + WORDS + row).tolist() for row in rows]
    return veco_builders.dataset([veco_builders.pairs(left, right)], mask_prob=0.25)


def make_batch(data, epoch):
    data.set_epoch(epoch)
    return data.collater([data[index] for index in torch.randint(len(data), (ROWS,)).tolist()])


def losses_of(model, criterion, batches):
    """Return the loss (in nats) per predicted token, by objective."""
    model.eval()
    with torch.no_grad():
        logs = [criterion(model, batch)[2] for batch in batches]
    losses = {}
    for name in NAMES:
        total = sum(float(log[name]) for log in logs)
        losses[name] = total / sum(log[f"{name}_tokens"] for log in logs)
    return losses


@pytest.mark.slow
def test_objectives_that_see_the_translation_predict_the_word():
    torch.manual_seed(1)
    options = {"encoder_layers": 1, "dropout": 0.0, "attention_dropout": 0.0}
    for side in ("encoder", "decoder"):
        options[f"{side}_embed_dim"] = 32
        options[f"{side}_ffn_embed_dim"] = 64
        options[f"{side}_attention_heads"] = 4
    model = veco_builders.pretrainer(**options)
    for parameter in model.parameters():
        if parameter.dim() == 2:
            nn.init.normal_(parameter, std=0.15)  # BERT's 0.02 is for wide layers
    criterion = CrossSequenceMLMCriterion(None, CrossSequenceMLMConfig())
    train, test = pairs(600, 1), pairs(200, 2)
    test_batches = [make_batch(test, epoch) for epoch in range(1, 9)]
    before = losses_of(model, criterion, test_batches)
    assert min(before.values()) > 2.0

    def next_batch(update):
        return make_batch(train, update + 1)

    training.fit_criterion(model, criterion, next_batch, UPDATES, 1e-2)
    after = losses_of(model, criterion, test_batches)
    # A segment shows its language and three other words, a quarter of them masked: at least three
    # words remain possible.
    assert math.log(2.5) < after["is_mlm"] < math.log(WORDS)
    assert after["cs_mlm"] < 0.75
    assert after["tlm"] < 0.75
