"""Test the heads of nlu_encoder: sentences, tokens, checkpoints, dropout and gradients."""

import copy

import pytest
import torch

from fairseq_plugins.understanding.encoder import pool
from tests.nlu_builders import PAD, randomise, scratch, tokens_for


def model_with_heads(**options):
    """An encoder with a sentence head of 3 classes and a token head of 5."""
    model = scratch(**options)
    model.register_classification_head("sentence", num_classes=3, inner_dim=10)
    model.register_token_head("tags", 5)
    return randomise(model)


def test_the_mean_of_half_precision_states_does_not_overflow():
    hidden = torch.full((1, 1000, 2), 100.0, dtype=torch.float16)
    pooled = pool(hidden, torch.zeros(1, 1000, dtype=torch.bool), "mean")
    assert pooled.dtype == torch.float16 and pooled.tolist() == [[100.0, 100.0]]


@pytest.mark.parametrize("pooling", ["first", "last", "mean"])
@torch.no_grad()
def test_a_sentence_head_is_fairseqs_on_the_pooled_state(pooling):
    model = model_with_heads(sentence_pooling=pooling)
    tokens = tokens_for(model)
    hidden, extra = model(tokens, features_only=True)
    assert hidden.shape == (3, 9, 16) and extra == {}
    lengths = tokens.ne(PAD).sum(1)
    rows = [row[:length] for row, length in zip(hidden, lengths)]
    pooled = {
        "first": hidden[:, 0],
        "last": torch.stack([row[-1] for row in rows]),
        "mean": torch.stack([row.mean(0) for row in rows]),
    }[pooling]
    head = model.classification_heads["sentence"]
    expected = head.out_proj(torch.tanh(head.dense(pooled)))
    name = {"classification_head_name": "sentence"}
    logits, _ = model(tokens, src_lengths=lengths, features_only=True, **name)
    torch.testing.assert_close(logits, expected)
    assert logits.shape == (3, 3) and logits.std(0).min() > 0.001


@torch.no_grad()
def test_a_token_head_at_all_or_selected_positions():
    model = model_with_heads()
    tokens = tokens_for(model)
    logits, _ = model(tokens, classification_head_name="tags")
    assert logits.shape == (3, 9, 5)
    torch.testing.assert_close(logits, model.token_heads["tags"].out_proj(model(tokens)[0]))
    select = torch.zeros(3, 9, dtype=torch.bool)
    select[0, 2] = select[2, 1] = select[0, 5] = True
    selection, _ = model(tokens, classification_head_name="tags", select=select)
    torch.testing.assert_close(selection, logits[[0, 0, 2], [2, 5, 1]])


def test_a_head_of_another_kind_or_size_is_refused():
    model = model_with_heads()
    model.register_classification_head("sentence", num_classes=3, inner_dim=10)  # the same
    model.register_token_head("tags", 5)
    with pytest.raises(ValueError, match="head 'sentence' has 3 classes, asked for were 2"):
        model.register_classification_head("sentence", num_classes=2)
    with pytest.raises(ValueError, match="head 'tags' has 5 classes, asked for were 4"):
        model.register_token_head("tags", 4)
    with pytest.raises(ValueError, match="head 'sentence' is of the other kind"):
        model.register_token_head("sentence", 3)
    with pytest.raises(ValueError, match="no head 'none'; registered: sentence, tags"):
        model(tokens_for(model), classification_head_name="none")


def test_heads_of_a_checkpoint_are_added_and_others_keep_their_values(caplog):
    """A model that was fine-tuned on one task starts another."""
    old, new = scratch(seed=1), scratch(seed=2)
    old.register_classification_head("xnli", num_classes=3)
    old.register_token_head("ner", 5)
    new.register_classification_head("news", num_classes=10)
    before = copy.deepcopy(new.classification_heads["news"].state_dict())
    with caplog.at_level("INFO"):
        new.load_state_dict(copy.deepcopy(old.state_dict()), strict=True)
    assert set(new.classification_heads) == {"news", "xnli"}
    assert torch.equal(new.token_heads["ner"].out_proj.bias, old.token_heads["ner"].out_proj.bias)
    for name, tensor in new.classification_heads["news"].state_dict().items():
        assert torch.equal(tensor, before[name])
    assert "classification_heads.news.dense.weight is not in the checkpoint" in caplog.text
    assert torch.equal(new.encoder.layers[1].fc1.weight, old.encoder.layers[1].fc1.weight)


RATES = "dropout attention_dropout activation_dropout encoder_layerdrop head_dropout".split()


@pytest.mark.parametrize("option", [None, *RATES])
def test_each_dropout_acts_in_training_only(option):
    rates = dict.fromkeys(RATES, 0.0)
    if option:
        rates[option] = 0.5
    model = model_with_heads(**rates)
    tokens = tokens_for(model)
    for head in ("sentence", "tags"):
        for training in (False, True):
            model.train(training)
            first, *repetitions = [
                model(tokens, classification_head_name=head)[0] for _ in range(6)
            ]
            is_constant = all(torch.equal(first, logits) for logits in repetitions)
            assert is_constant is not (training and option is not None)


def test_probabilities_are_normalised_in_float32():
    logits, model = torch.tensor([[1.0, 2.0, 0.5]]), scratch()
    probabilities = model.get_normalized_probs((logits.half(),), log_probs=False)
    torch.testing.assert_close(probabilities, logits.softmax(-1))
    log_probabilities = model.get_normalized_probs((logits.half(),), log_probs=True)
    torch.testing.assert_close(log_probabilities, logits.log_softmax(-1))


def test_every_weight_is_trained():
    model = model_with_heads(encoder_family="bert").train()
    tokens = tokens_for(model)
    for name in ("sentence", "tags"):
        model(tokens, classification_head_name=name)[0].pow(2).sum().backward()
    for name, parameter in model.named_parameters():
        # A key's bias shifts all scores of a query alike: its gradient is zero but for rounding.
        assert name.endswith("k_proj.bias") or parameter.grad.abs().sum() > 0, name
