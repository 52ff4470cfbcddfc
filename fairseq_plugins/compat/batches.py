"""Keep every sentence in a batch, and give a resumed run the batches of an uninterrupted run."""

import gc
import logging
import types
from argparse import ArgumentParser
from pathlib import Path
from typing import Any, List

import numpy as np
from omegaconf import OmegaConf, open_dict

from .patch import Harm, ModuleProxy, Patch, source_has

logger = logging.getLogger(__name__)
OPTION = "update_epoch_batch_itr"

LOST_SENTENCES = Patch(
    name="lost_sentences",
    harm=Harm.DATA_LOSS,
    defect="batch_by_size drops the last batch unless its size is a multiple of "
    "--required-batch-size-multiple (default 8), in training and in decoding",
    upstream="facebookresearch/fairseq#5036, #5094, #5351",
)
EPOCH_RESUME = Patch(
    name="epoch_resume",
    harm=Harm.WRONG_RESULT,
    defect="batches and the noise of data-loading workers stay those of the epoch in which the "
    "process started, so a resumed run differs; makes --update-epoch-batch-itr True the default",
    upstream="facebookresearch/fairseq#1156, #2525 (the cache); no report of the defect found",
)
RESAMPLED_ORDER = Patch(
    name="resampled_order",
    harm=Harm.WRONG_RESULT,
    defect="multilingual_denoising and multilingual_masked_lm sort the texts of an epoch by the "
    'lengths of the first epoch, so a resumed run differs or stops with "dataloader mismatch"',
)
NUMPY2 = Patch(
    name="numpy2",
    harm=Harm.PAPER_BLOCKED,
    defect="np.compat.long is gone from numpy 2, so --sample-break-mode eos of masked LMs, "
    "language models and DeltaLM's span corruption raises AttributeError",
    upstream="facebookresearch/fairseq#4945, #5645",
)


# ---- Sentences that no batch holds. ----


@LOST_SENTENCES.probe
def _loses_sentences() -> bool:
    """Return True if three sentences, which fill no batch of 8, are left out."""
    from fairseq.data import data_utils

    sizes = np.ones(3, dtype=np.int64)
    batches = data_utils.batch_by_size(
        np.arange(3),
        sizes.__getitem__,
        num_tokens_vec=sizes,
        max_sentences=8,
        required_batch_size_multiple=8,
    )
    return sum(len(batch) for batch in batches) < len(sizes)


@LOST_SENTENCES.replace("fairseq.data.data_utils:batch_by_size")
def batch_by_size(
    stock: Any,
    indices: Any,
    num_tokens_fn: Any,
    num_tokens_vec: Any = None,
    max_tokens: Any = None,
    max_sentences: Any = None,
    required_batch_size_multiple: int = 1,
    fixed_shapes: Any = None,
) -> List[Any]:
    """Return the stock batches, and a last batch of the sentences that they lack."""
    if not isinstance(indices, np.ndarray):
        indices = np.fromiter(indices, dtype=np.int64, count=-1)
    if len(indices) == 0:
        return []  # stock raises IndexError; fairseq reports the empty set later
    limits = (max_tokens, max_sentences, required_batch_size_multiple, fixed_shapes)
    batches = list(stock(indices, num_tokens_fn, num_tokens_vec, *limits))
    covered = sum(len(batch) for batch in batches)
    if fixed_shapes is None and covered < len(indices):
        # Stock batches follow each other in ``indices``, so the missing sentences are its end.
        batches.append(indices[covered:])
    return batches


# ---- Batches that a resumed run has too. ----


@EPOCH_RESUME.probe
def _resume_changes_batches() -> bool:
    """Return True if batches or noise depend on the epoch in which the process started.

    fairseq seeds the batches by the epoch in which it makes them. Versions that reuse a data loader
    also keep its workers, whose datasets never learn of a later epoch.
    """
    from fairseq.tasks import FairseqTask

    causes = ("numpy_seed(seed + epoch)", "reuse_dataloader=reuse_dataloader")
    return any(source_has(FairseqTask.get_batch_iterator, cause) for cause in causes)


@EPOCH_RESUME.replace("fairseq.options:parse_args_and_arch")
def parse_args_and_arch(stock: Any, parser: ArgumentParser, *args: Any, **kwargs: Any) -> Any:
    """Make True the default of ``--update-epoch-batch-itr``.

    Stock takes the value of ``--grouped-shuffling``, which is False. It then makes the batches once
    and shuffles them in every epoch. A run that is resumed in epoch 3 makes others, because the
    epoch seeds them.
    """
    if any(action.dest == OPTION and action.default is None for action in parser._actions):
        parser.set_defaults(**{OPTION: True})
    return stock(parser, *args, **kwargs)


@EPOCH_RESUME.replace("fairseq.trainer:Trainer.__init__")
def start_trainer(stock: Any, trainer: Any, cfg: Any, *args: Any, **kwargs: Any) -> None:
    """Set the option to True in a hydra run that leaves it unset: hydra has no argument parser."""
    if _hydra_left_unset(cfg):
        with open_dict(cfg):
            cfg.dataset[OPTION] = True
        logger.info(f"dataset.{OPTION}: true, so that a resumed run equals an uninterrupted run")
    stock(trainer, cfg, *args, **kwargs)


@EPOCH_RESUME.replace("fairseq.trainer:Trainer.begin_epoch")
def begin_epoch(stock: Any, trainer: Any, epoch: int) -> None:
    """End the data-loading workers of the previous epoch.

    Each epoch now has an iterator of its own, with workers of its own. The old iterator is part of
    a reference cycle, so its workers live on until Python collects garbage.
    """
    if trainer.cfg.dataset.num_workers > 0:
        gc.collect()
    stock(trainer, epoch)


@RESAMPLED_ORDER.probe
def _sorts_once() -> bool:
    """Return True if the task sorts its texts when it loads them, which it does once."""
    from fairseq.tasks.multilingual_denoising import MultilingualDenoisingTask

    return source_has(MultilingualDenoisingTask.load_dataset, "SortDataset(")


@RESAMPLED_ORDER.replace(
    "fairseq.tasks.fairseq_task:FairseqTask.has_sharded_data",
    "fairseq.tasks.fairseq_task:LegacyFairseqTask.has_sharded_data",
)
def has_sharded_data(stock: Any, task: Any, split: str) -> bool:
    """Return True also for texts that are drawn for each epoch and sorted by length.

    fairseq-train loads "sharded" data anew in every epoch. These tasks sort when they load, so they
    need the same.
    """
    from fairseq.data import SortDataset

    dataset = task.datasets.get(split)
    is_sorted_sample = isinstance(dataset, SortDataset) and _is_resampled(dataset)
    return bool(stock(task, split)) or is_sorted_sample


def _is_resampled(dataset: Any) -> bool:
    """Return True if a dataset, or one that it wraps, draws its rows for each epoch."""
    from fairseq.data import ResamplingDataset

    if isinstance(dataset, ResamplingDataset):
        return True
    parts = [*getattr(dataset, "datasets", ()), getattr(dataset, "dataset", None)]
    return any(_is_resampled(part) for part in parts if part is not None)


def _hydra_left_unset(cfg: Any) -> bool:
    """Return True in a hydra run if neither its command line nor its YAML file sets the option.

    The configuration alone does not tell: the default is False, as after an explicit False.
    """
    from hydra.core.hydra_config import HydraConfig

    if not HydraConfig.initialized() or cfg.dataset.get(OPTION, True):
        return False
    hydra: Any = HydraConfig.get()
    name = f"dataset.{OPTION}"
    has_sources = "config_sources" in hydra.runtime  # hydra >= 1.1
    sources = hydra.runtime.config_sources if has_sources else []
    folders = [Path(source.path) for source in sources if source.schema == "file"]
    files = [folder / f"{hydra.job.config_name}.yaml" for folder in folders]
    values = [OmegaConf.select(OmegaConf.load(file), name) for file in files if file.is_file()]
    overrides = [text.lstrip("+") for text in hydra.overrides.task]
    is_overridden = any(text.startswith(f"{name}=") for text in overrides)
    return not is_overridden and all(value is None for value in values)


# ---- Blocks of tokens. ----


@NUMPY2.probe
def _lacks_long() -> bool:
    """Return True if fairseq reads ``np.compat.long`` and the installed numpy has none."""
    from fairseq.data import token_block_dataset

    return "compat" not in vars(np) and source_has(token_block_dataset, "np.compat.long")


@NUMPY2.step
def restore_long() -> None:
    """Let fairseq's module of token blocks see a numpy with ``compat.long``; numpy is unchanged."""
    from fairseq.data import token_block_dataset

    token_block_dataset.np = ModuleProxy(np, compat=types.SimpleNamespace(long=int))
