"""nlu_encoder: sentence and token heads, what is trained, and the stock task and criterion."""

import copy
from pathlib import Path
from typing import Any, List, Optional

import pytest
import torch
from fairseq import criterions, options, tasks
from torch import Tensor

from fairseq_plugins.checkpoints.encoder_layout import FAMILIES
from fairseq_plugins.models.nlu import NLUEncoderModel
from fairseq_plugins.models.nlu.heads import pool
from tests import nlu_builders, nlu_models
from tests.nlu_builders import PAD
from tests.nlu_models import MBART_SYMBOLS, reloaded, scratch, tokens_for

# ---- Heads. ----


def test_pooling_by_hand() -> None:
    hidden = torch.arange(12.0).view(2, 3, 2)
    padding = torch.tensor([[False, False, True], [False, False, False]])
    assert pool(hidden, padding, "first").tolist() == [[0, 1], [6, 7]]
    assert pool(hidden, padding, "last").tolist() == [[2, 3], [10, 11]]
    assert pool(hidden, padding, "mean").tolist() == [[1, 2], [8, 9]]


def test_the_mean_in_half_precision_is_of_a_sum_beyond_its_range() -> None:
    hidden = torch.full((1, 1000, 2), 100.0, dtype=torch.float16)
    pooled = pool(hidden, torch.zeros(1, 1000, dtype=torch.bool), "mean")
    assert pooled.dtype == torch.float16 and pooled.tolist() == [[100.0, 100.0]]


@pytest.mark.parametrize("how", ["first", "last", "mean"])
@torch.no_grad()
def test_a_sentence_head_is_fairseqs_on_what_is_pooled(how: str) -> None:
    model = scratch(sentence_pooling=how)
    model.register_classification_head("sentence", num_classes=3)
    assert {name: tuple(one.shape) for name, one in model.classification_heads.state_dict().items()} == {
        "sentence.dense.weight": (16, 16), "sentence.dense.bias": (16,),
        "sentence.out_proj.weight": (3, 16), "sentence.out_proj.bias": (3,),
    }  # fmt: skip
    tokens = tokens_for(model)
    hidden, extra = model(tokens, features_only=True)
    assert hidden.shape == (3, 9, 16) and extra == {}
    lengths = tokens.ne(PAD).sum(1)
    pooled = {
        "first": hidden[:, 0],
        "last": torch.stack([row[length - 1] for row, length in zip(hidden, lengths)]),
        "mean": torch.stack([row[:length].mean(0) for row, length in zip(hidden, lengths)]),
    }[how]
    head: Any = model.classification_heads["sentence"]
    expected = head.out_proj(torch.tanh(head.dense(pooled)))
    found, _ = model(tokens, src_lengths=lengths, features_only=True, classification_head_name="sentence")
    torch.testing.assert_close(found, expected)
    assert found.shape == (3, 3) and found.std(0).min() > 0.001


@torch.no_grad()
def test_a_token_head_at_selected_positions() -> None:
    model = scratch()
    model.register_token_head("tags", 5)
    tokens = tokens_for(model)
    hidden, everywhere = model(tokens)[0], model(tokens, classification_head_name="tags")[0]
    assert everywhere.shape == (3, 9, 5)
    head: Any = model.token_heads["tags"]
    torch.testing.assert_close(everywhere, head.out_proj(hidden))
    select = torch.zeros(3, 9, dtype=torch.bool)
    select[0, 2] = select[2, 1] = select[0, 5] = True
    chosen = model(tokens, classification_head_name="tags", select=select)[0]
    torch.testing.assert_close(chosen, everywhere[[0, 0, 2], [2, 5, 1]])


def test_registering_again() -> None:
    model = scratch()
    model.register_classification_head("one", num_classes=3)
    model.register_token_head("two", 4)
    heads = [model.classification_heads["one"], model.token_heads["two"]]
    model.register_classification_head("one", num_classes=3)
    model.register_token_head("two", 4)
    assert [model.classification_heads["one"], model.token_heads["two"]] == heads
    with pytest.raises(ValueError, match="head 'one' has 3 classes, asked for were 2"):
        model.register_classification_head("one", num_classes=2)
    with pytest.raises(ValueError, match="head 'two' has 4 classes, asked for were 5"):
        model.register_token_head("two", 5)
    with pytest.raises(ValueError, match="head 'one' is of the other kind"):
        model.register_token_head("one", 3)
    with pytest.raises(ValueError, match="no head 'none'; registered: one, two"):
        model(tokens_for(model), classification_head_name="none")


@torch.no_grad()
def test_heads_come_back_from_a_checkpoint_that_has_them(tmp_path: Path) -> None:
    model = scratch()
    model.register_classification_head("xnli", num_classes=3, inner_dim=10)
    model.register_token_head("ner", 5)
    again = reloaded(nlu_builders.randomise(model), MBART_SYMBOLS, tmp_path / "model.pt")
    tokens = tokens_for(model)
    for name in ("xnli", "ner"):
        torch.testing.assert_close(
            again(tokens, classification_head_name=name)[0], model(tokens, classification_head_name=name)[0]
        )


def test_a_head_that_the_checkpoint_does_not_have_keeps_its_values(caplog: pytest.LogCaptureFixture) -> None:
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


def test_a_head_of_another_size_is_refused_on_loading() -> None:
    old, new = scratch(), scratch()
    old.register_classification_head("head", num_classes=3)
    new.register_classification_head("head", num_classes=2)
    with pytest.raises(ValueError, match="head 'head' has 2 classes, asked for were 3"):
        new.load_state_dict(old.state_dict())


# ---- Training. ----


def _outputs(model: NLUEncoderModel, name: Optional[str] = None) -> List[Tensor]:
    tokens = tokens_for(model)
    return [model(tokens, classification_head_name=name)[0] for _ in range(2)]


@pytest.mark.parametrize("name", ["dropout", "attention_dropout", "activation_dropout"])
def test_dropout_of_the_encoder(name: str) -> None:
    none = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0, "head_dropout": 0.0}
    model = scratch(**{**none, name: 0.4}).train()
    first, second = _outputs(model)
    assert not torch.equal(first, second)
    first, second = _outputs(model.eval())
    assert torch.equal(first, second)
    first, second = _outputs(scratch(**none).train())
    assert torch.equal(first, second)


@pytest.mark.parametrize("head", ["sentence", "tags"])
def test_dropout_of_the_heads(head: str) -> None:
    for probability in (0.0, 0.5):
        model = scratch(dropout=0.0, attention_dropout=0.0, head_dropout=probability).train()
        model.register_classification_head("sentence", 3)
        model.register_token_head("tags", 3)
        first, second = _outputs(model, head)
        assert torch.equal(first, second) == (probability == 0)


def test_the_remaining_options_reach_the_encoder() -> None:
    model = scratch(encoder_layerdrop=0.3, checkpoint_activations=True)
    assert model.encoder.encoder_layerdrop == 0.3
    assert all(hasattr(layer, "precheckpoint_forward") for layer in model.encoder.layers)


def test_every_weight_is_trained() -> None:
    model = scratch(encoder_family="bert").train()
    model.register_classification_head("sentence", 3)
    model.register_token_head("tags", 3)
    tokens = tokens_for(model)
    loss = sum(model(tokens, classification_head_name=name)[0].pow(2).sum() for name in ("sentence", "tags"))
    loss.backward()
    still = [name for name, one in model.named_parameters() if one.grad is None or not one.grad.abs().sum() > 0]
    # A key's bias shifts all scores of a query alike: its gradient is zero but for rounding.
    assert [name for name in still if not name.endswith("k_proj.bias")] == []


def test_probabilities_and_targets() -> None:
    model = scratch()
    logits = torch.tensor([[1.0, 2.0, 0.5]])
    probabilities = model.get_normalized_probs([logits], log_probs=False)
    torch.testing.assert_close(probabilities, logits.softmax(-1))
    torch.testing.assert_close(
        model.get_normalized_probs((logits.half(),), log_probs=True), probabilities.log(), rtol=1e-3, atol=1e-3
    )
    assert model.get_targets({"target": logits}, None) is logits


# ---- Under the stock task. ----


@pytest.mark.parametrize("family", FAMILIES)
def test_the_stock_task_trains_every_family(tmp_path: Path, family: str) -> None:
    """Options as typed, the stock task's dictionary with its <mask>, the stock criterion, and a few updates."""
    path, symbols = nlu_builders.write_any(family, tmp_path / "pretrained")
    heads = nlu_builders.heads_of(family)
    masked = [*symbols] if "<mask>" in symbols else [*symbols, "<mask>"]
    more = [word for name in ("dropout", "attention-dropout", "head-dropout") for word in (f"--{name}", "0")]
    more += ["--encoder-heads", str(heads)] if heads else []
    more += ["--embedding-mismatch", "extend"] if masked != symbols else []
    data = nlu_models.write_sentences(tmp_path / "bin", symbols)
    parser = options.get_training_parser()
    args = options.parse_args_and_arch(
        parser, [*nlu_models.command_line(data), "--pretrained-encoder", str(path), *more]
    )
    task = tasks.setup_task(args)
    assert task.source_dictionary.symbols[4:] == masked
    model = task.build_model(args)
    criterion = criterions.build_criterion(args, task)
    task.load_dataset("train.en")
    dataset = task.dataset("train.en")
    batch = dataset.collater([dataset[index] for index in range(len(dataset))])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(15):
        loss, size, logged = criterion(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item() / size)
    assert size == len(dataset) and logged["ncorrect"] > 0
    assert losses[-1] < 0.6 * losses[0]
