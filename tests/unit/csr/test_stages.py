"""Test stages: the first has exactly its updates, for any epochs, processes and options."""

from types import SimpleNamespace

import pytest

from fairseq_plugins.csr.stages import Stages, reset_moments


def count_updates(batches, freq, skips, shards):
    """Count as fairseq's iterators do: deal out batches, skip the last, group by ``freq``."""
    per_process = -(-batches // shards) - int(skips)
    return per_process // freq if skips else -(-per_process // freq)


@pytest.mark.cases(
    "freq shards skips",
    ([1], 1, False),
    ([2], 1, False),
    ([3, 1, 2], 2, False),
    ([2], 3, True),
    ([1], 1, True),
)
def test_the_first_stage_has_exactly_its_updates(freq, shards, skips):
    sizes = {epoch: (13, 22, 17)[epoch % 3] for epoch in range(1, 60)}
    for updates in range(1, 60):
        stages = Stages(updates, freq, shards, skips)
        total, epoch = 0, 1
        while (batches := stages.batches(epoch, sizes.__getitem__)) is not None:
            assert 0 < batches <= sizes[epoch] and batches % shards == 0
            total += count_updates(batches, freq[min(epoch, len(freq)) - 1], skips, shards)
            epoch += 1
        assert total == updates
        assert stages.batches(epoch + 5, sizes.__getitem__) is None
        last = stages.batches(max(epoch - 1, 1), sizes.__getitem__)
        assert last is not None, "an earlier epoch again, as after a resume"


def test_an_epoch_without_an_update_is_refused():
    with pytest.raises(ValueError, match="--restore-updates 5: .* 0 batches"):
        Stages(5, [1], shards=4).batches(1, lambda epoch: 3)


def test_moments_and_steps_are_reset_and_options_stay():
    groups = [{"lr": 0.5, "step": 7}, {"lr": 0.5}]
    optimizer = SimpleNamespace(state={1: 2}, param_groups=groups)
    reset_moments(optimizer)
    assert optimizer.state == {} and groups == [{"lr": 0.5, "step": 0}, {"lr": 0.5}]
