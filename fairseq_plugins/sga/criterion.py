"""Criterion ``sga_ctc``: CTC on the alignment, and on the denoised output."""

import logging
import re
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

import torch
from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from omegaconf import II, OmegaConf
from torch import Tensor

from ..common.options import check_range, option
from ..common.summed_criterion import SummedCriterion, log_loss, total
from ..ops.ctc import alignable
from ..ops.places import source_lengths, target_lengths
from ..ops.vocab_scan import DEFAULT_CHUNK_SIZE
from .noise import SlotAlphabet, corrupt_slots, parse_noise_mix

logger = logging.getLogger(__name__)

CRITERIONS = {"ctc": "sga_ctc", "dag": "sga_dag", "mask_predict": "sga_mask_predict"}
"""The model's --alignment -> the criterion that trains it."""


@dataclass
class SGACTCConfig(FairseqDataclass):
    denoise_noise: float = option(
        0.2, "up to this share of the denoiser's input slots is disturbed in training, in [0, 1]"
    )
    denoise_noise_mix: str = option(
        "blank=0.4,random=0.3,sentence=0.3",
        "shares of the noise: blank (deletion), random piece, sentence (another token of it), repeat, mask",
    )
    denoise_unroll: int = option(1, "denoising steps that are trained, at least 1")
    denoise_start: int = option(
        0, "the denoiser is trained from this update on, 0 or more; until then an update takes less"
    )
    glancing: str = option(
        "0",
        "share R of the wrong slots that show the alignment unit their true token in training (GLAT), in [0, 1]; "
        "FIRST:LAST@UPDATES changes it evenly over so many updates",
    )
    ctc_chunk_size: int = option(DEFAULT_CHUNK_SIZE, "vocabulary rows projected at a time; less needs less memory")
    sentence_avg: bool = II("optimization.sentence_avg")


class GlancingSchedule(NamedTuple):
    """``--glancing``: from ``first`` to ``last`` over ``updates``."""

    first: float
    last: float
    updates: int

    @classmethod
    def parse(cls, text: str) -> "GlancingSchedule":
        """Read R or FIRST:LAST@UPDATES; ValueError."""
        found = re.fullmatch(r"([0-9.]+)(?::([0-9.]+)@([0-9]+))?", str(text).strip())
        try:
            first, last, updates = found.groups() if found else ("", None, None)
            schedule = cls(float(first), float(first if last is None else last), int(updates or 1))
        except ValueError:
            schedule = cls(-1.0, -1.0, 0)
        if schedule.updates < 1 or not all(0 <= ratio <= 1 for ratio in schedule[:2]):
            raise ValueError(f"--glancing {text}: valid: R or FIRST:LAST@UPDATES, ratios in [0, 1], updates at least 1")
        return schedule

    def at(self, update: int) -> float:
        """The ratio after so many updates."""
        return self.first + (self.last - self.first) * min(update / self.updates, 1.0)


@register_criterion("sga_ctc", dataclass=SGACTCConfig)
class SGACTCCriterion(SummedCriterion):
    """Total = alignment CTC + denoising CTC.

    Losses are sums in nats; ``sample_size`` is the number of target tokens (``</s>`` not counted), or of sentences.
    Targets that cannot be aligned (fewer slots than tokens + adjacent repeats) contribute zero and are counted.

    Source: SGA Eq. 7.
    """

    tasks = ("sga_translation",)
    alignment = "ctc"
    """The model's --alignment that this criterion trains."""
    units = {"loss": "sample_size", "alignment_loss": "sample_size", "denoising_loss": "sample_size"}
    """Logged loss -> what it is divided by."""

    def __init__(self, task: Any, cfg: SGACTCConfig):
        super().__init__(task)
        model = getattr(cfg._get_root(), "model", None) if OmegaConf.is_config(cfg) else None
        if model is not None:  # the options of the whole command: refused before the first batch
            self._check_alignment(str(getattr(model, "alignment", "ctc")))
        check_range(cfg, "[0, 1]", "denoise_noise")
        check_range(cfg, "[1, inf)", "denoise_unroll", "ctc_chunk_size")
        check_range(cfg, "[0, inf)", "denoise_start")
        self.cfg = cfg
        self.mix = parse_noise_mix(cfg.denoise_noise_mix)
        self.glancing = GlancingSchedule.parse(cfg.glancing)
        dictionary = task.target_dictionary
        self.eos = dictionary.eos()
        self.pieces = (dictionary.nspecial, dictionary.index("<mask>"))
        self.weights: Dict[str, float] = {"alignment": 1.0, "denoising": 1.0}
        self.unread_options_reported = False

    def forward(self, model: Any, sample: Dict[str, Any], reduce: bool = True) -> Tuple[Tensor, int, Dict[str, Any]]:
        """Loss of a batch in nats, sample size, and what is logged; ValueError for a model with another ``--alignment``."""
        targets, lengths = self._targets(sample)
        return self._loss(model, sample, targets, lengths)

    def _loss(
        self, model: Any, sample: Dict[str, Any], targets: Tensor, lengths: Tensor, **options: Any
    ) -> Tuple[Tensor, int, Dict[str, Any]]:
        """See :meth:`forward`; ``options`` are more arguments of the model. Every logged value is a sum."""
        inner = model.module if hasattr(model, "module") and not hasattr(model, "blank") else model
        self._check_alignment(inner.alignment)
        self._report_unread_options(inner)
        update = getattr(inner, "num_updates", 0)
        ratio = self.glancing.at(update) if model.training else 0.0
        waits = model.training and update < self.cfg.denoise_start
        if ratio and not hasattr(inner, "transitions"):
            raise ValueError(f"--glancing {self.cfg.glancing}: valid for {type(inner).__name__}: 0")
        if ratio:
            options = {**options, "glancing": ratio}
        losses, slots = model(
            src_tokens=sample["net_input"]["src_tokens"],
            src_lengths=source_lengths(sample),
            targets=targets,
            target_lengths=lengths,
            chunk_size=self.cfg.ctc_chunk_size,
            corrupt=self._noise(inner.blank) if model.training and self.cfg.denoise_noise > 0 else None,
            unroll=0 if waits else self.cfg.denoise_unroll,
            **options,
        )
        weighted = [self.weights[name] * part for name, part in losses.items() if name in self.weights]
        loss = torch.stack(weighted).sum()
        tokens, sentences = int(lengths.sum()), len(lengths)
        sample_size = sentences if self.cfg.sentence_avg else tokens
        fitting = [self._alignable(name, targets, room, lengths, inner.blank) for name, room in slots.items()]
        unalignable = (~torch.stack(fitting).all(dim=0)).sum() if fitting else 0
        counts = {"ntokens": tokens, "nsentences": sentences}
        parts = {name + "_loss": part.detach().sum() for name, part in losses.items()}
        return self.result(loss, sample_size, counts, unalignable=unalignable, **parts)

    def _alignable(self, name: str, targets: Tensor, slots: Tensor, lengths: Tensor, blank: int) -> Tensor:
        """(B,) bool: which targets the ``slots`` (B,) of the loss ``name`` have room for."""
        return alignable(targets, slots, lengths, blank)

    def _check_alignment(self, found: str) -> None:
        if found != self.alignment:
            raise ValueError(
                f"--criterion {CRITERIONS[self.alignment]} trains models with --alignment {self.alignment}, this one has "
                f"--alignment {found}: give --criterion {CRITERIONS[found]}, or an SGA model with --alignment {self.alignment}"
            )

    def _report_unread_options(self, model: Any) -> None:
        """Warn once of options for the denoiser of a model that has none."""
        if model.has_denoiser or self.unread_options_reported:
            return
        self.unread_options_reported = True
        for name, default in vars(SGACTCConfig()).items():
            value = getattr(self.cfg, name, default)
            if name.startswith("denoise_") and value != default:
                logger.warning(
                    f"--{name.replace('_', '-')} {value} has no effect: this model has no denoiser (--no-denoising, or nat_ctc)"
                )

    def _noise(self, blank: int) -> Callable[[Tensor, Tensor], Tensor]:
        alphabet = SlotAlphabet(blank, *self.pieces)
        return partial(corrupt_slots, ratio=self.cfg.denoise_noise, mix=self.mix, alphabet=alphabet)

    def _targets(self, sample: Dict[str, Any]) -> Tuple[Tensor, Tensor]:
        """Drop the final ``</s>``: the slots end a sentence by themselves. (B, S + 1) -> (B, S), lengths (B,) on the host."""
        lengths = target_lengths(sample, self.padding_idx, self.eos)
        return sample["target"][:, : max(int(lengths.max()), 1)], lengths

    @classmethod
    def log_sums(cls, logging_outputs: List[Dict[str, Any]]) -> None:
        """Log the losses in bits per unit, and the targets that could not be aligned (sum over the epoch)."""
        for key, unit in cls.units.items():
            if any(key in log for log in logging_outputs):
                log_loss(logging_outputs, key, unit)
        metrics.log_scalar_sum("unalignable", int(total(logging_outputs, "unalignable")))
