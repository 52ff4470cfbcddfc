"""Options of SGA's model, criterion and task, its architectures, and the rules between options.

Variants declare options and rules of their own beside their classes (``free.py``,
``mask_predict.py``, ``extensions/``); ``variants.py`` joins them.
"""

import math
from dataclasses import dataclass
from typing import Any, Dict, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.tasks.translation import TranslationConfig
from omegaconf import II

from ..checkpoints.layouts import size_options
from ..common.options import Rule, in_range, option, sizes_of
from ..ops.vocab_scan import DEFAULT_CHUNK_SIZE

CRITERIONS = {"ctc": "sga_ctc", "dag": "sga_dag", "mask_predict": "sga_mask_predict"}
"""--alignment of the model -> the criterion that trains it."""

ALIGNMENTS: Any = ChoiceEnum(list(CRITERIONS))
GUIDANCE_STARTS: Any = ChoiceEnum(["xavier", "tlm"])
SLOT_POSITIONS: Any = ChoiceEnum(["restart", "continue"])
ROW_POLICIES: Any = ChoiceEnum(["error", "truncate"])
"""What to do with a file of more rows; new rows would stay random, for they are frozen."""


# ---- Model. ----


@dataclass
class SGAConfig(FairseqDataclass):
    """Options of the model; None = the architecture's default, or the pretrained file's value."""

    pretrained_mlm: Optional[str] = option(
        None,
        "path of the frozen masked LM: a fairseq model.pt (XLM-R, InfoXLM, xlmr_mlm), or a Hugging "
        "Face folder of the shape of XLM-R, BERT or MiniLM. When decoding, another place is given "
        "with --model-overrides \"{'pretrained_mlm': 'PATH'}\"",
    )
    embedding_mismatch: ROW_POLICIES = option(
        "error",
        "where the pretrained file has more rows than the dictionary has entries: error; truncate "
        "= the file's rows beyond the dictionary's are left out",
    )
    prompt_length: Optional[int] = option(
        None, "P, key and value prompts per layer and unit; the paper has 128, sga_tiny 32"
    )
    prompt_scale: bool = option(
        False, "multiply the prompts of a unit by a learned max(1, scale), as in the authors' code"
    )
    lora_rank: int = option(
        0,
        "rank of trained updates of every matrix in the frozen layers, one set per unit (LoRA, Hu "
        "et al. 2022); 0 = none, as in the paper",
    )
    alignment: ALIGNMENTS = option(
        "ctc",
        "loss of the alignment unit: ctc for translation (criterion sga_ctc); dag, a directed "
        "acyclic graph of slots as in DA-Transformer (criterion sga_dag); mask_predict with a "
        "length predictor for free generation (criterion sga_mask_predict)",
    )
    ctc_upsample: int = option(
        2,
        "slots per source token, <s> and </s> counted (with --alignment dag, 4 to 8 are usual); "
        "with --alignment mask_predict, slots of the denoiser per target token; at least 1",
    )
    ctc_blank: str = option(
        "<s>", "dictionary symbol used as CTC blank; a symbol that never occurs inside a target"
    )
    ctc_blank_bias: float = option(
        0.0,
        "bias (in nats) added to the blank's logit in training and decoding by CTC: a masked LM "
        "has no reason to predict <s>, and its output layer is frozen; 0 as in the authors' code",
    )
    no_denoising: bool = option(
        False, "two units only: the paper's 'w/o denoising', a training run of its own"
    )
    guidance_start: GUIDANCE_STARTS = option(
        "xavier",
        "start of the semantic guidance: xavier, random W_K and W_V as in the paper; tlm, zero W_K "
        "and W_V beside the frozen layers' own keys and values of the source",
    )
    slot_positions: SLOT_POSITIONS = option(
        "restart",
        "positions of the slots: restart at the first, as in the paper, or continue after the "
        "source's, which share the table: the longest source is shorter (--alignment ctc)",
    )
    fill_blanks: bool = option(
        False, "the denoiser reads the best piece instead of the blank, as in the authors' code"
    )
    frozen_dropout: float = option(
        0.0,
        "dropout inside the frozen model during training, in [0, 1); the authors leave it at 0.1",
    )
    save_full_model: bool = option(
        False, "write the frozen weights into checkpoints too; decoding then needs no other file"
    )
    encoder_layers: Optional[int] = option(None, "layers that the pretrained model must have")
    encoder_embed_dim: Optional[int] = option(None, "width that the pretrained model must have")
    encoder_ffn_embed_dim: Optional[int] = option(
        None, "feed-forward width that the pretrained model must have"
    )
    encoder_attention_heads: Optional[int] = option(
        None, "attention heads; required only if the pretrained file does not record them"
    )
    max_positions: Optional[int] = option(
        None, "positions that the pretrained model must have; XLM-R has 512"
    )
    layer_norm_epsilon: Optional[float] = option(
        None, "epsilon of layer norms that the pretrained model must have; XLM-R has 1e-5"
    )


SIZE_OPTIONS = size_options("encoder", positions="max_positions")
"""Name of each size in MaskedLMSizes -> option."""

ARCHITECTURES: Dict[str, Dict[str, int]] = {
    "sga_tiny": {"prompt_length": 32},
    "sga_xlmr_base": {
        "prompt_length": 128,
        **sizes_of("encoder", 12, 768, 3072, 12),
        "max_positions": 512,
    },
    "sga_xlmr_large": {
        "prompt_length": 128,
        **sizes_of("encoder", 24, 1024, 4096, 16),
        "max_positions": 512,
    },
}
"""Defaults of each --arch. sga_tiny takes every size from the pretrained file."""


# ---- Criterion. ----


@dataclass
class SGACTCConfig(FairseqDataclass):
    """Options of the loss; those that begin with ``denoise_`` are about the denoiser."""

    denoise_noise: float = option(
        0.2,
        "upper bound of the probability with which training disturbs a slot of the denoiser's "
        "input; each sentence draws its own below it, in [0, 1]",
    )
    denoise_noise_mix: str = option(
        "blank=0.4,random=0.3,sentence=0.3",
        "shares of the noise: blank (deletion), random piece, sentence (another token of it), "
        "repeat, mask; or a name: paper = blank=0.5,repeat=0.5, authors = the default",
    )
    denoise_unroll: int = option(1, "denoising steps that are trained, at least 1")
    ctc_chunk_size: int = option(
        DEFAULT_CHUNK_SIZE, "vocabulary rows projected at a time; fewer need less memory"
    )
    sentence_avg: bool = II("optimization.sentence_avg")


# ---- Task. ----


@dataclass
class SGATranslationConfig(TranslationConfig):
    """fairseq's translation options, and those of decoding."""

    left_pad_source: bool = option(False, "not supported: XLM-R's input is padded on the right")
    iter_decode_blank_penalty: float = option(
        0.0,
        "decoding by CTC: penalty (in nats) subtracted from the blank's logit in every pass; "
        "positive values lengthen the output, negative values shorten it. Choose it by validation",
    )


# ---- Rules between options: each table is checked once, before the first batch. ----


def has_slots(cfg: Any) -> bool:
    """Return True for a model with CTC slots: all but mask-predict without a denoiser."""
    return not (cfg.no_denoising and str(cfg.alignment) == "mask_predict")


MODEL_RULES = (
    Rule(
        lambda o: o.ctc_upsample < 1,
        "--ctc-upsample must be at least 1 slot per source token; got {ctc_upsample}",
    ),
    Rule(
        lambda o: o.prompt_length is None or o.prompt_length < 0,
        "--prompt-length must be 0 or more; got {prompt_length}",
    ),
    Rule(
        lambda o: o.lora_rank < 0,
        "--lora-rank must be 0 (no updates) or more; got {lora_rank}",
    ),
    Rule(
        lambda o: not math.isfinite(o.ctc_blank_bias),
        "--ctc-blank-bias must be a finite number of nats; got {ctc_blank_bias}",
    ),
    Rule(
        lambda o: o.ctc_blank_bias and o.no_denoising and str(o.alignment) != "ctc",
        "--ctc-blank-bias {ctc_blank_bias}: with --alignment {alignment} and --no-denoising there "
        "is no blank; valid: 0",
    ),
    Rule(
        lambda o: str(o.slot_positions) == "continue" and str(o.alignment) != "ctc",
        "--slot-positions continue: with --alignment {alignment} the denoiser's slots do not "
        "follow from the source, and may not fit after it; valid: restart",
    ),
    in_range("frozen_dropout", "[0, 1)"),
)

SIZE_RULES = (
    Rule(
        lambda o: has_slots(o) and o.ctc_upsample > o.max_positions,
        "--ctc-upsample must be at most the masked LM's positions; got {ctc_upsample}; valid: 1 to "
        "{max_positions}",
    ),
)
"""Rules that need the sizes of the pretrained file."""

MODEL_WARNINGS = (
    Rule(
        lambda o: o.fill_blanks and o.no_denoising,
        "--fill-blanks has no effect with --no-denoising: it is about what the denoiser reads",
    ),
    Rule(
        lambda o: not has_slots(o) and o.ctc_upsample != SGAConfig.ctc_upsample,
        "--ctc-upsample {ctc_upsample} has no effect with --alignment mask_predict and "
        "--no-denoising: there are no CTC slots",
    ),
)

CRITERION_RULES = (
    in_range("denoise_noise", "[0, 1]"),
    in_range("denoise_unroll", "[1, inf)"),
    in_range("ctc_chunk_size", "[1, inf)"),
)

DECODING_RULES = (
    Rule(
        lambda o: o.iter_decode_max_iter < 0,
        "--iter-decode-max-iter must be 0 or more; got {iter_decode_max_iter}",
    ),
    Rule(
        lambda o: not math.isfinite(o.iter_decode_blank_penalty),
        "--iter-decode-blank-penalty must be a finite number of nats; got "
        "{iter_decode_blank_penalty}",
    ),
    Rule(
        lambda o: (
            o.alignment != "ctc"
            and o.iter_decode_blank_penalty
            and not (o.has_denoiser and o.iter_decode_max_iter)
        ),
        "--iter-decode-blank-penalty {iter_decode_blank_penalty}: this model was trained with "
        "--alignment {alignment}, without a denoising pass there is no blank; valid: 0",
    ),
)
"""Rules of decoding; for the names see :func:`.tasks.decoding_options`."""
