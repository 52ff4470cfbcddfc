"""Test runs that start from another run's checkpoint: how they resume, which hours they count."""

import logging
from types import SimpleNamespace

import pytest
from fairseq import checkpoint_utils
from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer as StockTrainer
from omegaconf import OmegaConf

from fairseq_plugins.compat import own_runs, starting
from tests.unit.compat.applying import apply_again

TYPED = {"restore_file": "model.pt", **dict.fromkeys(own_runs.RESETS, True)}
RESUMED = {"restore_file": "checkpoint_last.pt", **dict.fromkeys(own_runs.RESETS, False)}
HISTORY = [{"num_updates": 5}, {"num_updates": 7, "lr_scheduler_state": {}}]


class CountsHours(FairseqTask):
    counts_its_own_hours = True


class Continues(CountsHours):
    continues_its_own_run = True


class Trainer:
    """The parts of fairseq's trainer that the patches need."""

    def __init__(self, cfg, task, updates=0, suffix=""):
        self.cfg, self.task = SimpleNamespace(checkpoint=cfg), task(None)
        self.checkpoint_suffix, self.updates, self._optim_history = suffix, updates, None
        self._previous_training_time, self.schedule = 0, []
        self.lr_scheduler = SimpleNamespace(load_state_dict=self.schedule.append)

    def get_num_updates(self):
        return self.updates

    def set_num_updates(self, updates):
        self.updates = updates

    def get_lr(self):
        return 0.25


@pytest.fixture
def calls(monkeypatch):
    """Record the options with which fairseq loads; a checkpoint brings an hour and a history."""
    options = []

    def load_file(trainer, filename, reset_optimizer=False, reset_meters=False):
        trainer._previous_training_time, trainer._optim_history = 3600, HISTORY
        return {}

    def load(cfg, trainer, **arguments):
        options.append({**{name: cfg[name] for name in RESUMED}, **arguments})
        path = cfg.restore_file
        if path == starting.DEFAULT:
            path = starting.last_checkpoint(cfg, trainer)
        resets = cfg.reset_optimizer, cfg.reset_meters
        return StockTrainer.load_checkpoint(trainer, path, resets[0], reset_meters=resets[1])

    monkeypatch.setattr(StockTrainer, "load_checkpoint", load_file)
    monkeypatch.setattr(checkpoint_utils, "load_checkpoint", load)
    apply_again("restarted_runs")
    apply_again("inherited_hours")
    return options


@pytest.fixture
def configuration(tmp_path):
    """Return a function that makes a configuration, and the newest checkpoint of its run."""

    def make(last="checkpoint_last.pt", **options):
        cfg = OmegaConf.create({"save_dir": str(tmp_path), **TYPED, **options})
        OmegaConf.set_struct(cfg, True)
        if last:
            (tmp_path / last).touch()
        return cfg

    return make


@pytest.mark.cases(
    "suffix updates schedule",
    ("", 0, {"best": 1.5}),
    ("-shard0", 0, {"best": 1.5}),
    ("", 7, {"best": 1.5}),
    ("", 0, {}),  # an imported checkpoint; fairseq's schedulers refuse an empty state
    ("", 0, None),
)
def test_a_restarted_run_resumes_from_its_newest_checkpoint(
    calls, configuration, monkeypatch, caplog, suffix, updates, schedule
):
    """A checkpoint without an optimizer has its updates in its history."""
    monkeypatch.setitem(HISTORY[-1], "lr_scheduler_state", schedule)
    cfg = configuration(f"checkpoint_last{suffix}.pt")
    trainer = Trainer(cfg, Continues, updates, suffix)
    with caplog.at_level(logging.INFO):
        checkpoint_utils.load_checkpoint(cfg, trainer, disable_iterator_cache=True)
    assert calls == [{**RESUMED, "disable_iterator_cache": True}]
    assert {name: cfg[name] for name in TYPED} == TYPED  # stored in the next checkpoints
    assert trainer.updates == 7
    assert trainer.schedule == ([schedule] if schedule and not updates else [])
    assert trainer._previous_training_time == 3600
    assert caplog.text.count("continuing") == 1 and "--restore-file model.pt" in caplog.text
    assert ("going on at update 7" in caplog.text) == (not updates)


NEWEST = "checkpoint_last.pt"
AVERAGE = {"restore_file": "{}/average.pt", "reset_optimizer": False}


@pytest.mark.cases(
    "task last options loaded updates seconds",
    (CountsHours, NEWEST, {}, TYPED, 0, 0),
    (FairseqTask, NEWEST, {}, TYPED, 0, 3600),
    (Continues, "", {}, TYPED, 0, 0),
    (Continues, "", {"reset_meters": False}, TYPED, 0, 3600),
    (Continues, NEWEST, {"restore_file": "/elsewhere/checkpoint3.pt"}, RESUMED, 7, 3600),
    # model.pt in the run's folder is another run's; an older checkpoint or an average is its own.
    (Continues, NEWEST, {"restore_file": "{}/model.pt"}, RESUMED, 7, 3600),
    (Continues, NEWEST, {"restore_file": "{}/checkpoint_3_5000.pt"}, TYPED, 0, 0),
    (Continues, NEWEST, AVERAGE, TYPED, 7, 0),
    # The user resets the optimizer of the run itself.
    (Continues, NEWEST, {"restore_file": NEWEST}, TYPED, 0, 3600),
)
def test_a_start_restores_updates_and_hours_of_the_same_run(
    calls, configuration, tmp_path, task, last, options, loaded, updates, seconds
):
    if "restore_file" in options:
        options = {**options, "restore_file": options["restore_file"].format(tmp_path)}
    cfg = configuration(last, **options)
    trainer = Trainer(cfg, task)
    checkpoint_utils.load_checkpoint(cfg, trainer)
    assert calls == [RESUMED if loaded is RESUMED else {**TYPED, **options}]
    assert (trainer.updates, trainer._previous_training_time) == (updates, seconds)
