"""Options of DeltaLM's model and tasks, its architectures, and the rules between options."""

from dataclasses import dataclass
from typing import Any, Dict, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.tasks.translation import TranslationConfig
from omegaconf import II

from ..common.options import (
    EMBEDDING_POLICIES,
    XLMR_WIRING,
    Rule,
    embedding_mismatch_option,
    in_range,
    option,
    same_sides,
)
from ..common.shared_dictionary import SharedDictionaryConfig

DECODER_BLOCKS: Any = ChoiceEnum(["interleaved", "vanilla"])
BREAK_MODES: Any = ChoiceEnum(["none", "complete", "complete_doc", "eos"])
SHORTEST_SAMPLE = 4
"""Tokens of the shortest pair that can be corrupted: a </s> b </s>."""


# ---- Model. ----


@dataclass
class DeltaLMOptions(FairseqDataclass):
    """Options of the model beside those of the stock transformer."""

    pretrained_deltalm_checkpoint: Optional[str] = option(
        None,
        "DeltaLM file to start from: a released one ({'weights': ...}) or a fairseq checkpoint of "
        "this model. Read when training starts; checkpoints of the run need it no more",
    )
    init_from_mlm: Optional[str] = option(
        None,
        "masked LM (XLM-R, InfoXLM) to start from: a fairseq model.pt or a Hugging Face folder; "
        "decoder block b takes layers 2b and 2b + 1 (from 0)",
    )
    embedding_mismatch: EMBEDDING_POLICIES = embedding_mismatch_option()
    decoder_block: DECODER_BLOCKS = option(
        "interleaved",
        "interleaved = DeltaLM's; vanilla = the stock decoder layer, to compare with: "
        "--init-from-mlm then fills self-attention and feed-forward of layer b from layer b, "
        "cross-attention stays random",
    )


def _sizes(*encoder: int) -> Dict[str, Any]:
    """Build the defaults of an architecture: half as many decoder blocks as encoder layers."""
    return {**same_sides(*encoder, **XLMR_WIRING), "decoder_layers": encoder[0] // 2}


ARCHITECTURES: Dict[str, Dict[str, Any]] = {
    "deltalm_tiny": _sizes(4, 256, 1024, 4),
    "deltalm_base": _sizes(12, 768, 3072, 12),
    # The released large model has no layer norm after the embedding.
    "deltalm_large": {**_sizes(24, 1024, 4096, 16), "layernorm_embedding": False},
}
"""Defaults of each --arch; command line and YAML win (in the authors' release they lose).

Source of base: section 2.3; its 12 decoder layers count pairs of attention and FFN: 6 blocks.
Source of large: the release. The sizes of tiny are ours.
"""


# ---- Tasks. ----


@dataclass
class CorruptionOptions(FairseqDataclass):
    """Options of both tasks that corrupt monolingual text."""

    mask_prob: float = option(0.15, "share of tokens corrupted in monolingual text, in (0, 1)")
    mean_span: float = option(3.0, "mean length of a corrupted span in tokens, at least 1")
    tokens_per_sample: int = option(
        512, "longest uncorrupted input in tokens, </s> counted; longer ones are left out"
    )
    sample_break_mode: BREAK_MODES = option(
        "complete",
        "how monolingual sentences fill an input: complete = whole sentences; complete_doc = and "
        "none beyond an empty line; eos = one sentence; none = equal pieces",
    )
    sentinels: str = option(
        "<extra_id_{}>",
        "symbols that stand for spans; {} counts from 0 while the dictionary has them",
    )
    add_sentinels: int = option(
        0,
        "sentinels that are added at the end of the dictionary; give the same number when decoding",
    )
    sampling_temperature: float = option(
        1.0,
        "T, at least 1: languages and pairs are drawn with p ~ n^(1/T), n = inputs; 1 = natural",
    )
    seed: int = II("common.seed")
    train_subset: str = II("dataset.train_subset")


@dataclass
class SpanCorruptionConfig(CorruptionOptions, SharedDictionaryConfig):
    """Options of pre-training."""

    pair_mask_prob: float = option(0.5, "share of tokens corrupted in a pair, in (0, 1)")
    pair_share: Optional[float] = option(
        None, "share of an epoch's inputs that are pairs, in [0, 1] (default: as the data have it)"
    )
    no_target_sentinels: bool = option(False, "leave the sentinels out of the targets")


@dataclass
class TranslationMixingConfig(TranslationConfig, CorruptionOptions):
    """fairseq's translation options, and those of the text that is mixed in."""

    mix_monolingual: str = option(
        "", "languages whose corrupted text is mixed in, for example de,fr; empty = none"
    )
    mix_share: float = option(
        0.5, "share of the training batches that are corrupted text, in [0, 1)"
    )
    mix_data: Optional[str] = option(
        None,
        "folder with the languages' text; several, as text:text2, are read in turn, one an epoch "
        "(default: the data folders)",
    )


# ---- Rules between options: each table is checked once, before the first batch. ----

MODEL_CHOICES = {"embedding_mismatch": EMBEDDING_POLICIES, "decoder_block": DECODER_BLOCKS}
MODEL_RULES = (
    Rule(
        lambda o: o.pretrained_deltalm_checkpoint and o.init_from_mlm,
        "--pretrained-deltalm-checkpoint and --init-from-mlm exclude each other: give one",
    ),
)
CORRUPTION_RULES = (
    in_range("mask_prob", "(0, 1)"),
    in_range("mean_span", "[1, inf)"),
    in_range("sampling_temperature", "[1, inf)"),
    in_range("tokens_per_sample", f"[{SHORTEST_SAMPLE}, inf)"),
)
PRETRAINING_RULES = (*CORRUPTION_RULES, in_range("pair_mask_prob", "(0, 1)"))
MIXING_RULES = (in_range("mix_share", "[0, 1)"),)
