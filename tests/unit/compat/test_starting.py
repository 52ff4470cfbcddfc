"""Test starts of runs: a named file must exist, an ended run does nothing."""

import contextlib
from types import MethodType, SimpleNamespace

import pytest
from fairseq import checkpoint_utils
from fairseq.dataclass.configs import FairseqConfig
from fairseq.trainer import Trainer as StockTrainer
from omegaconf import OmegaConf

from fairseq_plugins.compat import starting
from tests.unit.compat.applying import apply_again


class Trainer:
    """A trainer after 7 updates and 2 hours that records the checkpoints it loads."""

    def __init__(self, cfg, suffix=""):
        self.cfg, self.checkpoint_suffix, self.loaded = cfg, suffix, []
        self.task, self._previous_training_time = SimpleNamespace(), 7200.0
        self.lr_step = self.get_train_iterator = lambda *args, **kwargs: SimpleNamespace(epoch=1)

    def load_checkpoint(self, filename, *args, **kwargs):
        self.loaded.append(filename)

    def get_num_updates(self):
        return 7


@pytest.fixture
def cfg(tmp_path):
    configuration = OmegaConf.structured(FairseqConfig)
    configuration.checkpoint.update(save_dir=f"{tmp_path}/run", no_save=True)
    (tmp_path / "run").mkdir()
    return configuration


@pytest.mark.cases(
    "option file suffix message",
    ("restore_file", "none.pt", "", "--restore-file .*none.pt: no such file"),
    ("restore_file", "", "", "--restore-file .*: a folder"),
    ("restore_file", "model.pt", "-shard0", "--restore-file .*model-shard0.pt: no such file"),
    ("finetune_from_model", "", "", "--finetune-from-model .*: a folder"),
    (None, "run/checkpoint_last-shard1.pt", "-shard1", "--restore-file .*: a folder"),
    ("finetune_from_model", "model.pt", "", None),
    # Only the newest checkpoint of the run may be missing; a script may name it in any form.
    ("restore_file", "./run//checkpoint_last.pt", "", None),
    (None, "run/checkpoint_last.pt", "", None),
    (None, "run/checkpoint_last-shard0.pt", "-shard0", None),
)
def test_a_start_must_exist(monkeypatch, tmp_path, cfg, option, file, suffix, message):
    monkeypatch.setattr(StockTrainer, "load_checkpoint", Trainer.load_checkpoint)
    apply_again("missing_start")
    trainer = Trainer(cfg, suffix)
    trainer.load_checkpoint = MethodType(StockTrainer.load_checkpoint, trainer)
    (tmp_path / "model.pt").touch()
    (tmp_path / "run" / "checkpoint_last-shard1.pt").mkdir()
    path = f"{tmp_path}/{file}"
    if option:
        cfg.checkpoint[option] = path
    refusal = pytest.raises(ValueError, match=message) if message else contextlib.nullcontext()
    with refusal:
        checkpoint_utils.load_checkpoint(cfg.checkpoint, trainer)
    assert trainer.loaded == ([] if message else [path])


OWN = "run/checkpoint_last.pt"
RAISED = {"optimization.max_update": 8, "optimization.max_epoch": 4, "checkpoint.patience": 6}
RAISED["optimization.stop_time_hours"] = 2.1


@pytest.mark.cases(
    "options file limit",
    ({"optimization.max_update": 7}, OWN, "--max-update 7"),
    ({"optimization.max_epoch": 3}, OWN, "--max-epoch 3"),
    ({"optimization.stop_time_hours": 1.9}, OWN, "--stop-time-hours 1.9"),
    ({"checkpoint.patience": 5}, OWN, "--patience 5"),
    (RAISED, OWN, None),
    ({"optimization.max_update": 7}, None, None),  # a start from another run's checkpoint
    ({"checkpoint.patience": 5, "checkpoint.reset_meters": True}, OWN, None),  # counted anew
)
def test_an_ended_run_does_nothing(monkeypatch, tmp_path, cfg, caplog, options, file, limit):
    """The run has 7 updates, 3 epochs, 2 hours, 5 validations without a better result."""
    counter, epochs = SimpleNamespace(), SimpleNamespace(next_epoch_idx=4)
    state = {starting.PATIENCE: {"best": 1.5, "num_runs": 5}}
    monkeypatch.setattr(starting, "_patience_counter", lambda: counter)
    monkeypatch.setattr(StockTrainer, "state_dict", StockTrainer.state_dict)  # restored afterwards
    monkeypatch.setattr(checkpoint_utils, "load_checkpoint", lambda cfg, trainer: (state, epochs))
    apply_again("finished_runs")
    for name, value in options.items():
        OmegaConf.update(cfg, name, value)
    if file:
        (tmp_path / file).touch()
    with caplog.at_level("INFO"):
        _, iterator = checkpoint_utils.load_checkpoint(cfg.checkpoint, Trainer(cfg))
    # fairseq trains while next_epoch_idx <= max_epoch, which is infinity without --max-epoch.
    assert (iterator.next_epoch_idx <= float("inf")) == (limit is None)
    assert ("has ended before" in caplog.text) == (limit is not None)
    assert (limit or "") in caplog.text
