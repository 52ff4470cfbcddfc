"""Task code_switching_restore with --restore-updates: which epochs are restore, and when the optimiser's moments are reset."""

from types import SimpleNamespace

import pytest
import torch

from fairseq_plugins.tasks.code_switching_restore import reset_moments
from tests import csr_builders
from tests.csr_builders import Criterion, load, setup


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return csr_builders.write(tmp_path_factory.mktemp("csr"))


def epochs(task, count, **options):
    load(task)
    given = {"max_sentences": 8, "max_positions": (1024, 1024), "ignore_invalid_inputs": True, "seed": 1, **options}
    return [
        list(task.get_batch_iterator(task.dataset("train"), epoch=epoch, **given).next_epoch_itr())
        for epoch in range(1, count + 1)
    ]


def test_updates_of_several_batches_processes_and_folders(made, tmp_path):
    assert [len(batches) for batches in epochs(setup(made, restore_updates=8, update_freq=[2]), 3)] == [12, 4, 6]
    shards = epochs(setup(made, restore_updates=8), 3, num_shards=2, shard_id=1)
    assert [len(batches) for batches in shards] == [6, 2, 3]
    other = csr_builders.write(tmp_path, (20, 4, 4))
    task = setup(made, data=f"{made.data}:{other.data}", restore_updates=20)
    counts = []
    for epoch in (1, 2, 3, 4):
        load(task, epoch=epoch)
        options = {"max_sentences": 8, "seed": 1, "epoch": epoch}
        counts.append(len(list(task.get_batch_iterator(task.dataset("train"), **options).next_epoch_itr())))
    assert counts == [12, 5, 3, 3], "12 + 5 + 3 restore batches of both folders, then the second's translations"


def test_the_moments_are_reset_at_the_switch_alone(made, caplog):
    """For both batches of update 3. A stage that does not fit its update is said, once."""
    task, parameter, cleared = setup(made, restore_updates=3), torch.nn.Parameter(torch.ones(1)), []
    optimizer = SimpleNamespace(optimizer=torch.optim.Adam([parameter]), backward=lambda loss: None)
    model = SimpleNamespace(train=lambda: None, set_num_updates=lambda number: None)
    for update in (0, 2, 3, 3, 4, 2, 2):
        sample = {"switching": {"words": 1}} if update < 3 and len(cleared) < 5 else {}
        optimizer.optimizer.state[parameter]["step"] = 5
        task.train_step(sample, model, Criterion(), optimizer, update)
        cleared.append("step" not in optimizer.optimizer.state[parameter])
    assert cleared == [False, False, True, True, False, False, False]
    (warning,) = (message for message in caplog.messages if "--restore-updates 3" in message)
    assert "update 2 is translation" in warning


def test_a_reset_optimiser_steps_as_a_new_one():
    def updated(optimizer, parameter):
        parameter.data.fill_(1.0)
        parameter.grad = torch.full_like(parameter, 0.3)
        optimizer.step()
        return float(parameter)

    first, second = (torch.nn.Parameter(torch.ones(1)) for _ in range(2))
    used, new = torch.optim.Adam([first], lr=0.1), torch.optim.Adam([second], lr=0.1)
    first.grad = torch.full_like(first, -7.0)
    used.step()
    reset_moments(used)
    assert updated(used, first) == updated(new, second)
    counting = SimpleNamespace(state={1: 2}, param_groups=[{"lr": 0.5, "step": 7}, {"lr": 0.5}])
    reset_moments(counting)
    assert (counting.state, counting.param_groups) == ({}, [{"lr": 0.5, "step": 0}, {"lr": 0.5}])
