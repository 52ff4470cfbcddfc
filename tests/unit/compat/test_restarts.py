"""Continuing a run: for which tasks, from which file, and what is put back afterwards."""

import logging
from pathlib import Path
from types import MethodType, SimpleNamespace
from typing import Any, Dict, List, Optional

import pytest
from fairseq import checkpoint_utils
from fairseq.dataclass.configs import FairseqConfig
from fairseq.trainer import Trainer as StockTrainer
from omegaconf import OmegaConf

from fairseq_plugins.compat import restarts

GIVEN: Dict[str, Any] = {"restore_file": "model.pt", **dict.fromkeys(restarts.RESETS, True)}
PLAIN: Dict[str, Any] = {"restore_file": "checkpoint_last.pt", **dict.fromkeys(restarts.RESETS, False)}


class Trainer:
    """What the patch needs of fairseq's."""

    def __init__(self, asks: bool, updates: int = 0, suffix: str = ""):
        self.task = SimpleNamespace(**({"continues_its_own_run": True} if asks else {}))
        self.checkpoint_suffix = suffix
        self.updates, self._optim_history = updates, None
        self.schedule: List[Any] = []
        self.lr_scheduler = SimpleNamespace(load_state_dict=self.schedule.append)

    def get_num_updates(self) -> int:
        return self.updates

    def set_num_updates(self, updates: int) -> None:
        self.updates = updates

    def get_lr(self) -> float:
        return 0.25


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> List[Dict[str, Any]]:
    """What the stock function was called with; it reads a history of 7 updates."""
    calls: List[Dict[str, Any]] = []

    def stock(cfg: Any, trainer: Any, **passthrough: Any) -> str:
        calls.append({**{name: cfg[name] for name in PLAIN}, **passthrough})
        trainer._optim_history = [{"num_updates": 5}, {"num_updates": 7, "lr_scheduler_state": {"best": 1.5}}]
        return "state"

    monkeypatch.setattr(checkpoint_utils, "load_checkpoint", stock)
    restarts._continue_own_runs()
    return calls


def configuration(folder: Path, last: str = "checkpoint_last.pt", **options: Any) -> Any:
    cfg = OmegaConf.create({"save_dir": str(folder), **GIVEN, **options})
    OmegaConf.set_struct(cfg, True)
    if last:
        (folder / last).touch()
    return cfg


def elsewhere(folder: Path) -> Path:
    """A checkpoint that is not of the run."""
    path = folder / "pretrained" / "model.pt"
    path.parent.mkdir()
    path.touch()
    return path


def test_a_task_that_asks_continues_its_own_run(seen: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cfg, trainer = configuration(tmp_path), Trainer(asks=True)
    with caplog.at_level(logging.INFO):
        assert checkpoint_utils.load_checkpoint(cfg, trainer, disable_iterator_cache=True) == "state"
    assert seen == [{**PLAIN, "disable_iterator_cache": True}]
    assert {name: cfg[name] for name in GIVEN} == GIVEN  # the checkpoints keep what was typed
    assert (trainer.updates, trainer.schedule) == (7, [{"best": 1.5}])
    assert "--restore-file model.pt and --reset-* were for the run's start" in caplog.text
    assert "at update 7 of the schedule (learning rate 0.25), but the optimizer's moments are lost" in caplog.text


def test_a_checkpoint_with_its_optimizer_needs_no_help(seen: Any, tmp_path: Path, caplog: Any) -> None:
    trainer = Trainer(asks=True, updates=7)
    checkpoint_utils.load_checkpoint(configuration(tmp_path), trainer)
    assert (trainer.updates, trainer.schedule) == (7, [])
    assert "moments" not in caplog.text


@pytest.mark.parametrize(("asks", "last"), [(False, "checkpoint_last.pt"), (True, "")])
def test_other_tasks_and_first_starts_are_stock(seen: Any, tmp_path: Path, asks: bool, last: str) -> None:
    trainer, start = Trainer(asks), str(elsewhere(tmp_path))
    checkpoint_utils.load_checkpoint(configuration(tmp_path, last, restore_file=start), trainer)
    assert seen == [{**GIVEN, "restore_file": start}]
    assert trainer.updates == 0


def test_shards_have_a_suffix(seen: Any, tmp_path: Path) -> None:
    start = {"restore_file": str(elsewhere(tmp_path))}
    checkpoint_utils.load_checkpoint(configuration(tmp_path, **start), Trainer(asks=True, suffix="-shard0"))
    checkpoint_utils.load_checkpoint(
        configuration(tmp_path, "checkpoint_last-shard0.pt", **start), Trainer(True, suffix="-shard0")
    )
    assert seen == [{**GIVEN, **start}, PLAIN]


class Starts:
    """A trainer that reads checkpoints as fairseq's does, and says which."""

    def __init__(self, cfg: Any, suffix: str = ""):
        self.cfg, self.checkpoint_suffix, self.read = cfg, suffix, []
        self.task = SimpleNamespace()
        self.lr_step = self.get_train_iterator = lambda *args, **kwargs: SimpleNamespace(epoch=1)

    def load_checkpoint(self, filename: str, *args: Any, **kwargs: Any) -> None:
        self.read.append(filename)


MISSING = [
    ({"restore_file": "{0}/none.pt"}, "", "--restore-file .*none.pt: no such file"),
    ({"restore_file": "{0}"}, "", "--restore-file .*: a folder"),
    ({"restore_file": "{0}/model.pt"}, "-shard0", "--restore-file .*model-shard0.pt: no such file"),
    ({"restore_file": "{0}/other/checkpoint_last.pt"}, "", "--restore-file .*: no such file"),
    (
        {"restore_file": "own.pt"},
        "",
        "--restore-file own.pt: no such file.*run/own.pt",
    ),  # as older versions of fairseq read it
    ({"finetune_from_model": "{0}"}, "", "--finetune-from-model .*: a folder"),
    (
        {"restore_file": "{0}/./run//checkpoint_last.pt"},
        "",
        None,
    ),  # as scripts write it that are started again and again
    ({"restore_file": "{0}/model.pt"}, "", None),
    ({"finetune_from_model": "{0}/model.pt"}, "", None),
    ({}, "", None),
    ({}, "-shard0", None),
]


@pytest.mark.parametrize(("options", "suffix", "message"), MISSING)
def test_a_run_starts_from_what_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: Dict[str, str], suffix: str, message: Optional[str]
) -> None:
    """Stock logs a file that is missing and trains from random values."""
    monkeypatch.setattr(StockTrainer, "load_checkpoint", Starts.load_checkpoint)
    restarts._refuse_missing()
    (tmp_path / "run").mkdir()
    for name in ("model.pt", "run/own.pt"):
        (tmp_path / name).touch()
    cfg = OmegaConf.structured(FairseqConfig)
    cfg.checkpoint.update(save_dir=f"{tmp_path}/run", no_save=True)
    cfg.checkpoint.update({name: value.format(tmp_path) for name, value in options.items()})
    one = Starts(cfg, suffix)
    one.load_checkpoint = MethodType(StockTrainer.load_checkpoint, one)
    if message is None:
        checkpoint_utils.load_checkpoint(cfg.checkpoint, one)
        assert one.read == [
            *(value.format(tmp_path) for value in options.values()),
            *([] if options else [f"{tmp_path}/run/checkpoint_last{suffix}.pt"]),
        ]
    else:
        with pytest.raises(ValueError, match=message):
            checkpoint_utils.load_checkpoint(cfg.checkpoint, one)
        assert one.read == []


def test_a_run_that_goes_on_does_not_need_what_it_started_from(tmp_path: Path) -> None:
    (tmp_path / "checkpoint_last.pt").touch()
    cfg = OmegaConf.structured(FairseqConfig)
    cfg.checkpoint.update(save_dir=str(tmp_path), no_save=True, finetune_from_model=f"{tmp_path}/removed.pt")
    one = Starts(cfg)
    checkpoint_utils.load_checkpoint(cfg.checkpoint, one)
    assert one.read == [f"{tmp_path}/checkpoint_last.pt"]


def test_a_pretrained_file_in_the_folder_of_the_run_is_for_its_start(seen: Any, tmp_path: Path) -> None:
    pretrained = tmp_path / "model.pt"
    pretrained.touch()
    checkpoint_utils.load_checkpoint(
        configuration(tmp_path, restore_file=str(pretrained)), Trainer(asks=True, updates=9)
    )
    assert seen == [PLAIN]


@pytest.mark.parametrize("name", ["checkpoint_3_5000.pt", "average.pt"])
def test_going_back_to_an_earlier_checkpoint_of_the_run(seen: Any, tmp_path: Path, name: str) -> None:
    earlier = str(tmp_path / name)
    checkpoint_utils.load_checkpoint(configuration(tmp_path, restore_file=earlier), Trainer(asks=True, updates=9))
    assert seen == [{**GIVEN, "restore_file": earlier}]


@pytest.mark.parametrize(("reset", "updates"), [(False, 7), (True, 0)])
def test_without_a_restore_file_resets_are_wanted(seen: Any, tmp_path: Path, reset: bool, updates: int) -> None:
    """Whoever resets the optimizer of the run itself means it; the updates come back where nothing was asked."""
    options = {"restore_file": "checkpoint_last.pt", "reset_optimizer": reset}
    trainer = Trainer(asks=True)
    checkpoint_utils.load_checkpoint(configuration(tmp_path, **options), trainer)
    assert seen[0]["reset_optimizer"] is reset
    assert trainer.updates == updates


def test_an_error_leaves_the_options_as_they_were(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def stock(cfg: Any, trainer: Any) -> None:
        raise ValueError("damaged")

    monkeypatch.setattr(checkpoint_utils, "load_checkpoint", stock)
    restarts._continue_own_runs()
    cfg = configuration(tmp_path)
    with pytest.raises(ValueError, match="damaged"):
        checkpoint_utils.load_checkpoint(cfg, Trainer(asks=True))
    assert {name: cfg[name] for name in GIVEN} == GIVEN
