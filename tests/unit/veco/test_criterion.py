"""Test the criterion of VECO's pre-training: its logs and refusals; tests/reference its losses."""

import math
from types import SimpleNamespace

import pytest
from fairseq.logging import metrics

from fairseq_plugins.veco.criterion import CrossSequenceMLMConfig, CrossSequenceMLMCriterion
from tests import veco_builders

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def make_criterion(**options):
    return CrossSequenceMLMCriterion(None, CrossSequenceMLMConfig(**options))


@pytest.mark.cases(
    "objectives pairs frozen message",
    ("tlm", [], 0, "tlm needs parallel text; give --pairs"),
    ("is,tlm", ["en-de"], 7, "--freeze-backbone-updates 7 .* needs cs"),
    *(
        (text, ["en-de"], 0, f"--objectives .*got '{text}'")
        for text in ("", "is,is", "is,mlm", ",")
    ),
)
def test_wrong_objectives_are_refused(objectives, pairs, frozen, message):
    task = SimpleNamespace(pairs=pairs, cfg=SimpleNamespace(freeze_backbone_updates=frozen))
    with pytest.raises(ValueError, match=message):
        CrossSequenceMLMCriterion(task, CrossSequenceMLMConfig(objectives=objectives))


def reduce(logs):
    with metrics.aggregate(new_root=True) as meters:
        CrossSequenceMLMCriterion.reduce_metrics(logs)
        return meters.get_smoothed_values()


def test_objectives_are_logged_in_bits_by_name():
    model, criterion = veco_builders.random_pretrainer(), make_criterion()
    parallel, monolingual = (
        veco_builders.batch(),
        veco_builders.batch(seed=9, parallel=False, lengths=(5, 3)),
    )
    logs = [criterion(model, sample)[2] for sample in (parallel, monolingual)]
    # Every rank has the same names and types: fairseq sums numbers and tensors apart.
    types = [{name: type(value) for name, value in log.items()} for log in logs]
    assert types[0] == types[1]
    assert (logs[1]["tlm"], logs[1]["tlm_tokens"]) == (0.0, 0)
    logged = reduce(logs)
    sizes = [int(sample["net_input"]["masked"].sum()) for sample in (parallel, monolingual)]
    for name, tokens in {
        "is_mlm": sum(sizes),
        "cs_mlm": sum(sizes),
        "tlm": sizes[0],
        "loss": sum(sizes),
    }.items():
        bits = sum(float(log[name]) for log in logs) / tokens / math.log(2)
        assert logged[name] == pytest.approx(bits, abs=1e-3) and bits > 1.0
    total = sum(float(logs[0][name]) for name in ("is_mlm", "cs_mlm", "tlm"))
    assert float(logs[0]["loss"]) == pytest.approx(total, rel=1e-5)
    assert "tlm" not in reduce(logs[1:])


def test_a_batch_without_any_objective_has_a_loss_of_zero():
    """TLM alone on a monolingual batch; the loss can be differentiated."""
    model, sample = veco_builders.random_pretrainer(), veco_builders.batch(parallel=False)
    loss, _, log = make_criterion(objectives="tlm")(model, sample)
    loss.backward()
    assert (float(loss.detach()), log["tlm_tokens"]) == (0.0, 0)
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert gradients and not any(gradient.any() for gradient in gradients)
