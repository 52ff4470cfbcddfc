"""The loss of SGA: CTC on the alignment, and CTC on the denoised output (Eq. 7)."""

import logging
from dataclasses import fields
from functools import partial
from typing import Any, Callable, Dict, List, Tuple

import torch
from fairseq.logging import metrics
from omegaconf import OmegaConf
from torch import Tensor

from ..common.options import Rule, check_rules, flag
from ..common.slot_model import SlotModel, Target
from ..common.summed_criterion import SummedCriterion, log_loss, total
from ..ops.ctc import alignable
from ..ops.masks import source_lengths, target_lengths
from .config import CRITERION_RULES, CRITERIONS, SGACTCConfig
from .noise import SlotAlphabet, corrupt_slots, parse_noise_mix

logger = logging.getLogger(__name__)

Output = Tuple[Tensor, int, Dict[str, Any]]
"""Loss of a batch in nats, sample size, and the sums to log."""


class SGACTCCriterion(SummedCriterion):
    """Total = alignment CTC + denoising CTC.

    Losses are sums in nats; ``sample_size`` is the number of target tokens (``</s>`` not counted),
    or of sentences. A target that cannot be aligned (fewer slots than tokens + adjacent repeats)
    contributes zero and is counted.

    Source: SGA Eq. 7.
    """

    tasks = ("sga_translation",)
    alignment = "ctc"
    """The model's --alignment that this criterion trains."""
    config = SGACTCConfig
    """Dataclass of the options; names that begin with ``denoise_`` are about the denoiser."""
    units = {
        "loss": "sample_size",
        "alignment_loss": "sample_size",
        "denoising_loss": "sample_size",
    }
    """Logged loss -> the count that it is divided by."""
    rules: Tuple[Rule, ...] = CRITERION_RULES

    def __init__(self, task: Any, cfg: SGACTCConfig):
        super().__init__(task)
        self.cfg = cfg
        self.mix = parse_noise_mix(cfg.denoise_noise_mix)
        dictionary = task.target_dictionary
        self.eos = dictionary.eos()
        self.pieces = (dictionary.nspecial, dictionary.index("<mask>"))
        self.weights: Dict[str, float] = {"alignment": 1.0, "denoising": 1.0}
        self.unread_options_reported = False

    @classmethod
    def build_criterion(cls, cfg: Any, task: Any) -> "SGACTCCriterion":
        """Check the options of the criterion, and of the model beside it, and construct.

        Raises:
            ValueError: a broken rule, or a model with another --alignment.
        """
        check_rules(cfg, cls.rules)
        model = getattr(cfg._get_root(), "model", None) if OmegaConf.is_config(cfg) else None
        if model is not None:
            cls.check_alignment(str(getattr(model, "alignment", "ctc")))
        return super().build_criterion(cfg, task)

    def forward(self, model: Any, sample: Dict[str, Any], reduce: bool = True) -> Output:
        """Compute the loss of a batch.

        Raises:
            ValueError: the model has another ``--alignment``.
        """
        sga = unwrapped(model)
        self.check_alignment(sga.alignment)
        self._report_unread_options(sga)
        target = self.target(sample)
        losses, slots = model(**self.model_inputs(sga, sample, target))
        return self.summed(losses, slots, target, sga.blank)

    def target(self, sample: Dict[str, Any]) -> Target:
        """Drop the final ``</s>`` of the targets: (B, U + 1) -> (B, U)."""
        lengths = target_lengths(sample, self.padding_idx, self.eos)  # B
        tokens = sample["target"][:, : max(int(lengths.max()), 1)]  # B U
        return Target(tokens, lengths, self.cfg.ctc_chunk_size)

    def model_inputs(self, sga: Any, sample: Dict[str, Any], target: Target) -> Dict[str, Any]:
        """Collect the arguments of the model's ``forward``; variants add theirs.

        Args:
            sga: the model, unwrapped.
            sample: a batch of fairseq's translation task.
        """
        noisy = sga.training and self.cfg.denoise_noise > 0
        return {
            "src_tokens": sample["net_input"]["src_tokens"],
            "src_lengths": source_lengths(sample),
            "target": target,
            "corrupt": self._noise(sga.blank) if noisy else None,
            "unroll": self.cfg.denoise_unroll,
        }

    def summed(
        self, losses: Dict[str, Tensor], slots: Dict[str, Tensor], target: Target, blank: int
    ) -> Output:
        """Weigh and sum the losses (B,) of a batch; every logged number is a sum."""
        weighted = [
            self.weights[name] * part for name, part in losses.items() if name in self.weights
        ]
        loss = torch.stack(weighted).sum()
        fits = [self.mark_alignable(name, target, room, blank) for name, room in slots.items()]
        unalignable = (~torch.stack(fits).all(dim=0)).sum() if fits else 0
        tokens, sentences = int(target.lengths.sum()), len(target.lengths)
        parts = {f"{name}_loss": part.detach().sum() for name, part in losses.items()}
        return self.result(
            loss,
            sentences if self.cfg.sentence_avg else tokens,
            {"ntokens": tokens, "nsentences": sentences},
            unalignable=unalignable,
            **parts,
        )

    def mark_alignable(self, name: str, target: Target, slots: Tensor, blank: int) -> Tensor:
        """Mark the targets that the loss ``name`` can align with ``slots`` (B,).

        All losses of the plain method are CTC; a variant may look at the name. Returns (B,) bool.
        """
        return alignable(target.tokens, slots, target.lengths, blank)

    @classmethod
    def check_alignment(cls, alignment: str) -> None:
        """Raise ValueError unless the model has the alignment that this criterion trains."""
        if alignment != cls.alignment:
            raise ValueError(
                f"--criterion {CRITERIONS[cls.alignment]} trains models with --alignment "
                f"{cls.alignment}, this one has --alignment {alignment}: give --criterion "
                f"{CRITERIONS[alignment]}, or an SGA model with --alignment {cls.alignment}"
            )

    def _noise(self, blank: int) -> Callable[[Tensor, Tensor], Tensor]:
        alphabet = SlotAlphabet(blank, *self.pieces)
        ratio = self.cfg.denoise_noise
        return partial(corrupt_slots, ratio=ratio, mix=self.mix, alphabet=alphabet)

    def _report_unread_options(self, sga: Any) -> None:
        """Warn once of options for the denoiser of a model that has none."""
        if sga.has_denoiser or self.unread_options_reported:
            return
        self.unread_options_reported = True
        for field in fields(self.config):
            setting = getattr(self.cfg, field.name, field.default)
            if field.name.startswith("denoise_") and setting != field.default:
                logger.warning(
                    f"{flag(field.name)} {setting} has no effect: this model has no denoiser "
                    "(--no-denoising, or nat_ctc)"
                )

    @classmethod
    def log_sums(cls, logging_outputs: List[Dict[str, Any]]) -> None:
        """Log the losses in bits per unit, and the number of targets that could not be aligned."""
        for key, unit in cls.units.items():
            if any(key in log for log in logging_outputs):
                log_loss(logging_outputs, key, unit)
        metrics.log_scalar_sum("unalignable", int(total(logging_outputs, "unalignable")))


def unwrapped(model: Any) -> Any:
    """Return the model inside the wrappers of data-parallel training.

    fairseq's outer wrapper forwards attributes of the model, so that only the class tells them
    apart.
    """
    while hasattr(model, "module") and not isinstance(model, SlotModel):
        model = model.module
    return model
