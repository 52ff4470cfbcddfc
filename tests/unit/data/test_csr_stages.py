"""Which epochs of a run of two stages are restore: against a count of updates, for every length of the first stage."""

import pytest

from fairseq_plugins.data.csr_stages import Stages


def updates_of(batches, freq, skips, shards):
    """What fairseq's iterators make of an epoch: deal out, leave out the last, group."""
    each = -(-batches // shards) - int(skips)
    return each // freq if skips else -(-each // freq)


@pytest.mark.parametrize(
    ("freq", "shards", "skips"),
    [([1], 1, False), ([2], 1, False), ([3, 1, 2], 2, False), ([2], 3, True), ([1], 1, True)],
)
def test_the_first_stage_has_exactly_its_updates(freq, shards, skips):
    sizes = {epoch: (13, 22, 17)[epoch % 3] for epoch in range(1, 60)}
    for wanted in range(1, 60):
        stages = Stages(wanted, freq, shards, skips)
        done, epoch = 0, 1
        while True:
            batches = stages.batches(epoch, sizes.__getitem__)
            if batches is None:
                break
            assert 0 < batches <= sizes[epoch] and batches % shards == 0
            done += updates_of(batches, freq[min(epoch, len(freq)) - 1], skips, shards)
            epoch += 1
        assert done == wanted, wanted
        assert stages.batches(epoch + 5, sizes.__getitem__) is None
        assert stages.batches(max(epoch - 1, 1), sizes.__getitem__) is not None, "asked again, as after a resume"

    with pytest.raises(
        ValueError, match="--restore-updates 5: an epoch has 0 batches for each of 4 processes, too few"
    ):
        Stages(5, [1], shards=4).batches(1, lambda epoch: 3)
