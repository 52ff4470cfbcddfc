"""Reads causal language models: fairseq's ``transformer_lm`` and Hugging Face's GPT-2."""

from typing import Any, List, Optional

import torch

from . import tokenizers
from .layouts import (
    POSITIONS,
    WORDS,
    CausalLMLayout,
    epsilon_problems,
    expected_shapes,
    size_options,
)
from .loading import check_shapes
from .opening import Checkpoint, differing
from .pretrained import PretrainedFile, convert, convert_tensors
from .reading import PathLike
from .renaming import NameTable, stack_buffers, stack_renames
from .vocabulary import SPECIAL, find_dictionary, read_dictionary

EXPECTED = (
    "a language model: a fairseq transformer_lm (decoder.embed_tokens, decoder.layers.*; no "
    "adaptive softmax, no encoder), or a Hugging Face GPT-2 (model_type gpt2, tensors "
    "transformer.wte, transformer.wpe, transformer.h.*, transformer.ln_f; output tied to the "
    "embedding)"
)
OUTPUT = "output_projection.weight"
_OUTPUT, _WORDS = f"decoder.{OUTPUT}", f"decoder.{WORDS}"
_TOP = r"(?:transformer\.)?"
_BLOCK, _LAYER = _TOP + r"h\.(\d+)\.", r"decoder.layers.\1."
NAMES = NameTable(
    renames={
        # fairseq
        **stack_renames(r"decoder\.", "decoder."),
        r"decoder\.output_projection\.weight|decoder\.embed_out": _OUTPUT,
        # Hugging Face
        _TOP + r"wte\.weight": _WORDS,
        _TOP + r"wpe\.weight": f"decoder.{POSITIONS}",
        _BLOCK + r"ln_1\.(weight|bias)": _LAYER + r"self_attn_layer_norm.\2",
        _BLOCK + r"attn\.c_attn\.(weight|bias)": tuple(
            rf"{_LAYER}self_attn.{projection}_proj.\2" for projection in "qkv"
        ),
        _BLOCK + r"attn\.c_proj\.(weight|bias)": _LAYER + r"self_attn.out_proj.\2",
        _BLOCK + r"ln_2\.(weight|bias)": _LAYER + r"final_layer_norm.\2",
        _BLOCK + r"mlp\.c_fc\.(weight|bias)": _LAYER + r"fc1.\2",
        _BLOCK + r"mlp\.c_proj\.(weight|bias)": _LAYER + r"fc2.\2",
        _TOP + r"ln_f\.(weight|bias)": r"decoder.layer_norm.\1",
        r"lm_head\.weight": _OUTPUT,
    },
    dropped={
        **stack_buffers(r"decoder\."),
        _BLOCK + r"attn\.(?:bias|masked_bias)": "triangular mask, made anew",
    },
    refused={
        r"encoder\..*": "is a model with an encoder",
        r"decoder\.layers\.\d+\.encoder_attn(?:_layer_norm)?\..*": "attends to an encoder",
        r"decoder\.(?:adaptive_softmax|embed_tokens\.embeddings)\..*": "has adaptive sizes",
        r"decoder\.project_(?:in|out)_dim\..*": "has another input or output width than its layers",
        _BLOCK + r"(?:crossattention|ln_cross_attn)\..*": "has cross-attention",
    },
    # GPT-2 stores (in, out), fairseq (out, in).
    transposed=_BLOCK + r"(?:attn\.c_attn|attn\.c_proj|mlp\.c_fc|mlp\.c_proj)\.weight",
)
_UNSUPPORTED = ("no_token_positional_embeddings", "scale_fc", "scale_attn", "scale_heads")
"""Options of fairseq's decoder that this package does not compute."""

FOLDER_SIZES = {
    "vocab_size": "vocab_size",
    "layers": "n_layer",
    "embed_dim": "n_embd",
    "ffn_dim": "n_inner",
    "max_positions": "n_positions",
    "heads": "n_head",
}
_ACTIVATIONS = {
    "gelu_new": "gelu_accurate",
    "gelu_pytorch_tanh": "gelu_accurate",
    "gelu_fast": "gelu_accurate",
    "gelu": "gelu",
    "relu": "relu",
}
"""Hugging Face's name of an activation -> fairseq's name of the same function."""
_FOLDER_WIRED = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
    "activation_function": tuple(_ACTIVATIONS),
}


CAUSAL_LM = "a Hugging Face GPT-2 (model_type gpt2) or a fairseq transformer_lm"


def read_causal_lm(
    path: PathLike, heads: Optional[int] = None, label: str = "heads=…"
) -> PretrainedFile:
    """Read a causal language model, in the names of fairseq's ``TransformerDecoder``.

    Args:
        path: a Hugging Face GPT-2 folder or its weights file, or a fairseq ``transformer_lm``.
            ``dict.txt`` or the tokenizer's files beside it list the vocabulary.
        heads: number of heads, for a file that does not state it.
        label: option or argument by which the user states the heads, for messages.

    Returns:
        the file; its ``layout`` is a ``CausalLMLayout``. A tied output projection is left out.

    Raises:
        CheckpointError: as :func:`read_masked_lm`.
    """
    model = convert(path, {"gpt": ".gpt:convert_gpt"}, CAUSAL_LM)
    model.take({"decoder.": ""}, "a language model")
    model.find_sizes(heads, label)
    is_tied = OUTPUT not in model.tensors
    layout = model.layout = CausalLMLayout(**{**model.sizes, **model.wiring}, tied=is_tied)
    check_shapes(model.tensors, expected_shapes(layout), model.origin, model.expected)
    model.entries = tuple(_name_rows(model))
    return model


def convert_gpt(checkpoint: Checkpoint) -> PretrainedFile:
    """Convert a causal language model. Raises CheckpointError if its options are not supported."""
    if checkpoint.is_folder:
        return _convert_folder(checkpoint)
    return _convert_fairseq(checkpoint)


def _convert_fairseq(checkpoint: Checkpoint) -> PretrainedFile:
    options = checkpoint.options
    checkpoint.refuse(differing(options, dict.fromkeys(_UNSUPPORTED, False)), EXPECTED)
    sizes = size_options("decoder", "max_target_positions")
    model = convert_tensors(checkpoint, NAMES, sizes, EXPECTED)
    output = model.tensors.get(_OUTPUT)
    if output is not None and torch.equal(output, model.matrix(_WORDS)):
        model.drop(_OUTPUT, "equal to the token embedding")
    modules = {name.split(".")[1] for name in model.tensors}
    model.wiring = {
        "normalize_before": bool(options.get("decoder_normalize_before")),
        "final_norm": "layer_norm" in modules,
        "layernorm_embedding": "layernorm_embedding" in modules,
        "learned_positions": "embed_positions" in modules,
        "scale_embedding": not options.get("no_scale_embedding"),
        "activation": str(options.get("activation_fn") or "relu"),
    }
    return model


def _convert_folder(checkpoint: Checkpoint) -> PretrainedFile:
    """Convert a Hugging Face GPT-2; other wiring is the default of ``CausalLMLayout``, GPT-2's."""
    config = checkpoint.options
    problems = [*epsilon_problems(config, "layer_norm_epsilon"), *differing(config, _FOLDER_WIRED)]
    checkpoint.refuse(problems, EXPECTED)
    copies = ((_OUTPUT, _WORDS),)  # (copy, original)
    padding_idx = -1  # the first position has row 0
    model = convert_tensors(
        checkpoint, NAMES, FOLDER_SIZES, EXPECTED, copies=copies, padding_idx=padding_idx
    )
    model.wiring = {
        "activation": _ACTIVATIONS[config.get("activation_function") or "gelu_new"],
        "epsilon": float(config.get("layer_norm_epsilon", 1e-5)),
    }
    return model


# ---- Entries of the rows. ----

_SPECIAL_IDS = {"</s>": "eos", "<pad>": "pad", "<s>": "bos", "<unk>": "unk"}
"""fairseq's special entry -> start of the option ``..._token_id`` that states its row."""


def _name_rows(model: PretrainedFile) -> List[str]:
    """Return the entries of the embedding's rows by a file beside the weights; empty without one.

    Special rows that ``config.json`` states get fairseq's names, such as ``</s>`` for ``eos``.
    """
    checkpoint, count = model.checkpoint, model.layout.vocab_size
    folder = checkpoint.folder
    if model.entries or not checkpoint.is_folder:
        dictionary = find_dictionary(folder, checkpoint.entries)
        if dictionary is None:
            return []
        return tokenizers.check_count(read_dictionary(dictionary), count, dictionary)
    segmenter = tokenizers.sentencepiece_in(folder)
    if segmenter is not None and not (folder / tokenizers.TOKENIZER).is_file():
        entries = tokenizers.check_count(tokenizers.pieces_of(segmenter), count, segmenter)
    else:
        entries = list(tokenizers.tokenizer_entries(folder, None, count) or ())
    for entry, option in _SPECIAL_IDS.items():
        row: Any = checkpoint.options.get(f"{option}_token_id")
        is_row = isinstance(row, int) and 0 <= row < len(entries)
        if is_row and entry not in entries and entries[row] not in SPECIAL:
            entries[row] = entry
    return entries
