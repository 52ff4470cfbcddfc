"""What a run starts from: a file that is named must be there."""

from types import MethodType, SimpleNamespace

import pytest
from fairseq import checkpoint_utils
from fairseq.dataclass.configs import FairseqConfig
from fairseq.trainer import Trainer as StockTrainer
from omegaconf import OmegaConf

from fairseq_plugins.compat.starting import MISSING_START


class Trainer:
    """Reads checkpoints as fairseq's does, and notes which."""

    def __init__(self, cfg, suffix=""):
        self.cfg, self.checkpoint_suffix, self.read = cfg, suffix, []
        self.task = SimpleNamespace()
        self.lr_step = self.get_train_iterator = lambda *args, **kwargs: SimpleNamespace(epoch=1)

    def load_checkpoint(self, filename, *args, **kwargs):
        self.read.append(filename)


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
]


@pytest.mark.parametrize(("options", "suffix", "message"), MISSING)
def test_a_run_starts_from_what_is_named(monkeypatch, tmp_path, configuration, options, suffix, message):
    monkeypatch.setattr(StockTrainer, "load_checkpoint", Trainer.load_checkpoint)
    MISSING_START.apply()
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
