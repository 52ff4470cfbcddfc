"""nlu_encoder: sentence and token heads, what is trained, and the stock task and criterion."""

import copy

import pytest
import torch

from fairseq_plugins.understanding.encoder import pool
from tests import nlu_builders
from tests.nlu_builders import MBART_SYMBOLS, PAD, reloaded, scratch, tokens_for


def test_the_mean_in_half_precision_is_of_a_sum_beyond_its_range():
    hidden = torch.full((1, 1000, 2), 100.0, dtype=torch.float16)
    pooled = pool(hidden, torch.zeros(1, 1000, dtype=torch.bool), "mean")
    assert pooled.dtype == torch.float16 and pooled.tolist() == [[100.0, 100.0]]


@pytest.mark.parametrize("how", ["first", "last", "mean"])
@torch.no_grad()
def test_a_sentence_head_is_fairseqs_on_what_is_pooled(how):
    model = scratch(sentence_pooling=how)
    model.register_classification_head("sentence", num_classes=3)
    tokens = tokens_for(model)
    hidden, extra = model(tokens, features_only=True)
    assert hidden.shape == (3, 9, 16) and extra == {}
    lengths = tokens.ne(PAD).sum(1)
    pooled = {
        "first": hidden[:, 0],
        "last": torch.stack([row[length - 1] for row, length in zip(hidden, lengths)]),
        "mean": torch.stack([row[:length].mean(0) for row, length in zip(hidden, lengths)]),
    }[how]
    head = model.classification_heads["sentence"]
    expected = head.out_proj(torch.tanh(head.dense(pooled)))
    found, _ = model(tokens, src_lengths=lengths, features_only=True, classification_head_name="sentence")
    torch.testing.assert_close(found, expected)
    assert found.shape == (3, 3) and found.std(0).min() > 0.001


@torch.no_grad()
def test_a_token_head_at_selected_positions():
    model = scratch()
    model.register_token_head("tags", 5)
    tokens = tokens_for(model)
    hidden, everywhere = model(tokens)[0], model(tokens, classification_head_name="tags")[0]
    assert everywhere.shape == (3, 9, 5)
    torch.testing.assert_close(everywhere, model.token_heads["tags"].out_proj(hidden))
    select = torch.zeros(3, 9, dtype=torch.bool)
    select[0, 2] = select[2, 1] = select[0, 5] = True
    chosen = model(tokens, classification_head_name="tags", select=select)[0]
    torch.testing.assert_close(chosen, everywhere[[0, 0, 2], [2, 5, 1]])


def test_registering_again():
    model = scratch()
    for _ in range(2):
        model.register_classification_head("one", num_classes=3)
        model.register_token_head("two", 4)
    with pytest.raises(ValueError, match="head 'one' has 3 classes, asked for were 2"):
        model.register_classification_head("one", num_classes=2)
    with pytest.raises(ValueError, match="head 'two' has 4 classes, asked for were 5"):
        model.register_token_head("two", 5)
    with pytest.raises(ValueError, match="head 'one' is of the other kind"):
        model.register_token_head("one", 3)
    with pytest.raises(ValueError, match="no head 'none'; registered: one, two"):
        model(tokens_for(model), classification_head_name="none")


@torch.no_grad()
def test_heads_come_back_from_a_checkpoint_that_has_them(tmp_path):
    model = scratch()
    model.register_classification_head("xnli", num_classes=3, inner_dim=10)
    model.register_token_head("ner", 5)
    again = reloaded(nlu_builders.randomise(model), MBART_SYMBOLS, tmp_path / "model.pt")
    tokens = tokens_for(model)
    for name in ("xnli", "ner"):
        given = dict(classification_head_name=name)
        torch.testing.assert_close(again(tokens, **given)[0], model(tokens, **given)[0])


def test_a_head_that_the_checkpoint_does_not_have_keeps_its_values(caplog):
    """As when a model fine-tuned on one task starts another."""
    old, new = scratch(seed=1), scratch(seed=2)
    old.register_classification_head("xnli", num_classes=3)
    new.register_classification_head("news", num_classes=10)
    before = copy.deepcopy(new.classification_heads["news"].state_dict())
    with caplog.at_level("INFO"):
        new.load_state_dict(copy.deepcopy(old.state_dict()), strict=True)
    assert set(new.classification_heads) == {"news", "xnli"}
    assert all(torch.equal(one, before[name]) for name, one in new.classification_heads["news"].state_dict().items())
    assert "classification_heads.news.dense.weight is not in the checkpoint" in caplog.text
    assert torch.equal(new.encoder.layers[1].fc1.weight, old.encoder.layers[1].fc1.weight)


RATES = ("dropout", "attention_dropout", "activation_dropout", "encoder_layerdrop", "head_dropout")


@pytest.mark.parametrize("name", [None, *RATES])
@pytest.mark.parametrize("head", ["sentence", "tags"])
def test_each_dropout_acts_in_training_only(name, head):
    model = scratch(**{**dict.fromkeys(RATES, 0.0), **({name: 0.5} if name else {})})
    model.register_classification_head("sentence", 3)
    model.register_token_head("tags", 3)
    tokens = tokens_for(model)
    for training in (False, True):
        found = [model.train(training)(tokens, classification_head_name=head)[0] for _ in range(6)]
        assert all(torch.equal(found[0], one) for one in found) is not (training and name is not None)


def test_probabilities_are_normalised_in_float32():
    logits = torch.tensor([[1.0, 2.0, 0.5]])
    for log_probs, expected in ((False, logits.softmax(-1)), (True, logits.log_softmax(-1))):
        torch.testing.assert_close(scratch().get_normalized_probs((logits.half(),), log_probs), expected)


def test_every_weight_is_trained():
    model = scratch(encoder_family="bert").train()
    model.register_classification_head("sentence", 3)
    model.register_token_head("tags", 3)
    tokens = tokens_for(model)
    loss = sum(model(tokens, classification_head_name=name)[0].pow(2).sum() for name in ("sentence", "tags"))
    loss.backward()
    still = [name for name, one in model.named_parameters() if one.grad is None or not one.grad.abs().sum() > 0]
    # A key's bias shifts all scores of a query alike: its gradient is zero but for rounding.
    assert [name for name in still if not name.endswith("k_proj.bias")] == []
