"""The three routes of VECO's pre-training against the slow loops of its equations, in value and gradient."""

import pytest
import torch

from fairseq_plugins.criterions.cross_sequence_mlm import CrossSequenceMLMConfig, CrossSequenceMLMCriterion
from tests import builders, veco_builders
from tests.deltalm_builders import in_double
from tests.reference.veco_loops import VECOLoops, rows_of

PAD = builders.PAD


@pytest.fixture
def model(monkeypatch):
    """Two layers in float64."""
    in_double(monkeypatch)
    return veco_builders.random_pretrainer(encoder_layers=2).double()


def expected(model, sample):
    """Each objective of a batch, summed over its sentences."""
    loops = VECOLoops(model, builders.HEADS, PAD)
    rows = rows_of(sample["net_input"]["src_tokens"], PAD)
    targets = [list(map(int, row[: len(tokens)])) for row, tokens in zip(sample["target"], rows)]
    half = len(rows) // 2
    found = {name: torch.zeros((), dtype=torch.float64) for name in ("is_mlm", "cs_mlm", "tlm")}
    for number, (tokens, target) in enumerate(zip(rows, targets)):
        other = rows[number + half if number < half else number - half]
        found["is_mlm"] = found["is_mlm"] + loops.nll(loops.encode(tokens), target, PAD)
        found["cs_mlm"] = found["cs_mlm"] + loops.nll(loops.decode(tokens, loops.encode(other)), target, PAD)
    for tokens, target in zip(rows_of(sample["net_input"]["joint_tokens"], PAD), sample["joint_target"]):
        found["tlm"] = found["tlm"] + loops.nll(loops.encode(tokens), list(map(int, target[: len(tokens)])), PAD)
    return found


@pytest.mark.parametrize("objective", ["is", "cs", "tlm"])
def test_each_objective_equals_its_equations(model, objective):
    """Value, and gradient of every weight (none reaches the memory of CS-MLM through the loops either)."""
    sample = veco_builders.batch(extra=1)
    criterion = CrossSequenceMLMCriterion(None, CrossSequenceMLMConfig(objectives=objective, loss_chunk_size=3))
    loss = criterion(model, sample)[0]
    name = {"is": "is_mlm", "cs": "cs_mlm", "tlm": "tlm"}[objective]
    slow = expected(model, sample)[name]
    assert float(slow) > 5.0
    torch.testing.assert_close(loss, slow, rtol=1e-6, atol=0)
    parameters = dict(model.named_parameters())
    fast, wanted = (torch.autograd.grad(value, list(parameters.values()), allow_unused=True) for value in (loss, slow))
    moved = 0
    for key, left, right in zip(parameters, fast, wanted):
        if right is None:
            assert left is None or not bool(left.any()), key
            continue
        if "embed_" in key:  # fairseq gives the padding row no gradient
            right[PAD] = left[PAD]
        torch.testing.assert_close(left, right, rtol=1e-5, atol=1e-6, msg=lambda text, key=key: f"{key}: {text}")
        moved += bool(right.abs().max() > 1e-4)
    assert moved > 20


def test_the_total_is_the_sum(model):
    """Eq. 8, every term with its own sign, and TLM (section 3)."""
    sample = veco_builders.batch()
    criterion = CrossSequenceMLMCriterion(None, CrossSequenceMLMConfig())
    loss, size, logged = criterion(model, sample)
    slow = expected(model, sample)
    torch.testing.assert_close(loss, sum(slow.values()), rtol=1e-6, atol=0)
    for name, value in slow.items():
        torch.testing.assert_close(logged[name], value.detach(), rtol=1e-6, atol=0)
    assert int(size) == int(sample["net_input"]["masked"].sum())
