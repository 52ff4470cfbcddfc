"""The stock encoder and decoder with adapters after each block."""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from fairseq.models.transformer import TransformerDecoderBase, TransformerEncoderBase
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase, TransformerEncoderLayerBase
from torch import Tensor, nn

from ...common.stock_layout import wrapped
from ...modules.adapters import LanguageAdapters, RowLanguages
from ...modules.empty_sources import refuse_empty_sources
from ...modules.language_tags import LanguageTags

ROWS = "adapter_rows"
"""What the encoder's output has beside the stock entries: (B,) int64 on the host, number of each row's language."""


class AdapterPlan(NamedTuple):
    """What one side needs to know."""

    languages: List[str]  # with adapters, in the order of their numbers
    tokens: Mapping[str, int]  # language -> id of its token, for all languages of the task
    width: int  # of the bottleneck
    by_encoder: bool = False  # the decoder uses the encoder's languages


class AdapterEncoderLayer(TransformerEncoderLayerBase):
    """A stock layer, then the adapters."""

    def __init__(self, cfg: Any, adapters: LanguageAdapters):
        super().__init__(cfg)
        self.adapters = adapters

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """(S, B, C) -> (S, B, C)."""
        return self.adapters(super().forward(*args, **kwargs))


class AdapterDecoderLayer(TransformerDecoderLayerBase):
    """A stock layer, then the adapters."""

    def __init__(self, cfg: Any, no_encoder_attn: bool, adapters: LanguageAdapters):
        super().__init__(cfg, no_encoder_attn)
        self.adapters = adapters

    def forward(self, *args: Any, **kwargs: Any) -> Tuple[Tensor, Any, Any]:
        """(T, B, C) -> (T, B, C), attention, state."""
        x, attention, state = super().forward(*args, **kwargs)
        return self.adapters(x), attention, state


class AdapterEncoder(TransformerEncoderBase):
    """Reads each sentence's language from its language token."""

    def __init__(self, cfg: Any, dictionary: Any, embed_tokens: nn.Module, plan: AdapterPlan):
        self.plan, self.current = plan, RowLanguages()  # the layers are made by the stock constructor
        super().__init__(cfg, dictionary, embed_tokens)
        self.tags = LanguageTags(plan.tokens, plan.languages, len(dictionary), "encoder")

    def build_encoder_layer(self, cfg: Any) -> nn.Module:
        adapters = LanguageAdapters(self.plan.languages, cfg.encoder.embed_dim, self.plan.width, self.current)
        return wrapped(AdapterEncoderLayer(cfg, adapters), cfg)

    def forward(self, src_tokens: Tensor, *args: Any, **kwargs: Any) -> Dict[str, Any]:
        """Stock forward; ValueError for a row without language token, without adapters, or with the token alone. (B, S)."""
        numbers = self.tags(src_tokens).numbers
        symbols = self.dictionary
        refuse_empty_sources(src_tokens, (symbols.pad(), symbols.eos(), *self.plan.tokens.values()), self.training)
        self.current.set(numbers, src_tokens.device)
        return {**super().forward(src_tokens, *args, **kwargs), ROWS: [numbers]}

    def reorder_encoder_out(self, encoder_out: Dict[str, List[Tensor]], new_order: Tensor) -> Dict[str, List[Tensor]]:
        """The stock encoder leaves out what it does not know."""
        rows = [encoder_out[ROWS][0].index_select(0, new_order.cpu())]
        return {**super().reorder_encoder_out(encoder_out, new_order), ROWS: rows}


class AdapterDecoder(TransformerDecoderBase):
    """Reads the language from the target's language token; what stands before it passes unadapted, as when decoding begins.

    With ``plan.by_encoder`` the languages are those that the encoder found.
    """

    def __init__(self, cfg: Any, dictionary: Any, embed_tokens: nn.Module, plan: AdapterPlan):
        self.plan, self.current = plan, RowLanguages()  # the layers are made by the stock constructor
        super().__init__(cfg, dictionary, embed_tokens, no_encoder_attn=cfg.no_cross_attention)
        self.tags = LanguageTags(plan.tokens, plan.languages, len(dictionary), "decoder")

    def build_decoder_layer(self, cfg: Any, no_encoder_attn: bool = False) -> nn.Module:
        adapters = LanguageAdapters(self.plan.languages, cfg.decoder.embed_dim, self.plan.width, self.current)
        return wrapped(AdapterDecoderLayer(cfg, no_encoder_attn, adapters), cfg)

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Optional[Dict[str, List[Tensor]]] = None,
        incremental_state: Optional[Dict[str, Any]] = None,
        *args: Any,
        **kwargs: Any,
    ) -> Tuple[Tensor, Dict[str, Any]]:
        """Stock features; ValueError for a target without language token, or of a language without adapters. (B, T)."""
        if self.plan.by_encoder:
            assert encoder_out is not None
            self.current.set(encoder_out[ROWS][0], prev_output_tokens.device)
        else:
            found = self.tags(prev_output_tokens, search=incremental_state is not None)
            active = found.active if incremental_state is None else found.active[:, -1:]
            self.current.set(found.numbers, prev_output_tokens.device, active)
        return super().extract_features(prev_output_tokens, encoder_out, incremental_state, *args, **kwargs)
