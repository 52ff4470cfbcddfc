"""``transformer_from_xlmr``: an autoregressive transformer whose encoder starts as an XLM-R."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Dict, Optional

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.models import register_model
from fairseq.models.transformer import TransformerConfig
from fairseq.models.transformer.transformer_encoder import TransformerEncoderBase
from torch import Tensor, nn

from ..checkpoints.fitting import Filler, layer_sources
from ..checkpoints.loading import LoadReport
from ..checkpoints.starting import explain_unread
from ..common.filled_model import FilledTransformer
from ..common.fit_options import fit_options, read_start, side_sizes
from ..common.options import (
    EMBEDDING_POLICIES,
    XLMR_WIRING,
    as_namespace,
    check_choices,
    check_sizes,
    check_wiring,
    defaults_of,
    embedding_mismatch_option,
    option,
    register_architectures,
    same_sides,
    set_architecture,
    writable,
)
from .empty_sources import refuse_empty_sources

OPTION = "--pretrained-xlmr"


@dataclass
class FromXLMROptions(FairseqDataclass):
    """Options beside those of the stock transformer."""

    pretrained_xlmr: Optional[str] = option(
        None,
        "start the encoder from this masked LM (XLM-R, InfoXLM, MiniLM, E5): a fairseq model.pt or "
        "a Hugging Face folder. Read when training starts; checkpoints of the run need it no more",
    )
    embedding_mismatch: EMBEDDING_POLICIES = embedding_mismatch_option()
    freeze_encoder: bool = option(
        False,
        "the encoder (with --share-all-embeddings also the decoder's embedding and output "
        "projection) is not trained, and has no dropout",
    )


DEFAULTS: Dict[str, Any] = {
    **XLMR_WIRING,
    "max_source_positions": 512,
    "max_target_positions": 512,
}
ARCHITECTURES: Dict[str, Dict[str, Any]] = {
    "transformer_from_xlmr": same_sides(12, 768, 3072, 12, **DEFAULTS),
    "transformer_from_xlmr_tiny": same_sides(4, 256, 1024, 4, **DEFAULTS),
    "transformer_from_xlmr_base": same_sides(12, 768, 3072, 12, **DEFAULTS),
    "transformer_from_xlmr_large": same_sides(24, 1024, 4096, 16, **DEFAULTS),
}
"""Defaults of each --arch; the plain name is base. With --share-all-embeddings base has 391M
parameters and large 962M, the paper's 390M and 960M."""

ENCODER_WIRING = {
    name: setting for name, setting in XLMR_WIRING.items() if not name.startswith("decoder")
}


class XLMREncoder(TransformerEncoderBase):
    """Stock encoder over sentences that begin with ``<s>``, as XLM-R's do."""

    def with_start(self, src_tokens: Tensor) -> Tensor:
        """Put ``<s>`` before the first token of every row, unless all rows have it.

        (B, S) -> (B, S + 1); padding stays on its side.
        """
        start = self.dictionary.bos()
        padding = src_tokens.eq(self.padding_idx)
        leading = padding.long().cumprod(dim=1).sum(dim=1, keepdim=True)  # B 1, padding on the left
        first = src_tokens.gather(1, leading.clamp(max=src_tokens.size(1) - 1))
        if bool(first.eq(start).all()):
            return src_tokens
        longer = torch.cat([torch.full_like(leading, self.padding_idx), src_tokens], dim=1)
        return longer.scatter(1, leading, start)

    def forward(
        self, src_tokens: Tensor, src_lengths: Optional[Tensor] = None, *args: Any, **kwargs: Any
    ) -> Any:
        """Run the stock encoder on ``src_tokens`` (B, S) int64 after ``<s>``.

        Raises:
            ValueError: a sentence has no token.
        """
        symbols = self.dictionary
        fillers = (symbols.pad(), symbols.bos(), symbols.eos())
        refuse_empty_sources(src_tokens, fillers, self.training)
        return super().forward(self.with_start(src_tokens), src_lengths, *args, **kwargs)

    def max_positions(self) -> int:
        """Return the longest source in tokens, ``<s>`` not counted."""
        return int(super().max_positions()) - 1


@register_model("transformer_from_xlmr")
class TransformerFromXLMRModel(FilledTransformer):
    """Stock transformer of XLM-R's shape: encoder from the file, decoder at random.

    All options of the stock transformer apply.

    Source: SGA section 5.2, "XLM-R w. AT initialization". The paper does not say whether the
    embedding is shared; the sizes of its Table 1 are those of a shared one.
    """

    own_options = FromXLMROptions
    encoder_is_frozen = False

    @classmethod
    def build_model(cls, args: Any, task: Any) -> "TransformerFromXLMRModel":
        """Build, then fill from the masked LM that ``args`` names; see ``start_from``.

        Raises:
            ValueError: an option has an invalid value, or the file does not fit.
        """
        with writable(args):
            set_architecture(args, defaults_of(FromXLMROptions))
        check_choices(args, {"embedding_mismatch": EMBEDDING_POLICIES})
        plain = as_namespace(args)
        model: TransformerFromXLMRModel = super().build_model(plain, task)
        if args.pretrained_xlmr:
            absent = explain_unread(OPTION, args.pretrained_xlmr, plain, task)
            model.start_from(args, "pretrained_xlmr", absent, partial(fill_encoder, model, plain))
        if args.freeze_encoder:
            model.encoder_is_frozen = True
            model.encoder.requires_grad_(False).eval()
        return model

    @classmethod
    def build_encoder(cls, args: Any, src_dict: Any, embed_tokens: nn.Module) -> nn.Module:
        """Build the encoder that begins sentences with ``<s>``."""
        return XLMREncoder(TransformerConfig.from_namespace(args), src_dict, embed_tokens)

    def train(self, mode: bool = True) -> "TransformerFromXLMRModel":
        """Set the mode; training mode does not reach a frozen encoder."""
        super().train(mode)
        if self.encoder_is_frozen:
            self.encoder.eval()
        return self


def fill_encoder(model: TransformerFromXLMRModel, args: Any) -> LoadReport:
    """Fill the encoder from the masked LM that ``args`` names; the decoder stays at random.

    Returns:
        A report of every tensor; its ``reasons`` name the source of each.

    Raises:
        ValueError: sizes, positions, dictionary or wiring do not fit.
    """
    origin = f"{OPTION} {args.pretrained_xlmr}"
    check_wiring(args, ENCODER_WIRING, origin)
    masked_lm = read_start(args.pretrained_xlmr, args, origin)
    layers = masked_lm.sizes["layers"]
    sizes = {"encoder_layers": layers, **side_sizes(masked_lm.sizes, "encoder")}
    check_sizes(sizes, args, origin)
    sources = layer_sources(masked_lm, "encoder", range(layers))
    tensors = {name: masked_lm.tensors[source] for name, source in sources.items()}
    filler = Filler(model, tensors, fit_options(args), origin)
    filler.check_dictionary("encoder", masked_lm.entries)
    filler.drop_mask_row("encoder", masked_lm.mask_row)
    return filler.load(sources, random=(r"decoder\..*",))


register_architectures("transformer_from_xlmr", ARCHITECTURES)
