"""VECO files: fairseq's layout, released or written by this package, and Hugging Face XLM-R folders with cross-attention.

In fairseq's layout a VECO is a stock transformer of XLM-R's shape (norms after the blocks, learned positions, a norm after the
embedding). Before it is fine-tuned, each layer of its decoder is one of its encoder, plus cross-attention. One that was pre-trained
here has a masked-LM head as well, and tells which row is that of ``<mask>``. Its encoder is wired as XLM-R's, so that it is of the
family ``xlmr``; whether the embeddings are scaled by the square root of C is what the file says: yes in the released one, no in
those of this package.
"""

import logging
import re
from typing import Any, Mapping, Optional, Tuple

import torch
from torch import Tensor

from .errors import CheckpointError
from .loading import Renamed, Rule, drop, refuse, rename
from .pipeline import POSITIONS, WORDS, Content

logger = logging.getLogger(__name__)

EXPECTED = (
    "a VECO in fairseq's layout (encoder.* and decoder.* of XLM-R's shape, lm_head.* where it was pre-trained here), or a Hugging "
    "Face folder of model_type xlm-roberta with cross_attention.* or crossattention.*"
)
HEAD = "lm_head.dense.weight"
"""What a pre-trained one has, and one for generation has not."""

MASK_ROW = "lm_head.mask_row"
"""Of a pre-trained one: a tensor without elements, (row of ``<mask>``, 0), which half precision and averages leave as it is, where
fairseq's moving average stops at an integer. Files of older versions do not have it."""

_LAYER = r"(encoder|decoder)\.layers\.(\d+)\."
_PROJECTIONS = r"(q_proj|k_proj|v_proj|out_proj)\.(weight|bias)"
_OTHERS = ("mbart", "bart", "deltalm")
SCALE_OPTION = "no_scale_embedding"

RULES: Tuple[Rule, ...] = (
    rename(r"(encoder|decoder)\.(embed_tokens|embed_positions)\.weight", r"\1.\2.weight"),
    rename(r"(encoder|decoder)\.layernorm_embedding\.(weight|bias)", r"\1.layernorm_embedding.\2"),
    rename(_LAYER + r"self_attn\." + _PROJECTIONS, r"\1.layers.\2.self_attn.\3.\4"),
    rename(_LAYER + r"(self_attn_layer_norm|fc1|fc2|final_layer_norm)\.(weight|bias)", r"\1.layers.\2.\3.\4"),
    rename(r"decoder\.layers\.(\d+)\.encoder_attn\." + _PROJECTIONS, r"decoder.layers.\1.encoder_attn.\2.\3"),
    rename(
        r"decoder\.layers\.(\d+)\.encoder_attn_layer_norm\.(weight|bias)",
        r"decoder.layers.\1.encoder_attn_layer_norm.\2",
    ),
    rename(r"decoder\.output_projection\.weight", "decoder.output_projection.weight"),
    rename(r"lm_head\.(dense|layer_norm)\.(weight|bias)", r"lm_head.\1.\2"),
    rename(r"lm_head\.(weight|bias)", r"lm_head.\1"),
    drop(r"lm_head\.mask_row", "place of <mask>, no weight"),
    drop(r"encoder\.output_projection\.weight", "output of the encoder, which nothing uses"),
    drop(r"classification_heads\..*", "head of another task"),
    drop(r"(?:encoder|decoder)\.version", "format counter of fairseq"),
    drop(r"(?:encoder|decoder)\.embed_positions\._float_tensor", "dtype marker of fairseq"),
    refuse(r"(?:encoder|decoder)\.layer_norm\.(?:weight|bias)", "has norms before the blocks, as mBART and no VECO"),
)
"""fairseq's layout: what is kept keeps its name."""


SIZES = {
    "layers": "encoder_layers",
    "embed_dim": "encoder_embed_dim",
    "ffn_dim": "encoder_ffn_embed_dim",
    "max_positions": "max_source_positions",
    "heads": "encoder_attention_heads",
}
"""Of the encoder of any fairseq transformer."""


# ---- Recognising. ----


def is_veco(content: Content) -> bool:
    """Whether a file is a fairseq checkpoint of a VECO.

    Its architecture says so, or, where that is missing or tells no family (``transformer``), its tensors do: XLM-R's shape, and a
    masked-LM head beside encoder and decoder, or a decoder whose layers are layers of the encoder. A fine-tuned one without its
    options cannot be told from a BART; see :func:`check_stated_somehow`.
    """
    model = content.tensors
    if content.is_folder or not has_layers(content) or content.arch.startswith(_OTHERS):
        return False
    return content.arch.startswith("veco") or (_of_xlmr_shape(model) and (HEAD in model or _one_stack(model)))


def check_stated_somehow(content: Content) -> None:
    """Refuse an encoder-decoder whose tensors fit several families, where no option tells which it is.

    Raises:
        CheckpointError: neither the architecture nor the scaling of the embeddings is stated.
    """
    if _of_xlmr_shape(content.tensors) and not content.arch and content.options.get(SCALE_OPTION) is None:
        raise CheckpointError(
            f"{content.origin}: its options tell neither arch nor {SCALE_OPTION}, and its tensors fit BART, a post-norm mBART "
            "and a fine-tuned VECO, which differ in what they do with the embeddings; expected the options of its "
            "training (args or cfg)"
        )


def has_layers(content: Content) -> bool:
    """Whether there are layers of an encoder and of a decoder."""
    return all(any(name.startswith(f"{side}.layers.") for name in content.tensors) for side in ("encoder", "decoder"))


def _of_xlmr_shape(model: Mapping[str, Any]) -> bool:
    """Learned positions, a norm after the embedding, and none after the last layer, as there is with norms before the blocks."""
    needed = (f"encoder.{POSITIONS}", "encoder.layernorm_embedding.weight")
    return all(name in model for name in needed) and "encoder.layer_norm.weight" not in model


def _one_stack(model: Mapping[str, Any]) -> bool:
    """Whether the decoder's first layer is one of the encoder's, with the same values."""
    own = model.get("decoder.layers.0.fc1.weight")
    layers = [one for name, one in model.items() if re.fullmatch(r"encoder\.layers\.\d+\.fc1\.weight", str(name))]
    return isinstance(own, Tensor) and any(isinstance(one, Tensor) and torch.equal(one, own) for one in layers)


# ---- The place of <mask>. ----


def marked_mask(row: int) -> Tensor:
    """What a state holds as :data:`MASK_ROW`, where ``<mask>`` has this row. (row, 0)."""
    return torch.empty(row, 0)


def mask_row(model: Mapping[str, Any], origin: str) -> Optional[int]:
    """Row of ``<mask>`` in the embedding of a model in fairseq's layout; None where the state does not tell.

    Raises:
        CheckpointError: the embedding has no such row, or another tensor has that name.
    """
    stored, words = model.get(MASK_ROW), model.get(f"encoder.{WORDS}")
    if stored is None:
        return None
    rows = words.size(0) if isinstance(words, Tensor) and words.dim() else 0
    if not isinstance(stored, Tensor) or stored.dim() != 2 or stored.numel() or not 0 < stored.size(0) < rows:
        found = tuple(stored.shape) if isinstance(stored, Tensor) else type(stored).__name__
        raise CheckpointError(
            f"{origin}: {MASK_ROW} is {found}, expected (row of <mask>, 0) with one of its {rows:,} rows"
        )
    return stored.size(0)


def scaled(content: Content, renamed: Renamed) -> bool:
    """Whether embeddings are multiplied by the square root of C."""
    stated = content.options.get(SCALE_OPTION)
    if stated is not None:
        return not stated
    released = HEAD not in renamed.tensors
    logger.warning(
        "%s: its options lack %s: %s is taken, as in %s",
        content.origin,
        SCALE_OPTION,
        not released,
        "the released VECO" if released else "a VECO that was pre-trained here",
    )
    return released
