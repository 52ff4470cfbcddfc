"""Test sga_dag: targets that do not fit, and the glancing schedule."""

import pytest
import torch

from fairseq_plugins.sga.extensions.glancing import GlancingSchedule
from fairseq_plugins.sga.extensions.graph import SGADAGCriterion
from fairseq_plugins.sga.variants import JoinedGraphConfig
from tests import builders


def build_criterion(**options):
    cfg = JoinedGraphConfig(**{"sentence_avg": False, **options})
    return SGADAGCriterion(builders.task(), cfg)


def test_targets_that_do_not_fit_are_counted_and_cost_nothing(device):
    """Six slots hold four tokens; a repeat needs no further slot."""
    model = builders.sga_model(alignment="dag", no_denoising=True).double().to(device)
    targets = builders.target_rows([5, 4, 0])
    targets[2] = torch.tensor([9, 9, 9, 9, builders.EOS])
    sources = builders.source_rows([3, 3, 3])

    def run(first):
        batch = builders.batch(sources[first:], targets[first:])
        return build_criterion()(model, builders.to_device(batch, device))

    (loss, size, log), (expected, _, fitting_log) = run(0), run(1)
    assert (int(log["unalignable"]), int(fitting_log["unalignable"])) == (1, 0)
    assert size == 5 + 4 + 4
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=1e-10)


def test_targets_longer_than_the_denoised_path_are_counted(monkeypatch):
    """Six equal labels need 11 slots of CTC: the second path has 10, the third 16."""
    model, lengths = builders.sga_model(alignment="dag"), torch.tensor([12, 10, 16])
    monkeypatch.setattr(type(model), "denoiser_slots", lambda self, counts: lengths)
    monkeypatch.setattr(type(model), "duplicate", lambda self, tokens: tokens.new_full((3, 16), 7))
    rows = [7, 8, 9, 10, 11, 12], [7] * 6, [7] * 6
    targets = [torch.tensor([*row, builders.EOS]) for row in rows]
    sources = builders.source_rows([5, 5, 5])
    _, _, log = build_criterion()(model, builders.batch(sources, targets))
    assert int(log["unalignable"]) == 1


def test_glancing_follows_its_schedule_in_training_alone(monkeypatch):
    model, sample, ratios = builders.sga_model(alignment="dag"), builders.sample(), []
    original = type(model).forward

    def forward(self, **inputs):
        ratios.append(inputs["glancing"])
        return original(self, **inputs)

    monkeypatch.setattr(type(model), "forward", forward)
    criterion = build_criterion(glancing="0.5:0.1@100")
    for update in (0, 50, 100, 999):
        model.train()
        model.set_num_updates(update)
        criterion(model, sample)
    model.eval()
    criterion(model, sample)
    assert ratios == pytest.approx([0.5, 0.3, 0.1, 0.1, 0.0])


@pytest.mark.parametrize(
    "text", ["", "1.5", "-1", "0.5:0.1", "0.5:0.1@0", "0.5:2@10", "half", "..5"]
)
def test_wrong_schedules_are_named(text):
    with pytest.raises(ValueError, match=r"--glancing .*valid: R or FIRST:LAST@UPDATES"):
        GlancingSchedule.parse(text)


def test_a_model_without_a_graph_is_refused():
    with pytest.raises(ValueError, match="--criterion sga_dag .*--alignment dag.* sga_ctc"):
        build_criterion()(builders.sga_model(), builders.sample())
