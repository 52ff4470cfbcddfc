"""Test batches: no sentence is lost, and by default each epoch has new batches."""

import gc
import weakref
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
from fairseq import options
from fairseq.data import (
    AppendTokenDataset,
    ListDataset,
    ResamplingDataset,
    SortDataset,
    TokenBlockDataset,
    data_utils,
)
from fairseq.tasks import FairseqTask, LegacyFairseqTask
from fairseq.trainer import Trainer
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

from fairseq_plugins.compat import batches

# fairseq 0.12.2 loses no sentence, so its function is not patched.
STOCK = getattr(data_utils.batch_by_size, "__wrapped__", data_utils.batch_by_size)
ROWS = [torch.tensor([5, 2]), torch.tensor([6, 7, 2])]
SIZES = np.array([2, 3])


@pytest.mark.parametrize("seed", range(8))
def test_every_sentence_is_in_one_batch_and_stock_batches_stay(seed):
    rng = np.random.default_rng(seed)
    sizes = np.sort(rng.integers(1, 30, size=rng.integers(1, 70)))
    indices = rng.permutation(len(sizes))[np.argsort(sizes, kind="stable")]
    tokens, multiple = int(rng.integers(30, 300)), int(rng.choice([1, 2, 8]))
    limit = None if seed % 2 else int(rng.integers(1, 20))
    arguments = (indices, lambda i: sizes[i], sizes[indices], tokens, limit, multiple)
    ours, theirs = data_utils.batch_by_size(*arguments), STOCK(*arguments)
    assert [list(batch) for batch in ours[: len(theirs)]] == [list(batch) for batch in theirs]
    assert np.array_equal(np.concatenate(ours), indices)
    assert len(ours) - len(theirs) in (0, 1)
    assert all(limit is None or len(batch) <= limit for batch in ours)
    assert all(max(sizes[batch]) * len(batch) <= tokens for batch in ours)


def test_a_command_line_has_new_batches_in_each_epoch_by_default():
    line = ["data", "--arch", "transformer"]
    for words, expected in (([], "True"), (["--update-epoch-batch-itr", "False"], "False")):
        args = options.parse_args_and_arch(options.get_training_parser(), [*line, *words])
        assert str(args.update_epoch_batch_itr) == expected  # text, until fairseq makes its cfg


@pytest.mark.cases(
    "overrides yaml is_unset",
    (["dataset.batch_size=4"], "dataset: {batch_size: 4}", True),
    (["++dataset.update_epoch_batch_itr=false"], "", False),
    ([], "dataset: {update_epoch_batch_itr: false}", False),
)
def test_a_hydra_run_has_new_batches_in_each_epoch_by_default(
    monkeypatch, tmp_path, overrides, yaml, is_unset
):
    run = OmegaConf.create({"overrides": {"task": overrides}, "job": {"config_name": "mine"}})
    run.runtime = {"config_sources": [{"schema": "file", "path": str(tmp_path)}]}
    OmegaConf.set_struct(run, True)
    (tmp_path / "mine.yaml").write_text(yaml)
    monkeypatch.setattr(HydraConfig, "initialized", lambda: True)
    monkeypatch.setattr(HydraConfig, "get", lambda: run)
    cfg = OmegaConf.create({"dataset": {"update_epoch_batch_itr": False}})
    assert batches._hydra_left_unset(cfg) == is_unset
    cfg.dataset.update_epoch_batch_itr = True
    assert not batches._hydra_left_unset(cfg)


def test_the_workers_of_an_epoch_end_with_it():
    """Their iterator holds itself through a cycle."""

    class Iterator:
        def __init__(self):
            self.cycle = self

    trainer = MagicMock(cfg=OmegaConf.create({"dataset": {"num_workers": 2}}), tpu=False)
    gc.disable()
    try:
        iterator = weakref.ref(Iterator())
        assert iterator() is not None
        Trainer.begin_epoch(trainer, 2)
    finally:
        gc.enable()
    assert iterator() is None


@pytest.mark.parametrize("task_class", [FairseqTask, LegacyFairseqTask])
def test_sorted_resampled_texts_are_loaded_in_each_epoch(task_class):
    rows = ListDataset(ROWS, SIZES)
    resampled = ResamplingDataset(rows, size_ratio=2.0, seed=1, epoch=1)
    task = task_class(SimpleNamespace(data="bin"))
    task.datasets = {
        "sorted": SortDataset(AppendTokenDataset(resampled, 2), [np.asarray(resampled.sizes)]),
        "fixed": SortDataset(rows, [SIZES]),
        "unsorted": resampled,
    }
    assert [split for split in task.datasets if task.has_sharded_data(split)] == ["sorted"]


def test_every_sentence_can_be_a_block_under_numpy_2():
    blocks = TokenBlockDataset(ROWS, SIZES, None, pad=1, eos=2, break_mode="eos")
    assert [block.tolist() for block in blocks] == [[5, 2], [6, 7, 2]]
    assert "compat" not in vars(np) or np.__version__ < "2", "numpy itself is unchanged"
