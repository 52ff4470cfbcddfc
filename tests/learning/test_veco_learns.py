"""VECO's pre-training learns a word-for-word code from pairs: what sees the translation predicts, what does not guesses.

Words of a sentence are drawn at random and differ, so nothing in a segment itself tells a masked word.
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
    """Sentences of four different words and the same in the other language."""
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randperm(WORDS, generator=generator)[:4].tolist() for _ in range(count)]
    left, right = ([[builders.FIRST_PIECE + shift + word for word in row] for row in rows] for shift in (0, WORDS))
    return veco_builders.dataset([veco_builders.pairs(left, right)], mask_prob=0.25)


def batch(found, epoch):
    found.set_epoch(epoch)
    return found.collater([found[index] for index in torch.randint(len(found), (ROWS,)).tolist()])


def nats(model, criterion, batches):
    """A predicted token, by objective."""
    model.eval()
    with torch.no_grad():
        logged = [criterion(model, one)[2] for one in batches]
    sums = {name: sum(float(log[name]) for log in logged) for name in NAMES}
    return {name: total / sum(log[f"{name}_tokens"] for log in logged) for name, total in sums.items()}


@pytest.mark.slow
def test_what_sees_the_translation_predicts_the_word():
    torch.manual_seed(1)
    sizes = {"embed_dim": 32, "ffn_embed_dim": 64, "attention_heads": 4}
    both = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in sizes.items()}
    model = veco_builders.pretrainer(encoder_layers=1, dropout=0.0, attention_dropout=0.0, **both)
    for parameter in (one for one in model.parameters() if one.dim() == 2):
        nn.init.normal_(parameter, std=0.15)  # BERT's 0.02 is for wide layers
    criterion = CrossSequenceMLMCriterion(None, CrossSequenceMLMConfig())
    train, test = pairs(600, 1), pairs(200, 2)
    held_out = [batch(test, epoch) for epoch in range(1, 9)]
    assert min(nats(model, criterion, held_out).values()) > 2.0, "before it has learned"
    training.fit_criterion(model, criterion, lambda update: batch(train, update + 1), UPDATES, 1e-2)
    found = nats(model, criterion, held_out)
    # A segment tells the language and three other words, of which a quarter is hidden: one of three or more words is left.
    assert math.log(2.5) < found["is_mlm"] < math.log(WORDS)
    assert found["cs_mlm"] < 0.75 and found["tlm"] < 0.75
