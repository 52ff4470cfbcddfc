"""mBART, and the pre-norm transformers of M2M-100 and NLLB, with their decoder: to ``transformers`` and back, by one table."""

import argparse
import logging
from pathlib import Path
from typing import Any, Dict, List, Mapping, Tuple

import torch
from torch import Tensor

from ..checkpoints import CheckpointError, bart, read_checkpoint
from ..checkpoints.bart import SHARED
from ..checkpoints.layouts import (
    PADDING_IDX,
    POSITIONS,
    WORDS,
    Shapes,
    attention_shapes,
    expected_shapes,
    family_layout,
)
from ..checkpoints.loading import check_shapes
from ..checkpoints.opening import Checkpoint, differing, find_weights
from ..checkpoints.reading import PathLike
from ..checkpoints.renaming import NameTable, rename_tensors, stack_buffers, stack_renames
from ..checkpoints.vocabulary import CONFIG_NAME, as_list, read_json, stock_languages, task_options
from ..checkpoints.writing import save_checkpoint, start_state
from .huggingface_layout import Entries, Exported

logger = logging.getLogger(__name__)

OUTPUT = "decoder.output_projection.weight"
TIED = (f"encoder.{WORDS}", f"decoder.{WORDS}", OUTPUT)
MBART, M2M = "mbart", "m2m_100"
EXPECTED = (
    "an mBART, M2M-100 or NLLB: norms before the blocks and after the last layer, one embedding for sides and output"
)
_BIAS = "final_logits_bias"
_DECODER = r"(?:model\.)?decoder\."
_NAMES = NameTable(
    renames={
        **bart.NAMES.renames,
        **stack_renames(_DECODER, "decoder."),
        _DECODER + r"output_projection\.weight|lm_head\.weight": OUTPUT,
        _BIAS: _BIAS,
    },
    dropped={**bart.BUFFERS, **stack_buffers(_DECODER)},
    refused=bart.NAMES.refused,
)
"""fairseq's names, and those of ``transformers``, which have ``model.`` before them and one ``shared`` embedding."""
_OPTIONS = {
    "d_model": "{}_embed_dim",
    "{}_layers": "{}_layers",
    "{}_ffn_dim": "{}_ffn_embed_dim",
    "{}_attention_heads": "{}_attention_heads",
}
"""Option of ``config.json`` -> fairseq's, of a side."""
_SIZES = {"layers": "{}_layers", "embed_dim": "d_model", "ffn_dim": "{}_ffn_dim", "heads": "{}_attention_heads"}
_SIZES.update(vocab_size="vocab_size", max_positions="max_position_embeddings")
"""Size -> option of ``config.json``, of a side."""
_SIDES = ("encoder", "decoder")
_DROPOUT = ("dropout", "attention_dropout", "activation_dropout")
_SINUSOIDS = 1024
_ARCHITECTURES = {
    MBART: ("MBartForConditionalGeneration", "mbart_large"),
    M2M: ("M2M100ForConditionalGeneration", "transformer"),
}
"""model_type -> class there, architecture here."""


def exported_seq2seq(content: Checkpoint) -> Exported:
    """A fairseq checkpoint with encoder and decoder. Raises ValueError: wired or tied otherwise than either model."""
    options, origin = content.options, content.origin
    tensors = rename_tensors(content.tensors, _NAMES, origin, EXPECTED).tensors
    words = _untie(tensors, origin)
    model_type = MBART if f"encoder.{POSITIONS}" in tensors else M2M
    _check_norms(tensors, model_type, origin)
    sizes = {
        theirs.format(side): options.get(ours.format(side)) for side in _SIDES for theirs, ours in _OPTIONS.items()
    }
    problems = [f"{name} is {value}" for name, value in sizes.items() if not isinstance(value, int)]
    problems += differing(options, {"no_token_positional_embeddings": False, "activation_fn": ("relu", "gelu")})
    if problems:
        raise CheckpointError(f"{origin}: {'; '.join(problems)}; expected {EXPECTED}")
    longest = _longest(tensors, options, origin)
    config = {**sizes, "model_type": model_type, "architectures": [_ARCHITECTURES[model_type][0]]}
    config.update(vocab_size=len(words), d_model=words.size(1), max_position_embeddings=longest)
    config.update(activation_function=options.get("activation_fn") or "relu", is_encoder_decoder=True)
    config.update(scale_embedding=not options.get("no_scale_embedding"), tie_word_embeddings=True)
    config.update({name: options[name] for name in _DROPOUT if isinstance(options.get(name), (int, float))})
    config.update(bos_token_id=0, pad_token_id=PADDING_IDX, eos_token_id=2)
    check_shapes(tensors, _shapes(config, model_type), origin, EXPECTED)
    made = {f"model.{name}": tensor for name, tensor in {SHARED: words, **tensors}.items()}
    if model_type == MBART:
        made[_BIAS] = torch.zeros(1, len(words))
    return Exported(
        made,
        config,
        single=lambda entries: _around_source(content, entries),
        pair=("A", "B", "</s>"),
        generation=lambda entries: _generation(content, entries),
        longest=longest,
    )


def _untie(tensors: Dict[str, Tensor], origin: str) -> Tensor:
    """Take out the one embedding, (V, C). Raises CheckpointError: there are several."""
    shared = tensors.pop(SHARED, None)
    found = [one for one in (shared, *(tensors.pop(name, None) for name in TIED)) if one is not None]
    if not found or any(not torch.equal(found[0], one) for one in found[1:]):
        raise CheckpointError(f"{origin}: its embeddings and output projection are not one matrix; expected {EXPECTED}")
    return found[0]


def _check_norms(tensors: Mapping[str, Tensor], model_type: str, origin: str) -> None:
    wanted = {"layer_norm": True, "layernorm_embedding": model_type == MBART}
    for side in _SIDES:
        wrong = [name for name, there in wanted.items() if (f"{side}.{name}.weight" in tensors) != there]
        if (f"{side}.{POSITIONS}" in tensors) != (model_type == MBART):
            wrong.append("embed_positions")
        if wrong:
            held = "has" if f"{side}.{wrong[0]}.weight" in tensors else "has no"
            raise CheckpointError(f"{origin}: {held} {side}.{wrong[0]}; expected {EXPECTED}")


def _longest(tensors: Mapping[str, Tensor], options: Mapping[str, Any], origin: str) -> int:
    """Positions of both sides, which have one number there."""
    if f"encoder.{POSITIONS}" not in tensors:
        return max(int(options.get(f"max_{side}_positions") or _SINUSOIDS) for side in ("source", "target"))
    rows = [len(tensors[f"{side}.{POSITIONS}"]) for side in _SIDES]
    if rows[0] != rows[1]:
        raise CheckpointError(
            f"{origin}: has {rows[0]} rows of positions on one side, {rows[1]} on the other; expected as many"
        )
    return rows[0] - PADDING_IDX - 1


def _shapes(config: Mapping[str, Any], model_type: str) -> Shapes:
    """Shapes of both sides, without the embedding, by the options of ``config.json``."""
    shapes: Dict[str, Tuple[int, ...]] = {}
    for side in _SIDES:
        sizes = {size: config[name.format(side)] for size, name in _SIZES.items()}
        stack = expected_shapes(family_layout({MBART: "mbart", M2M: "nllb"}[model_type], **sizes))
        for layer in range(sizes["layers"] if side == "decoder" else 0):
            stack.update(attention_shapes(f"layers.{layer}.encoder_attn", sizes["embed_dim"]))
        shapes.update({f"{side}.{name}": shape for name, shape in stack.items() if name != WORDS})
    return shapes


# ---- Languages. ----


def _task(content: Checkpoint) -> Dict[str, Any]:
    """The options of the task, its name as ``_name``."""
    options = {**content.options, **task_options(content.entries)}
    return {**options, "_name": str(task_options(content.entries).get("_name") or content.options.get("task") or "")}


def _pair(task: Mapping[str, Any]) -> List[str]:
    """Source and target language; empty for a model of several pairs, or none."""
    pairs = as_list(task.get("lang_pairs"))
    languages = [str(task.get(f"{side}_lang") or "") for side in ("source", "target")]
    languages = pairs[0].split("-") if not all(languages) and len(pairs) == 1 else languages
    return languages if all(languages) and len(pairs) < 2 else []


def _tag(content: Checkpoint, language: str, entries: Entries) -> str:
    """The entry of a language; empty where the dictionary has none."""
    entry = stock_languages(content.entries, content.options, "[{}]").style.format(language)
    return entry if entry in entries else ""


def _around_source(content: Checkpoint, entries: Entries) -> List[str]:
    task = _task(content)
    pair = _pair(task)
    if pair and task["_name"].startswith("translation_from_pretrained_bart"):
        return [*filter(None, ("A", "</s>", _tag(content, pair[0], entries)))]
    which = {"src": 0, "tgt": 1}.get(str(task.get("encoder_langtok")))
    first = _tag(content, pair[which], entries) if pair and which is not None else ""
    return [*filter(None, (first, "A", "</s>"))]


def _generation(content: Checkpoint, entries: Entries) -> Dict[str, Any]:
    """Beginning and end of what is generated, with fairseq's defaults of a search."""
    task = _task(content)
    pair = _pair(task)
    target = _tag(content, pair[1], entries) if pair else ""
    found: Dict[str, Any] = {
        "bos_token_id": 0,
        "pad_token_id": PADDING_IDX,
        "eos_token_id": 2,
        "decoder_start_token_id": 2,
    }
    if target and task["_name"].startswith("translation_from_pretrained_bart"):
        found["decoder_start_token_id"] = list(entries).index(target)
    elif target and task.get("decoder_langtok"):
        found["forced_bos_token_id"] = list(entries).index(target)
    return {**found, "num_beams": 5, "max_length": 200, "length_penalty": 1.0}


# ---- The way back. ----


def recognised(folder: PathLike) -> bool:
    """Whether a folder's ``config.json`` names one of these models."""
    file = Path(folder) / CONFIG_NAME
    return file.is_file() and read_json(file, EXPECTED).get("model_type") in _ARCHITECTURES


def import_seq2seq(folder: PathLike, checkpoint: PathLike) -> None:
    """Make a fairseq checkpoint of a folder of an mBART, M2M-100 or NLLB, to start from or to decode with.

    Its dictionary: ``fairseq-plugins dictionary FOLDER dict.txt``. Raises ValueError: another model_type,
    tensors that are not accounted for, a bias of the output, which fairseq does not have, or a file that is there already.
    """
    if Path(checkpoint).exists():
        raise CheckpointError(f"{checkpoint}: is there already, and is not replaced; valid: a new name")
    file = find_weights(Path(folder))
    config, origin = read_json(file.parent / CONFIG_NAME, EXPECTED), f"checkpoint {file}"
    model_type = config.get("model_type")
    if model_type not in _ARCHITECTURES:
        raise CheckpointError(f"{origin}: model_type = {model_type!r}, expected one of {', '.join(_ARCHITECTURES)}")
    tensors = rename_tensors(read_checkpoint(file), _NAMES, origin, EXPECTED).tensors
    bias = tensors.pop(_BIAS, None)
    problems = differing(
        config, {"pad_token_id": PADDING_IDX, "eos_token_id": 2, "activation_function": ("relu", "gelu")}
    )
    problems += ["its final_logits_bias is not 0"] if bias is not None and bool(bias.any()) else []
    if problems:
        raise CheckpointError(f"{origin}: {'; '.join(problems)}; expected {EXPECTED}")
    words = _untie(tensors, origin)
    _check_norms(tensors, model_type, origin)
    sizes = {"vocab_size": len(words), "max_position_embeddings": _SINUSOIDS, **config}
    check_shapes(tensors, _shapes(sizes, model_type), origin, EXPECTED)
    options = _stock_options(sizes, model_type)
    tensors.update(dict.fromkeys(TIED, words))
    tensors.update({f"{side}.version": torch.tensor([3.0]) for side in _SIDES})
    save_checkpoint(start_state(tensors, cfg={"model": argparse.Namespace(**options)}), checkpoint)
    logger.info("wrote %s: --arch %s, %d tensors", checkpoint, options["arch"], len(tensors))


def _stock_options(config: Mapping[str, Any], model_type: str) -> Dict[str, Any]:
    """The options of the fairseq model, by those of ``config.json``."""
    of_mbart = model_type == MBART
    options: Dict[str, Any] = {"arch": _ARCHITECTURES[model_type][1], "layernorm_embedding": of_mbart}
    for side in _SIDES:
        options.update({ours.format(side): config[theirs.format(side)] for theirs, ours in _OPTIONS.items()})
        options.update({f"{side}_normalize_before": True, f"{side}_learned_pos": of_mbart})
    for side in ("source", "target"):
        options[f"max_{side}_positions"] = config["max_position_embeddings"]
    options.update(share_all_embeddings=True, share_decoder_input_output_embed=True)
    options.update(no_scale_embedding=not config.get("scale_embedding", not of_mbart))
    options["activation_fn"] = config.get("activation_function") or ("gelu" if of_mbart else "relu")
    if of_mbart:
        options["task"] = "translation_from_pretrained_bart"  # which fairseq's BART asks for when it loads weights
    return {**options, **{name: config[name] for name in _DROPOUT if name in config}}
