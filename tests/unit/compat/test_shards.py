"""Which commands take ``--num-shards``, and what they are told otherwise."""

from argparse import Namespace
from typing import Any, Dict

import pytest

from fairseq_plugins.compat.shards import take_shard

GENERATE: Dict[str, Any] = {"beam": 5, "results_path": None}


def test_a_part_has_its_own_folder() -> None:
    args = Namespace(num_shards=3, shard_id=2, **{**GENERATE, "results_path": "out"})
    take_shard(args)
    assert (args.distributed_world_size, args.distributed_rank, args.results_path) == (3, 2, "out/shard2of3")


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ({"num_shards": 1, "shard_id": 0}, False),
        ({"num_shards": 2, "shard_id": 2, **GENERATE}, True),
        ({"num_shards": 2, "shard_id": -1, **GENERATE}, True),
        ({"num_shards": 1, "shard_id": 1, **GENERATE}, True),
        ({"num_shards": 0, "shard_id": 0, **GENERATE}, True),
        ({"num_shards": 2, "shard_id": 1}, True),  # fairseq-train, fairseq-validate
        ({"num_shards": 2, "shard_id": 1, "buffer_size": 0, **GENERATE}, True),  # fairseq-interactive
        ({"num_shards": 2, "shard_id": 1, "context_window": 0}, False),  # fairseq-eval-lm does it by itself
    ],
)
def test_parts_that_there_are_not(options: Dict[str, Any], refused: bool) -> None:
    args = Namespace(**options)
    if refused:
        with pytest.raises(ValueError, match=f"--num-shards {args.num_shards} --shard-id {args.shard_id}: "):
            take_shard(args)
    else:
        take_shard(args)
    assert vars(args) == options
