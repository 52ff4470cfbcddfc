"""The criterion of VECO's pre-training: what is logged and refused. Losses are compared with loops in tests/reference."""

import math
from types import SimpleNamespace

import pytest
from fairseq.logging import metrics

from fairseq_plugins.veco.criterion import CrossSequenceMLMConfig, CrossSequenceMLMCriterion
from tests import veco_builders

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

NAMES = ("is_mlm", "cs_mlm", "tlm")


def criterion(**options):
    return CrossSequenceMLMCriterion(None, CrossSequenceMLMConfig(**options))


def test_wrong_objectives_are_refused():
    for objectives, pairs, frozen, message in (
        ("tlm", [], 0, "tlm needs parallel text; give --pairs"),
        ("is,tlm", ["en-de"], 7, "--freeze-backbone-updates 7 .* needs cs"),
        *((text, ["en-de"], 0, f"--objectives must be .*got '{text}'") for text in ("", "is,is", "is,mlm", ",")),
    ):
        task = SimpleNamespace(pairs=pairs, cfg=SimpleNamespace(freeze_backbone_updates=frozen))
        with pytest.raises(ValueError, match=message):
            CrossSequenceMLMCriterion(task, CrossSequenceMLMConfig(objectives=objectives))


def epoch(logs):
    with metrics.aggregate(new_root=True) as meters:
        CrossSequenceMLMCriterion.reduce_metrics(logs)
        return meters.get_smoothed_values()


def test_objectives_are_logged_in_bits_by_name():
    model = veco_builders.random_pretrainer()
    batches = [veco_builders.batch(), veco_builders.batch(seed=9, parallel=False, lengths=(5, 3))]
    logs = [criterion()(model, sample)[2] for sample in batches]
    types = [{name: type(value) for name, value in log.items()} for log in logs]
    assert types[0] == types[1]  # every rank has the same names, and as many tensors: they are summed apart
    assert (logs[1]["tlm"], logs[1]["tlm_tokens"]) == (0.0, 0)
    logged = epoch(logs)
    sizes = [int(sample["net_input"]["masked"].sum()) for sample in batches]
    for name in NAMES:
        tokens = sum(sizes) if name != "tlm" else sizes[0]
        bits = sum(float(log[name]) for log in logs) / tokens / math.log(2)
        assert logged[name] == pytest.approx(bits, abs=1e-3) and bits > 1.0
    total = sum(float(log["loss"]) for log in logs) / sum(sizes) / math.log(2)
    assert logged["loss"] == pytest.approx(total, abs=1e-3)
    assert float(logs[0]["loss"]) == pytest.approx(sum(float(logs[0][name]) for name in NAMES), rel=1e-5)
    assert "tlm" not in epoch(logs[1:])


def test_a_batch_without_any_objective_trains_nothing():
    """TLM alone on a monolingual batch: a loss of 0 that can be differentiated."""
    model, sample = veco_builders.random_pretrainer(), veco_builders.batch(parallel=False)
    loss, _, logged = criterion(objectives="tlm")(model, sample)
    loss.backward()
    assert (float(loss.detach()), logged["tlm_tokens"]) == (0.0, 0)
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert gradients and not any(bool(gradient.any()) for gradient in gradients)
