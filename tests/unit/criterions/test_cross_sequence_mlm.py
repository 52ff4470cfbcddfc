"""The criterion of VECO's pre-training: chunks against materialised logits, what is logged, and what is refused."""

import math
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from fairseq.logging import metrics

from fairseq_plugins.criterions.cross_sequence_mlm import CrossSequenceMLMConfig, CrossSequenceMLMCriterion
from tests import veco_builders

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

NAMES = ("is_mlm", "cs_mlm", "tlm")


def criterion(**options):
    return CrossSequenceMLMCriterion(None, CrossSequenceMLMConfig(**options))


@pytest.mark.parametrize(
    ("objectives", "pairs", "frozen", "message"),
    [
        ("tlm", [], 0, "tlm needs parallel text; give --pairs"),
        ("is,tlm", ["en-de"], 7, "--freeze-backbone-updates 7 .* needs cs"),
        *((text, ["en-de"], 0, f"--objectives must be .*got '{text}'") for text in ("", "is,is", "is,mlm", ",")),
    ],
)
def test_wrong_objectives_are_refused(objectives, pairs, frozen, message):
    task = SimpleNamespace(pairs=pairs, cfg=SimpleNamespace(freeze_backbone_updates=frozen))
    with pytest.raises(ValueError, match=message):
        CrossSequenceMLMCriterion(task, CrossSequenceMLMConfig(objectives=objectives))


def materialised(model, sample):
    """Each objective through the logits of all masked positions."""
    inputs = sample["net_input"]
    targets = dict.fromkeys(("is_mlm", "cs_mlm"), sample["target"][inputs["masked"]])
    targets["tlm"] = sample["joint_target"][inputs["joint_masked"]]
    logits = model(**inputs)
    return {name: F.cross_entropy(logits[name], targets[name], reduction="sum") for name in NAMES}


@pytest.mark.parametrize("chunk", [1, 3, 256])
def test_chunks_equal_materialised_logits(chunk):
    """Value and gradient in float64."""
    model, sample = veco_builders.random_pretrainer(encoder_layers=2).double(), veco_builders.batch()
    loss, size, logged = criterion(loss_chunk_size=chunk)(model, sample)
    slow = materialised(model, sample)
    torch.testing.assert_close(loss, sum(slow.values()), rtol=1e-9, atol=0)
    for name in NAMES:
        torch.testing.assert_close(logged[name], slow[name].detach(), rtol=1e-9, atol=0)
        assert float(logged[name]) > 1.0
    parameters = list(model.parameters())
    fast, wanted = (torch.autograd.grad(value, parameters) for value in (loss, sum(slow.values())))
    for left, right in zip(fast, wanted):
        torch.testing.assert_close(left, right, rtol=1e-7, atol=1e-9)
    assert int(size) == int(sample["net_input"]["masked"].sum())


def epoch(logs):
    with metrics.aggregate(new_root=True) as meters:
        CrossSequenceMLMCriterion.reduce_metrics(logs)
        return meters.get_smoothed_values()


def test_objectives_are_logged_in_bits_by_name():
    model = veco_builders.random_pretrainer()
    batches = [veco_builders.batch(), veco_builders.batch(seed=9, parallel=False, lengths=(5, 3))]
    logs = [criterion()(model, sample)[2] for sample in batches]
    assert logs[0].keys() == logs[1].keys()  # every rank has the same names
    assert (logs[1]["tlm"], logs[1]["tlm_tokens"]) == (0.0, 0)
    shown = epoch(logs)
    sizes = [int(sample["net_input"]["masked"].sum()) for sample in batches]
    for name in NAMES:
        tokens = sum(sizes) if name != "tlm" else sizes[0]
        bits = sum(float(log[name]) for log in logs) / tokens / math.log(2)
        assert shown[name] == pytest.approx(bits, abs=1e-3) and bits > 1.0
    total = sum(float(log["loss"]) for log in logs) / sum(sizes) / math.log(2)
    assert shown["loss"] == pytest.approx(total, abs=1e-3)
    assert float(logs[0]["loss"]) == pytest.approx(sum(float(logs[0][name]) for name in NAMES), rel=1e-5)
    assert "tlm" not in epoch(logs[1:])


def test_objectives_choose_what_is_trained():
    model, sample = veco_builders.random_pretrainer(), veco_builders.batch()
    whole = criterion()(model, sample)[2]
    for chosen, names in (("is", ["is_mlm"]), ("tlm,cs", ["cs_mlm", "tlm"])):
        logged = criterion(objectives=chosen)(model, sample)[2]
        assert [name for name in NAMES if logged[f"{name}_tokens"]] == names
        assert float(logged["loss"]) == pytest.approx(sum(float(whole[name]) for name in names), rel=1e-5)


def test_a_batch_without_any_objective_trains_nothing():
    """TLM alone on a monolingual batch: a loss of 0 that can be differentiated."""
    model, sample = veco_builders.random_pretrainer(), veco_builders.batch(parallel=False)
    loss, _, logged = criterion(objectives="tlm")(model, sample)
    loss.backward()
    assert (float(loss.detach()), logged["tlm_tokens"]) == (0.0, 0)
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert gradients and not any(bool(gradient.any()) for gradient in gradients)
