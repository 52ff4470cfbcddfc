"""Hugging Face GPT-2 folders (GPT-2, mGPT): names, configuration and vocabulary."""

import importlib
import re
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

import torch
from torch import Tensor

from .errors import CheckpointError
from .renames import Renamed, apply_rules, drop, refuse, rename, split
from .vocabularies import DICTIONARY_NAME, SPECIAL, read_dictionary, tokenizer_entries

MODEL_TYPE = "gpt2"
EXPECTED = (
    "a Hugging Face GPT-2 (model_type gpt2, tensors transformer.wte, transformer.wpe, transformer.h.*, transformer.ln_f; output "
    "tied to the embedding)"
)
WORDS = "embed_tokens.weight"
POSITIONS = "embed_positions.weight"
OUTPUT = "output_projection.weight"
PADDING_IDX = 1
"""Of the result, as in every fairseq dictionary: its rows of the position table come before the first position."""

ACTIVATIONS = {
    "gelu_new": "gelu_accurate",
    "gelu_pytorch_tanh": "gelu_accurate",
    "gelu_fast": "gelu_accurate",
    "gelu": "gelu",
    "relu": "relu",
}
"""Hugging Face's name of an activation -> fairseq's name of the same function."""

_TOP = r"(?:transformer\.)?"
_LAYER = _TOP + r"h\.(\d+)\."
_TRANSPOSED = re.compile(_LAYER + r"(?:attn\.c_attn|attn\.c_proj|mlp\.c_fc|mlp\.c_proj)\.weight")
_SENTENCEPIECE = ("spiece.model", "sentencepiece.bpe.model", "sentencepiece.model")
_IDS = (("</s>", "eos_token_id"), ("<pad>", "pad_token_id"), ("<s>", "bos_token_id"), ("<unk>", "unk_token_id"))

RULES = (
    refuse(_LAYER + r"(?:crossattention|ln_cross_attn)\..*", "has cross-attention"),
    rename(_TOP + r"wte\.weight", WORDS),
    rename(_TOP + r"wpe\.weight", POSITIONS),
    rename(_LAYER + r"ln_1\.(weight|bias)", r"layers.\1.self_attn_layer_norm.\2"),
    split(
        _LAYER + r"attn\.c_attn\.(weight|bias)",
        r"layers.\1.self_attn.q_proj.\2",
        r"layers.\1.self_attn.k_proj.\2",
        r"layers.\1.self_attn.v_proj.\2",
    ),
    rename(_LAYER + r"attn\.c_proj\.(weight|bias)", r"layers.\1.self_attn.out_proj.\2"),
    rename(_LAYER + r"ln_2\.(weight|bias)", r"layers.\1.final_layer_norm.\2"),
    rename(_LAYER + r"mlp\.c_fc\.(weight|bias)", r"layers.\1.fc1.\2"),
    rename(_LAYER + r"mlp\.c_proj\.(weight|bias)", r"layers.\1.fc2.\2"),
    rename(_TOP + r"ln_f\.(weight|bias)", r"layer_norm.\1"),
    rename(r"lm_head\.weight", OUTPUT),
    drop(_LAYER + r"attn\.(?:bias|masked_bias)", "triangular mask, made anew"),
)


def from_folder(tensors: Mapping[str, Tensor], origin: str) -> Renamed:
    """Tensors of a Hugging Face GPT-2 in the names and shapes of fairseq's stock ``TransformerDecoder``.

    GPT-2 stores its matrices as (in, out), fairseq as (out, in); the first position gets the row behind ``<pad>``.

    Args:
        tensors: of the weights file.
        origin: how messages call it.

    Raises:
        CheckpointError: a name that is not GPT-2's.
    """
    turned = {
        name: tensor.t().contiguous() if _TRANSPOSED.fullmatch(name) and tensor.dim() == 2 else tensor
        for name, tensor in tensors.items()
    }
    renamed = apply_rules(turned, RULES, origin, EXPECTED)
    table = renamed.tensors.get(POSITIONS)
    if table is not None and table.dim() == 2:
        renamed.tensors[POSITIONS] = torch.cat([table.new_zeros(PADDING_IDX + 1, table.size(1)), table])
    return renamed


def wiring(config: Mapping[str, Any], file: Path) -> Dict[str, Any]:
    """What the shapes do not tell, as fields of ``CausalLMLayout``.

    Args:
        config: content of ``config.json``.
        file: its path, for messages.

    Raises:
        CheckpointError: an entry with which the model computes something else; names it, its value and what is expected.
    """
    wanted = {
        "model_type": MODEL_TYPE,
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "add_cross_attention": False,
        "tie_word_embeddings": True,
    }
    problems = [
        f"{name} = {config[name]!r}, expected {value!r}"
        for name, value in wanted.items()
        if config.get(name) is not None and config[name] != value
    ]
    if config.get("model_type") is None:
        problems.append(f"model_type is missing, expected {MODEL_TYPE!r}")
    activation, epsilon = config.get("activation_function", "gelu_new"), config.get("layer_norm_epsilon", 1e-5)
    if activation not in ACTIVATIONS:
        problems.append(f"activation_function = {activation!r}, expected one of {', '.join(ACTIVATIONS)}")
    if not isinstance(epsilon, (int, float)) or not 0 < epsilon < 1:
        problems.append(f"layer_norm_epsilon = {epsilon!r}, expected a small number above 0")
    if problems:
        raise CheckpointError(f"checkpoint {file}: {'; '.join(problems)}")
    return {"activation": ACTIVATIONS[activation], "epsilon": float(epsilon), "normalize_before": True}


def stated_sizes(config: Mapping[str, Any]) -> Dict[str, Optional[int]]:
    """Sizes that ``config.json`` states, by the names of ``CausalLMLayout``; None where it says nothing."""
    return {
        "vocab_size": config.get("vocab_size"),
        "layers": config.get("n_layer"),
        "embed_dim": config.get("n_embd"),
        "ffn_dim": config.get("n_inner"),
        "max_positions": config.get("n_positions"),
    }


def entries_of(folder: Path, config: Mapping[str, Any], rows: int) -> List[str]:
    """What each row of the embedding means, as far as files in the folder tell.

    A ``dict.txt`` counts first, then the tokenizer's files. The special rows that the configuration names are called as in
    fairseq: ``</s>`` is the one that ends a text.

    Args:
        folder: of the model.
        config: content of ``config.json``.
        rows: of the embedding.

    Returns:
        At most ``rows`` entries in the order of the rows; empty where there is no such file.

    Raises:
        CheckpointError: a damaged file, or more entries than rows.
    """
    dictionary = folder / DICTIONARY_NAME
    if dictionary.is_file():
        return checked(read_dictionary(dictionary), rows, dictionary)
    model = next((folder / name for name in _SENTENCEPIECE if (folder / name).is_file()), None)
    if model is not None and not (folder / "tokenizer.json").is_file():
        entries = checked(_pieces(model), rows, model)
    else:
        entries = list(tokenizer_entries(folder, MODEL_TYPE, rows) or ())
    for name, key in _IDS:
        row = config.get(key)
        if isinstance(row, int) and 0 <= row < len(entries) and name not in entries and entries[row] not in SPECIAL:
            entries[row] = name
    return entries


def checked(entries: List[str], rows: int, file: Path) -> List[str]:
    """The entries; raises CheckpointError when a file names more of them than there are rows."""
    if len(entries) > rows:
        raise CheckpointError(
            f"{file}: names {len(entries):,} entries, the model has {rows:,} rows; they must belong to one model"
        )
    return entries


def _pieces(file: Path) -> List[str]:
    """Pieces of a sentencepiece model in its own order, which is that of mT5's rows."""
    try:
        sentencepiece = importlib.import_module("sentencepiece")
    except ImportError as error:
        raise CheckpointError(f"tokenizer {file}: needs the package sentencepiece to be read") from error
    try:
        model = sentencepiece.SentencePieceProcessor(model_file=str(file))
    except (OSError, RuntimeError) as error:
        raise CheckpointError(f"tokenizer {file}: is no sentencepiece model ({error})") from error
    return [model.id_to_piece(index) for index in range(model.get_piece_size())]
