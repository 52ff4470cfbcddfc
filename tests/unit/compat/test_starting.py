"""What a run starts from: a file that is named must be there; a run that has ended does nothing (``test_runs.py``: real ones)."""

from types import MethodType, SimpleNamespace

import pytest
from fairseq import checkpoint_utils
from fairseq.dataclass.configs import FairseqConfig
from fairseq.trainer import Trainer as StockTrainer
from omegaconf import OmegaConf

from fairseq_plugins.compat import starting


class Trainer:
    """Reads checkpoints as fairseq's does, and notes which."""

    def __init__(self, cfg, suffix=""):
        self.cfg, self.checkpoint_suffix, self.read = cfg, suffix, []
        self.task, self._previous_training_time = SimpleNamespace(), 7200.0
        self.lr_step = self.get_train_iterator = lambda *args, **kwargs: SimpleNamespace(epoch=1)

    def load_checkpoint(self, filename, *args, **kwargs):
        self.read.append(filename)

    def get_num_updates(self):
        return 7


@pytest.fixture
def configuration(tmp_path):
    cfg = OmegaConf.structured(FairseqConfig)
    cfg.checkpoint.update(save_dir=f"{tmp_path}/run", no_save=True)
    (tmp_path / "run").mkdir()
    return cfg


MISSING = [
    ({"restore_file": "{0}/none.pt"}, "", "--restore-file .*none.pt: no such file"),
    ({"restore_file": "{0}"}, "", "--restore-file .*: a folder"),
    ({"restore_file": "{0}/model.pt"}, "-shard0", "--restore-file .*model-shard0.pt: no such file"),
    ({"restore_file": "{0}/other/checkpoint_last.pt"}, "", "--restore-file .*: no such file"),
    # as older versions of fairseq read it
    ({"restore_file": "own.pt"}, "", "--restore-file own.pt: no such file.*run/own.pt"),
    ({"finetune_from_model": "{0}"}, "", "--finetune-from-model .*: a folder"),
    # as scripts write it that are started again and again
    ({"restore_file": "{0}/./run//checkpoint_last.pt"}, "", None),
    ({"restore_file": "{0}/model.pt"}, "", None),
    ({"finetune_from_model": "{0}/model.pt"}, "", None),
    ({}, "", None),
    ({}, "-shard0", None),
    ({}, "-folder", "--restore-file .*: a folder"),
]


@pytest.mark.parametrize(("options", "suffix", "message"), MISSING)
def test_a_run_starts_from_what_is_named(monkeypatch, tmp_path, configuration, options, suffix, message):
    monkeypatch.setattr(StockTrainer, "load_checkpoint", Trainer.load_checkpoint)
    starting.MISSING_START.apply()
    (tmp_path / "run" / "checkpoint_last-folder.pt").mkdir()
    for name in ("model.pt", "run/own.pt"):
        (tmp_path / name).touch()
    given = {name: value.format(tmp_path) for name, value in options.items()}
    configuration.checkpoint.update(given)
    trainer = Trainer(configuration, suffix)
    trainer.load_checkpoint = MethodType(StockTrainer.load_checkpoint, trainer)
    if message is None:
        checkpoint_utils.load_checkpoint(configuration.checkpoint, trainer)
        assert trainer.read == (list(given.values()) or [f"{tmp_path}/run/checkpoint_last{suffix}.pt"])
    else:
        with pytest.raises(ValueError, match=message):
            checkpoint_utils.load_checkpoint(configuration.checkpoint, trainer)
        assert trainer.read == []


def test_a_run_that_goes_on_does_not_need_what_it_started_from(tmp_path, configuration):
    last = tmp_path / "run" / "checkpoint_last.pt"
    last.touch()
    configuration.checkpoint.finetune_from_model = f"{tmp_path}/removed.pt"
    trainer = Trainer(configuration)
    checkpoint_utils.load_checkpoint(configuration.checkpoint, trainer)
    assert trainer.read == [str(last)]


OWN = "run/checkpoint_last.pt"
ENDS = [
    ({"optimization.max_update": 7}, OWN, "--max-update 7"),
    ({"optimization.max_update": 8}, OWN, None),  # a limit that was raised
    ({"optimization.max_epoch": 3}, OWN, "--max-epoch 3"),
    ({"optimization.max_epoch": 4}, OWN, None),
    ({"optimization.stop_time_hours": 1.9}, OWN, "--stop-time-hours 1.9"),
    ({"optimization.stop_time_hours": 2.1}, OWN, None),
    ({"checkpoint.patience": 5}, OWN, "--patience 5"),
    ({"checkpoint.patience": 6}, OWN, None),
    ({}, OWN, None),
    ({"optimization.max_update": 7}, None, None),  # it starts from another run's checkpoint
    ({"optimization.max_update": 7}, "run/checkpoint_1_7.pt", "--max-update 7"),
    ({"checkpoint.patience": 5, "checkpoint.reset_meters": True}, OWN, None),  # counted anew
]


@pytest.mark.parametrize(("options", "file", "reason"), ENDS)
def test_what_has_ended_does_nothing(monkeypatch, tmp_path, configuration, caplog, options, file, reason):
    """7 updates, 3 epochs, 2 hours, 5 validations without a better result."""
    counter, epochs = SimpleNamespace(), SimpleNamespace(next_epoch_idx=4)
    state = {starting.PATIENCE: {"best": 1.5, "num_runs": 5}}
    monkeypatch.setattr(starting, "_counter", lambda: counter)
    monkeypatch.setattr(StockTrainer, "state_dict", StockTrainer.state_dict)  # put back afterwards
    monkeypatch.setattr(checkpoint_utils, "load_checkpoint", lambda cfg, trainer: (state, epochs))
    starting.FINISHED_RUNS.apply()
    for name, value in options.items():
        OmegaConf.update(configuration, name, value)
    if file == OWN:
        (tmp_path / file).touch()
    elif file:
        configuration.checkpoint.restore_file = str(tmp_path / file)
    with caplog.at_level("INFO"):
        _, found = checkpoint_utils.load_checkpoint(configuration.checkpoint, Trainer(configuration))
    # fairseq's loop: while next_epoch_idx <= max_epoch, where no --max-epoch is infinity
    assert (found.next_epoch_idx <= float("inf")) == (reason is None)
    assert ("has ended before" in caplog.text) == (reason is not None)
    assert (reason or "") in caplog.text
