"""sga_dag: targets without room, and glancing; losses: test_graph_losses.py."""

import pytest
import torch

from fairseq_plugins.sga.extensions.glancing import GlancingSchedule
from fairseq_plugins.sga.extensions.graph import SGADAGCriterion
from fairseq_plugins.sga.variants import JoinedGraphConfig
from tests import builders


def criterion(**options):
    return SGADAGCriterion(builders.task(), JoinedGraphConfig(**{"sentence_avg": False, **options}))


def test_targets_without_room_count_and_cost_nothing(device):
    """Six slots hold four tokens, and a repeat needs no slot more."""
    model = builders.sga_model(alignment="dag", no_denoising=True).double().to(device)
    targets = builders.target_rows([5, 4, 0])
    targets[2] = torch.tensor([9, 9, 9, 9, builders.EOS])
    sources = builders.source_rows([3, 3, 3])
    loss, size, logged = criterion()(model, builders.to_device(builders.batch(sources, targets), device))
    expected, _, clean = criterion()(model, builders.to_device(builders.batch(sources[1:], targets[1:]), device))
    assert (int(logged["unalignable"]), int(clean["unalignable"]), size) == (1, 0, 5 + 4 + 4)
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=1e-10)


def test_a_path_too_short_for_the_denoiser_counts(monkeypatch):
    model, lengths = builders.sga_model(alignment="dag"), torch.tensor([12, 10, 16])
    monkeypatch.setattr(type(model), "denoiser_slots", lambda self, counts: lengths)
    monkeypatch.setattr(type(model), "duplicate", lambda self, tokens: tokens.new_full((3, 16), 7))
    targets = builders.target_rows([6, 6, 6])
    targets[0] = torch.tensor([7, 8, 9, 10, 11, 12, builders.EOS])
    targets[1] = torch.tensor([7] * 6 + [builders.EOS])  # with its repeats 11 slots
    targets[2] = torch.tensor([7] * 6 + [builders.EOS])
    _, _, logged = criterion()(model, builders.batch(builders.source_rows([5, 5, 5]), targets))
    assert int(logged["unalignable"]) == 1


def test_glancing_follows_its_schedule_in_training_alone(monkeypatch):
    model, sample, ratios = builders.sga_model(alignment="dag"), builders.sample(), []
    original = type(model).forward

    def forward(self, **inputs):
        ratios.append(inputs["glancing"])
        return original(self, **inputs)

    monkeypatch.setattr(type(model), "forward", forward)
    loss = criterion(glancing="0.5:0.1@100")
    for update in (0, 50, 100, 999):
        model.train()
        model.set_num_updates(update)
        loss(model, sample)
    model.eval()
    loss(model, sample)
    assert ratios == [pytest.approx(ratio) for ratio in (0.5, 0.3, 0.1, 0.1, 0.0)]


@pytest.mark.cases(
    "text",
    "",
    "1.5",
    "-1",
    "0.5:0.1",
    "0.5:0.1@0",
    "0.5:2@10",
    "half",
    "..5",
)
def test_wrong_schedules_are_named(text):
    with pytest.raises(ValueError, match=r"--glancing .*valid: R or FIRST:LAST@UPDATES, ratios in \[0, 1\]"):
        GlancingSchedule.parse(text)


def test_a_model_without_a_graph_is_refused():
    with pytest.raises(ValueError, match="--criterion sga_dag trains models with --alignment dag.* sga_ctc"):
        criterion()(builders.sga_model(), builders.sample())
