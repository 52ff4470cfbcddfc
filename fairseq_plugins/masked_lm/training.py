"""``xlmr_mlm``: a trainable XLM-R, whose positions can restart at the second sentence of a pair."""

import logging
from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple

from fairseq.dataclass import FairseqDataclass
from fairseq.models import BaseFairseqModel, register_model
from omegaconf import II
from torch import Tensor

from ..checkpoints.loading import load
from ..checkpoints.masked_lm import read_masked_lm
from ..common.options import check_positive, flag, option, register_architectures, sizes_of
from .model import MaskedLM, MaskedLMSizes

logger = logging.getLogger(__name__)

SIZES = dict(zip(sizes_of("encoder", 0, 0, 0, 0), ("layers", "embed_dim", "ffn_dim", "heads")))
"""Option -> its name in MaskedLMSizes."""


@dataclass
class XLMRMaskedLMConfig(FairseqDataclass):
    """Sizes; None means the architecture's default, from argparse and from hydra."""

    encoder_layers: Optional[int] = option(None, "encoder layers")
    encoder_embed_dim: Optional[int] = option(None, "width C")
    encoder_ffn_embed_dim: Optional[int] = option(None, "inner width of the feed-forward blocks")
    encoder_attention_heads: Optional[int] = option(None, "attention heads")
    max_positions: Optional[int] = option(None, "longest input in tokens")
    dropout: float = option(0.1, "dropout after the embedding and after each block")
    attention_dropout: float = option(0.1, "dropout on attention weights")
    init_from_mlm: Optional[str] = option(
        None,
        "start from this masked LM (fairseq model.pt or Hugging Face folder) of the same sizes "
        "and dictionary",
    )
    tokens_per_sample: int = II("task.tokens_per_sample")


@register_model("xlmr_mlm", dataclass=XLMRMaskedLMConfig)
class XLMRMaskedLMModel(BaseFairseqModel):
    """Trainable masked LM, whose checkpoints have fairseq's XLM-R layout (``encoder.*``)."""

    def __init__(self, sizes: MaskedLMSizes, dropout: float, attention_dropout: float):
        super().__init__()
        self.encoder = MaskedLM(sizes, dropout, attention_dropout)
        self.encoder.reset_parameters()

    @classmethod
    def build_model(cls, cfg: XLMRMaskedLMConfig, task: Any) -> "XLMRMaskedLMModel":
        """Build the model; in training it may start from ``--init-from-mlm``.

        Raises:
            ValueError: a size is missing or below 1, or the other masked LM has other sizes.
        """
        for name in SIZES:
            if getattr(cfg, name) is None:
                raise ValueError(
                    f"{flag(name)} is needed, or an --arch that has it, such as xlmr_mlm_tiny"
                )
        check_positive(cfg, *SIZES)
        sizes = MaskedLMSizes(
            **{size: getattr(cfg, name) for name, size in SIZES.items()},
            vocab_size=len(task.source_dictionary),
            max_positions=cfg.max_positions or cfg.tokens_per_sample,
            padding_idx=task.source_dictionary.pad(),
        )
        model = cls(sizes, cfg.dropout, cfg.attention_dropout)
        if cfg.init_from_mlm and not getattr(task, "from_checkpoint", False):
            model.load_masked_lm(cfg.init_from_mlm)
        return model

    def load_masked_lm(self, path: str) -> None:
        """Load the weights of another masked LM. Raises ValueError if the sizes differ."""
        heads = self.encoder.sizes.heads
        pretrained = read_masked_lm(path, heads=heads, label="--encoder-attention-heads")
        for name, size in pretrained.sizes.items():
            if size != getattr(self.encoder.sizes, name):
                raise ValueError(
                    f"--init-from-mlm {path} has {name} = {size}, this model "
                    f"{getattr(self.encoder.sizes, name)}; valid: a masked LM of the sizes given "
                    "by --arch and the command line, and of the data's dictionary"
                )
        load(self.encoder, pretrained.tensors)
        logger.info("started from %s, fingerprint %s", path, pretrained.fingerprint)

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
            masked_tokens: (B, S) bool, True = is projected; all when None.

        Returns:
            The logits, and an empty dictionary, as fairseq's criterion expects.
        """
        return self.encoder(src_tokens, positions, masked_tokens), {}


ARCHITECTURES = {
    "xlmr_mlm_tiny": sizes_of("encoder", 4, 192, 768, 4),
    "xlmr_mlm_small": sizes_of("encoder", 6, 256, 1024, 4),
    "xlmr_mlm_base": sizes_of("encoder", 12, 768, 3072, 12),
}
register_architectures("xlmr_mlm", ARCHITECTURES)
