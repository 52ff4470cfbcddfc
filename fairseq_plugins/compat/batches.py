"""Batches: none is lost, and a resumed run sees the same ones as an uninterrupted run."""

import gc
import logging
from argparse import ArgumentParser
from pathlib import Path
from typing import Any, List

import numpy as np
from omegaconf import OmegaConf, open_dict

from .patch import Patch, instead_of, is_patched, source_has

logger = logging.getLogger(__name__)
OPTION = "update_epoch_batch_itr"


def _loses_sentences() -> bool:
    from fairseq.data import data_utils

    sizes = np.ones(3, dtype=np.int64)
    batches = data_utils.batch_by_size(
        np.arange(3), sizes.__getitem__, num_tokens_vec=sizes, max_sentences=8, required_batch_size_multiple=8
    )
    return sum(len(batch) for batch in batches) < len(sizes)


def _keep_sentences() -> None:
    from fairseq.data import data_utils

    stock = data_utils.batch_by_size

    @instead_of(stock, "lost_sentences")
    def batch_by_size(
        indices: Any,
        num_tokens_fn: Any,
        num_tokens_vec: Any = None,
        max_tokens: Any = None,
        max_sentences: Any = None,
        required_batch_size_multiple: int = 1,
        fixed_shapes: Any = None,
    ) -> List[Any]:
        if not isinstance(indices, np.ndarray):
            indices = np.fromiter(indices, dtype=np.int64, count=-1)
        if len(indices) == 0:
            return []  # stock raises IndexError here; fairseq's own message about an empty dataset comes later
        batches = stock(
            indices,
            num_tokens_fn,
            num_tokens_vec,
            max_tokens,
            max_sentences,
            required_batch_size_multiple,
            fixed_shapes,
        )
        if fixed_shapes is None:
            # Batches are consecutive pieces of `indices`, so what a dropped last one held is the rest.
            kept = sum(len(batch) for batch in batches)
            if kept < len(indices):
                batches = [*batches, indices[kept:]]
        return batches

    data_utils.batch_by_size = batch_by_size


def _resume_changes_batches() -> bool:
    from fairseq import options
    from fairseq.tasks import FairseqTask

    causes = ("numpy_seed(seed + epoch)", "reuse_dataloader=reuse_dataloader")
    return not is_patched(options.parse_args_and_arch, "epoch_resume") and any(
        source_has(FairseqTask.get_batch_iterator, cause) for cause in causes
    )


def _renew_batches_by_default() -> None:
    from fairseq import options
    from fairseq.trainer import Trainer

    parse = options.parse_args_and_arch
    init, begin = Trainer.__init__, Trainer.begin_epoch

    @instead_of(parse, "epoch_resume")
    def parse_args_and_arch(parser: ArgumentParser, *args: Any, **kwargs: Any) -> Any:
        # Stock leaves this option None (then the value of --grouped-shuffling) where it is not given.
        if any(action.dest == OPTION and action.default is None for action in parser._actions):
            parser.set_defaults(**{OPTION: True})
        return parse(parser, *args, **kwargs)

    @instead_of(init, "epoch_resume")
    def __init__(self: Any, cfg: Any, *args: Any, **kwargs: Any) -> None:
        if _hydra_left_unset(cfg):
            with open_dict(cfg):
                cfg.dataset[OPTION] = True
            logger.info(f"dataset.{OPTION} is not set: using true, so that a resumed run equals an uninterrupted one")
        init(self, cfg, *args, **kwargs)

    @instead_of(begin, "epoch_resume")
    def begin_epoch(self: Any, epoch: int) -> None:
        if self.cfg.dataset.num_workers > 0:
            gc.collect()  # ends the workers of the last epoch, whose iterator holds itself through a cycle
        begin(self, epoch)

    options.parse_args_and_arch = parse_args_and_arch
    Trainer.__init__ = __init__
    Trainer.begin_epoch = begin_epoch


def _hydra_left_unset(cfg: Any) -> bool:
    """True in a hydra run where neither its command line nor its YAML file gives the option."""
    from hydra.core.hydra_config import HydraConfig

    if not HydraConfig.initialized() or cfg.dataset.get(OPTION, True):
        return False
    hydra: Any = HydraConfig.get()
    if any(override.lstrip("+").startswith(f"dataset.{OPTION}=") for override in hydra.overrides.task):
        return False
    for source in hydra.runtime.config_sources if "config_sources" in hydra.runtime else []:  # hydra >= 1.1
        file = Path(source.path) / f"{hydra.job.config_name}.yaml"
        if source.schema == "file" and file.is_file():
            if OmegaConf.select(OmegaConf.load(file), f"dataset.{OPTION}") is not None:
                return False
    return True


LOST_SENTENCES = Patch(
    name="lost_sentences",
    reason="batch_by_size drops a last batch whose size is no multiple of --required-batch-size-multiple (default 8)",
    upstream="facebookresearch/fairseq#5036, #5094, #5351",
    needed=_loses_sentences,
    apply=_keep_sentences,
)
EPOCH_RESUME = Patch(
    name="epoch_resume",
    reason="batches, and the noise drawn by data-loading workers, stay those of the epoch in which the process started, so "
    "a resumed run is another one; makes --update-epoch-batch-itr True the default (False keeps the cache)",
    upstream="facebookresearch/fairseq#1156, #2525 (the cache); no report of the defect found",
    needed=_resume_changes_batches,
    apply=_renew_batches_by_default,
)
