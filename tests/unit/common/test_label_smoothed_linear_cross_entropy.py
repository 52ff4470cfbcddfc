"""Test the chunked criterion against fairseq's own, on stock models."""

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

from fairseq_plugins.common import label_smoothed_linear_cross_entropy as linear_criterion
from tests import builders

SHARED = {"share_all_embeddings": True}
CASES = {
    "transformer": (TransformerModel, transformer_architecture, {}),
    "transformer, shared embeddings": (TransformerModel, transformer_architecture, SHARED),
    "BART": (BARTModel, mbart_base_architecture, {**SHARED, "activation_fn": "gelu"}),
    "LSTM": (LSTMModel, lstm_architecture, {"decoder_out_embed_dim": 16, "criterion": "any"}),
}
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def build_model(case="transformer", **options):
    model_class, architecture, case_options = CASES[case]
    args = Namespace(**{**builders.sides(1, 16, 24, 2), **case_options, **options})
    architecture(args)
    task = builders.task()
    if case == "BART":
        task.args = args
    torch.manual_seed(2)
    return model_class.build_model(args, task).eval()


def make_sample(device):
    """Make a batch whose sources are sorted by length, as an LSTM needs them."""
    sources, targets = builders.source_rows([6, 5, 3]), builders.target_rows([4, 2, 3])
    return builders.to_device(builders.batch(sources, targets), device)


def build_criterions(loss_chunk_size=4, **options):
    """Build the criterion of the package and the stock one, with the same options."""
    options = {"sentence_avg": False, "label_smoothing": 0.1, **options}
    task, criterion_class = (
        builders.task(),
        linear_criterion.LabelSmoothedLinearCrossEntropyCriterion,
    )
    return (
        criterion_class(task, loss_chunk_size=loss_chunk_size, **options),
        LabelSmoothedCrossEntropyCriterion(task, **options),
    )


def run(criterion, model, sample):
    """Return loss, sample size, logging output and gradients by name."""
    model.zero_grad()
    loss, size, log = criterion(model, sample)
    loss.backward()
    parameters = model.named_parameters()
    gradients = {name: part.grad.clone() for name, part in parameters if part.grad is not None}
    return loss, size, log, gradients


@pytest.mark.parametrize("case", CASES)
def test_value_and_gradient_are_stock(case, device):
    model, sample = build_model(case).to(device), make_sample(device)
    ours, theirs = (
        run(criterion, model, sample) for criterion in build_criterions(report_accuracy=True)
    )
    torch.testing.assert_close(ours, theirs, **CLOSE)


@pytest.mark.cases(
    "options",
    {"label_smoothing": 0.0},
    {"sentence_avg": True},
    {"ignore_prefix_size": 2},
    {"loss_chunk_size": 100},
)
def test_options_act_as_in_stock(options, device):
    model, sample = build_model().to(device), make_sample(device)
    target = sample["target"].clone()
    (*ours, our_gradients), (*theirs, their_gradients) = (
        run(criterion, model, sample) for criterion in build_criterions(**options)
    )
    assert torch.equal(sample["target"], target), "a dummy batch is used again"
    torch.testing.assert_close((ours[:2], our_gradients), (theirs[:2], their_gradients), **CLOSE)
    with torch.no_grad():
        unreduced = [
            criterion(model, sample, reduce=False)[0] for criterion in build_criterions(**options)
        ]
    torch.testing.assert_close(*(loss[loss != 0] for loss in unreduced), **CLOSE)


def test_the_model_has_its_projection_again_afterwards(device):
    model, sample = build_model().to(device), make_sample(device)
    criterion, before = build_criterions()[0], model(**sample["net_input"])[0]
    criterion(model, sample)
    assert torch.equal(model(**sample["net_input"])[0], before)
    with pytest.raises(TypeError):
        criterion(model, {**sample, "net_input": {**sample["net_input"], "nonsense": 1}})
    assert torch.equal(model(**sample["net_input"])[0], before)


def test_the_projection_runs_inside_the_wrapped_model(device):
    """DistributedDataParallel sees the outputs of its own forward alone: here (B, T, 3)."""
    model, sample, outputs = build_model().to(device), make_sample(device), []

    def forward(**inputs):
        outputs.append(model(**inputs))
        return outputs[0]

    wrapper = nn.Module()
    wrapper.module, wrapper.forward = model, forward
    ours, theirs = build_criterions()
    torch.testing.assert_close(ours(wrapper, sample)[0], theirs(model, sample)[0], **CLOSE)
    assert outputs[0][0].shape == (*sample["target"].shape, 3)


@pytest.mark.cases(
    "build",
    lambda: build_model(adaptive_softmax_cutoff=[10]),
    lambda: build_model("LSTM", share_decoder_input_output_embed=True),
    builders.masked_lm,
)
def test_models_without_a_single_linear_projection_are_refused(build):
    model = build()
    with pytest.raises(ValueError, match=f"{type(model).__name__} has NoneType"):
        linear_criterion.find_projection(model)
