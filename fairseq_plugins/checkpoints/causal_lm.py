"""Reading a causal language model, a Hugging Face GPT-2 or fairseq's ``transformer_lm``, into the names of fairseq's decoder."""

import re
from typing import List, Optional, Tuple

import torch

from . import encoders
from .layouts import CausalLMLayout, expected_shapes, size_options, wrong_epsilon
from .loading import Rule, drop, refuse, rename, stack_rules
from .pipeline import CAUSAL_LM, POSITIONS, WORDS, FileLayout, Kind, PretrainedFile, check_shapes, find_sizes, open_file
from .reading import PathLike
from .vocabulary import SPECIAL, find_dictionary, read_dictionary

OUTPUT = "output_projection.weight"
_TIED = (f"decoder.{OUTPUT}", f"decoder.{WORDS}")

_STOCK_RULES: Tuple[Rule, ...] = (
    refuse(r"encoder\..*", "is a model with an encoder"),
    refuse(r"decoder\.layers\.(\d+)\.encoder_attn(?:_layer_norm)?\..*", "is the decoder of a model with an encoder"),
    refuse(r"decoder\.(?:adaptive_softmax|embed_tokens\.embeddings)\..*", "has adaptive sizes"),
    refuse(r"decoder\.project_(?:in|out)_dim\..*", "has another input or output width than its layers"),
    *stack_rules(r"decoder\.", "decoder."),
    rename(r"decoder\.output_projection\.weight|decoder\.embed_out", _TIED[0]),
)


def _settle_stock(found: PretrainedFile, kind: Kind) -> None:
    options, output = found.content.options, found.tensors.get(_TIED[0])
    if output is not None and torch.equal(output, found.matrix(_TIED[1])):
        found.discard(_TIED[0], "equal to the token embedding")
    shown = {name.split(".")[1] for name in found.tensors}
    found.wiring = {
        "normalize_before": bool(options.get("decoder_normalize_before")),
        "final_norm": "layer_norm" in shown,
        "layernorm_embedding": "layernorm_embedding" in shown,
        "learned_positions": "embed_positions" in shown,
        "scale_embedding": not options.get("no_scale_embedding"),
        "activation": str(options.get("activation_fn") or "relu"),
    }


_STOCK = FileLayout(
    "a fairseq transformer_lm (decoder.embed_tokens, decoder.layers.*; no adaptive softmax, no encoder)",
    lambda content: not content.is_folder and any(name.startswith("decoder.layers.") for name in content.tensors),
    _STOCK_RULES,
    size_options("decoder", "max_target_positions"),
    (CAUSAL_LM,),
    dict.fromkeys(("no_token_positional_embeddings", "scale_fc", "scale_attn", "scale_heads"), False),
    settle=_settle_stock,
)


_ACTIVATIONS = {
    "gelu_new": "gelu_accurate",
    "gelu_pytorch_tanh": "gelu_accurate",
    "gelu_fast": "gelu_accurate",
    "gelu": "gelu",
    "relu": "relu",
}
"""Hugging Face's name of an activation -> fairseq's name of the same function."""

_TOP = r"(?:transformer\.)?"
_BLOCK, _LAYER = _TOP + r"h\.(\d+)\.", r"decoder.layers.\1."
_GPT2_RULES: Tuple[Rule, ...] = (
    refuse(_BLOCK + r"(?:crossattention|ln_cross_attn)\..*", "has cross-attention"),
    rename(_TOP + r"wte\.weight", _TIED[1]),
    rename(_TOP + r"wpe\.weight", f"decoder.{POSITIONS}"),
    rename(_BLOCK + r"ln_1\.(weight|bias)", _LAYER + r"self_attn_layer_norm.\2"),
    rename(_BLOCK + r"attn\.c_attn\.(weight|bias)", *(rf"{_LAYER}self_attn.{name}_proj.\2" for name in "qkv")),
    rename(_BLOCK + r"attn\.c_proj\.(weight|bias)", _LAYER + r"self_attn.out_proj.\2"),
    rename(_BLOCK + r"ln_2\.(weight|bias)", _LAYER + r"final_layer_norm.\2"),
    rename(_BLOCK + r"mlp\.c_fc\.(weight|bias)", _LAYER + r"fc1.\2"),
    rename(_BLOCK + r"mlp\.c_proj\.(weight|bias)", _LAYER + r"fc2.\2"),
    rename(_TOP + r"ln_f\.(weight|bias)", r"decoder.layer_norm.\1"),
    rename(r"lm_head\.weight", _TIED[0]),
    drop(_BLOCK + r"attn\.(?:bias|masked_bias)", "triangular mask, made anew"),
)


def _settle_gpt2(found: PretrainedFile, kind: Kind) -> None:
    config = found.content.options
    found.padding_idx = -1
    found.wiring = {
        "activation": _ACTIVATIONS[config.get("activation_function") or "gelu_new"],
        "epsilon": float(config.get("layer_norm_epsilon", 1e-5)),
    }


_GPT2 = FileLayout(
    "a Hugging Face GPT-2 (model_type gpt2, tensors transformer.wte, transformer.wpe, transformer.h.*, transformer.ln_f; output "
    "tied to the embedding)",
    lambda content: content.is_folder and content.options.get("model_type") == "gpt2",
    _GPT2_RULES,
    {
        "vocab_size": "vocab_size",
        "layers": "n_layer",
        "embed_dim": "n_embd",
        "ffn_dim": "n_inner",
        "max_positions": "n_positions",
        "heads": "n_head",
    },
    (CAUSAL_LM,),
    {
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "add_cross_attention": False,
        "tie_word_embeddings": True,
        "activation_function": tuple(_ACTIVATIONS),
    },
    lambda content: wrong_epsilon(content.options, "layer_norm_epsilon"),
    _settle_gpt2,
    tied=(_TIED,),
    transposed=re.compile(_BLOCK + r"(?:attn\.c_attn|attn\.c_proj|mlp\.c_fc|mlp\.c_proj)\.weight"),
    model_types=("gpt2",),
)
LAYOUTS = (_STOCK, _GPT2)


_IDS = (("</s>", "eos_token_id"), ("<pad>", "pad_token_id"), ("<s>", "bos_token_id"), ("<unk>", "unk_token_id"))


def read_causal_lm(path: PathLike, heads: Optional[int] = None, label: str = "heads=…") -> PretrainedFile:
    """Read a causal language model, in the names of fairseq's ``TransformerDecoder``, without an output projection that is tied.

    ``path``: a Hugging Face GPT-2 folder or a weights file in one, or a fairseq checkpoint of ``transformer_lm``; ``dict.txt`` or
    the tokenizer's files beside tell the vocabulary. ``heads``, ``label``: see :func:`.pipeline.find_sizes`.

    Returns the file; its ``layout`` is a :class:`CausalLMLayout`. Raises CheckpointError, as :func:`.encoders.read_encoder`.
    """
    found = open_file(path, CAUSAL_LM)
    find_sizes(found, heads, label)
    found.layout = CausalLMLayout(**found.sizes, tied=OUTPUT not in found.tensors)
    check_shapes(found.tensors, expected_shapes(found.layout), found.origin, found.source.expected)
    found.entries = tuple(_entries(found, found.layout.vocab_size))
    return found


def _entries(found: PretrainedFile, rows: int) -> List[str]:
    """What each row of the embedding means, as far as a ``dict.txt`` or the tokenizer's files tell.

    The special rows that the configuration of a folder names are called as in fairseq: ``</s>`` is the one that ends a text.
    """
    content, folder = found.content, found.content.folder
    if found.entries or not content.is_folder:
        beside = find_dictionary(folder, content.entries)
        return encoders.fits(read_dictionary(beside), rows, beside) if beside else []
    model = encoders.sentencepiece_in(folder)
    if model is not None and not (folder / "tokenizer.json").is_file():
        entries = encoders.fits(encoders.pieces_of(model), rows, model)
    else:
        entries = list(encoders.tokenizer_entries(folder, None, rows) or ())
    for name, key in _IDS:
        row = content.options.get(key)
        if isinstance(row, int) and 0 <= row < len(entries) and name not in entries and entries[row] not in SPECIAL:
            entries[row] = name
    return entries
