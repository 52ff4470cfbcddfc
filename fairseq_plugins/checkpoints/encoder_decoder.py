"""Encoder-decoders: mBART, NLLB and M2M-100 (fairseq, Hugging Face), of which the encoder is wanted, and DeltaLM (fairseq)."""

import logging
import re
from dataclasses import dataclass, replace
from typing import Any, Dict, Mapping, Tuple

import torch
from torch import Tensor

from . import veco
from .encoder_languages import stock_languages
from .encoder_layout import FAMILIES
from .errors import CheckpointError
from .huggingface import differing, refuse_config
from .loading import LoadReport, Renamed, Rule, drop, fused_attention, refuse, rename
from .pipeline import POSITIONS, WORDS, Content, FileLayout, Source, matrix, read_content, source_of
from .reading import PathLike
from .vocabularies import STYLES, Languages

logger = logging.getLogger(__name__)

SHARED = "shared.weight"
ACTIVATIONS = ("gelu", "relu")
MBART_EXPECTED = (
    "an mBART: a fairseq checkpoint with encoder.* and decoder.* and learned positions, or a Hugging Face folder of model_type "
    "mbart (model.encoder.*, model.shared.weight)"
)
NLLB_EXPECTED = (
    "a dense NLLB or M2M-100: a fairseq checkpoint with encoder.* and decoder.*, norms before the blocks and sinusoidal positions, "
    "or a Hugging Face folder of model_type m2m_100"
)
DELTALM_EXPECTED = (
    "a DeltaLM file: {'weights': …} with src_embedding.*, encoder.*, tgt_embedding.*, decoder.*, or a fairseq "
    "checkpoint"
)
SINUSOIDS = 1024
"""Longest input of sinusoidal positions, which have no end, where the file does not say."""

_TOP = r"(?:model\.)?"
_ENCODER = _TOP + r"encoder\."
_LAYER = _ENCODER + r"layers\.(\d+)\."

MBART_RULES: Tuple[Rule, ...] = (
    refuse(_TOP + r"(?:encoder|decoder)\.layers\.\d+\.(?:moe_layer|ffn)\..*", "is a mixture of experts"),
    rename(_TOP + r"shared\.weight", SHARED),
    rename(_ENCODER + r"(embed_tokens|embed_positions)\.weight", r"\1.weight"),
    rename(_ENCODER + r"(layernorm_embedding|layer_norm)\.(weight|bias)", r"\1.\2"),
    *fused_attention(_LAYER, r"layers.\1."),
    rename(_LAYER + r"(self_attn_layer_norm|fc1|fc2|final_layer_norm)\.(weight|bias)", r"layers.\1.\2.\3"),
    drop(_ENCODER + r"version", "format counter of fairseq"),
    drop(r"_float_tensor|" + _ENCODER + r"embed_positions\.(?:_float_tensor|weights)", "buffer that is counted anew"),
    drop(_TOP + r"decoder\..*", "decoder, unused by an encoder"),
    drop(r"lm_head\.weight|final_logits_bias", "output of the decoder, unused by an encoder"),
    drop(r"(?:classification_heads?|qa_outputs|score)\..*", "head of another task"),
)
"""fairseq's and Hugging Face's names differ by ``model.`` and ``shared`` only."""

NLLB_RULES: Tuple[Rule, ...] = (
    refuse(
        r"(?:model\.)?encoder\.(?:embed_positions\.weight|layernorm_embedding\..*)",
        "has learned positions or an embedding norm",
    ),
    *MBART_RULES,
)


def untie(renamed: Renamed, origin: str) -> None:
    """Give ``shared`` its place, after making sure that it is not another embedding than the encoder's.

    Raises:
        CheckpointError: the two differ.
    """
    tensors = renamed.tensors
    if SHARED not in tensors:
        return
    if WORDS not in tensors:
        renamed.move(SHARED, WORDS)
        return
    if not torch.equal(tensors[SHARED], tensors[WORDS]):
        raise CheckpointError(
            f"{origin}: {renamed.sources[SHARED]} and {renamed.sources[WORDS]} differ, expected one embedding"
        )
    renamed.discard(SHARED, "equal to the encoder's embedding")


# ---- fairseq. ----


def stock_wiring(content: Content, tensors: Mapping[str, Tensor], defaults: Mapping[str, Any]) -> Dict[str, Any]:
    """Fields of ``EncoderLayout`` from the options of a fairseq model and from its tensors.

    What the tensors show counts, whatever the options say: those saved with released models are not always those of the
    training.

    Args:
        content: its options may be empty.
        tensors: of the encoder, in the names of fairseq's stock encoder.
        defaults: fields for which nothing is stated; an ``activation`` among them gives way to that of the architecture.

    Raises:
        CheckpointError: the options say that the encoder has no positions.
    """
    settings, origin = content.options, content.origin
    if settings.get("no_token_positional_embeddings"):
        raise CheckpointError(f"{origin}: was trained with no_token_positional_embeddings, expected positions")
    named = {
        "normalize_before": "encoder_normalize_before",
        "layernorm_embedding": "layernorm_embedding",
        "learned_positions": "encoder_learned_pos",
        "activation": "activation_fn",
    }
    found = {field: settings[name] for field, name in named.items() if settings.get(name) is not None}
    if settings.get("no_scale_embedding") is not None:
        found["scale_embedding"] = not settings["no_scale_embedding"]
    for field, value in _shown(tensors).items():
        if field in found and bool(found[field]) != value:
            logger.warning(
                "%s: its options say %s = %s, its tensors %s: the tensors count",
                origin,
                named[field],
                found[field],
                value,
            )
        found[field] = value
    if "activation" in defaults and "activation" not in found:
        found["activation"] = _activation_of(content, str(defaults["activation"]))
    return {**defaults, **found}


def _shown(tensors: Mapping[str, Tensor]) -> Dict[str, bool]:
    """Fields that the presence of tensors decides: fairseq has a last norm with norms before the blocks, and only then."""
    first = {name.split(".")[0] for name in tensors}
    shown = {"normalize_before": "layer_norm" in first, "layernorm_embedding": "layernorm_embedding" in first}
    # Without a table positions may be sinusoids, or the table may be lost: the options tell.
    return {**shown, "learned_positions": True} if POSITIONS in tensors else shown


def _activation_of(content: Content, default: str) -> str:
    """The default of the architecture, which is not the same in all families of fairseq."""
    defaults = {"transformer": "relu", "bart": "gelu", "mbart": "gelu"}
    found = next((value for start, value in defaults.items() if content.arch.startswith(start)), default)
    logger.warning(
        "%s: its options lack activation_fn: %s is taken, as for --arch %s",
        content.origin,
        found,
        content.arch or "of its family",
    )
    return found


# ---- mBART and NLLB. ----

FOLDER_SIZES = {
    "vocab_size": "vocab_size",
    "layers": "encoder_layers",
    "embed_dim": "d_model",
    "ffn_dim": "encoder_ffn_dim",
    "max_positions": "max_position_embeddings",
    "heads": "encoder_attention_heads",
}


def _is_stock(content: Content) -> bool:
    return not content.is_folder and veco.has_layers(content)


def _has_positions(content: Content) -> bool:
    return f"encoder.{POSITIONS}" in content.tensors


def _settle_mbart(content: Content, source: Source) -> None:
    wiring = stock_wiring(content, source.renamed.tensors, {**FAMILIES["mbart"], "activation": "gelu"})
    source.wiring = {"family": "mbart", **wiring}
    source.languages = stock_languages(content.entries, content.options, STYLES["mbart"])


def _settle_nllb(content: Content, source: Source) -> None:
    wiring = stock_wiring(content, source.renamed.tensors, FAMILIES["nllb"])
    if not wiring["normalize_before"]:
        raise CheckpointError(
            f"{content.origin}: has its norms after the blocks and sinusoidal positions; expected {NLLB_EXPECTED}"
        )
    source.wiring = {"family": "nllb", **wiring, "max_positions": source.stated.pop("max_positions") or SINUSOIDS}
    source.languages = stock_languages(content.entries, content.options, STYLES["nllb"])


def _check_folder(content: Content) -> None:
    problems = differing(content.options, {"pad_token_id": 1, "eos_token_id": 2})
    found = content.options.get("activation_function")
    if found and found not in ACTIVATIONS:
        problems.append(f"activation_function = {found!r}, expected one of {', '.join(ACTIVATIONS)}")
    refuse_config(problems, content)


def _settle_folder(content: Content, source: Source) -> None:
    kind = content.options["model_type"]
    family, activation = ("mbart", "gelu") if kind == "mbart" else ("nllb", "relu")
    scale = content.options.get("scale_embedding")
    untie(source.renamed, content.origin)
    source.wiring = {
        "family": family,
        **FAMILIES[family],
        "scale_embedding": family == "nllb" if scale is None else bool(scale),
        "activation": content.options.get("activation_function") or activation,
    }
    if family == "nllb":
        source.wiring["max_positions"] = source.stated.pop("max_positions") or SINUSOIDS
        source.languages = Languages(style=STYLES[family])


MBART = FileLayout(
    MBART_EXPECTED,
    lambda content: _is_stock(content) and _has_positions(content),
    MBART_RULES,
    veco.SIZES,
    veco.check_stated_somehow,
    _settle_mbart,
)
NLLB = FileLayout(NLLB_EXPECTED, _is_stock, NLLB_RULES, veco.SIZES, settle=_settle_nllb)
MBART_FOLDER = FileLayout(
    MBART_EXPECTED,
    lambda content: content.is_folder and content.options.get("model_type") == "mbart",
    MBART_RULES,
    FOLDER_SIZES,
    _check_folder,
    _settle_folder,
    model_types=("mbart",),
)
NLLB_FOLDER = replace(
    MBART_FOLDER,
    expected=NLLB_EXPECTED,
    recognised=lambda content: content.is_folder and content.options.get("model_type") == "m2m_100",
    rules=NLLB_RULES,
    model_types=("m2m_100",),
)


# ---- DeltaLM. ----

_SIDES = (("src_embedding", "encoder"), ("tgt_embedding", "decoder"))
_ATTENTION = r"(self_attn|encoder_attn)\.(q_proj|k_proj|v_proj|out_proj)\.(weight|bias)"
_NORMS = r"(self_attn_layer_norm|encoder_attn_layer_norm|ffn_layer_norm|final_layer_norm)\.(weight|bias)"
_DELTALM_NAME = re.compile(r"(?:src|tgt)_embedding\..*|decoder\.layers\.\d+\.(?:fc3|ffn_1\.fc1)\..*")


def _embeddings(source: str, side: str) -> Tuple[Rule, ...]:
    return (
        rename(source + r"\.(embed_tokens|embed_positions)\.weight", side + r".\1.weight"),
        rename(source + r"\.(?:emb_layer_norm|layernorm_embedding)\.(weight|bias)", side + r".layernorm_embedding.\1"),
    )


DELTALM_RULES: Tuple[Rule, ...] = (
    *(rule for released, side in _SIDES for rule in (*_embeddings(released, side), *_embeddings(side, side))),
    rename(r"(encoder|decoder)\.layers\.(\d+)\." + _ATTENTION, r"\1.layers.\2.\3.\4.\5"),
    rename(r"(encoder|decoder)\.layers\.(\d+)\." + _NORMS, r"\1.layers.\2.\3.\4"),
    rename(r"encoder\.layers\.(\d+)\.(?:ffn\.)?(fc1|fc2)\.(weight|bias)", r"encoder.layers.\1.\2.\3"),
    rename(r"decoder\.layers\.(\d+)\.ffn_1\.fc1\.(weight|bias)", r"decoder.layers.\1.fc3.\2"),
    rename(r"decoder\.layers\.(\d+)\.ffn_1\.fc2\.(weight|bias)", r"decoder.layers.\1.fc4.\2"),
    rename(r"decoder\.layers\.(\d+)\.(?:ffn_2\.)?(fc1|fc2)\.(weight|bias)", r"decoder.layers.\1.\2.\3"),
    rename(r"decoder\.layers\.(\d+)\.(fc3|fc4)\.(weight|bias)", r"decoder.layers.\1.\2.\3"),
    rename(r"(encoder|decoder)\.layer_norm\.(weight|bias)", r"\1.layer_norm.\2"),
    rename(r"decoder\.output_projection\.weight", r"decoder.output_projection.weight"),
    drop(r"(?:encoder|decoder)\.version", "format counter of fairseq"),
    drop(r"(?:encoder|decoder)\.embed_positions\._float_tensor", "dtype marker of fairseq"),
)


def _is_deltalm(content: Content) -> bool:
    named = content.arch.startswith("deltalm") or any(_DELTALM_NAME.fullmatch(name) for name in content.tensors)
    return not content.is_folder and ("weights" in content.entries or named)


def _check_numbers(content: Content) -> None:
    for name, tensor in content.tensors.items():
        if isinstance(tensor, Tensor) and not tensor.is_floating_point():
            raise CheckpointError(f"{content.origin}: {name} holds {tensor.dtype}, expected floating-point numbers")


def _settle_deltalm(content: Content, source: Source) -> None:
    deltalm_sizes(source.renamed, content.origin)
    source.renamed.discard_all("decoder.", "decoder, unused by an encoder")
    source.renamed.move("encoder.", "")
    source.wiring = {"family": "deltalm", **stock_wiring(content, source.renamed.tensors, {})}
    source.languages = stock_languages(content.entries, content.options, "__{}__")


DELTALM = FileLayout(DELTALM_EXPECTED, lambda content: not content.is_folder, DELTALM_RULES, veco.SIZES, _check_numbers)
DELTALM_ENCODER = replace(DELTALM, recognised=_is_deltalm, settle=_settle_deltalm)


@dataclass(frozen=True)
class DeltaLMFile:
    """A DeltaLM as read from disk.

    Attributes:
        tensors: name -> float32 tensor, in the names of ``models.deltalm.DeltaLMModel``.
        sources: name -> its name in the file.
        sizes: option of the model -> value that the tensors have.
        report: what became of every tensor of the file.
    """

    tensors: Dict[str, Tensor]
    sources: Mapping[str, str]
    sizes: Dict[str, int]
    report: LoadReport


def read_deltalm(path: PathLike) -> DeltaLMFile:
    """Read a DeltaLM file.

    Raises:
        CheckpointError: unreadable, untrusted, of another layout, or with tensors that are not accounted for.
    """
    content = read_content(path, f"'weights' or 'model', as in {DELTALM_EXPECTED}")
    source = source_of(content, (DELTALM,), DELTALM_EXPECTED)
    sizes = deltalm_sizes(source.renamed, content.origin)
    return DeltaLMFile(source.renamed.tensors, source.renamed.sources, sizes, source.report())


def deltalm_sizes(renamed: Renamed, origin: str) -> Dict[str, int]:
    """Option of the model -> value, for both sides.

    Raises:
        CheckpointError: a matrix or a layer is missing.
    """
    sizes: Dict[str, int] = {}
    for side in ("encoder", "decoder"):
        found = (re.match(rf"{side}\.layers\.(\d+)\.", name) for name in renamed.tensors)
        layers = {int(match.group(1)) for match in found if match}
        words, positions, inner = (
            matrix(renamed.tensors, f"{side}.{name}", origin, DELTALM_EXPECTED)
            for name in (WORDS, POSITIONS, "layers.0.fc1.weight")
        )
        if layers != set(range(len(layers))):
            raise CheckpointError(f"{origin}: {side} layers {sorted(layers)} are not 0 to {len(layers) - 1}")
        sizes[f"{side}_layers"] = len(layers)
        sizes[f"{side}_embed_dim"] = words.size(1)
        sizes[f"{side}_ffn_embed_dim"] = inner.size(0)
        sizes[f"{side}_rows"] = words.size(0)
        sizes[f"{side}_positions"] = positions.size(0)
    return sizes
