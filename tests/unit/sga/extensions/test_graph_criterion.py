"""sga_dag: targets without room, and glancing of both criterions; losses: test_graph_losses.py."""

import pytest
import torch

from fairseq_plugins.baselines.nat_ctc import NATCTCConfig, NATCTCModel
from fairseq_plugins.sga.extensions.glancing import GlancingCriterion, GlancingSchedule
from fairseq_plugins.sga.extensions.graph import SGADAGCriterion
from fairseq_plugins.sga.mask_predict import SGAMaskPredictCriterion
from fairseq_plugins.sga.variants import JoinedCTCConfig, JoinedMaskPredictConfig
from tests import builders


def criterion(kind=SGADAGCriterion, **options):
    return kind(builders.task(), JoinedCTCConfig(**{"sentence_avg": False, **options}))


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


@pytest.mark.parametrize(("kind", "alignment"), [(SGADAGCriterion, "dag"), (GlancingCriterion, "ctc")])
def test_glancing_follows_its_schedule_in_training_alone(kind, alignment, monkeypatch):
    model, sample, seen = builders.sga_model(alignment=alignment), builders.sample(), []
    original = type(model).forward
    monkeypatch.setattr(
        type(model), "forward", lambda self, **given: seen.append(given.get("glancing")) or original(self, **given)
    )
    loss = criterion(kind, glancing="0.5:0.1@100")
    for update in (0, 50, 100, 999):
        model.train()
        model.set_num_updates(update)
        loss(model, sample)
    model.eval()
    loss(model, sample)
    assert seen == [pytest.approx(ratio) for ratio in (0.5, 0.3, 0.1, 0.1)] + [None]


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


def test_glancing_is_refused_where_nothing_reads_it():
    cfg = JoinedMaskPredictConfig(sentence_avg=False, glancing="0.3")
    with pytest.raises(ValueError, match="--glancing 0.3: mask-predict .*valid with it: 0"):
        SGAMaskPredictCriterion.build_criterion(cfg, builders.task())
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "embed_dim": 16, "ffn_embed_dim": 24, "attention_heads": 2}
    nat = NATCTCModel.build_model(NATCTCConfig(**sizes), builders.task()).train()
    with pytest.raises(ValueError, match="--glancing 0.3: valid for NATCTCModel: 0"):
        criterion(GlancingCriterion, glancing="0.3")(nat, builders.sample())
    with pytest.raises(ValueError, match="--criterion sga_dag trains models with --alignment dag.* sga_ctc"):
        criterion()(builders.sga_model(), builders.sample())
