"""Which runs have ended, whatever ended them, and whose files tell so; ``test_runs.py`` starts real ones again."""

from types import SimpleNamespace

import pytest
from fairseq import checkpoint_utils
from fairseq.dataclass.configs import FairseqConfig
from fairseq.trainer import Trainer
from omegaconf import OmegaConf

from fairseq_plugins.compat import starting as finished

ENDS = [
    ({"optimization.max_update": 7}, {}, "--max-update 7"),
    ({"optimization.max_update": 8}, {}, None),  # a limit that was raised
    ({"optimization.max_epoch": 3}, {}, "--max-epoch 3"),
    ({"optimization.max_epoch": 4}, {}, None),
    ({"optimization.stop_time_hours": 1.9}, {}, "--stop-time-hours 1.9"),
    ({"optimization.stop_time_hours": 2.1}, {}, None),
    ({"checkpoint.patience": 5}, {}, "--patience 5"),
    ({"checkpoint.patience": 6}, {}, None),
    ({}, {}, None),
    ({"optimization.max_update": 7}, {"last": False}, None),  # it starts from another run's checkpoint
    ({"optimization.max_update": 7}, {"last": False, "restore": "checkpoint_1_7.pt"}, "--max-update 7"),
    ({"checkpoint.patience": 5, "checkpoint.reset_meters": True}, {}, None),  # counted anew
]


@pytest.mark.parametrize(("options", "files", "reason"), ENDS)
def test_what_has_ended_does_nothing(monkeypatch, tmp_path, caplog, options, files, reason):
    """7 updates, 3 epochs, 2 hours, 5 validations without a better result."""
    counter = SimpleNamespace()
    epochs = SimpleNamespace(next_epoch_idx=4)
    state = {finished.PATIENCE: {"best": 1.5, "num_runs": 5}}
    monkeypatch.setattr(finished, "_counter", lambda: counter)
    monkeypatch.setattr(Trainer, "state_dict", Trainer.state_dict)  # put back afterwards
    monkeypatch.setattr(checkpoint_utils, "load_checkpoint", lambda cfg, trainer: (state, epochs))
    finished.FINISHED_RUNS.apply()
    cfg = OmegaConf.structured(FairseqConfig)
    cfg.checkpoint.save_dir = str(tmp_path)
    for name, value in options.items():
        OmegaConf.update(cfg, name, value)
    if files.get("last", True):
        (tmp_path / "checkpoint_last.pt").touch()
    if "restore" in files:
        cfg.checkpoint.restore_file = str(tmp_path / files["restore"])
    trainer = SimpleNamespace(cfg=cfg, checkpoint_suffix="", task=None, _previous_training_time=7200.0)
    trainer.get_num_updates = lambda: 7
    with caplog.at_level("INFO"):
        _, found = checkpoint_utils.load_checkpoint(cfg.checkpoint, trainer)
    # fairseq's loop: while next_epoch_idx <= max_epoch, where no --max-epoch is infinity
    assert (found.next_epoch_idx <= float("inf")) == (reason is None)
    assert ("has ended before" in caplog.text) == (reason is not None)
    assert (reason or "") in caplog.text
