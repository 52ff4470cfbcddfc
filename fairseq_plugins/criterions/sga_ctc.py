"""Criterion ``sga_ctc``: CTC on the alignment, and on the denoised output."""

import math
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple

import torch
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from omegaconf import II
from torch import Tensor

from ..ops.ctc import BestPath, alignable, linear_ctc_with_best
from ..ops.noise import SlotAlphabet, corrupt_slots, parse_noise_mix
from ..ops.vocab_scan import DEFAULT_CHUNK_SIZE, check_chunk_size


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

    def __init__(self, task: Any, cfg: SGACTCConfig):
        super().__init__(task)
        if not 0.0 <= cfg.denoise_noise <= 1.0:
            raise ValueError(f"--denoise-noise must lie in [0, 1]; got {cfg.denoise_noise}")
        if cfg.denoise_unroll < 1:
            raise ValueError(f"--denoise-unroll must be at least 1; got {cfg.denoise_unroll}")
        check_chunk_size(cfg.ctc_chunk_size)
        self.cfg = cfg
        self.mix = parse_noise_mix(cfg.denoise_noise_mix)
        dictionary = task.target_dictionary
        self.eos = dictionary.eos()
        self.pieces = (dictionary.nspecial, dictionary.index("<mask>"))

    def forward(self, model: Any, sample: Dict[str, Any], reduce: bool = True) -> Tuple[Tensor, int, Dict[str, Any]]:
        """Loss of a batch in nats, sample size, and what is logged."""
        targets, lengths = self._targets(sample["target"])
        blank = _unwrapped(model).blank
        alphabet = SlotAlphabet(blank, *self.pieces)
        slots: List[Tensor] = []

        def ctc(
            hidden: Tensor, weight: Tensor, bias: Tensor, input_lengths: Tensor, best: bool
        ) -> Tuple[Tensor, Optional[BestPath]]:
            slots.append(input_lengths)
            return linear_ctc_with_best(
                hidden, weight, bias, targets, input_lengths, lengths, blank, self.cfg.ctc_chunk_size, best
            )

        def corrupt(tokens: Tensor, input_lengths: Tensor) -> Tensor:
            return corrupt_slots(tokens, input_lengths, self.cfg.denoise_noise, self.mix, alphabet)

        noisy = model.training and self.cfg.denoise_noise > 0
        losses = model(
            **sample["net_input"], reduce=ctc, corrupt=corrupt if noisy else None, unroll=self.cfg.denoise_unroll
        )
        loss = torch.stack(list(losses.values())).sum()
        tokens, sentences = int(lengths.sum()), targets.size(0)
        sample_size = sentences if self.cfg.sentence_avg else tokens
        logged = {
            "loss": loss.detach(),
            "ntokens": tokens,
            "nsentences": sentences,
            "sample_size": sample_size,
            "unalignable": int((~alignable(targets, slots[0], lengths, blank)).sum()),
        }
        logged.update({name + "_loss": part.detach().sum() for name, part in losses.items()})
        return loss, sample_size, logged

    def _targets(self, target: Tensor) -> Tuple[Tensor, Tensor]:
        """Drop the final ``</s>``: the slots end a sentence by themselves. (B, S + 1) -> (B, S), lengths (B,)."""
        kept = target.ne(self.padding_idx) & target.ne(self.eos)
        return target[:, : max(int(kept.sum(dim=1).max()), 1)], kept.sum(dim=1)

    @staticmethod
    def reduce_metrics(logging_outputs: List[Dict[str, Any]]) -> None:
        """Log total and parts in bits per token, and the targets that could not be aligned (sum over the epoch)."""
        size = sum(log.get("sample_size", 0) for log in logging_outputs)
        for key in ("loss", "alignment_loss", "denoising_loss"):
            if any(key in log for log in logging_outputs):
                total = sum(float(log.get(key, 0)) for log in logging_outputs)
                metrics.log_scalar(key, total / max(size, 1) / math.log(2), size, round=3)
        metrics.log_scalar_sum("unalignable", sum(int(log.get("unalignable", 0)) for log in logging_outputs))

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """Every logged value is a sum."""
        return True


def _unwrapped(model: Any) -> Any:
    """The model inside a distributed wrapper."""
    return model.module if hasattr(model, "module") and not hasattr(model, "blank") else model
