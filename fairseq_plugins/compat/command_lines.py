"""Options of stock commands that mean something else than they say: ``--bf16``, ``--num-shards`` and ``--shard-id``."""

import argparse
import logging
import os
import sys
from typing import Any, Optional, Sequence

from .patch import Patch

logger = logging.getLogger(__name__)

SHARD_BY_THEMSELVES = ("context_window", "eos_prob_threshold")
"""Options that only fairseq-eval-lm and speech generation have."""

BF16 = Patch(
    name="bf16",
    reason="the argument parser switches to TPU whenever --bf16 is given, which fails without torch_xla (xla_device)",
    upstream="facebookresearch/fairseq#4696",
)
GENERATION_SHARDS = Patch(
    name="generation_shards",
    reason="fairseq-generate takes --num-shards and --shard-id and decodes the whole set all the same",
)


@BF16.probe
def _bf16_means_tpu() -> bool:
    from fairseq import options

    parser = argparse.ArgumentParser()
    for flag in ("--bf16", "--fp16", "--tpu"):
        parser.add_argument(flag, action="store_true")
    parser.set_defaults(batch_size=None)
    return bool(options.parse_args_and_arch(parser, ["--bf16"]).tpu)


@BF16.replace("fairseq.options:parse_args_and_arch")
def free_bf16(
    stock: Any, parser: argparse.ArgumentParser, input_args: Optional[Sequence[str]] = None, *args: Any, **kwargs: Any
) -> Any:
    """TPU only where ``--tpu`` asks for it."""
    parsed = stock(parser, input_args, *args, **kwargs)
    namespace = parsed[0] if isinstance(parsed, tuple) else parsed
    asked_for = "--tpu" in (sys.argv[1:] if input_args is None else input_args)
    if getattr(namespace, "bf16", False) and not asked_for:
        namespace.tpu = False
    return parsed


@GENERATION_SHARDS.probe
def _ignores_shards() -> bool:
    from fairseq.dataclass.configs import DatasetConfig

    return hasattr(DatasetConfig(), "num_shards")


@GENERATION_SHARDS.replace("fairseq.options:parse_args_and_arch")
def heed_shards(stock: Any, *args: Any, **kwargs: Any) -> Any:
    """Set what :func:`take_shard` sets."""
    parsed = stock(*args, **kwargs)
    take_shard(parsed[0] if isinstance(parsed, tuple) else parsed)
    return parsed


def take_shard(args: argparse.Namespace) -> None:
    """Let fairseq-generate take one part of the batches, as it would for one of several processes.

    Each part writes into a folder of its own under ``--results-path``.

    Raises ValueError: a part that does not exist, or a command that has none.
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


@GENERATION_SHARDS.replace("fairseq.trainer:Trainer.__init__")
def start_trainer(stock: Any, trainer: Any, cfg: Any, *args: Any, **kwargs: Any) -> None:
    """Hydra runs have no argument parser, and a training reads the whole set (ValueError)."""
    take_shard(getattr(cfg, "dataset", cfg))
    stock(trainer, cfg, *args, **kwargs)
