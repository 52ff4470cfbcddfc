"""Reading a causal language model, a Hugging Face GPT-2 or fairseq's ``transformer_lm``, into the names of fairseq's decoder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Tuple

import torch
from torch import Tensor

from . import gpt2
from .encoder_languages import dictionary_of_run, find_dictionary
from .errors import CheckpointError
from .gpt2 import OUTPUT, PADDING_IDX, POSITIONS, WORDS
from .huggingface import CONFIG_NAME, read_json
from .loading import LoadReport
from .masked_lm import check_stated, choose_heads, compare_shapes, find_weights, float_tensors
from .reading import PathLike, read_checkpoint
from .renames import Renamed, apply_rules, drop, refuse, rename, split
from .vocabularies import read_dictionary
from .xlmr import find_settings

STOCK_EXPECTED = "a fairseq transformer_lm (decoder.embed_tokens, decoder.layers.*; no adaptive softmax, no encoder)"
_FIRST_FC = "layers.0.fc1.weight"
_LAYER = r"decoder\.layers\.(\d+)\."

RULES = (
    refuse(r"encoder\..*", "is a model with an encoder"),
    refuse(_LAYER + r"encoder_attn(?:_layer_norm)?\..*", "is the decoder of a model with an encoder"),
    refuse(r"decoder\.(?:adaptive_softmax|embed_tokens\.embeddings)\..*", "has adaptive sizes"),
    refuse(
        r"decoder\.project_(?:in|out)_dim\..*",
        "has another --decoder-input-dim or --decoder-output-dim than --decoder-embed-dim",
    ),
    rename(r"decoder\.(embed_tokens|embed_positions)\.weight", r"\1.weight"),
    rename(r"decoder\.(layernorm_embedding|layer_norm)\.(weight|bias)", r"\1.\2"),
    rename(_LAYER + r"self_attn\.(q_proj|k_proj|v_proj|out_proj)\.(weight|bias)", r"layers.\1.self_attn.\2.\3"),
    split(
        _LAYER + r"self_attn\.in_proj_(weight|bias)",
        r"layers.\1.self_attn.q_proj.\2",
        r"layers.\1.self_attn.k_proj.\2",
        r"layers.\1.self_attn.v_proj.\2",
    ),
    rename(_LAYER + r"(self_attn_layer_norm|fc1|fc2|final_layer_norm)\.(weight|bias)", r"layers.\1.\2.\3"),
    rename(r"decoder\.output_projection\.weight|decoder\.embed_out", OUTPUT),
    drop(r"decoder\.version", "format counter of fairseq"),
    drop(r"decoder\.embed_positions\.(?:_float_tensor|weights)", "buffer that is counted anew"),
)


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


@dataclass(frozen=True)
class CausalLMFile:
    """A causal language model as read from disk.

    Attributes:
        tensors: name -> float32 tensor, in the names of fairseq's ``TransformerDecoder``; no output projection where it is tied.
        layout: sizes and wiring.
        entries: what the rows of the embedding mean, in their order; empty where no file beside tells.
        report: what became of every tensor of the file.
    """

    tensors: Dict[str, Tensor]
    layout: CausalLMLayout
    entries: Tuple[str, ...]
    report: LoadReport


def read_causal_lm(path: PathLike, heads: Optional[int] = None) -> CausalLMFile:
    """Read a causal language model.

    Args:
        path: a Hugging Face GPT-2 folder (``config.json`` with ``model.safetensors`` or ``pytorch_model.bin``), a weights file in
            one, or a fairseq checkpoint of ``transformer_lm``; ``dict.txt`` or the tokenizer's files beside tell the vocabulary.
        heads: attention heads, for files that do not tell.

    Returns:
        Tensors, layout, entries, report.

    Raises:
        CheckpointError: anything unreadable, untrusted, of another layout, unaccounted for or contradictory.
    """
    file = find_weights(Path(path))
    origin = f"checkpoint {file}"
    content = read_checkpoint(file)
    if isinstance(content.get("model"), Mapping):
        return _from_fairseq(content, file, heads, origin)
    if not content or not all(isinstance(value, Tensor) for value in content.values()):
        keys = ", ".join(sorted(map(str, content))[:8]) or "(none)"
        raise CheckpointError(f"{origin}: holds the entries {keys}; expected {gpt2.EXPECTED}, or {STOCK_EXPECTED}")
    config_file = file.parent / CONFIG_NAME
    config = read_json(config_file, gpt2.EXPECTED)
    wiring = gpt2.wiring(config, config_file)
    renamed = gpt2.from_folder(float_tensors(content, origin), origin)
    if not _is_tied(renamed):
        raise CheckpointError(f"{origin}: lm_head.weight is not transformer.wte.weight; expected {gpt2.EXPECTED}")
    layout = _layout(
        renamed, wiring, choose(heads, config.get("n_head"), "n_head", renamed, origin), origin, gpt2.EXPECTED
    )
    stated = {name: size for name, size in gpt2.stated_sizes(config).items() if size is not None}
    check_stated(vars(layout), stated, origin)
    entries = gpt2.entries_of(file.parent, config, layout.vocab_size)
    return CausalLMFile(renamed.tensors, layout, tuple(entries), _report(renamed))


def _from_fairseq(content: Mapping[str, Any], file: Path, heads: Optional[int], origin: str) -> CausalLMFile:
    settings = find_settings(content)
    renamed = apply_rules(float_tensors(content["model"], origin), RULES, origin, STOCK_EXPECTED)
    _is_tied(renamed)
    stated = settings.get("decoder_attention_heads")
    shown = {name.split(".")[0] for name in renamed.tensors}
    wiring = {
        "normalize_before": bool(settings.get("decoder_normalize_before")),
        "final_norm": "layer_norm" in shown,
        "layernorm_embedding": "layernorm_embedding" in shown,
        "learned_positions": POSITIONS in renamed.tensors,
        "scale_embedding": not settings.get("no_scale_embedding"),
        "activation": str(settings.get("activation_fn") or "relu"),
    }
    refused = {"no_token_positional_embeddings": False, "scale_fc": False, "scale_attn": False, "scale_heads": False}
    for name, value in refused.items():
        if settings.get(name) not in (None, value):
            raise CheckpointError(
                f"{origin}: was trained with {name} = {settings[name]!r}, expected {value!r}, i.e. {STOCK_EXPECTED}"
            )
    positions = settings.get("max_target_positions") or settings.get("tokens_per_sample")
    if not wiring["learned_positions"]:
        wiring["max_positions"] = positions
    found = choose(heads, stated, "decoder_attention_heads", renamed, origin)
    layout = _layout(renamed, wiring, found, origin, STOCK_EXPECTED)
    sizes = {"layers": "decoder_layers", "embed_dim": "decoder_embed_dim", "ffn_dim": "decoder_ffn_embed_dim"}
    if not settings.get("decoder_layers_to_keep"):
        check_stated(vars(layout), {field: settings.get(name) for field, name in sizes.items()}, origin)
    beside = find_dictionary(file.parent) or dictionary_of_run(content)
    entries = gpt2.checked(read_dictionary(beside), layout.vocab_size, beside) if beside else []
    return CausalLMFile(renamed.tensors, layout, tuple(entries), _report(renamed))


def choose(heads: Optional[int], stated: Optional[int], entry: str, renamed: Renamed, origin: str) -> int:
    """Attention heads, which no shape tells; see ``masked_lm.choose_heads``."""
    words = renamed.tensors.get(WORDS)
    if words is None or words.dim() != 2:
        raise CheckpointError(f"{origin}: has no matrix for {WORDS}; expected {gpt2.EXPECTED}, or {STOCK_EXPECTED}")
    return choose_heads(heads, stated, entry, words.size(1), origin)


def _is_tied(renamed: Renamed) -> bool:
    """Whether the output projection is the embedding; drops it then."""
    if OUTPUT in renamed.tensors and WORDS in renamed.tensors:
        if not torch.equal(renamed.tensors[OUTPUT], renamed.tensors[WORDS]):
            return False
        renamed.discard(OUTPUT, "equal to the token embedding")
    return True


def _layout(renamed: Renamed, wiring: Dict[str, Any], heads: int, origin: str, expected: str) -> CausalLMLayout:
    tensors = renamed.tensors
    for name in (_FIRST_FC, *([] if wiring.get("max_positions") else [POSITIONS])):
        if name not in tensors or tensors[name].dim() != 2:
            raise CheckpointError(f"{origin}: has no matrix for {name}; expected {expected}")
    values: Dict[str, Any] = {
        "vocab_size": tensors[WORDS].size(0),
        "layers": 1 + max(int(name.split(".")[1]) for name in tensors if name.startswith("layers.")),
        "embed_dim": tensors[WORDS].size(1),
        "ffn_dim": tensors[_FIRST_FC].size(0),
        "heads": heads,
        "tied": OUTPUT not in tensors,
    }
    if POSITIONS in tensors:
        values["max_positions"] = tensors[POSITIONS].size(0) - PADDING_IDX - 1
    layout = CausalLMLayout(**{**values, **wiring})
    compare_shapes(tensors, expected_shapes(layout), origin, expected)
    return layout


def expected_shapes(layout: CausalLMLayout) -> Dict[str, Tuple[int, ...]]:
    """Name -> shape of every tensor of a causal LM of this layout, in the names of fairseq's ``TransformerDecoder``."""
    width, inner = layout.embed_dim, layout.ffn_dim
    shapes: Dict[str, Tuple[int, ...]] = {WORDS: (layout.vocab_size, width)}
    if not layout.tied:
        shapes[OUTPUT] = (layout.vocab_size, width)
    if layout.learned_positions:
        shapes[POSITIONS] = (layout.max_positions + PADDING_IDX + 1, width)
    block: Dict[str, Tuple[int, ...]] = {"fc1.weight": (inner, width), "fc1.bias": (inner,)}
    block.update({"fc2.weight": (width, inner), "fc2.bias": (width,)})
    for projection in ("q_proj", "k_proj", "v_proj", "out_proj"):
        block[f"self_attn.{projection}.weight"] = (width, width)
        block[f"self_attn.{projection}.bias"] = (width,)
    for norm in ("self_attn_layer_norm", "final_layer_norm"):
        block[f"{norm}.weight"] = block[f"{norm}.bias"] = (width,)
    for norm in ["layernorm_embedding"] * layout.layernorm_embedding + ["layer_norm"] * layout.final_norm:
        shapes[f"{norm}.weight"] = shapes[f"{norm}.bias"] = (width,)
    for layer in range(layout.layers):
        shapes.update({f"layers.{layer}.{name}": shape for name, shape in block.items()})
    return shapes


def _report(renamed: Renamed) -> LoadReport:
    return LoadReport(renamed.used(), dropped=tuple(renamed.dropped), reasons=renamed.dropped)
