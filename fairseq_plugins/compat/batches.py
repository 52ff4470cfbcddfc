"""Batches: none is lost, and a resumed run sees the same ones as an uninterrupted run."""

import gc
import logging
from argparse import ArgumentParser
from pathlib import Path
from typing import Any, List

import numpy as np
from omegaconf import OmegaConf, open_dict

from .patch import Patch, source_has

logger = logging.getLogger(__name__)
OPTION = "update_epoch_batch_itr"

LOST_SENTENCES = Patch(
    name="lost_sentences",
    reason="batch_by_size drops a last batch whose size is no multiple of --required-batch-size-multiple (default 8)",
    upstream="facebookresearch/fairseq#5036, #5094, #5351",
)
EPOCH_RESUME = Patch(
    name="epoch_resume",
    reason="batches, and the noise drawn by data-loading workers, stay those of the epoch in which the process started, so "
    "a resumed run is another one; makes --update-epoch-batch-itr True the default (False keeps the cache)",
    upstream="facebookresearch/fairseq#1156, #2525 (the cache); no report of the defect found",
)

RESAMPLED_ORDER = Patch(
    name="resampled_order",
    reason="multilingual_denoising and multilingual_masked_lm draw other texts in every epoch, but sort them by the lengths of "
    'the first: more padding, and a resumed run has other batches or stops with "dataloader mismatch"',
)


@LOST_SENTENCES.probe
def _loses_sentences() -> bool:
    from fairseq.data import data_utils

    sizes = np.ones(3, dtype=np.int64)
    batches = data_utils.batch_by_size(
        np.arange(3), sizes.__getitem__, num_tokens_vec=sizes, max_sentences=8, required_batch_size_multiple=8
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
    """Stock batches, and a last one of what is missing in them."""
    if not isinstance(indices, np.ndarray):
        indices = np.fromiter(indices, dtype=np.int64, count=-1)
    if len(indices) == 0:
        return []  # stock raises IndexError here; fairseq's own message about an empty dataset comes later
    limits = (max_tokens, max_sentences, required_batch_size_multiple, fixed_shapes)
    batches = list(stock(indices, num_tokens_fn, num_tokens_vec, *limits))
    kept = sum(len(batch) for batch in batches)
    if fixed_shapes is None and kept < len(indices):
        batches.append(indices[kept:])  # batches are consecutive pieces, so what a dropped last one held is the rest
    return batches


@EPOCH_RESUME.probe
def _resume_changes_batches() -> bool:
    from fairseq.tasks import FairseqTask

    causes = ("numpy_seed(seed + epoch)", "reuse_dataloader=reuse_dataloader")
    return any(source_has(FairseqTask.get_batch_iterator, cause) for cause in causes)


@EPOCH_RESUME.replace("fairseq.options:parse_args_and_arch")
def parse_args_and_arch(stock: Any, parser: ArgumentParser, *args: Any, **kwargs: Any) -> Any:
    """Stock leaves the option None, then the value of --grouped-shuffling, where it is not given."""
    if any(action.dest == OPTION and action.default is None for action in parser._actions):
        parser.set_defaults(**{OPTION: True})
    return stock(parser, *args, **kwargs)


@EPOCH_RESUME.replace("fairseq.trainer:Trainer.__init__")
def start_trainer(stock: Any, trainer: Any, cfg: Any, *args: Any, **kwargs: Any) -> None:
    """Hydra runs have no argument parser."""
    if _hydra_left_unset(cfg):
        with open_dict(cfg):
            cfg.dataset[OPTION] = True
        logger.info(f"dataset.{OPTION} is not set: using true, so that a resumed run equals an uninterrupted one")
    stock(trainer, cfg, *args, **kwargs)


@EPOCH_RESUME.replace("fairseq.trainer:Trainer.begin_epoch")
def begin_epoch(stock: Any, trainer: Any, epoch: int) -> None:
    """End the workers of the last epoch, whose iterator holds itself through a cycle."""
    if trainer.cfg.dataset.num_workers > 0:
        gc.collect()
    stock(trainer, epoch)


@RESAMPLED_ORDER.probe
def _sorts_once() -> bool:
    from fairseq.tasks.multilingual_denoising import MultilingualDenoisingTask

    return source_has(MultilingualDenoisingTask.load_dataset, "SortDataset(")


@RESAMPLED_ORDER.replace(
    "fairseq.tasks.fairseq_task:FairseqTask.has_sharded_data",
    "fairseq.tasks.fairseq_task:LegacyFairseqTask.has_sharded_data",
)
def has_sharded_data(stock: Any, task: Any, split: str) -> bool:
    """Whether a split is loaded again in every epoch: as stock, and where its texts are drawn anew, to sort them anew too."""
    from fairseq.data import SortDataset

    dataset = task.datasets.get(split)
    return bool(stock(task, split)) or (isinstance(dataset, SortDataset) and _is_resampled(dataset))


def _is_resampled(dataset: Any) -> bool:
    from fairseq.data import ResamplingDataset

    parts = [*getattr(dataset, "datasets", ()), getattr(dataset, "dataset", None)]
    return isinstance(dataset, ResamplingDataset) or any(_is_resampled(part) for part in parts if part is not None)


def _hydra_left_unset(cfg: Any) -> bool:
    """True in a hydra run where neither its command line nor its YAML file gives the option."""
    from hydra.core.hydra_config import HydraConfig

    if not HydraConfig.initialized() or cfg.dataset.get(OPTION, True):
        return False
    hydra: Any = HydraConfig.get()
    name = f"dataset.{OPTION}"
    sources = hydra.runtime.config_sources if "config_sources" in hydra.runtime else []  # hydra >= 1.1
    files = [Path(one.path) / f"{hydra.job.config_name}.yaml" for one in sources if one.schema == "file"]
    written = [OmegaConf.select(OmegaConf.load(file), name) for file in files if file.is_file()]
    typed = [override for override in hydra.overrides.task if override.lstrip("+").startswith(f"{name}=")]
    return not typed and all(value is None for value in written)
