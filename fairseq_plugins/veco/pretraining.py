"""Task ``veco_pretraining``: its data, and what trains (cross-attention alone, then all)."""

import logging
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Iterator, Sequence, Tuple

import numpy as np
from fairseq.data import FairseqDataset
from fairseq.data.iterators import EpochBatchIterating
from fairseq.dataclass import FairseqDataclass
from fairseq.dataclass.constants import DDP_BACKEND_CHOICES
from fairseq.distributed import utils as distributed
from fairseq.tasks import register_task
from omegaconf import II

from ..common.data_bins import check_names, is_training, split_names
from ..common.options import check_range, option
from ..common.sampling import sampling_probabilities
from ..common.shared_dictionary import SharedDictionaryConfig, SharedDictionaryTask
from .data import AlternatingIterator, VECODataset
from .segments import EMPTY, AdjacentSegments, ParallelPairs, SegmentStream

logger = logging.getLogger(__name__)

SHORTEST_SEGMENT = 3
"""Tokens of the shortest segment: <s> a </s>."""


@dataclass
class VECOPretrainingConfig(SharedDictionaryConfig):
    """Options of the data, and of what trains."""

    monolingual: str = option(
        "",
        "languages of monolingual documents, for example en,de: the files of fairseq-preprocess "
        "--only-source, or that side of one of --pairs; an empty line ends a document",
    )
    mask_prob: float = option(0.15, "share of tokens predicted, in (0, 1]")
    sampling_alpha: float = option(
        0.5,
        "in (0, 1]: languages, and pairs among themselves, are drawn with p ~ n^alpha, n = texts "
        "of two segments; 1 = natural",
    )
    tokens_per_sample: int = option(
        512,
        "longest text of two segments in tokens; a segment with its <s> has at most half of it, "
        "and pairs with a longer side are left out",
    )
    freeze_backbone_updates: int = option(
        0,
        "updates at the start in which only cross-attention is trained, without weight decay; 0 = "
        "none. With several processes it needs --ddp-backend legacy_ddp, or "
        "--find-unused-parameters",
    )
    ddp_backend: DDP_BACKEND_CHOICES = II("distributed_training.ddp_backend")
    find_unused_parameters: bool = II("distributed_training.find_unused_parameters")


@register_task("veco_pretraining", dataclass=VECOPretrainingConfig)
class VECOPretrainingTask(SharedDictionaryTask):
    """Batches of monolingual documents and of translation pairs in turn, with one dictionary.

    Attributes:
        trains: False if the model was built from a checkpoint, as in fairseq-validate, where
            processes exchange no gradients.

    Source: VECO section 3 (adjacent segments and pairs in turn, sampling with exponent 0.5,
    cross-attention alone first); it does not say how many updates that phase has.
    """

    criterions = ("cross_sequence_mlm",)
    pretrains_veco = True
    continues_its_own_run = True
    trains = True

    @classmethod
    def setup_task(cls, cfg: VECOPretrainingConfig, **kwargs: Any) -> "VECOPretrainingTask":
        """Check the options, and read the dictionary with ``<mask>``."""
        check_range(cfg, "(0, 1]", "mask_prob", "sampling_alpha")
        check_range(cfg, f"[{2 * SHORTEST_SEGMENT}, inf)", "tokens_per_sample")
        check_range(cfg, "[0, inf)", "freeze_backbone_updates")
        check_names(split_names(cfg.pairs), split_names(cfg.monolingual))
        return cls(cfg, cls.read_masked_dictionary(cfg))

    def build_model(self, cfg: FairseqDataclass, from_checkpoint: bool = False) -> Any:
        """Build the model as stock does.

        Raises:
            ValueError: texts that are longer than the model's positions, or a frozen phase with a
                model or backend that does not support it.
        """
        self.trains = not from_checkpoint
        model = super().build_model(cfg, from_checkpoint)
        if from_checkpoint:
            return model
        positions = model.max_positions() if hasattr(model, "max_positions") else None
        if isinstance(positions, int) and self.cfg.tokens_per_sample > positions:
            raise ValueError(
                f"--tokens-per-sample {self.cfg.tokens_per_sample}: the model has {positions} "
                "positions, and texts are packed to their full length, so that fairseq would leave "
                f"nearly all of them out; valid: at most {positions}, as --max-source-positions"
            )
        if self.cfg.freeze_backbone_updates:
            typed = f"--freeze-backbone-updates {self.cfg.freeze_backbone_updates}"
            if not hasattr(model, "freeze_backbone"):
                name = type(model).__name__
                raise ValueError(f"{typed} needs a VECO --arch; {name} cannot freeze its backbone")
            self.check_backend(typed)
        return model

    def check_backend(self, typed: str) -> None:
        """Raise ValueError for a backend that waits for gradients which some parameters lack.

        Args:
            typed: option and value that leave parameters without gradients, for messages.
        """
        backend = str(self.cfg.ddp_backend)
        is_torch_ddp = backend in ("c10d", "pytorch_ddp")
        waits = is_torch_ddp and not self.cfg.find_unused_parameters
        waits = waits or backend in ("fully_sharded", "slowmo")
        if self.trains and waits and distributed.get_global_world_size() > 1:
            raise ValueError(
                f"{typed} with several processes and --ddp-backend {backend}: give --ddp-backend "
                "legacy_ddp, or pytorch_ddp with --find-unused-parameters"
            )

    def max_positions(self) -> int:
        """Return the longest text in tokens."""
        return self.cfg.tokens_per_sample

    # ---- Data. ----

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any
    ) -> None:
        """Load languages, then pairs; for training they are sampled, with batches in turn.

        Raises:
            ValueError: a language or pair without a text of two segments.
        """
        cfg = self.cfg
        streams = {language: self._documents(split, language, epoch) for language in self.languages}
        streams.update({pair: self._pairs(split, pair, epoch) for pair in self.pairs})
        for name, stream in streams.items():
            if not len(stream):
                reasons = _describe_left_out(stream)
                raise ValueError(f"{split} {name}: no text of two segments; left out: {reasons}")
        is_sampled = is_training(split, cfg.train_subset, kwargs)
        shares = _shares(list(streams.values()), 1.0 / cfg.sampling_alpha if is_sampled else 1.0)
        for (name, stream), share in zip(streams.items(), shares):
            kind = "pairs" if stream.parallel else "languages"
            logger.info(
                f"{split} {name}: {len(stream)} texts of two segments (left out: "
                f"{_describe_left_out(stream)}), {int(stream.lengths.sum())} tokens, {share:.4f} "
                f"of the texts of {kind}"
            )
        self.datasets[split] = VECODataset(
            list(streams.values()),
            self.dictionary,
            cfg.mask_prob,
            cfg.seed,
            shares.tolist() if is_sampled else None,
        )

    def _documents(self, split: str, language: str, epoch: int) -> SegmentStream:
        """Load a language's documents. Raises ValueError if no empty line ends one."""
        text = self.text(split, language, epoch)
        if EMPTY not in text.sizes:
            file = getattr(text, "_path", f"{self.prefixes(split)[0]}.*.{language}")
            raise ValueError(
                f"--monolingual {language}: {file}.bin has no empty line, so that it does not tell "
                "where documents end. Put an empty line after each document before "
                "fairseq-preprocess, or leave the language out"
            )
        room = self.cfg.tokens_per_sample // 2
        pad, eos = self.dictionary.pad(), self.dictionary.eos()
        return AdjacentSegments(text, text.sizes, room, pad, eos)

    def _pairs(self, split: str, pair: str, epoch: int) -> SegmentStream:
        sides = self.sides(split, pair, epoch)
        return ParallelPairs(sides, [side.sizes for side in sides], self.cfg.tokens_per_sample // 2)

    def get_batch_iterator(
        self, dataset: FairseqDataset, *args: Any, **kwargs: Any
    ) -> EpochBatchIterating:
        """Return the stock iterator; if kinds take turns, one whose shuffle keeps the turns."""
        stock = super().get_batch_iterator(dataset, *args, **kwargs)
        kinds = dataset.kinds if isinstance(dataset, VECODataset) else 1
        return AlternatingIterator.wrap(stock, kinds) if kinds > 1 else stock

    # ---- What trains: the phase in which only cross-attention does. ----

    def train_step(
        self,
        sample: Any,
        model: Any,
        criterion: Any,
        optimizer: Any,
        update_num: int,
        ignore_grad: bool = False,
    ) -> Tuple[Any, Any, Any]:
        """Run the stock step; in the frozen phase only cross-attention gets gradients.

        Parameters are frozen only during forward and backward. fairseq's fp16 optimizer copies the
        gradients of all parameters that require one into a flat array. If it found fewer of them
        than at its start, each gradient would lie in the place of another parameter.
        """
        with self._frozen_backbone(model, update_num):
            return super().train_step(sample, model, criterion, optimizer, update_num, ignore_grad)

    def optimizer_step(self, optimizer: Any, model: Any, update_num: int) -> None:
        """Run the stock step; in the frozen phase without weight decay.

        Weight decay would move parameters whose gradient is zero. With several processes, frozen
        parameters have a gradient of zeros. It is dropped here: Adam would count such steps, and
        the first updates of the backbone would be three times as large as in one process. With
        ``--fp16`` they still are, because its optimizer has one count for all parameters.
        """
        if not self._is_frozen(update_num):
            super().optimizer_step(optimizer, model, update_num)
            return
        with self._frozen_backbone(model, update_num):
            for parameter in model.parameters():
                if not parameter.requires_grad:
                    parameter.grad = None
        with _without_weight_decay(optimizer):
            super().optimizer_step(optimizer, model, update_num)

    def _is_frozen(self, update_num: int) -> bool:
        return update_num < self.cfg.freeze_backbone_updates

    @contextmanager
    def _frozen_backbone(self, model: Any, update_num: int) -> Iterator[None]:
        """Freeze all but cross-attention inside a ``with`` block, in the frozen phase only."""
        if not self._is_frozen(update_num):
            yield
            return
        model.freeze_backbone(True)
        try:
            yield
        finally:
            model.freeze_backbone(False)


@contextmanager
def _without_weight_decay(optimizer: Any) -> Iterator[None]:
    """Set the weight decay of every group to 0 inside a ``with`` block."""
    groups = [group for group in optimizer.param_groups if group.get("weight_decay") is not None]
    decays = [group["weight_decay"] for group in groups]
    for group in groups:
        group["weight_decay"] = 0.0
    try:
        yield
    finally:
        for group, decay in zip(groups, decays):
            group["weight_decay"] = decay


def _shares(streams: Sequence[SegmentStream], temperature: float) -> np.ndarray:
    """Compute the share of each language among languages and of each pair among pairs. (K,)."""
    is_pair = np.array([stream.parallel for stream in streams])
    shares = np.zeros(len(streams))
    for kind in (False, True):
        sizes = [len(stream) for stream in streams if stream.parallel == kind]
        if sizes:
            shares[is_pair == kind] = sampling_probabilities(sizes, temperature)
    return shares


def _describe_left_out(stream: SegmentStream) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in stream.left_out.items())
