"""Criterion ``sga_ctc``: CTC on the alignment, and on the denoised output."""

import logging
import math
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Tuple, Type

import torch
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from omegaconf import II
from torch import Tensor

from ..ops.ctc import BestPath, alignable, linear_ctc_with_best
from ..ops.noise import SlotAlphabet, corrupt_slots, parse_noise_mix
from ..ops.vocab_scan import DEFAULT_CHUNK_SIZE, check_chunk_size

logger = logging.getLogger(__name__)

CRITERIONS = {"ctc": "sga_ctc", "mask_predict": "sga_mask_predict"}
"""The model's --alignment -> the criterion that trains it."""


@dataclass
class SGACTCConfig(FairseqDataclass):
    """Options of the SGA loss."""

    denoise_noise: float = field(
        default=0.2,
        metadata={"help": "up to this share of the denoiser's input slots is disturbed in training, in [0, 1]"},
    )
    denoise_noise_mix: str = field(
        default="blank=0.4,random=0.3,sentence=0.3",
        metadata={
            "help": "shares of the noise: blank (deletion), random piece, sentence (another token of it), repeat"
        },
    )
    denoise_unroll: int = field(default=1, metadata={"help": "denoising steps that are trained, at least 1"})
    ctc_chunk_size: int = field(
        default=DEFAULT_CHUNK_SIZE, metadata={"help": "vocabulary rows projected at a time; less needs less memory"}
    )
    sentence_avg: bool = II("optimization.sentence_avg")


@register_criterion("sga_ctc", dataclass=SGACTCConfig)
class SGACTCCriterion(FairseqCriterion):
    """Total = alignment CTC + denoising CTC.

    Losses are sums in nats; ``sample_size`` is the number of target tokens (``</s>`` not counted), or of sentences.
    Targets that cannot be aligned (fewer slots than tokens + adjacent repeats) contribute zero and are counted.

    Source: SGA Eq. 7.
    """

    tasks = ("sga_translation",)
    alignment = "ctc"
    """The model's --alignment that this criterion trains."""
    options: Type[SGACTCConfig] = SGACTCConfig

    def __init__(self, task: Any, cfg: SGACTCConfig):
        super().__init__(task)
        self._check_alignment(task)
        if not 0.0 <= cfg.denoise_noise <= 1.0:
            raise ValueError(f"--denoise-noise must lie in [0, 1]; got {cfg.denoise_noise}")
        if cfg.denoise_unroll < 1:
            raise ValueError(f"--denoise-unroll must be at least 1; got {cfg.denoise_unroll}")
        check_chunk_size(cfg.ctc_chunk_size, "--ctc-chunk-size")
        self.cfg = cfg
        self._check_denoiser(task)
        self.mix = parse_noise_mix(cfg.denoise_noise_mix)
        dictionary = task.target_dictionary
        self.eos = dictionary.eos()
        self.pieces = (dictionary.nspecial, dictionary.index("<mask>"))

    def forward(self, model: Any, sample: Dict[str, Any], reduce: bool = True) -> Tuple[Tensor, int, Dict[str, Any]]:
        """Loss of a batch in nats, sample size, and what is logged."""
        self._check_alignment(unwrapped(model))
        targets, lengths = self._targets(sample["target"])
        slots: List[Tensor] = []
        losses = model(
            **sample["net_input"],
            reduce=self._ctc(model, targets, lengths, slots),
            corrupt=self._noise(model),
            unroll=self.cfg.denoise_unroll,
        )
        loss = torch.stack(list(losses.values())).sum()
        unalignable = int((~alignable(targets, slots[0], lengths, unwrapped(model).blank)).sum())
        return self._outcome(loss, losses, lengths, unalignable=unalignable)

    def _outcome(
        self, loss: Tensor, losses: Dict[str, Tensor], lengths: Tensor, **counts: int
    ) -> Tuple[Tensor, int, Dict[str, Any]]:
        """Loss, sample size and logging output of a batch; every value is a sum."""
        tokens, sentences = int(lengths.sum()), len(lengths)
        sample_size = sentences if self.cfg.sentence_avg else tokens
        logged = {
            "loss": loss.detach(),
            "ntokens": tokens,
            "nsentences": sentences,
            "sample_size": sample_size,
            **counts,
        }
        logged.update({name + "_loss": part.detach().sum() for name, part in losses.items()})
        return loss, sample_size, logged

    def _check_alignment(self, owner: Any) -> None:
        """Raise ValueError where a task or a model tells that its model has another --alignment."""
        found = getattr(owner, "alignment", self.alignment)
        if found != self.alignment:
            raise ValueError(
                f"--criterion {CRITERIONS[self.alignment]} trains models with --alignment {self.alignment}, this one has "
                f"--alignment {found}: give --criterion {CRITERIONS[found]}, or an SGA model with --alignment {self.alignment}"
            )

    def _check_denoiser(self, task: Any) -> None:
        """Warn of options for the denoiser of a model that has none."""
        if getattr(task, "has_denoiser", True):
            return
        for name, entry in self.options.__dataclass_fields__.items():
            if name.startswith("denoise_") and getattr(self.cfg, name) != entry.default:
                option = "--" + name.replace("_", "-")
                logger.warning(
                    f"{option} {getattr(self.cfg, name)} has no effect: this model has no denoiser (--no-denoising, or nat_ctc)"
                )

    def _ctc(self, model: Any, targets: Tensor, lengths: Tensor, slots: List[Tensor]) -> Callable[..., Any]:
        """The loss that the model calls; notes the slots of each call."""
        blank = unwrapped(model).blank

        def ctc(
            hidden: Tensor, weight: Tensor, bias: Tensor, input_lengths: Tensor, best: bool
        ) -> Tuple[Tensor, Optional[BestPath]]:
            slots.append(input_lengths)
            return linear_ctc_with_best(
                hidden, weight, bias, targets, input_lengths, lengths, blank, self.cfg.ctc_chunk_size, best
            )

        return ctc

    def _noise(self, model: Any) -> Optional[Callable[[Tensor, Tensor], Tensor]]:
        """The noise on the denoiser's input; None where there is none."""
        alphabet = SlotAlphabet(unwrapped(model).blank, *self.pieces)

        def corrupt(tokens: Tensor, input_lengths: Tensor) -> Tensor:
            return corrupt_slots(tokens, input_lengths, self.cfg.denoise_noise, self.mix, alphabet)

        noisy = model.training and self.cfg.denoise_noise > 0
        return corrupt if noisy else None

    def _targets(self, target: Tensor) -> Tuple[Tensor, Tensor]:
        """Drop the final ``</s>``: the slots end a sentence by themselves. (B, S + 1) -> (B, S), lengths (B,)."""
        kept = target.ne(self.padding_idx) & target.ne(self.eos)
        return target[:, : max(int(kept.sum(dim=1).max()), 1)], kept.sum(dim=1)

    @staticmethod
    def reduce_metrics(logging_outputs: List[Dict[str, Any]]) -> None:
        """Log total and parts in bits per token, and the targets that could not be aligned (sum over the epoch)."""
        for key in ("loss", "alignment_loss", "denoising_loss"):
            log_bits(logging_outputs, key, "sample_size")
        metrics.log_scalar_sum("unalignable", sum(int(log.get("unalignable", 0)) for log in logging_outputs))

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """Every logged value is a sum."""
        return True


def log_bits(logging_outputs: List[Dict[str, Any]], key: str, unit: str) -> None:
    """Log a loss (nats) in bits per unit, both summed over the outputs; nothing where no output has it."""
    size = sum(log.get(unit, 0) for log in logging_outputs)
    if any(key in log for log in logging_outputs):
        total = sum(float(log.get(key, 0)) for log in logging_outputs)
        metrics.log_scalar(key, total / max(size, 1) / math.log(2), size, round=3)


def unwrapped(model: Any) -> Any:
    """The model inside a distributed wrapper."""
    return model.module if hasattr(model, "module") and not hasattr(model, "blank") else model
