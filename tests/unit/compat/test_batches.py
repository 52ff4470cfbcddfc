"""Batches: none is missing, and new ones for each epoch are the default wherever the user says nothing."""

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

STOCK = getattr(
    data_utils.batch_by_size, "__wrapped__", data_utils.batch_by_size
)  # 0.12.2 drops none, so it is not patched


def listed(found):
    return [list(batch) for batch in found]


@pytest.mark.parametrize("seed", range(8))
def test_every_sentence_is_in_one_batch_and_stock_batches_are_kept(seed):
    rng = np.random.default_rng(seed)
    sizes = np.sort(rng.integers(1, 30, size=rng.integers(1, 70)))
    indices = rng.permutation(len(sizes))[np.argsort(sizes, kind="stable")]
    tokens, multiple = int(rng.integers(30, 300)), int(rng.choice([1, 2, 8]))
    limit = [None, int(rng.integers(1, 20))][seed % 2]
    given = (indices, lambda i: sizes[i], sizes[indices], tokens, limit, multiple)
    ours, theirs = data_utils.batch_by_size(*given), STOCK(*given)
    assert listed(ours[: len(theirs)]) == listed(theirs)
    assert np.array_equal(np.concatenate(ours), indices)
    assert len(ours) - len(theirs) in (0, 1)
    assert all(limit is None or len(batch) <= limit for batch in ours)
    assert all(max(sizes[batch]) * len(batch) <= tokens for batch in ours)


@pytest.mark.parametrize(("words", "expected"), [([], "True"), (["--update-epoch-batch-itr", "False"], "False")])
def test_a_command_that_says_nothing_makes_new_batches_for_each_epoch(words, expected):
    line = ["data", "--arch", "transformer", *words]
    args = options.parse_args_and_arch(options.get_training_parser(), line)
    assert str(args.update_epoch_batch_itr) == expected  # text until the configuration is made


TYPED, WRITTEN = ["++dataset.update_epoch_batch_itr=false"], "dataset: {update_epoch_batch_itr: false}"
SAID = [(["dataset.batch_size=4"], "dataset: {batch_size: 4}", True), (TYPED, "", False), ([], WRITTEN, False)]


@pytest.mark.parametrize(("overrides", "yaml", "unset"), SAID)
def test_a_hydra_run_that_says_nothing(monkeypatch, tmp_path, overrides, yaml, unset):
    run = OmegaConf.create({"overrides": {"task": overrides}, "job": {"config_name": "mine"}, "runtime": {}})
    run.runtime.config_sources = [{"schema": "file", "path": str(tmp_path)}]
    (tmp_path / "mine.yaml").write_text(yaml)
    OmegaConf.set_struct(run, True)
    monkeypatch.setattr(HydraConfig, "initialized", lambda: True)
    monkeypatch.setattr(HydraConfig, "get", lambda: run)
    cfg = OmegaConf.create({"dataset": {"update_epoch_batch_itr": False}})
    assert batches._hydra_left_unset(cfg) == unset
    cfg.dataset.update_epoch_batch_itr = True
    assert not batches._hydra_left_unset(cfg)


def test_the_workers_of_an_epoch_end_with_it():
    """Their iterator holds itself through a cycle."""

    class Iterator:
        def __init__(self):
            self.myself = self

    gc.disable()
    last = weakref.ref(Iterator())
    trainer = MagicMock(cfg=OmegaConf.create({"dataset": {"num_workers": 2}}), tpu=False)
    assert last() is not None
    Trainer.begin_epoch(trainer, 2)
    gc.enable()
    assert last() is None


@pytest.mark.parametrize("task_class", [FairseqTask, LegacyFairseqTask])
def test_texts_that_are_drawn_and_sorted_are_loaded_in_each_epoch(task_class):
    rows = ListDataset([torch.tensor([5, 2]), torch.tensor([6, 7, 2])], np.array([2, 3]))
    drawn = ResamplingDataset(rows, size_ratio=2.0, seed=1, epoch=1)
    task = task_class(SimpleNamespace(data="bin"))
    task.datasets = {
        "drawn": SortDataset(AppendTokenDataset(drawn, 2), [np.asarray(drawn.sizes)]),
        "fixed": SortDataset(rows, [np.asarray(rows.sizes)]),
        "unsorted": drawn,
    }
    assert [split for split in task.datasets if task.has_sharded_data(split)] == ["drawn"]


def test_every_sentence_can_be_a_block_under_numpy_2():
    rows, sizes = [torch.tensor([5, 2]), torch.tensor([6, 7, 2])], np.array([2, 3])
    blocks = TokenBlockDataset(rows, sizes, None, pad=1, eos=2, break_mode="eos")
    assert [block.tolist() for block in blocks] == [[5, 2], [6, 7, 2]]
    assert "compat" not in vars(np) or np.__version__ < "2", "numpy itself is unchanged"
