"""The chunked criterion against fairseq's own, on stock models."""

from argparse import Namespace

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.models.bart import BARTModel
from fairseq.models.bart.model import mbart_base_architecture
from fairseq.models.lstm import LSTMModel
from fairseq.models.lstm import base_architecture as lstm_architecture
from fairseq.models.transformer import TransformerModel
from fairseq.models.transformer import base_architecture as transformer_architecture
from torch import nn

from fairseq_plugins.common import label_smoothed_linear_cross_entropy as own
from tests import builders

SIZES = builders.sides(1, 16, 24, 2)
SHARED = {"share_all_embeddings": True}
CASES = {
    "transformer": (TransformerModel, transformer_architecture, {}),
    "transformer, shared embeddings": (TransformerModel, transformer_architecture, SHARED),
    "BART": (BARTModel, mbart_base_architecture, {**SHARED, "activation_fn": "gelu"}),
    "LSTM": (LSTMModel, lstm_architecture, {"decoder_out_embed_dim": 16, "criterion": "any"}),
}


def build(case, **changes):
    model_class, architecture, special = CASES[case]
    args = Namespace(**{**SIZES, **special, **changes})
    architecture(args)
    task = builders.task()
    if case == "BART":
        task.args = args
    torch.manual_seed(2)
    return model_class.build_model(args, task).eval()


def batch(device):
    rows = builders.source_rows([6, 5, 3]), builders.target_rows([4, 2, 3])
    return builders.to_device(builders.batch(*rows), device)


def both(**options):
    chosen = {"sentence_avg": False, "label_smoothing": 0.1, **options}
    task = builders.task()
    chunk = chosen.pop("loss_chunk_size", 4)
    ours = own.LabelSmoothedLinearCrossEntropyCriterion(task, loss_chunk_size=chunk, **chosen)
    return ours, LabelSmoothedCrossEntropyCriterion(task, **chosen)


def gradients(criterion, model, sample):
    model.zero_grad()
    loss, size, logged = criterion(model, sample)
    loss.backward()
    found = {name: part.grad.clone() for name, part in model.named_parameters() if part.grad is not None}
    return loss, size, logged, found


@pytest.mark.parametrize("case", CASES)
def test_value_and_gradient_are_stock(case, device):
    model, sample = build(case).to(device), batch(device)
    ours, theirs = (gradients(criterion, model, sample) for criterion in both(report_accuracy=True))
    assert ours[1] == theirs[1]
    for one, other in zip(ours, theirs):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


OPTIONS = {"label_smoothing": 0.0, "sentence_avg": True, "ignore_prefix_size": 2, "loss_chunk_size": 100}


@pytest.mark.parametrize("options", [{name: value} for name, value in OPTIONS.items()])
def test_options_do_what_they_do_in_stock(options, device):
    model, sample = build("transformer").to(device), batch(device)
    target = sample["target"].clone()
    ours, theirs = (gradients(criterion, model, sample) for criterion in both(**options))
    assert torch.equal(sample["target"], target), "the batch is used again: a dummy batch, BLEU in validation"
    with torch.no_grad():
        unreduced = [criterion(model, sample, reduce=False)[0] for criterion in both(**options)]
    torch.testing.assert_close(*(loss[loss != 0] for loss in unreduced), rtol=1e-5, atol=1e-5)
    for place in (0, 1, 3):
        torch.testing.assert_close(ours[place], theirs[place], rtol=1e-5, atol=1e-5)


def test_the_projection_is_itself_again_afterwards(device):
    model, sample = build("transformer").to(device), batch(device)
    before = model(**sample["net_input"])[0]
    both()[0](model, sample)
    assert torch.equal(model(**sample["net_input"])[0], before)
    with pytest.raises(TypeError):
        both()[0](model, {**sample, "net_input": {**sample["net_input"], "nonsense": 1}})
    assert torch.equal(model(**sample["net_input"])[0], before)


def test_the_projection_runs_inside_the_wrapped_model(device):
    """A wrapper sees (B, T, 3), made by its own forward: what DistributedDataParallel needs."""
    model, sample, seen = build("transformer").to(device), batch(device), []
    wrapper = nn.Module()
    wrapper.module, wrapper.forward = model, lambda **inputs: seen.append(model(**inputs)) or seen[0]
    ours, theirs = (criterion(each, sample)[0] for criterion, each in zip(both(), (wrapper, model)))
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    assert seen[0][0].shape == (*sample["target"].shape, 3)


def test_models_without_a_single_linear_projection_are_refused():
    adaptive, shared = {"adaptive_softmax_cutoff": [10]}, {"share_decoder_input_output_embed": True}
    for model in (build("transformer", **adaptive), build("LSTM", **shared), builders.masked_lm()):
        with pytest.raises(ValueError, match=f"needs a decoder with a linear .*{type(model).__name__} has NoneType"):
            own.find_projection(model)
