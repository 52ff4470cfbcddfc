"""``xlmr_mlm``: a trainable XLM-R, whose positions can restart at the second sentence of a pair."""

import logging
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from fairseq.dataclass import FairseqDataclass
from fairseq.models import BaseFairseqModel, register_model
from omegaconf import II
from torch import Tensor

from ..checkpoints.fitting import FitOptions, fit_masked_lm
from ..checkpoints.layouts import EPSILON_OPTION, size_options
from ..checkpoints.loading import load
from ..checkpoints.masked_lm import FAIRSEQ_EPSILON, has_head, read_masked_lm
from ..checkpoints.pretrained import PretrainedFile
from ..checkpoints.tokenizers import tokenizer_entries
from ..checkpoints.vocabulary import check_entries
from ..common.fit_options import fit_options
from ..common.options import (
    EMBEDDING_POLICIES,
    USE_ITS_DICTIONARY,
    check_choices,
    check_sizes,
    embedding_mismatch_option,
    flag,
    option,
    register_architectures,
    sizes_of,
    writable,
)
from .model import MaskedLM, MaskedLMSizes

logger = logging.getLogger(__name__)

SIZE_OPTIONS = size_options("encoder", "max_positions")
FIELD_OPTIONS = {**SIZE_OPTIONS, "epsilon": EPSILON_OPTION}
"""Field of MaskedLMSizes -> option; the sizes, and all."""


@dataclass
class XLMRMaskedLMConfig(FairseqDataclass):
    """Options of ``xlmr_mlm``. A size that is None is the architecture's, else the file's."""

    encoder_layers: Optional[int] = option(None, "encoder layers")
    encoder_embed_dim: Optional[int] = option(None, "width C")
    encoder_ffn_embed_dim: Optional[int] = option(None, "inner width of the feed-forward blocks")
    encoder_attention_heads: Optional[int] = option(None, "attention heads")
    max_positions: Optional[int] = option(None, "longest input in tokens")
    dropout: float = option(0.1, "dropout after the embedding and after each block")
    attention_dropout: float = option(0.1, "dropout on attention weights")
    init_from_mlm: Optional[str] = option(
        None,
        "start from this masked LM or encoder (fairseq model.pt or Hugging Face folder) of the "
        "same dictionary; without a masked-LM head in the file, a new one is trained",
    )
    embedding_mismatch: EMBEDDING_POLICIES = embedding_mismatch_option()
    layer_norm_epsilon: Optional[float] = option(
        None, "epsilon of every layer norm (default: that of --init-from-mlm, else 1e-5)"
    )
    tokens_per_sample: int = II("task.tokens_per_sample")


@register_model("xlmr_mlm", dataclass=XLMRMaskedLMConfig)
class XLMRMaskedLMModel(BaseFairseqModel):
    """Trainable masked LM, whose checkpoints have fairseq's XLM-R layout (``encoder.*``).

    Attributes:
        recorded_options: sizes and epsilon, which checkpoints must store.
    """

    recorded_options: Mapping[str, Any] = {}

    def __init__(self, sizes: MaskedLMSizes, dropout: float, attention_dropout: float):
        super().__init__()
        self.encoder = MaskedLM(sizes, dropout, attention_dropout)
        self.encoder.reset_parameters()

    @classmethod
    def build_model(cls, cfg: XLMRMaskedLMConfig, task: Any) -> "XLMRMaskedLMModel":
        """Build the model; in training it may start from ``--init-from-mlm``.

        Raises:
            ValueError: a size is missing or below 1, or the file has other sizes or another
                dictionary.
        """
        check_choices(cfg, {"embedding_mismatch": EMBEDDING_POLICIES})
        dictionary, origin = task.source_dictionary, f"--init-from-mlm {cfg.init_from_mlm}"
        pretrained = None
        if cfg.init_from_mlm and not getattr(task, "from_checkpoint", False):
            pretrained = _read_start(cfg, dictionary.symbols, origin)
        _set_defaults(cfg, pretrained.sizes if pretrained else {})
        sizes = {size: getattr(cfg, name) for size, name in FIELD_OPTIONS.items()}
        lm_sizes = MaskedLMSizes(len(dictionary), padding_idx=dictionary.pad(), **sizes)
        model = cls(lm_sizes, cfg.dropout, cfg.attention_dropout)
        model.recorded_options = {name: sizes[size] for size, name in FIELD_OPTIONS.items()}
        if pretrained:
            model.load_masked_lm(pretrained, fit_options(cfg), origin)
        return model

    def load_masked_lm(self, pretrained: PretrainedFile, options: FitOptions, origin: str) -> None:
        """Load the weights of a pretrained masked LM; without a head in it, the new one stays.

        Args:
            pretrained: the masked LM, or an encoder without the head of one.
            options: hold the policy for rows.
            origin: option and path, for messages.

        Raises:
            ValueError: the policy does not allow the file's number of rows.
        """
        fingerprint = pretrained.fingerprint
        fit_masked_lm(pretrained, self.encoder, options, origin)
        report = load(self.encoder, pretrained.tensors, allow_missing=(r"lm_head\..*",))
        logger.info("%s: fingerprint %s, %s", origin, fingerprint, report.summary())
        if not has_head(pretrained):
            logger.warning("%s has no head of a masked LM: training starts with a new one", origin)

    def max_positions(self) -> int:
        """Return the longest input in tokens."""
        return self.encoder.sizes.max_positions

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Optional[Tensor] = None,
        positions: Optional[Tensor] = None,
        masked_tokens: Optional[Tensor] = None,
    ) -> Tuple[Tensor, Dict[str, Tensor]]:
        """Compute logits (N, V) at the masked tokens, or (B, S, V) at all tokens.

        Args:
            src_tokens: (B, S) int64.
            src_lengths: unused, part of fairseq's interface.
            positions: (B, S) int64; counted from the tokens when None.
            masked_tokens: (B, S) bool, True = compute logits there; everywhere when None.

        Returns:
            The logits, and an empty dictionary, as fairseq's criterion expects.
        """
        return self.encoder(src_tokens, positions, masked_tokens), {}


def _read_start(cfg: XLMRMaskedLMConfig, symbols: Sequence[str], origin: str) -> PretrainedFile:
    """Read the file of ``--init-from-mlm``.

    Args:
        symbols: entries of the data's dictionary, in the order of their rows.
        origin: option and path, for messages.

    Raises:
        ValueError: the file has another size than the options that are set, or another dictionary.
    """
    label = "--encoder-attention-heads"
    pretrained = read_masked_lm(
        str(cfg.init_from_mlm), cfg.encoder_attention_heads, label, needs_head=False
    )
    sizes = {option: pretrained.sizes[size] for size, option in SIZE_OPTIONS.items()}
    remedy = "; --arch xlmr_mlm takes every size from the file"
    check_sizes(sizes, cfg, origin, remedy)
    _compare_dictionaries(pretrained, symbols, origin)
    return pretrained


def _set_defaults(cfg: XLMRMaskedLMConfig, file_sizes: Mapping[str, Any]) -> None:
    """Set the options that are None: sizes and epsilon to the file's, else to their defaults.

    Args:
        file_sizes: sizes of the file of ``--init-from-mlm``; empty without one.

    Raises:
        ValueError: a size is missing or below 1.
    """
    defaults = {"max_positions": cfg.tokens_per_sample, "epsilon": FAIRSEQ_EPSILON, **file_sizes}
    for size, name in FIELD_OPTIONS.items():
        if getattr(cfg, name) is None:
            with writable(cfg):
                setattr(cfg, name, defaults.get(size))
    for name in SIZE_OPTIONS.values():
        setting = getattr(cfg, name)
        if setting is None:
            advice = "or an --arch that has it, such as xlmr_mlm_tiny, or --init-from-mlm"
            raise ValueError(f"{flag(name)} is needed, {advice}")
        if setting < 1:
            raise ValueError(f"{flag(name)} must be at least 1; got {setting}")


def _compare_dictionaries(pretrained: PretrainedFile, symbols: Sequence[str], origin: str) -> None:
    """Raise ValueError for the first row where a masked LM's entry is not the data's symbol.

    A ``dict.txt`` beside the file names the entries, or the tokenizer of a Hugging Face folder.
    Without either, a note is logged.
    """
    entries: Sequence[str] = pretrained.entries
    if not entries and pretrained.checkpoint.is_folder:
        folder, rows = pretrained.checkpoint.folder, pretrained.sizes["vocab_size"]
        entries = tokenizer_entries(folder, None, rows) or ()
    if not entries:
        logger.info("%s: names no entries; only the number of rows was compared", origin)
    # An index that the tokenizer skips is called madeupword…: any symbol may stand there.
    entries = [
        symbol if entry.startswith("madeupword") else entry
        for entry, symbol in zip(entries, symbols)
    ]
    check_entries(entries, symbols, origin, "the vocabulary beside it", USE_ITS_DICTIONARY)


ARCHITECTURES = {
    "xlmr_mlm_tiny": sizes_of("encoder", 4, 192, 768, 4),
    "xlmr_mlm_small": sizes_of("encoder", 6, 256, 1024, 4),
    "xlmr_mlm_base": sizes_of("encoder", 12, 768, 3072, 12),
}
register_architectures("xlmr_mlm", ARCHITECTURES)
