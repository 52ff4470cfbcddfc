"""``fairseq-generate --num-shards N --shard-id I`` decodes part I of N of a set."""

import argparse
import logging
import os
from typing import Any

from .patch import Patch, instead_of, is_patched

logger = logging.getLogger(__name__)

NAME = "generation_shards"
SHARD_BY_THEMSELVES = ("context_window", "eos_prob_threshold")
"""Options that only fairseq-eval-lm and speech generation have."""


def _ignores_shards() -> bool:
    from fairseq import options
    from fairseq.dataclass.configs import DatasetConfig

    return not is_patched(options.parse_args_and_arch, NAME) and hasattr(DatasetConfig(), "num_shards")


def _heed_shards() -> None:
    from fairseq import options

    stock = options.parse_args_and_arch

    @instead_of(stock, NAME)
    def parse_args_and_arch(parser: argparse.ArgumentParser, *args: Any, **kwargs: Any) -> Any:
        parsed = stock(parser, *args, **kwargs)
        take_shard(parsed[0] if isinstance(parsed, tuple) else parsed)
        return parsed

    options.parse_args_and_arch = parse_args_and_arch


def take_shard(args: argparse.Namespace) -> None:
    """Let fairseq-generate take one part of the batches, as it would for one of several processes.

    Each part writes into a folder of its own under ``--results-path``.

    Args:
        args: of any stock command.

    Raises:
        ValueError: a part that there is not, or a command that has none.
    """
    shards, shard = getattr(args, "num_shards", 1), getattr(args, "shard_id", 0)
    if (shards, shard) == (1, 0) or any(hasattr(args, option) for option in SHARD_BY_THEMSELVES):
        return
    given = f"--num-shards {shards} --shard-id {shard}"
    if not 0 <= shard < shards:
        raise ValueError(f"{given}: valid: --num-shards of at least 1, --shard-id from 0 to --num-shards - 1")
    if not hasattr(args, "beam") or hasattr(args, "buffer_size"):
        raise ValueError(f"{given}: parts are for fairseq-generate and fairseq-eval-lm; leave the options out here")
    args.distributed_world_size, args.distributed_rank = shards, shard
    if getattr(args, "results_path", None) is not None:
        args.results_path = os.path.join(args.results_path, f"shard{shard}of{shards}")
    logger.info(f"{given}: what is printed, the score included, is of this part alone")


GENERATION_SHARDS = Patch(
    name=NAME,
    reason="fairseq-generate takes --num-shards and --shard-id and decodes the whole set all the same",
    upstream="no report found",
    needed=_ignores_shards,
    apply=_heed_shards,
)
