"""Bottleneck adapters, and the stock encoder and decoder with adapters after each block."""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from fairseq.models.transformer import TransformerDecoderBase, TransformerEncoderBase
from fairseq.modules.transformer_layer import (
    TransformerDecoderLayerBase,
    TransformerEncoderLayerBase,
)
from torch import Tensor, nn

from ..common.stock_layout import wrapped
from ..ops.masks import move
from .empty_sources import refuse_empty_sources
from .language_tags import LanguageTags

ROWS = "adapter_rows"
"""Key added to the encoder's output: (B,) int64 on the host, number of each row's language."""


class Adapter(nn.Module):
    """Layer norm, down, ReLU, up; the caller adds the residual. The output is zero at the start.

    Source: Bapna and Firat 2019, section 3.1.
    """

    def __init__(self, embed_dim: int, width: int):
        super().__init__()
        self.layer_norm = nn.LayerNorm(embed_dim)
        self.down = nn.Linear(embed_dim, width)
        self.up = nn.Linear(width, embed_dim)
        nn.init.zeros_(self.up.weight)
        nn.init.zeros_(self.up.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Compute the summand for ``x``. (..., C) -> (..., C)."""
        return self.up(F.relu(self.down(self.layer_norm(x))))


class RowLanguages:
    """Languages of the rows of the current batch: set before the layers run, read by each layer."""

    def __init__(self) -> None:
        self.rows: Optional[Dict[int, Tensor]] = None
        """Number of a language -> its rows, int64; None = no adapter acts."""
        self.active: Optional[Tensor] = None
        """(B, T) bool, True where adapters act; None = everywhere."""

    def set(self, numbers: Tensor, device: torch.device, active: Optional[Tensor] = None) -> None:
        """Group the rows of a batch by their languages.

        Args:
            numbers: (B,) int64, number of each row's language; best on the host, since a copy from
                the device waits for it.
            device: device of the layers.
            active: see :attr:`active`.
        """
        numbers = numbers.cpu()
        self.active = active
        self.rows = {
            int(number): move(numbers.eq(number).nonzero()[:, 0], device)
            for number in numbers.unique()
        }


class LanguageAdapters(nn.Module):
    """The adapters after one layer.

    Args:
        languages: names without dots, in the order of their numbers.
        embed_dim: C.
        width: of the bottleneck.
        current: languages of the rows of a batch.
    """

    def __init__(self, languages: Sequence[str], embed_dim: int, width: int, current: RowLanguages):
        super().__init__()
        self.languages = list(languages)
        self.of = nn.ModuleDict()
        for language in languages:
            # Not add_module, which refuses Tongan: "to" is the name of a method.
            self.of._modules[language] = Adapter(embed_dim, width)
        self.current = current

    def forward(self, x: Tensor) -> Tensor:
        """Add to each row the output of its language's adapter. (T, B, C) -> (T, B, C)."""
        groups, active = self.current.rows, self.current.active
        if groups is None:
            return x
        added = torch.zeros_like(x)
        for number, rows in groups.items():
            if number < 0:  # rows without a language token
                continue
            adapter = self.of[self.languages[number]]
            if len(groups) == 1:  # no row needs to be copied
                added = adapter(x)
            else:
                added = added.index_copy(1, rows, adapter(x.index_select(1, rows)).to(x.dtype))
        if active is not None:
            added = added * active.t().unsqueeze(-1).to(added.dtype)
        return x + added


class AdapterPlan(NamedTuple):
    """Adapters of one side of the model."""

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
        """Run layer and adapters. (S, B, C) -> (S, B, C)."""
        return self.adapters(super().forward(*args, **kwargs))


class AdapterDecoderLayer(TransformerDecoderLayerBase):
    """A stock layer, then the adapters."""

    def __init__(self, cfg: Any, no_encoder_attn: bool, adapters: LanguageAdapters):
        super().__init__(cfg, no_encoder_attn)
        self.adapters = adapters

    def forward(self, *args: Any, **kwargs: Any) -> Tuple[Tensor, Any, Any]:
        """Run layer and adapters. (T, B, C) -> (T, B, C), attention, state."""
        x, attention, state = super().forward(*args, **kwargs)
        return self.adapters(x), attention, state


class AdapterEncoder(TransformerEncoderBase):
    """Stock encoder that reads each sentence's language from its language token."""

    def __init__(self, cfg: Any, dictionary: Any, embed_tokens: nn.Module, plan: AdapterPlan):
        self.plan, self.current = plan, RowLanguages()  # read by the stock constructor
        super().__init__(cfg, dictionary, embed_tokens)
        self.tags = LanguageTags(plan.tokens, plan.languages, len(dictionary), "encoder")

    def build_encoder_layer(self, cfg: Any) -> nn.Module:
        """Build a layer, wrapped as the stock encoder wraps its own."""
        width = cfg.encoder.embed_dim
        adapters = LanguageAdapters(self.plan.languages, width, self.plan.width, self.current)
        return wrapped(AdapterEncoderLayer(cfg, adapters), cfg)

    def forward(self, src_tokens: Tensor, *args: Any, **kwargs: Any) -> Dict[str, Any]:
        """Run the stock encoder over (B, S) tokens.

        Raises:
            ValueError: a row has no language token, its language has no adapters, or it has no
                other token.
        """
        numbers = self.tags(src_tokens).numbers
        symbols = self.dictionary
        fillers = (symbols.pad(), symbols.eos(), *self.plan.tokens.values())
        refuse_empty_sources(src_tokens, fillers, self.training)
        self.current.set(numbers, src_tokens.device)
        return {**super().forward(src_tokens, *args, **kwargs), ROWS: [numbers]}

    def reorder_encoder_out(
        self, encoder_out: Dict[str, List[Tensor]], new_order: Tensor
    ) -> Dict[str, List[Tensor]]:
        """Reorder the rows, and their languages, which the stock encoder leaves out."""
        rows = [encoder_out[ROWS][0].index_select(0, new_order.cpu())]
        return {**super().reorder_encoder_out(encoder_out, new_order), ROWS: rows}


class AdapterDecoder(TransformerDecoderBase):
    """Stock decoder that reads the language from the target's language token.

    Tokens before the language token pass unadapted, as when decoding begins. With
    ``plan.by_encoder`` the languages are those that the encoder read.
    """

    def __init__(self, cfg: Any, dictionary: Any, embed_tokens: nn.Module, plan: AdapterPlan):
        self.plan, self.current = plan, RowLanguages()  # read by the stock constructor
        super().__init__(cfg, dictionary, embed_tokens, no_encoder_attn=cfg.no_cross_attention)
        self.tags = LanguageTags(plan.tokens, plan.languages, len(dictionary), "decoder")

    def build_decoder_layer(self, cfg: Any, no_encoder_attn: bool = False) -> nn.Module:
        """Build a layer, wrapped as the stock decoder wraps its own."""
        width = cfg.decoder.embed_dim
        adapters = LanguageAdapters(self.plan.languages, width, self.plan.width, self.current)
        return wrapped(AdapterDecoderLayer(cfg, no_encoder_attn, adapters), cfg)

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Optional[Dict[str, List[Tensor]]] = None,
        incremental_state: Optional[Dict[str, Any]] = None,
        *args: Any,
        **kwargs: Any,
    ) -> Tuple[Tensor, Dict[str, Any]]:
        """Run the stock decoder over (B, T) tokens.

        Raises:
            ValueError: a target has no language token, or its language has no adapters.
        """
        device = prev_output_tokens.device
        if self.plan.by_encoder:
            assert encoder_out is not None
            self.current.set(encoder_out[ROWS][0], device)
        else:
            tagged = self.tags(prev_output_tokens, search=incremental_state is not None)
            active = tagged.active
            if incremental_state is not None:  # the layers see only the last token
                active = active[:, -1:]
            self.current.set(tagged.numbers, device, active)
        return super().extract_features(
            prev_output_tokens, encoder_out, incremental_state, *args, **kwargs
        )
