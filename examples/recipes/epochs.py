"""Train for whole epochs with a schedule of as many updates: counts the updates, then becomes fairseq-train.

python -m recipes.epochs WARMUP fairseq-train DATA --max-epoch N …

fairseq's ``polynomial_decay`` needs the number of updates before training. It follows from the batches
of an epoch, which the options and the data-bin decide. WARMUP is the share of the updates in which the
rate rises; a ``--warmup-updates`` among the options replaces it.
"""

import logging
import math
import os
import sys
from typing import List


def count_updates(words: List[str]) -> int:
    """Return the updates of all epochs of a training.

    Args:
        words: the command, from ``fairseq-train`` on.

    Raises:
        ValueError: the options have no ``--max-epoch``.
    """
    from fairseq import options, tasks, utils
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    sys.argv = words  # where fairseq looks for --user-dir
    given = [*words[1:], "--total-num-update", "1"]  # which cannot be parsed without
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), given))
    if not cfg.optimization.max_epoch:
        raise ValueError("--max-epoch: missing; valid: the number of epochs, 1 or more")
    task, dataset = tasks.setup_task(cfg.task), cfg.dataset
    task.load_dataset(dataset.train_subset, combine=True, epoch=1)
    batches = task.get_batch_iterator(
        dataset=task.dataset(dataset.train_subset),
        max_tokens=dataset.max_tokens,
        max_sentences=dataset.batch_size,
        max_positions=utils.resolve_max_positions(task.max_positions(), dataset.max_tokens),
        ignore_invalid_inputs=True,
        required_batch_size_multiple=dataset.required_batch_size_multiple,
        seed=cfg.common.seed,
        num_shards=1 if cfg.common.cpu else cfg.distributed_training.distributed_world_size,
        shard_id=0,
        epoch=1,
    )
    frequency = cfg.optimization.update_freq[0]
    return math.ceil(len(batches) / frequency) * cfg.optimization.max_epoch


def main() -> None:
    """Run the command."""
    warmup, words = float(sys.argv[1]), sys.argv[2:]
    logging.disable(logging.INFO)  # fairseq-train says the same again
    updates = count_updates(words)
    more = ["--total-num-update", str(updates)]
    if "--warmup-updates" not in words:
        more += ["--warmup-updates", str(max(1, round(warmup * updates)))]
    print(f"epochs: {updates:,} updates: {' '.join(more)}", file=sys.stderr, flush=True)
    os.execvp(words[0], [*words, *more])


if __name__ == "__main__":
    main()
