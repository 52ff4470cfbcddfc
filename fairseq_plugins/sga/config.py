"""Options and architectures of SGA."""

import math
from dataclasses import dataclass
from typing import Any, Dict, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass

from ..common.architectures import sizes_of
from ..common.option_checks import check_choices, check_dropout
from ..common.options import option

ALIGNMENTS: Any = ChoiceEnum(["ctc", "dag", "mask_predict"])
LENGTH_INPUTS: Any = ChoiceEnum(["mean", "bos"])


@dataclass
class SGAConfig(FairseqDataclass):
    """Options of the SGA model; None means the architecture's default, or what the pretrained file says."""

    pretrained_mlm: Optional[str] = option(
        None,
        "the frozen masked LM: a fairseq XLM-R / InfoXLM model.pt, or a Hugging Face XLM-RoBERTa folder. When "
        "decoding, another place is given with --model-overrides \"{'pretrained_mlm': 'PATH'}\"",
    )
    prompt_length: Optional[int] = option(
        None, "P, key and value prompts per layer and unit; the paper has 128, sga_tiny 32"
    )
    prompt_scale: bool = option(
        False, "multiply the prompts of a unit by a learned max(1, scale), as in the authors' code"
    )
    lora_rank: int = option(
        0,
        "rank of trained updates of every matrix in the frozen layers, one set per unit (LoRA, Hu et al. 2022); 0 = "
        "none, as in the paper",
    )
    alignment: ALIGNMENTS = option(
        "ctc",
        "how the first unit finds the target: ctc for translation (criterion sga_ctc); dag, a directed acyclic graph of "
        "slots as in DA-Transformer (criterion sga_dag); mask_predict with a length predictor for free generation "
        "(criterion sga_mask_predict)",
    )
    length_from: LENGTH_INPUTS = option(
        "mean",
        "with --alignment mask_predict, what the length predictor reads of the encoder unit's last layer: the mean "
        "over the source, or the state of <s> (bos), as in the authors' code",
    )
    ctc_upsample: int = option(
        2,
        "slots per source token, <s> and </s> counted (with --alignment dag, 4 to 8 are usual); with --alignment "
        "mask_predict, slots of the denoiser per target token; at least 1",
    )
    ctc_blank: str = option("<s>", "dictionary symbol used as CTC blank; a symbol that never occurs inside a target")
    ctc_blank_bias: float = option(
        0.0,
        "nats added to the blank's logit in training and decoding by CTC: a masked LM has no reason to predict <s>, and "
        "its output layer is frozen; 0 as in the authors' code",
    )
    no_denoising: bool = option(False, "two units only: the paper's 'w/o denoising', a training run of its own")
    fill_blanks: bool = option(False, "the denoiser reads the best piece instead of the blank, as in the authors' code")
    frozen_dropout: float = option(
        0.0, "dropout inside the frozen model during training, in [0, 1); the authors leave it at 0.1"
    )
    save_full_model: bool = option(
        False, "write the frozen weights into checkpoints too; decoding then needs no other file"
    )
    encoder_layers: Optional[int] = option(None, "layers the pretrained model must have")
    encoder_embed_dim: Optional[int] = option(None, "width the pretrained model must have")
    encoder_ffn_embed_dim: Optional[int] = option(None, "feed-forward width the pretrained model must have")
    encoder_attention_heads: Optional[int] = option(
        None, "attention heads; needed only where the pretrained file does not tell"
    )
    max_positions: Optional[int] = option(None, "positions the pretrained model must have; XLM-R has 512")


SIZE_OPTIONS = dict(zip(("layers", "embed_dim", "ffn_dim", "heads"), sizes_of("encoder", 0, 0, 0, 0)))
SIZE_OPTIONS["max_positions"] = "max_positions"
"""Name of each size in MaskedLMSizes -> option."""


ARCHITECTURES: Dict[str, Dict[str, int]] = {
    "sga_tiny": {"prompt_length": 32},
    "sga_xlmr_base": {"prompt_length": 128, **sizes_of("encoder", 12, 768, 3072, 12), "max_positions": 512},
    "sga_xlmr_large": {"prompt_length": 128, **sizes_of("encoder", 24, 1024, 4096, 16), "max_positions": 512},
}
"""Defaults of each --arch. sga_tiny takes every size from the pretrained file."""


def reads_upsample(cfg: Any) -> bool:
    """Whether a model with these options has CTC slots: all but mask-predict without a denoiser."""
    return not (cfg.no_denoising and str(cfg.alignment) == "mask_predict")


def check_config(cfg: SGAConfig) -> None:
    """Raise ValueError naming option, value and valid range."""
    if cfg.ctc_upsample < 1:
        raise ValueError(f"--ctc-upsample must be at least 1 slot per source token; got {cfg.ctc_upsample}")
    if cfg.prompt_length is None or cfg.prompt_length < 0:
        raise ValueError(f"--prompt-length must be 0 or more; got {cfg.prompt_length}")
    if cfg.lora_rank < 0:
        raise ValueError(f"--lora-rank must be 0 (no updates) or more; got {cfg.lora_rank}")
    if not math.isfinite(cfg.ctc_blank_bias):
        raise ValueError(f"--ctc-blank-bias must be a finite number of nats; got {cfg.ctc_blank_bias}")
    if cfg.ctc_blank_bias and cfg.no_denoising and str(cfg.alignment) != "ctc":
        raise ValueError(
            f"--ctc-blank-bias {cfg.ctc_blank_bias}: with --alignment {cfg.alignment} and --no-denoising there is no blank; "
            "valid: 0"
        )
    check_dropout(cfg, "frozen_dropout")
    check_choices(cfg, {"length_from": LENGTH_INPUTS})
    if str(cfg.length_from) != "mean" and str(cfg.alignment) != "mask_predict":
        raise ValueError(
            f"--length-from {cfg.length_from}: only a model with --alignment mask_predict predicts lengths; leave it out"
        )
