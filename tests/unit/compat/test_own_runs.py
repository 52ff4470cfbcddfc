"""Runs that start from the checkpoint of another run: how they are continued, and whose hours and updates count."""

import logging
from types import SimpleNamespace

import pytest
from fairseq import checkpoint_utils
from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer as StockTrainer
from omegaconf import OmegaConf

from fairseq_plugins.compat import own_runs, starting
from tests.unit.compat.applying import apply_again

GIVEN = {"restore_file": "model.pt", **dict.fromkeys(own_runs.RESETS, True)}
PLAIN = {"restore_file": "checkpoint_last.pt", **dict.fromkeys(own_runs.RESETS, False)}
HISTORY = [{"num_updates": 5}, {"num_updates": 7, "lr_scheduler_state": {"best": 1.5}}]


class CountsHours(FairseqTask):
    counts_its_own_hours = True


class Continues(CountsHours):
    continues_its_own_run = True


class Trainer:
    """What the hooks need of fairseq's. Its stock reader brings the hours of another run."""

    def __init__(self, cfg, task, updates=0, suffix=""):
        self.cfg, self.task = SimpleNamespace(checkpoint=cfg), task
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
def seen(monkeypatch):
    """Return what fairseq's functions were called with."""
    calls = []

    def read(trainer, filename, reset_optimizer=False, reset_lr_scheduler=False, overrides=None, reset_meters=False):
        trainer._previous_training_time, trainer._optim_history = 3600, HISTORY
        return {} if filename != "none" else None

    def load(cfg, trainer, **passthrough):
        calls.append({**{name: cfg[name] for name in PLAIN}, **passthrough})
        path = cfg.restore_file
        if path == starting.DEFAULT:
            path = f"{cfg.save_dir}/checkpoint_last{trainer.checkpoint_suffix}.pt"
        return StockTrainer.load_checkpoint(trainer, path, cfg.reset_optimizer, reset_meters=cfg.reset_meters)

    monkeypatch.setattr(StockTrainer, "load_checkpoint", read)
    monkeypatch.setattr(checkpoint_utils, "load_checkpoint", load)
    apply_again("restarted_runs")
    apply_again("inherited_hours")
    return calls


@pytest.fixture
def configuration(tmp_path):
    def make(last="checkpoint_last.pt", **options):
        cfg = OmegaConf.create({"save_dir": str(tmp_path), **GIVEN, **options})
        OmegaConf.set_struct(cfg, True)
        if last:
            (tmp_path / last).touch()
        return cfg

    return make


@pytest.mark.parametrize(("suffix", "updates"), [("", 0), ("-shard0", 0), ("", 7)])
def test_a_task_that_asks_continues_its_own_run(seen, configuration, caplog, suffix, updates):
    """From the history where the checkpoint has no optimizer."""
    cfg = configuration(f"checkpoint_last{suffix}.pt")
    trainer = Trainer(cfg, Continues(None), updates, suffix)
    with caplog.at_level(logging.INFO):
        checkpoint_utils.load_checkpoint(cfg, trainer, disable_iterator_cache=True)
    assert seen == [{**PLAIN, "disable_iterator_cache": True}]
    assert {name: cfg[name] for name in GIVEN} == GIVEN  # the checkpoints keep what was typed
    assert (trainer.updates, trainer.schedule) == (7, [] if updates else [{"best": 1.5}])
    assert trainer._previous_training_time == 3600
    assert "--restore-file model.pt and --reset-* only count at the start of the run" in caplog.text
    assert ("update 7 of the schedule (learning rate 0.25), but the optimizer's" in caplog.text) == (not updates)
    assert caplog.text.count("continuing") == 1


@pytest.mark.parametrize("schedule", [{}, None])
def test_an_imported_history_has_no_schedule(seen, configuration, monkeypatch, schedule):
    """fairseq's schedulers refuse an empty state; the updates count all the same."""
    monkeypatch.setitem(HISTORY[-1], "lr_scheduler_state", schedule)
    cfg = configuration()
    trainer = Trainer(cfg, Continues(None))
    checkpoint_utils.load_checkpoint(cfg, trainer)
    assert (trainer.updates, trainer.schedule) == (7, [])


ELSEWHERE = "/else/where/checkpoint3.pt"
STARTS = [
    # task, what there is in the folder, options, what stock is called with, updates, hours of another run
    (CountsHours, "checkpoint_last.pt", {}, GIVEN, 0, 0),
    (FairseqTask, "checkpoint_last.pt", {}, GIVEN, 0, 3600),
    (Continues, "", {}, GIVEN, 0, 0),
    (Continues, "", {"reset_meters": False}, {**GIVEN, "reset_meters": False}, 0, 3600),
    (Continues, "checkpoint_last.pt", {"restore_file": ELSEWHERE}, PLAIN, 7, 3600),
    (Continues, "checkpoint_last.pt", {"restore_file": "{}/model.pt"}, PLAIN, 7, 3600),  # in its folder, not its own
    (Continues, "checkpoint_last.pt", {"restore_file": "{}/checkpoint_3_5000.pt"}, GIVEN, 0, 0),  # gone back to
    (Continues, "checkpoint_last.pt", {"restore_file": "{}/average.pt", "reset_optimizer": False}, GIVEN, 7, 0),
    # Whoever resets the optimizer of the run itself means it.
    (Continues, "checkpoint_last.pt", {"restore_file": "checkpoint_last.pt"}, GIVEN, 0, 3600),
]


@pytest.mark.parametrize(("task", "last", "options", "called", "updates", "seconds"), STARTS)
def test_starts(seen, configuration, tmp_path, task, last, options, called, updates, seconds):
    options = {name: str(value).format(tmp_path) if "file" in name else value for name, value in options.items()}
    cfg = configuration(last, **options)
    trainer = Trainer(cfg, task(None))
    checkpoint_utils.load_checkpoint(cfg, trainer)
    assert seen == [called if called == PLAIN else {**called, **options}]
    assert (trainer.updates, trainer._previous_training_time) == (updates, seconds)
