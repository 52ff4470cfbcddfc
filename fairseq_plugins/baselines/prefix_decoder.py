"""A frozen causal language model whose layers accept keys and values for all tokens to attend."""

import logging
import re
from dataclasses import replace
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from fairseq.models.transformer.transformer_decoder import TransformerDecoderBase
from torch import Tensor, nn

from ..checkpoints.fitting import MARKERS
from ..checkpoints.gpt import OUTPUT, read_causal_lm
from ..checkpoints.layouts import WORDS
from ..checkpoints.loading import listing, load
from ..checkpoints.pretrained import PretrainedFile
from ..checkpoints.reading import fingerprint
from ..common.frozen import Frozen
from ..common.options import check_sizes, frozen_path
from ..common.stock_layout import set_epsilon, stock_config
from ..masked_lm.model import Prefix
from ..ops.linear import use_faster_linears

logger = logging.getLogger(__name__)

State = Dict[str, Dict[str, Optional[Tensor]]]
"""fairseq's incremental state: buffers that the attention modules keep between steps."""

OPTION = "--pretrained-gpt"
SIZES = {
    "decoder_layers": "layers",
    "decoder_embed_dim": "embed_dim",
    "decoder_ffn_embed_dim": "ffn_dim",
    "decoder_attention_heads": "heads",
    "max_positions": "max_positions",
}
"""Option -> field of the layout."""
NEVER_READ = re.compile(r"<s>|<pad>|<unk>|madeupword\d+")
"""Entries of a dictionary that no text holds."""


class PrefixDecoder(TransformerDecoderBase):
    """fairseq's decoder without cross-attention, with a prefix of keys and values in every layer.

    The prefix takes the place of the keys and values of earlier steps. Without a prefix the logits
    are those of stock ``transformer_lm`` on the same weights.

    Args:
        layout: a ``checkpoints.layouts.CausalLMLayout``, or anything with its fields.
        dictionary: of the tokens.
        dropout: after embeddings and blocks, and on attention weights.
    """

    def __init__(self, layout: Any, dictionary: Any, dropout: float = 0.0) -> None:
        config = stock_config(
            layout,
            "decoder",
            decoder_input_dim=layout.embed_dim,
            decoder_output_dim=layout.embed_dim,
            no_decoder_final_norm=not layout.final_norm,
            max_target_positions=layout.max_positions,
            share_decoder_input_output_embed=layout.tied,
            dropout=dropout,
            attention_dropout=dropout,
        )
        words = nn.Embedding(layout.vocab_size, layout.embed_dim, dictionary.pad())
        super().__init__(config, dictionary, words, no_encoder_attn=True)
        self.layout = layout
        use_faster_linears(self)
        set_epsilon(self, layout.epsilon)

    def upgrade_state_dict_named(
        self, state_dict: Dict[str, Tensor], name: str
    ) -> Dict[str, Tensor]:
        """Leave a state dict as it is.

        fairseq would take one without these weights for an old one, and drop the last layer norm.
        """
        return state_dict

    def run(
        self,
        tokens: Tensor,
        prefix: Optional[Prefix] = None,
        prefix_padding_mask: Optional[Tensor] = None,
        state: Optional[State] = None,
        step: bool = False,
    ) -> Tensor:
        """Compute hidden states, ready for the output projection.

        Args:
            tokens: (B, T) int64; padding on either side. Positions are counted from the first
                token, whatever the prefix.
            prefix: one (keys, values) pair per layer, each (B or 1, H, P, C / H). With a prefix
                ``state`` must be empty.
            prefix_padding_mask: (B, P) bool, True = that prefix entry may not be attended.
            state: receives the keys and values of prefix and tokens.
            step: only the last token is new; ``state`` has all tokens before it.

        Returns:
            (B, T, C); with ``step`` (B, 1, C).

        Raises:
            ValueError: there are more tokens than positions.
        """
        state = {} if state is None else state
        if tokens.size(1) > self.max_positions():
            raise ValueError(
                f"input of {tokens.size(1)} tokens is longer than the language model's "
                f"{self.max_positions()} positions"
            )
        x = self._embed(tokens, step)  # T B C
        length = 0 if prefix is None else prefix[0][0].size(2)
        padding = None if step else tokens.eq(self.padding_idx)
        causal = None if step else self._causal_mask(x, length)
        for number, layer in enumerate(self.layers):
            earlier = None
            if prefix is not None:
                earlier = self._stock_state(prefix[number], prefix_padding_mask, tokens.size(0))
            x, *_ = layer(
                x,
                incremental_state=state,
                prev_self_attn_state=earlier,
                self_attn_mask=causal,
                self_attn_padding_mask=padding,
            )
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        return x.transpose(0, 1)

    def keys_and_values(self, state: State, skip: int) -> Prefix:
        """Return the keys and values of each layer that :meth:`run` left in ``state``.

        Args:
            skip: number of first positions to leave out, such as those of a prefix.

        Returns:
            One (keys, values) pair per layer, each (B, H, T, C / H).
        """
        pairs = []
        for layer in self.layers:
            buffer = layer.self_attn._get_input_buffer(state)
            pairs.append((buffer["prev_key"][:, :, skip:], buffer["prev_value"][:, :, skip:]))
        return pairs

    def _embed(self, tokens: Tensor, step: bool) -> Tensor:
        """Embed all tokens, or with ``step`` the last. (B, T) -> (T, B, C) or (1, B, C)."""
        positions = self.embed_positions(tokens, incremental_state={} if step else None)
        words = self.embed_tokens(tokens[:, -1:] if step else tokens)
        x = self.embed_scale * words + positions
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        return self.dropout_module(x).transpose(0, 1)

    def _causal_mask(self, x: Tensor, length: int) -> Tensor:
        """Build the additive mask (T, P + T): a token sees the prefix and no later token."""
        size = x.size(0)
        # Finite: padding on the left sees no earlier token, so that -inf would give NaN there.
        blocked = x.new_full((size, size), torch.finfo(x.dtype).min / 2).triu(1)
        return torch.cat([blocked.new_zeros(size, length), blocked], dim=1)

    @staticmethod
    def _stock_state(
        pair: Tuple[Tensor, Tensor], mask: Optional[Tensor], batch: int
    ) -> List[Tensor]:
        """Convert a prefix to the list [keys, values, padding mask] that a stock layer takes."""
        key, value = (part.expand(batch, -1, -1, -1).contiguous() for part in pair)
        if mask is None:
            mask = key.new_zeros(batch, key.size(2), dtype=torch.bool)
        return [key, value, mask]


# ---- The pretrained file. ----


def build_frozen(cfg: Any, dictionary: Any) -> Frozen:
    """Read ``cfg.pretrained_gpt`` and wrap it: frozen, on the CPU, float32.

    Args:
        dictionary: of both sides; the module gets a row for each of its entries.

    Raises:
        ValueError: the file is missing, or sizes or dictionary do not fit it.
    """
    valid = "a Hugging Face GPT-2 folder, or a checkpoint of transformer_lm"
    path = frozen_path(cfg, "pretrained_gpt", valid)
    origin, label = f"{OPTION} {path}", "--decoder-attention-heads"
    pretrained = read_causal_lm(path, heads=cfg.decoder_attention_heads, label=label)
    sizes = {option: getattr(pretrained.layout, size) for option, size in SIZES.items()}
    remedy = "; gpt_msp and gpt_msp_tiny take every size from the file"
    check_sizes(sizes, cfg, origin, remedy)
    rows = matching_rows(pretrained, dictionary, origin)
    tensors = dict(pretrained.tensors)
    for name in (WORDS, OUTPUT):
        if name in tensors:
            tensors[name] = take_rows(tensors[name], rows)
    layout = replace(pretrained.layout, vocab_size=len(dictionary))
    module = PrefixDecoder(layout, dictionary, cfg.frozen_dropout)
    load(module, tensors, allow_missing=MARKERS)
    stamp = fingerprint(tensors)
    logger.info("frozen language model %s: %s, fingerprint %s", path, module.layout, stamp)
    return Frozen(module, stamp, path, train_dropout=cfg.frozen_dropout > 0, option=OPTION)


def matching_rows(pretrained: PretrainedFile, dictionary: Any, origin: str) -> List[int]:
    """Find the row of the file for each entry of a fairseq dictionary.

    Returns:
        V numbers, the row of each entry; -1 if the file lacks it and no text holds it.

    Raises:
        ValueError: the file lacks an entry that a text may hold, or there is no vocabulary beside
            it.
    """
    if not pretrained.entries:
        rows = pretrained.layout.vocab_size
        remedy = "put its dict.txt or tokenizer there"
        raise ValueError(f"{origin}: nothing beside it tells what its {rows:,} rows mean; {remedy}")
    row_of: Dict[str, int] = {}
    for row, entry in enumerate(pretrained.entries):
        row_of.setdefault(entry, row)  # of several rows with one entry, the first counts
    matches = [row_of.get(entry, -1) for entry in dictionary.symbols]
    pairs = zip(dictionary.symbols, matches)
    unknown = [repr(entry) for entry, row in pairs if row < 0 and not NEVER_READ.fullmatch(entry)]
    if unknown:
        problem = f"has no row for {len(unknown):,} entries of the data's dictionary"
        remedy = "cut the text with the model's own tokenizer before fairseq-preprocess"
        raise ValueError(f"{origin} {problem}: {listing(unknown)}; {remedy}")
    return matches


def take_rows(tensor: Tensor, rows: Sequence[int]) -> Tensor:
    """Return the ``rows`` of an embedding, (V, C); row -1 is the mean of all.

    A row -1 is never read. The mean is an ordinary vector that is the same in every run.
    """
    index = torch.tensor(rows)
    mean = tensor.mean(dim=0, keepdim=True, dtype=torch.float64).to(tensor.dtype)  # 1 C
    return torch.cat([tensor, mean])[index.masked_fill(index < 0, tensor.size(0))]
