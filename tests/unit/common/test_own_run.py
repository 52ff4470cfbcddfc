"""Tasks and criterions of this package refuse a criterion or a task that does not fit."""

from types import SimpleNamespace

import pytest
from fairseq import criterions
from fairseq.criterions import CRITERION_REGISTRY, FairseqCriterion
from fairseq.tasks import TASK_REGISTRY
from omegaconf import OmegaConf

from tests import builders

FOREIGN = [
    ("sga_translation", "cross_entropy"),
    ("translation", "sga_ctc"),
    ("span_corruption", "sga_mask_predict"),
    ("span_qa", "token_classification"),
    ("tlm_pretraining", "cross_sequence_mlm"),
    ("veco_pretraining", "masked_lm"),
    ("cross_lingual_classification", "masked_lm"),
    ("translation_multi_temperature", "sga_ctc"),
]


def make_task(name):
    """Return a task without data, whose constructor has not run."""
    task_class = TASK_REGISTRY[name]
    task = task_class.__new__(task_class)
    task.cfg = task.args = SimpleNamespace()
    return task


def build(task, criterion):
    return task.build_criterion(OmegaConf.create({"_name": criterion, "sentence_avg": False}))


@pytest.mark.parametrize(("task", "criterion"), FOREIGN)
def test_a_task_refuses_criterions_of_others(task, criterion):
    with pytest.raises(ValueError, match=f"--criterion {criterion} with --task {task}: .*--(criterion|task) "):
        build(make_task(task), criterion)


def test_a_criterion_that_is_registered_elsewhere_is_let_pass(monkeypatch):
    class Elsewhere(FairseqCriterion):
        __module__ = "elsewhere"

    monkeypatch.setitem(CRITERION_REGISTRY, "elsewhere", Elsewhere)
    monkeypatch.setattr(criterions, "build_criterion", lambda cfg, task, **kwargs: "built")
    assert build(builders.task(), "elsewhere") == "built"
