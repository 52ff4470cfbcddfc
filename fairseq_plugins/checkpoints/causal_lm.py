"""Reading a causal language model, a Hugging Face GPT-2 or fairseq's ``transformer_lm``, into the names of fairseq's decoder."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import List, Optional, Tuple

import torch

from .dictionaries import DICTIONARY_NAME, SPECIAL, find_dictionary, read_dictionary
from .encoder_languages import dictionary_of_run
from .encoder_layout import expected_shapes
from .errors import CheckpointError
from .loading import Rule, drop, fused_attention, refuse, rename, split
from .pipeline import (
    PADDING_IDX,
    POSITIONS,
    WORDS,
    Content,
    FileLayout,
    Heads,
    PretrainedFile,
    check_shapes,
    differing,
    find_sizes,
    layouts_of,
    open_file,
    refuse_config,
)
from .reading import PathLike
from .vocabularies import SENTENCEPIECE, pieces_of, tokenizer_entries
from .xlmr import shift_positions

GPT2_EXPECTED = (
    "a Hugging Face GPT-2 (model_type gpt2, tensors transformer.wte, transformer.wpe, transformer.h.*, transformer.ln_f; output "
    "tied to the embedding)"
)
STOCK_EXPECTED = "a fairseq transformer_lm (decoder.embed_tokens, decoder.layers.*; no adaptive softmax, no encoder)"
OUTPUT = "output_projection.weight"


@dataclass(frozen=True)
class CausalLMLayout:
    """Sizes and wiring of a causal language model, in fairseq's terms.

    Attributes:
        vocab_size: rows of the token embedding.
        layers: number of layers L.
        embed_dim: width C.
        ffn_dim: inner width of the feed-forward blocks.
        heads: attention heads H.
        max_positions: longest input in tokens.
        normalize_before: layer norms before the blocks, else after them.
        final_norm: a layer norm after the last layer.
        layernorm_embedding: a layer norm after the embedding.
        learned_positions: a table of positions, else sinusoids.
        scale_embedding: token embeddings are multiplied with the square root of C.
        activation: of the feed-forward blocks, a name fairseq knows.
        epsilon: of every layer norm.
        tied: the output projection is the token embedding.
        padding_idx: row of ``<pad>``; positions are counted from the row after it.
    """

    vocab_size: int
    layers: int
    embed_dim: int
    ffn_dim: int
    heads: int
    max_positions: int
    normalize_before: bool = True
    final_norm: bool = True
    layernorm_embedding: bool = False
    learned_positions: bool = True
    scale_embedding: bool = False
    activation: str = "gelu_accurate"
    epsilon: float = 1e-5
    tied: bool = True
    padding_idx: int = PADDING_IDX


# ---- fairseq's transformer_lm. ----

_LAYER = r"decoder\.layers\.(\d+)\."
_UNSUPPORTED = ("no_token_positional_embeddings", "scale_fc", "scale_attn", "scale_heads")

STOCK_RULES: Tuple[Rule, ...] = (
    refuse(r"encoder\..*", "is a model with an encoder"),
    refuse(_LAYER + r"encoder_attn(?:_layer_norm)?\..*", "is the decoder of a model with an encoder"),
    refuse(r"decoder\.(?:adaptive_softmax|embed_tokens\.embeddings)\..*", "has adaptive sizes"),
    refuse(
        r"decoder\.project_(?:in|out)_dim\..*",
        "has another --decoder-input-dim or --decoder-output-dim than --decoder-embed-dim",
    ),
    rename(r"decoder\.(embed_tokens|embed_positions)\.weight", r"\1.weight"),
    rename(r"decoder\.(layernorm_embedding|layer_norm)\.(weight|bias)", r"\1.\2"),
    *fused_attention(_LAYER, r"layers.\1."),
    rename(_LAYER + r"(self_attn_layer_norm|fc1|fc2|final_layer_norm)\.(weight|bias)", r"layers.\1.\2.\3"),
    rename(r"decoder\.output_projection\.weight|decoder\.embed_out", OUTPUT),
    drop(r"decoder\.version", "format counter of fairseq"),
    drop(r"decoder\.embed_positions\.(?:_float_tensor|weights)", "buffer that is counted anew"),
)


def _check_stock(content: Content) -> None:
    for name in _UNSUPPORTED:
        if content.options.get(name):
            raise CheckpointError(
                f"{content.origin}: was trained with {name} = {content.options[name]!r}, expected False, i.e. {STOCK_EXPECTED}"
            )


def _settle_stock(content: Content, found: PretrainedFile) -> None:
    options = content.options
    _drop_tied(found)
    shown = {name.split(".")[0] for name in found.tensors}
    found.wiring = {
        "normalize_before": bool(options.get("decoder_normalize_before")),
        "final_norm": "layer_norm" in shown,
        "layernorm_embedding": "layernorm_embedding" in shown,
        "learned_positions": POSITIONS in found.tensors,
        "scale_embedding": not options.get("no_scale_embedding"),
        "activation": str(options.get("activation_fn") or "relu"),
    }
    if not found.wiring["learned_positions"]:
        found.wiring["max_positions"] = options.get("max_target_positions") or options.get("tokens_per_sample")


_STOCK = FileLayout(
    STOCK_EXPECTED,
    lambda content: not content.is_folder,
    STOCK_RULES,
    {
        "layers": "decoder_layers",
        "embed_dim": "decoder_embed_dim",
        "ffn_dim": "decoder_ffn_embed_dim",
        "heads": "decoder_attention_heads",
    },
    _check_stock,
    _settle_stock,
)


# ---- GPT-2. ----

ACTIVATIONS = {
    "gelu_new": "gelu_accurate",
    "gelu_pytorch_tanh": "gelu_accurate",
    "gelu_fast": "gelu_accurate",
    "gelu": "gelu",
    "relu": "relu",
}
"""Hugging Face's name of an activation -> fairseq's name of the same function."""

_TOP = r"(?:transformer\.)?"
_BLOCK = _TOP + r"h\.(\d+)\."
_IDS = (("</s>", "eos_token_id"), ("<pad>", "pad_token_id"), ("<s>", "bos_token_id"), ("<unk>", "unk_token_id"))
_COMPUTES = {
    "model_type": "gpt2",
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}

GPT2_RULES: Tuple[Rule, ...] = (
    refuse(_BLOCK + r"(?:crossattention|ln_cross_attn)\..*", "has cross-attention"),
    rename(_TOP + r"wte\.weight", WORDS),
    rename(_TOP + r"wpe\.weight", POSITIONS),
    rename(_BLOCK + r"ln_1\.(weight|bias)", r"layers.\1.self_attn_layer_norm.\2"),
    split(
        _BLOCK + r"attn\.c_attn\.(weight|bias)",
        r"layers.\1.self_attn.q_proj.\2",
        r"layers.\1.self_attn.k_proj.\2",
        r"layers.\1.self_attn.v_proj.\2",
    ),
    rename(_BLOCK + r"attn\.c_proj\.(weight|bias)", r"layers.\1.self_attn.out_proj.\2"),
    rename(_BLOCK + r"ln_2\.(weight|bias)", r"layers.\1.final_layer_norm.\2"),
    rename(_BLOCK + r"mlp\.c_fc\.(weight|bias)", r"layers.\1.fc1.\2"),
    rename(_BLOCK + r"mlp\.c_proj\.(weight|bias)", r"layers.\1.fc2.\2"),
    rename(_TOP + r"ln_f\.(weight|bias)", r"layer_norm.\1"),
    rename(r"lm_head\.weight", OUTPUT),
    drop(_BLOCK + r"attn\.(?:bias|masked_bias)", "triangular mask, made anew"),
)


def _check_gpt2(content: Content) -> None:
    config = content.options
    problems = differing(config, _COMPUTES)
    if config.get("model_type") is None:
        problems.append("model_type is missing, expected 'gpt2'")
    activation, epsilon = config.get("activation_function", "gelu_new"), config.get("layer_norm_epsilon", 1e-5)
    if activation not in ACTIVATIONS:
        problems.append(f"activation_function = {activation!r}, expected one of {', '.join(ACTIVATIONS)}")
    if not isinstance(epsilon, (int, float)) or not 0 < epsilon < 1:
        problems.append(f"layer_norm_epsilon = {epsilon!r}, expected a small number above 0")
    refuse_config(problems, content)


def _settle_gpt2(content: Content, found: PretrainedFile) -> None:
    """The first position gets the row behind ``<pad>``."""
    config = content.options
    found.wiring = {
        "activation": ACTIVATIONS[config.get("activation_function", "gelu_new")],
        "epsilon": float(config.get("layer_norm_epsilon", 1e-5)),
    }
    if not _drop_tied(found):
        raise CheckpointError(
            f"{content.origin}: lm_head.weight is not transformer.wte.weight; expected {GPT2_EXPECTED}"
        )
    shift_positions(found, first=0)


_GPT2 = FileLayout(
    GPT2_EXPECTED,
    lambda content: content.is_folder,
    GPT2_RULES,
    {
        "vocab_size": "vocab_size",
        "layers": "n_layer",
        "embed_dim": "n_embd",
        "ffn_dim": "n_inner",
        "max_positions": "n_positions",
        "heads": "n_head",
    },
    _check_gpt2,
    _settle_gpt2,
    transposed=re.compile(_BLOCK + r"(?:attn\.c_attn|attn\.c_proj|mlp\.c_fc|mlp\.c_proj)\.weight"),
)


CAUSAL_LMS = (_STOCK, _GPT2)


# ---- Reading. ----


def read_causal_lm(
    path: PathLike, heads: Optional[int] = None, default_heads: Optional[int] = None, label: str = "heads=…"
) -> PretrainedFile:
    """Read a causal language model.

    Args:
        path: a Hugging Face GPT-2 folder (``config.json`` with ``model.safetensors`` or ``pytorch_model.bin``), a weights file in
            one, or a fairseq checkpoint of ``transformer_lm``; ``dict.txt`` or the tokenizer's files beside tell the vocabulary.
        heads, default_heads, label: see :class:`.pipeline.Heads`.

    Returns:
        The file, in the names of fairseq's ``TransformerDecoder``, without an output projection where it is tied; its ``layout`` is
        a :class:`CausalLMLayout`.

    Raises:
        CheckpointError: anything unreadable, untrusted, of another layout, unaccounted for or contradictory.
    """
    found = open_file(path, layouts_of("CAUSAL_LMS"), f"{GPT2_EXPECTED}, or {STOCK_EXPECTED}")
    find_sizes(found, Heads(heads, default_heads, label))
    found.layout = CausalLMLayout(**found.sizes, tied=OUTPUT not in found.tensors)
    check_shapes(found.tensors, expected_shapes(found.layout), found.origin, found.expected)
    found.entries = tuple(_entries(found.content, found.layout.vocab_size))
    return found


def _entries(content: Content, rows: int) -> List[str]:
    """What each row of the embedding means, as far as a ``dict.txt`` or the tokenizer's files tell.

    The special rows that the configuration of a folder names are called as in fairseq: ``</s>`` is the one that ends a text.
    """
    folder, config = content.file.parent, content.options
    if not content.is_folder or (folder / DICTIONARY_NAME).is_file():
        beside = find_dictionary(folder) or dictionary_of_run(content.entries)
        return _checked(read_dictionary(beside), rows, beside) if beside else []
    model = next((folder / name for name in SENTENCEPIECE if (folder / name).is_file()), None)
    if model is not None and not (folder / "tokenizer.json").is_file():
        entries = _checked(pieces_of(model), rows, model)
    else:
        entries = list(tokenizer_entries(folder, "gpt2", rows) or ())
    for name, key in _IDS:
        row = config.get(key)
        if isinstance(row, int) and 0 <= row < len(entries) and name not in entries and entries[row] not in SPECIAL:
            entries[row] = name
    return entries


def _checked(entries: List[str], rows: int, file: Path) -> List[str]:
    """The entries; raises CheckpointError when a file names more of them than there are rows."""
    if len(entries) > rows:
        raise CheckpointError(
            f"{file}: names {len(entries):,} entries, the model has {rows:,} rows; they must belong to one model"
        )
    return entries


def _drop_tied(found: PretrainedFile) -> bool:
    """Drop an output projection that is the embedding; False where it is another matrix."""
    if OUTPUT in found.tensors and WORDS in found.tensors:
        if not torch.equal(found.tensors[OUTPUT], found.tensors[WORDS]):
            return False
        found.renamed.discard(OUTPUT, "equal to the token embedding")
    return True
