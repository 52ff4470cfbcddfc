"""mBART, M2M-100 and NLLB with their decoders: to ``transformers`` and back, by one table."""

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
from ..checkpoints.renaming import (
    NameTable,
    rename_tensors,
    stack_buffers,
    stack_renames,
)
from ..checkpoints.vocabulary import (
    CONFIG_NAME,
    as_list,
    read_json,
    stock_languages,
    task_options,
)
from ..checkpoints.writing import save_checkpoint, start_state
from .huggingface_layout import Entries, Exported

logger = logging.getLogger(__name__)

SIDES = ("encoder", "decoder")
OUTPUT = "decoder.output_projection.weight"
TIED = (f"encoder.{WORDS}", f"decoder.{WORDS}", OUTPUT)
MBART, M2M = "mbart", "m2m_100"
EXPECTED = (
    "an mBART, M2M-100 or NLLB: norms before the blocks and after the last layer, one embedding "
    "for sides and output"
)
BIAS = "final_logits_bias"
DECODER = r"(?:model\.)?decoder\."
NAMES = NameTable(
    renames={
        **bart.NAMES.renames,
        **stack_renames(DECODER, "decoder."),
        DECODER + r"output_projection\.weight|lm_head\.weight": OUTPUT,
        BIAS: BIAS,
    },
    dropped={**bart.BUFFERS, **stack_buffers(DECODER)},
    refused=bart.NAMES.refused,
)
"""fairseq's names, and those of ``transformers``: with ``model.``, and one ``shared`` embedding."""
OPTIONS = {
    "d_model": "{}_embed_dim",
    "{}_layers": "{}_layers",
    "{}_ffn_dim": "{}_ffn_embed_dim",
    "{}_attention_heads": "{}_attention_heads",
}
"""Option of ``config.json`` -> fairseq's; ``{}`` is a side."""
SIZES = {
    "layers": "{}_layers",
    "embed_dim": "d_model",
    "ffn_dim": "{}_ffn_dim",
    "heads": "{}_attention_heads",
    "vocab_size": "vocab_size",
    "max_positions": "max_position_embeddings",
}
"""Size -> option of ``config.json``; ``{}`` is a side."""
DROPOUT = ("dropout", "attention_dropout", "activation_dropout")
SINUSOIDS = 1024
"""Default number of positions without a table."""
SPECIAL_IDS = {"bos_token_id": 0, "pad_token_id": PADDING_IDX, "eos_token_id": 2}
CLASSES = {MBART: "MBartForConditionalGeneration", M2M: "M2M100ForConditionalGeneration"}
"""model_type -> class of ``transformers``."""
ARCHITECTURES = {MBART: "mbart_large", M2M: "transformer"}
"""model_type -> architecture of fairseq."""


def exported_seq2seq(content: Checkpoint) -> Exported:
    """Convert a fairseq checkpoint with encoder and decoder.

    Raises:
        ValueError: norms, positions or options are neither mBART's nor M2M-100's, or the embeddings
            are not tied.
    """
    options, origin = content.options, content.origin
    tensors = rename_tensors(content.tensors, NAMES, origin, EXPECTED).tensors
    words = _untie(tensors, origin)
    model_type = MBART if f"encoder.{POSITIONS}" in tensors else M2M
    _check_norms(tensors, model_type, origin)
    sizes = {
        theirs.format(side): options.get(ours.format(side))
        for side in SIDES
        for theirs, ours in OPTIONS.items()
    }
    problems = [f"{name} is {size}" for name, size in sizes.items() if not isinstance(size, int)]
    wiring = {"no_token_positional_embeddings": False, "activation_fn": ("relu", "gelu")}
    problems += differing(options, wiring)
    if problems:
        raise CheckpointError(f"{origin}: {'; '.join(problems)}; expected {EXPECTED}")
    max_tokens = _max_positions(tensors, options, origin)
    dropout = {name: options.get(name) for name in DROPOUT}
    config = {
        **sizes,
        "model_type": model_type,
        "architectures": [CLASSES[model_type]],
        "vocab_size": len(words),
        "d_model": words.size(1),
        "max_position_embeddings": max_tokens,
        "activation_function": options.get("activation_fn") or "relu",
        "is_encoder_decoder": True,
        "scale_embedding": not options.get("no_scale_embedding"),
        "tie_word_embeddings": True,
        **{name: share for name, share in dropout.items() if isinstance(share, (int, float))},
        **SPECIAL_IDS,
    }
    check_shapes(tensors, _shapes(config, model_type), origin, EXPECTED)
    exported = {f"model.{SHARED}": words}
    exported.update((f"model.{name}", tensor) for name, tensor in tensors.items())
    if model_type == MBART:
        exported[BIAS] = torch.zeros(1, len(words))
    return Exported(
        exported,
        config,
        single=lambda entries: _around_source(content, entries),
        pair=("A", "B", "</s>"),
        generation=lambda entries: _generation(content, entries),
        max_tokens=max_tokens,
    )


def _untie(tensors: Dict[str, Tensor], origin: str) -> Tensor:
    """Remove all copies of the shared embedding (V, C) and return one.

    Raises:
        CheckpointError: there is none, or the copies differ.
    """
    names = [name for name in (SHARED, *TIED) if name in tensors]
    copies = [tensors.pop(name) for name in names]
    if not copies or any(not torch.equal(copies[0], copy) for copy in copies[1:]):
        problem = "its embeddings and output projection are not one matrix"
        raise CheckpointError(f"{origin}: {problem}; expected {EXPECTED}")
    return copies[0]


def _check_norms(tensors: Mapping[str, Tensor], model_type: str, origin: str) -> None:
    """Raise CheckpointError unless norms and tables of positions are those of the model."""
    is_mbart = model_type == MBART
    needed = {"layer_norm": True, "layernorm_embedding": is_mbart, "embed_positions": is_mbart}
    for side in SIDES:
        for name, is_needed in needed.items():
            is_present = f"{side}.{name}.weight" in tensors
            if is_present != is_needed:
                verb = "has" if is_present else "has no"
                raise CheckpointError(f"{origin}: {verb} {side}.{name}; expected {EXPECTED}")


def _max_positions(tensors: Mapping[str, Tensor], options: Mapping[str, Any], origin: str) -> int:
    """Return the number of positions; ``transformers`` has one number for both sides."""
    if f"encoder.{POSITIONS}" not in tensors:
        sides = ("source", "target")
        return max(int(options.get(f"max_{side}_positions") or SINUSOIDS) for side in sides)
    encoder_rows, decoder_rows = (len(tensors[f"{side}.{POSITIONS}"]) for side in SIDES)
    if encoder_rows != decoder_rows:
        raise CheckpointError(
            f"{origin}: has {encoder_rows} rows of positions on one side, {decoder_rows} on the "
            "other; expected as many"
        )
    return encoder_rows - PADDING_IDX - 1


def _shapes(config: Mapping[str, Any], model_type: str) -> Shapes:
    """Return the shapes of both sides, without the embedding, by options of ``config.json``."""
    family = "mbart" if model_type == MBART else "nllb"
    shapes: Dict[str, Tuple[int, ...]] = {}
    for side in SIDES:
        sizes = {size: config[name.format(side)] for size, name in SIZES.items()}
        stack = expected_shapes(family_layout(family, **sizes))
        if side == "decoder":
            for layer in range(sizes["layers"]):
                cross = f"layers.{layer}.encoder_attn"
                stack.update(attention_shapes(cross, sizes["embed_dim"]))
        shapes.update({f"{side}.{name}": shape for name, shape in stack.items() if name != WORDS})
    return shapes


# ---- Languages. ----


def _task(content: Checkpoint) -> Dict[str, Any]:
    """Return the options of the task, with its name as ``_name``."""
    task = task_options(content.entries)
    name = task.get("_name") or content.options.get("task") or ""
    return {**content.options, **task, "_name": str(name)}


def _pair(task: Mapping[str, Any]) -> List[str]:
    """Return source and target language; empty for a model of several pairs, or without one."""
    pairs = as_list(task.get("lang_pairs"))
    if len(pairs) > 1:
        return []
    languages = [str(task.get(f"{side}_lang") or "") for side in ("source", "target")]
    if not all(languages) and pairs:
        languages = pairs[0].split("-")
    return languages if all(languages) else []


def _tag(content: Checkpoint, language: str, entries: Entries) -> str:
    """Return a language's symbol as an entry of the dictionary; empty if it has none."""
    languages = stock_languages(content.entries, content.options, "[{}]")
    entry = languages.style.format(language)
    return entry if entry in entries else ""


def _around_source(content: Checkpoint, entries: Entries) -> List[str]:
    """List the entries of a source of one text ``A``, as the task builds it."""
    task = _task(content)
    pair = _pair(task)
    if pair and task["_name"].startswith("translation_from_pretrained_bart"):
        symbols = ["A", "</s>", _tag(content, pair[0], entries)]
    else:
        side = {"src": 0, "tgt": 1}.get(str(task.get("encoder_langtok")))
        tag = _tag(content, pair[side], entries) if pair and side is not None else ""
        symbols = [tag, "A", "</s>"]
    return [symbol for symbol in symbols if symbol]


def _generation(content: Checkpoint, entries: Entries) -> Dict[str, Any]:
    """Make ``generation_config.json``: how outputs begin, and fairseq's defaults of the search."""
    task = _task(content)
    pair = _pair(task)
    target = _tag(content, pair[1], entries) if pair else ""
    options: Dict[str, Any] = {**SPECIAL_IDS, "decoder_start_token_id": 2}
    if target and task["_name"].startswith("translation_from_pretrained_bart"):
        options["decoder_start_token_id"] = list(entries).index(target)
    elif target and task.get("decoder_langtok"):
        options["forced_bos_token_id"] = list(entries).index(target)
    return {**options, "num_beams": 5, "max_length": 200, "length_penalty": 1.0}


# ---- The way back. ----


def is_seq2seq(folder: PathLike) -> bool:
    """Return True if a folder's ``config.json`` names an mBART, M2M-100 or NLLB."""
    file = Path(folder) / CONFIG_NAME
    return file.is_file() and read_json(file, EXPECTED).get("model_type") in CLASSES


def import_seq2seq(folder: PathLike, checkpoint: PathLike) -> None:
    """Make a fairseq checkpoint of a folder of an mBART, M2M-100 or NLLB.

    ``fairseq-plugins dictionary FOLDER dict.txt`` writes its dictionary.

    Raises:
        ValueError: the checkpoint exists already; or the folder has another model_type, tensors or
            options that are not accounted for, or an output bias, which fairseq does not have.
    """
    if Path(checkpoint).exists():
        raise CheckpointError(
            f"{checkpoint}: is there already, and is not replaced; valid: a new name"
        )
    file = find_weights(Path(folder))
    config, origin = read_json(file.parent / CONFIG_NAME, EXPECTED), f"checkpoint {file}"
    model_type = config.get("model_type")
    if model_type not in CLASSES:
        valid = f"expected one of {', '.join(CLASSES)}"
        raise CheckpointError(f"{origin}: model_type = {model_type!r}, {valid}")
    tensors = rename_tensors(read_checkpoint(file), NAMES, origin, EXPECTED).tensors
    bias = tensors.pop(BIAS, None)
    wiring = {
        "pad_token_id": PADDING_IDX,
        "eos_token_id": 2,
        "activation_function": ("relu", "gelu"),
    }
    problems = differing(config, wiring)
    if bias is not None and bool(bias.any()):
        problems.append("its final_logits_bias is not 0")
    if problems:
        raise CheckpointError(f"{origin}: {'; '.join(problems)}; expected {EXPECTED}")
    words = _untie(tensors, origin)
    _check_norms(tensors, model_type, origin)
    sizes = {"vocab_size": len(words), "max_position_embeddings": SINUSOIDS, **config}
    check_shapes(tensors, _shapes(sizes, model_type), origin, EXPECTED)
    options = _stock_options(sizes, model_type)
    tensors.update(dict.fromkeys(TIED, words))
    tensors.update({f"{side}.version": torch.tensor([3.0]) for side in SIDES})
    state = start_state(tensors, cfg={"model": argparse.Namespace(**options)})
    save_checkpoint(state, checkpoint)
    logger.info("wrote %s: --arch %s, %d tensors", checkpoint, options["arch"], len(tensors))


def _stock_options(config: Mapping[str, Any], model_type: str) -> Dict[str, Any]:
    """Translate the options of ``config.json`` into those of the fairseq model."""
    is_mbart = model_type == MBART
    positions = config["max_position_embeddings"]
    options: Dict[str, Any] = {
        "arch": ARCHITECTURES[model_type],
        "layernorm_embedding": is_mbart,
        "max_source_positions": positions,
        "max_target_positions": positions,
        "share_all_embeddings": True,
        "share_decoder_input_output_embed": True,
        "no_scale_embedding": not config.get("scale_embedding", not is_mbart),
        "activation_fn": config.get("activation_function") or ("gelu" if is_mbart else "relu"),
    }
    for side in SIDES:
        for theirs, ours in OPTIONS.items():
            options[ours.format(side)] = config[theirs.format(side)]
        options[f"{side}_normalize_before"] = True
        options[f"{side}_learned_pos"] = is_mbart
    if is_mbart:  # fairseq's BART asks for the task when it loads weights
        options["task"] = "translation_from_pretrained_bart"
    options.update((name, config[name]) for name in DROPOUT if name in config)
    return options
