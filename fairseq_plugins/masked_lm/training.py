"""``xlmr_mlm``: a trainable XLM-R, whose positions can restart at the second sentence of a pair."""

import logging
from dataclasses import dataclass
from typing import Any, Dict, Optional, Sequence, Tuple

from fairseq.dataclass import FairseqDataclass
from fairseq.models import BaseFairseqModel, register_model
from omegaconf import II
from torch import Tensor

from ..checkpoints.layouts import size_options
from ..checkpoints.loading import load
from ..checkpoints.masked_lm import read_masked_lm
from ..checkpoints.pretrained import PretrainedFile
from ..checkpoints.tokenizers import tokenizer_entries
from ..checkpoints.vocabulary import check_entries
from ..common.options import USE_ITS_DICTIONARY, flag, option, register_architectures, sizes_of
from .model import MaskedLM, MaskedLMSizes

logger = logging.getLogger(__name__)

SIZE_OPTIONS = size_options("encoder", "max_positions")
"""Field of MaskedLMSizes -> option."""


@dataclass
class XLMRMaskedLMConfig(FairseqDataclass):
    """Options of ``xlmr_mlm``. A size that is None takes the default of the architecture."""

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
            ValueError: a size is missing or below 1, or the file has other sizes or another
                dictionary.
        """
        dictionary = task.source_dictionary
        sizes = {size: getattr(cfg, name) for size, name in SIZE_OPTIONS.items()}
        sizes["max_positions"] = cfg.max_positions or cfg.tokens_per_sample
        for size, name in SIZE_OPTIONS.items():
            if sizes[size] is None:
                raise ValueError(
                    f"{flag(name)} is needed, or an --arch that has it, such as xlmr_mlm_tiny"
                )
            if sizes[size] < 1:
                raise ValueError(f"{flag(name)} must be at least 1; got {sizes[size]}")
        lm_sizes = MaskedLMSizes(len(dictionary), **sizes, padding_idx=dictionary.pad())
        model = cls(lm_sizes, cfg.dropout, cfg.attention_dropout)
        if cfg.init_from_mlm and not getattr(task, "from_checkpoint", False):
            model.load_masked_lm(cfg.init_from_mlm, dictionary.symbols)
        return model

    def load_masked_lm(self, path: str, symbols: Sequence[str]) -> None:
        """Load the weights of a pretrained masked LM.

        Args:
            path: value of ``--init-from-mlm``.
            symbols: entries of the data's dictionary, in the order of their rows.

        Raises:
            ValueError: the file has other sizes or another dictionary.
        """
        heads = self.encoder.sizes.heads
        pretrained = read_masked_lm(path, heads=heads, label="--encoder-attention-heads")
        for name, size in pretrained.sizes.items():
            if size != getattr(self.encoder.sizes, name):
                raise ValueError(
                    f"--init-from-mlm {path} has {name} = {size}, this model "
                    f"{getattr(self.encoder.sizes, name)}; valid: a masked LM of the sizes given "
                    "by --arch and the command line, and of the data's dictionary"
                )
        _compare_dictionaries(pretrained, symbols, f"--init-from-mlm {path}")
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
            masked_tokens: (B, S) bool, True = compute logits there; everywhere when None.

        Returns:
            The logits, and an empty dictionary, as fairseq's criterion expects.
        """
        return self.encoder(src_tokens, positions, masked_tokens), {}


def _compare_dictionaries(pretrained: PretrainedFile, symbols: Sequence[str], origin: str) -> None:
    """Raise ValueError for the first row where a masked LM's entry is not the data's symbol.

    A ``dict.txt`` beside the file names the entries, or the tokenizer of a Hugging Face folder.
    Without either, a note is logged.
    """
    entries: Sequence[str] = pretrained.entries
    place = "the dict.txt beside it"
    if not entries and pretrained.checkpoint.is_folder:
        folder, rows = pretrained.checkpoint.folder, len(symbols)
        entries = tokenizer_entries(folder, None, rows) or ()
        place = "its tokenizer"
    if not entries:
        logger.info("%s: names no entries; only the number of rows was compared", origin)
    # A row that the tokenizer does not name is called madeupword…: any symbol may stand there.
    entries = [
        symbol if entry.startswith("madeupword") else entry
        for entry, symbol in zip(entries, symbols)
    ]
    check_entries(entries, symbols, origin, place, USE_ITS_DICTIONARY)


ARCHITECTURES = {
    "xlmr_mlm_tiny": sizes_of("encoder", 4, 192, 768, 4),
    "xlmr_mlm_small": sizes_of("encoder", 6, 256, 1024, 4),
    "xlmr_mlm_base": sizes_of("encoder", 12, 768, 3072, 12),
}
register_architectures("xlmr_mlm", ARCHITECTURES)
