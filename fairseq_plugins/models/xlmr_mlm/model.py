"""``xlmr_mlm``: an XLM-R-shaped masked LM that also takes positions, so that translation pairs can restart them."""

import logging
from dataclasses import dataclass, field
from typing import Any, Dict, Optional, Tuple

from fairseq.dataclass import FairseqDataclass
from fairseq.models import BaseFairseqModel, register_model, register_model_architecture
from omegaconf import II
from torch import Tensor

from ... import checkpoints
from ...modules.prefix_masked_lm import MaskedLM, MaskedLMSizes

logger = logging.getLogger(__name__)


@dataclass
class XLMRMaskedLMConfig(FairseqDataclass):
    """Sizes; None means the architecture's default, so that argparse and hydra build the same model."""

    encoder_layers: Optional[int] = field(default=None, metadata={"help": "encoder layers"})
    encoder_embed_dim: Optional[int] = field(default=None, metadata={"help": "width C"})
    encoder_ffn_embed_dim: Optional[int] = field(
        default=None, metadata={"help": "inner width of the feed-forward blocks"}
    )
    encoder_attention_heads: Optional[int] = field(default=None, metadata={"help": "attention heads"})
    max_positions: Optional[int] = field(default=None, metadata={"help": "longest input in tokens"})
    dropout: float = field(default=0.1, metadata={"help": "dropout after the embedding and after each block"})
    attention_dropout: float = field(default=0.1, metadata={"help": "dropout on attention weights"})
    init_from_mlm: Optional[str] = field(
        default=None,
        metadata={
            "help": "start from this masked LM (fairseq model.pt or Hugging Face folder) of the same sizes and dictionary"
        },
    )
    tokens_per_sample: int = II("task.tokens_per_sample")


@register_model("xlmr_mlm", dataclass=XLMRMaskedLMConfig)
class XLMRMaskedLMModel(BaseFairseqModel):
    """Trainable masked LM; the checkpoint has fairseq's XLM-R layout (``encoder.sentence_encoder.*``, ``encoder.lm_head.*``)."""

    def __init__(self, sizes: MaskedLMSizes, dropout: float, attention_dropout: float):
        super().__init__()
        self.encoder = MaskedLM(sizes, dropout, attention_dropout)
        self.encoder.reset_parameters()

    @classmethod
    def build_model(cls, cfg: XLMRMaskedLMConfig, task: Any) -> "XLMRMaskedLMModel":
        """Build from the config and the task's dictionary."""
        sizes = MaskedLMSizes(
            vocab_size=len(task.source_dictionary),
            layers=_size(cfg, "encoder_layers"),
            embed_dim=_size(cfg, "encoder_embed_dim"),
            ffn_dim=_size(cfg, "encoder_ffn_embed_dim"),
            heads=_size(cfg, "encoder_attention_heads"),
            max_positions=cfg.max_positions or cfg.tokens_per_sample,
            padding_idx=task.source_dictionary.pad(),
        )
        model = cls(sizes, cfg.dropout, cfg.attention_dropout)
        if cfg.init_from_mlm and not getattr(task, "from_checkpoint", False):
            model.load_masked_lm(cfg.init_from_mlm)
        return model

    def load_masked_lm(self, path: str) -> None:
        """Take over the weights of another masked LM, to go on with its pre-training.

        Raises:
            ValueError: the sizes differ; the message names each.
        """
        found = checkpoints.read_masked_lm(path)
        for name, size in found.sizes.items():
            if size != getattr(self.encoder.sizes, name):
                raise ValueError(
                    f"--init-from-mlm {path} has {name} = {size}, this model {getattr(self.encoder.sizes, name)}; "
                    "valid: a masked LM of the sizes given by --arch and the command line, and of the data's dictionary"
                )
        checkpoints.load(self.encoder, found.tensors)
        logger.info("started from %s, fingerprint %s", path, found.fingerprint)

    def max_positions(self) -> int:
        """Longest input in tokens."""
        return self.encoder.sizes.max_positions

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Optional[Tensor] = None,
        positions: Optional[Tensor] = None,
        masked_tokens: Optional[Tensor] = None,
    ) -> Tuple[Tensor, Dict[str, Tensor]]:
        """Logits at the masked tokens.

        Args:
            src_tokens: (B, S) int64.
            src_lengths: unused (the padding symbol tells), part of fairseq's interface.
            positions: (B, S) int64; counted from the tokens when None.
            masked_tokens: (B, S) bool, the positions to project; all when None.

        Returns:
            Logits (N, V) or (B, S, V), and an empty dict.
        """
        return self.encoder(src_tokens, positions, masked_tokens), {}

    def get_targets(self, sample: Dict[str, Any], net_output: Any) -> Tensor:
        """The sample's targets, padding where nothing is predicted. (B, S)."""
        return sample["target"]


def _size(cfg: Any, name: str) -> int:
    value = getattr(cfg, name)
    if value is None or value < 1:
        raise ValueError(
            f"--{name.replace('_', '-')} must be at least 1 (or left to an --arch such as xlmr_mlm_tiny); got {value}"
        )
    return int(value)


SIZES = {
    "xlmr_mlm_tiny": {
        "encoder_layers": 4,
        "encoder_embed_dim": 192,
        "encoder_ffn_embed_dim": 768,
        "encoder_attention_heads": 4,
    },
    "xlmr_mlm_small": {
        "encoder_layers": 6,
        "encoder_embed_dim": 256,
        "encoder_ffn_embed_dim": 1024,
        "encoder_attention_heads": 4,
    },
    "xlmr_mlm_base": {
        "encoder_layers": 12,
        "encoder_embed_dim": 768,
        "encoder_ffn_embed_dim": 3072,
        "encoder_attention_heads": 12,
    },
}


def _register(name: str, sizes: Dict[str, int]) -> None:
    @register_model_architecture("xlmr_mlm", name)
    def architecture(args: Any) -> None:
        for key, value in sizes.items():
            if getattr(args, key, None) is None:
                setattr(args, key, value)


for _name, _sizes in SIZES.items():
    _register(_name, _sizes)
