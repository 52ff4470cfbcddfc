"""Test that tasks and criterions of this package refuse a partner that does not fit."""

from types import SimpleNamespace

import pytest
from fairseq import criterions
from fairseq.criterions import CRITERION_REGISTRY, FairseqCriterion
from fairseq.tasks import TASK_REGISTRY
from omegaconf import OmegaConf

from tests import builders


def make_task(name):
    """Make a task without data, whose constructor has not run."""
    task_class = TASK_REGISTRY[name]
    task = task_class.__new__(task_class)
    task.cfg = task.args = SimpleNamespace()
    return task


def build_criterion(task, criterion):
    return task.build_criterion(OmegaConf.create({"_name": criterion, "sentence_avg": False}))


@pytest.mark.cases(
    "task criterion",
    ("sga_translation", "cross_entropy"),
    ("translation", "sga_ctc"),
    ("span_corruption", "sga_mask_predict"),
    ("span_qa", "token_classification"),
    ("tlm_pretraining", "cross_sequence_mlm"),
    ("veco_pretraining", "masked_lm"),
    ("cross_lingual_classification", "masked_lm"),
    ("translation_multi_temperature", "sga_ctc"),
)
def test_a_task_refuses_criterions_of_other_tasks(task, criterion):
    with pytest.raises(ValueError, match=f"--criterion {criterion} with --task {task}: "):
        build_criterion(make_task(task), criterion)


def test_criterions_of_other_plugins_are_accepted(monkeypatch):
    class Criterion(FairseqCriterion):
        __module__ = "another_plugin"

    monkeypatch.setitem(CRITERION_REGISTRY, "of_another_plugin", Criterion)
    monkeypatch.setattr(criterions, "build_criterion", lambda cfg, task, **kwargs: "built")
    assert build_criterion(builders.task(), "of_another_plugin") == "built"
