"""What a run starts from: a file that is named must be there; a run that has ended does nothing (``test_runs.py``: real ones)."""

from types import MethodType, SimpleNamespace

import pytest
from fairseq import checkpoint_utils
from fairseq.dataclass.configs import FairseqConfig
from fairseq.trainer import Trainer as StockTrainer
from omegaconf import OmegaConf

from fairseq_plugins.compat import starting
from tests.unit.compat.applying import apply_again


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
    ({"finetune_from_model": "{0}"}, "", "--finetune-from-model .*: a folder"),
    # as scripts write it that are started again and again
    ({"restore_file": "{0}/./run//checkpoint_last.pt"}, "", None),
    ({"finetune_from_model": "{0}/model.pt"}, "", None),
    ({}, "", None),
    ({}, "-shard0", None),
]


@pytest.mark.parametrize(("options", "suffix", "message"), MISSING)
def test_a_run_starts_from_what_is_named(monkeypatch, tmp_path, configuration, options, suffix, message):
    monkeypatch.setattr(StockTrainer, "load_checkpoint", Trainer.load_checkpoint)
    apply_again("missing_start")
    (tmp_path / "model.pt").touch()
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


OWN = "run/checkpoint_last.pt"
RAISED = {"optimization.max_update": 8, "optimization.max_epoch": 4, "optimization.stop_time_hours": 2.1}
RAISED["checkpoint.patience"] = 6
ENDS = [
    ({"optimization.max_update": 7}, OWN, "--max-update 7"),
    ({"optimization.max_epoch": 3}, OWN, "--max-epoch 3"),
    ({"optimization.stop_time_hours": 1.9}, OWN, "--stop-time-hours 1.9"),
    ({"checkpoint.patience": 5}, OWN, "--patience 5"),
    # limits that were raised
    (RAISED, OWN, None),
    ({"optimization.max_update": 7}, None, None),  # it starts from another run's checkpoint
    ({"checkpoint.patience": 5, "checkpoint.reset_meters": True}, OWN, None),  # counted anew
]


@pytest.mark.parametrize(("options", "file", "reason"), ENDS)
def test_what_has_ended_does_nothing(monkeypatch, tmp_path, configuration, caplog, options, file, reason):
    """7 updates, 3 epochs, 2 hours, 5 validations without a better result."""
    counter, epochs = SimpleNamespace(), SimpleNamespace(next_epoch_idx=4)
    state = {starting.PATIENCE: {"best": 1.5, "num_runs": 5}}
    monkeypatch.setattr(starting, "_patience_counter", lambda: counter)
    monkeypatch.setattr(StockTrainer, "state_dict", StockTrainer.state_dict)  # put back afterwards
    monkeypatch.setattr(checkpoint_utils, "load_checkpoint", lambda cfg, trainer: (state, epochs))
    apply_again("finished_runs")
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
