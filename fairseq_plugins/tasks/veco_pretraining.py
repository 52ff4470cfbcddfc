"""Task ``veco_pretraining``: VECO's pre-training on adjacent segments of monolingual documents and on translation pairs."""

import logging
from dataclasses import dataclass
from typing import Any, Dict, Sequence, Tuple

import numpy as np
from fairseq.data import FairseqDataset
from fairseq.data.iterators import EpochBatchIterating
from fairseq.dataclass import FairseqDataclass
from fairseq.dataclass.constants import DDP_BACKEND_CHOICES
from fairseq.distributed import utils as distributed
from fairseq.tasks import register_task
from omegaconf import II

from ..common.data_bins import check_names, is_training, load_monolingual, split_names
from ..common.options import check_range, option
from ..common.sampling import sampling_probabilities
from ..common.shared_dictionary import SharedDictionaryConfig, SharedDictionaryTask
from ..data.alternating_batches import AlternatingIterator
from ..data.veco_dataset import VECODataset
from ..data.veco_segments import EMPTY, AdjacentSegments, ParallelPairs, SegmentStream

logger = logging.getLogger(__name__)

SHORTEST_SEGMENT = 3
"""Tokens of the shortest segment: <s> a </s>."""


@dataclass
class VECOPretrainingConfig(SharedDictionaryConfig):
    monolingual: str = option(
        "",
        "languages of monolingual documents, for example en,de: the files of fairseq-preprocess --only-source, or that "
        "side of one of --pairs; an empty line ends a document",
    )
    mask_prob: float = option(0.15, "share of tokens predicted, in (0, 1]")
    sampling_alpha: float = option(
        0.5,
        "in (0, 1]: languages, and pairs among themselves, are drawn with p ~ n^alpha, n = texts of two segments; "
        "1 = natural",
    )
    tokens_per_sample: int = option(
        512,
        "longest text of two segments in tokens; a segment with its <s> has at most half of it, and pairs with a "
        "longer side are left out",
    )
    freeze_backbone_updates: int = option(
        0,
        "updates at the start in which only cross-attention is trained, without weight decay; 0 = none. With several "
        "processes it needs --ddp-backend legacy_ddp, or --find-unused-parameters",
    )
    ddp_backend: DDP_BACKEND_CHOICES = II("distributed_training.ddp_backend")
    find_unused_parameters: bool = II("distributed_training.find_unused_parameters")


@register_task("veco_pretraining", dataclass=VECOPretrainingConfig)
class VECOPretrainingTask(SharedDictionaryTask):
    """Batches of monolingual documents and of translation pairs, in turn, with one shared dictionary.

    Source: VECO, overview of pre-training and optimization settings (adjacent segments and pairs by turns, sampling with exponent
    0.5, cross-attention alone first); how many updates that phase has is not said.
    """

    criterions = ("cross_sequence_mlm",)
    pretrains_veco = True
    continues_its_own_run = True
    trains = True
    """False once a checkpoint is being read, as by fairseq-validate, whose processes share no gradients."""

    @classmethod
    def setup_task(cls, cfg: VECOPretrainingConfig, **kwargs: Any) -> "VECOPretrainingTask":
        check_range(cfg, "(0, 1]", "mask_prob", "sampling_alpha")
        check_range(cfg, f"[{2 * SHORTEST_SEGMENT}, inf)", "tokens_per_sample")
        check_range(cfg, "[0, inf)", "freeze_backbone_updates")
        check_names(split_names(cfg.pairs), split_names(cfg.monolingual))
        return cls(cfg, cls.read_masked_dictionary(cfg))

    def build_model(self, cfg: FairseqDataclass, from_checkpoint: bool = False) -> Any:
        """The stock way; refuses texts longer than the model, and an architecture or a way of training that cannot freeze."""
        self.trains = not from_checkpoint
        model = super().build_model(cfg, from_checkpoint)
        positions = model.max_positions() if hasattr(model, "max_positions") else None
        if isinstance(positions, int) and self.cfg.tokens_per_sample > positions and not from_checkpoint:
            raise ValueError(
                f"--tokens-per-sample {self.cfg.tokens_per_sample}: the model has {positions} positions, and texts are packed to "
                f"their full length, so that fairseq would leave nearly all of them out; valid: at most {positions}, as "
                "--max-source-positions"
            )
        if self.cfg.freeze_backbone_updates and not from_checkpoint:
            given = f"--freeze-backbone-updates {self.cfg.freeze_backbone_updates}"
            if not hasattr(model, "freeze_backbone"):
                raise ValueError(f"{given} needs a VECO --arch; {type(model).__name__} cannot freeze its backbone")
            self.check_backend(given)
        return model

    def check_backend(self, given: str) -> None:
        """Refuse several processes that would wait for gradients which some parameters do not get; ``given`` is the option."""
        backend = str(self.cfg.ddp_backend)
        waits = backend in ("c10d", "pytorch_ddp") and not self.cfg.find_unused_parameters
        if (
            self.trains
            and distributed.get_global_world_size() > 1
            and (waits or backend in ("fully_sharded", "slowmo"))
        ):
            raise ValueError(
                f"{given} with several processes and --ddp-backend {backend}: give --ddp-backend legacy_ddp, or pytorch_ddp with "
                "--find-unused-parameters"
            )

    # ---- Data. ----

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """Build the split: languages, then pairs; sampled and in turn for training, every text once otherwise."""
        cfg = self.cfg
        streams: Dict[str, SegmentStream] = {language: self._documents(split, language) for language in self.languages}
        for pair in self.pairs:
            sides = self.sides(split, pair)
            streams[pair] = ParallelPairs(sides, [side.sizes for side in sides], cfg.tokens_per_sample // 2)
        for name, stream in streams.items():
            if not len(stream):
                raise ValueError(f"{split} {name}: no text of two segments; left out: {_reasons(stream)}")
        sampled = is_training(split, cfg.train_subset, kwargs)
        shares = _shares(list(streams.values()), 1.0 / cfg.sampling_alpha if sampled else 1.0)
        for (name, stream), share in zip(streams.items(), shares):
            kind = "pairs" if stream.parallel else "languages"
            tokens = int(stream.lengths.sum())
            counts = f"{len(stream)} texts of two segments (left out: {_reasons(stream)}), {tokens} tokens"
            logger.info(f"{split} {name}: {counts}, {share:.4f} of the texts of {kind}")
        probabilities = shares.tolist() if sampled else None
        self.datasets[split] = VECODataset(
            list(streams.values()), self.dictionary, cfg.mask_prob, cfg.seed, probabilities
        )

    def _documents(self, split: str, language: str) -> AdjacentSegments:
        prefix = self.prefix(split)
        text = load_monolingual(prefix, language, self.pairs, self.dictionary, "--monolingual")
        file = getattr(text, "_path", f"{prefix}.*.{language}")
        if EMPTY not in text.sizes:
            raise ValueError(
                f"--monolingual {language}: {file}.bin has no empty line, so that it does not tell where documents end. Put an "
                "empty line behind each document before fairseq-preprocess, or leave the language out"
            )
        room = self.cfg.tokens_per_sample // 2
        return AdjacentSegments(text, text.sizes, room, self.dictionary.pad(), self.dictionary.eos())

    def get_batch_iterator(self, dataset: FairseqDataset, *args: Any, **kwargs: Any) -> EpochBatchIterating:
        """The stock iterator; one that keeps the order of the kinds where they take turns."""
        stock = super().get_batch_iterator(dataset, *args, **kwargs)
        kinds = dataset.kinds if isinstance(dataset, VECODataset) else 1
        return AlternatingIterator.of(stock, kinds) if kinds > 1 else stock

    def max_positions(self) -> int:
        return self.cfg.tokens_per_sample

    # ---- Frozen phase. ----

    def train_step(
        self, sample: Any, model: Any, criterion: Any, optimizer: Any, update_num: int, ignore_grad: bool = False
    ) -> Tuple[Any, Any, Any]:
        """The stock step; in the frozen phase only cross-attention gets gradients.

        Parameters are frozen during forward and backward alone. fairseq's fp16 optimizer keeps the gradients of all parameters one
        behind another, in one row that it fills with those that require a gradient at that moment: were fewer of them to do
        so, each gradient would lie in the place of another parameter.
        """
        frozen = self._is_frozen(update_num)
        if frozen:
            model.freeze_backbone(True)
        try:
            return super().train_step(sample, model, criterion, optimizer, update_num, ignore_grad)
        finally:
            if frozen:
                model.freeze_backbone(False)

    def optimizer_step(self, optimizer: Any, model: Any, update_num: int) -> None:
        """The stock step; in the frozen phase without weight decay, which moves parameters whose gradient is zero.

        Several processes give frozen parameters a gradient of zeros. It is dropped, else Adam would count its steps, and the
        first updates of the backbone would be three times as large as in one process. With ``--fp16`` they are: its
        optimizer has one count for all parameters.
        """
        frozen = self._is_frozen(update_num)
        if frozen:
            model.freeze_backbone(True)
            for parameter in model.parameters():
                if not parameter.requires_grad:
                    parameter.grad = None
            model.freeze_backbone(False)
        groups = list(optimizer.param_groups) if frozen else []
        decays = [(group, group["weight_decay"]) for group in groups if group.get("weight_decay") is not None]
        for group, _ in decays:
            group["weight_decay"] = 0.0
        try:
            super().optimizer_step(optimizer, model, update_num)
        finally:
            for group, decay in decays:
                group["weight_decay"] = decay

    def _is_frozen(self, update_num: int) -> bool:
        return update_num < self.cfg.freeze_backbone_updates


def _shares(streams: Sequence[SegmentStream], temperature: float) -> np.ndarray:
    """Share of each language among the languages, and of each pair among the pairs. (K,)."""
    is_pair = np.array([stream.parallel for stream in streams])
    shares = np.zeros(len(streams))
    for kind in (False, True):
        sizes = [len(stream) for stream in streams if stream.parallel == kind]
        if sizes:
            shares[is_pair == kind] = sampling_probabilities(sizes, temperature)
    return shares


def _reasons(stream: SegmentStream) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in stream.left_out.items())
