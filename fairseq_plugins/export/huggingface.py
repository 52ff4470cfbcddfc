"""Checkpoints as folders that ``transformers`` loads, wherever it has the architecture.

Names come from the tables by which ``checkpoints`` reads such folders. The way back: masked LMs and encoders by the options that
take a pretrained file (``--pretrained-mlm``, ``--init-from-mlm``, ``--pretrained-encoder``), encoder-decoders by
:func:`.huggingface_seq2seq.import_seq2seq`.
"""

import json
import logging
import re
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple

import torch

from data_prep.files import atomic_folder

from ..checkpoints import read_checkpoint, read_masked_lm, write_masked_lm
from ..checkpoints.layouts import LAYOUT_ENTRY
from ..checkpoints.masked_lm import EXPECTED
from ..checkpoints.opening import Checkpoint, find_settings, find_weights, recognise
from ..checkpoints.pretrained import PretrainedFile
from ..checkpoints.reading import PathLike, model_of
from ..checkpoints.tokenizers import sentencepiece_in
from ..checkpoints.vocabulary import CONFIG_NAME, DICTIONARY_NAME, SPECIAL
from ..checkpoints.writing import save_tensors
from . import huggingface_tokenizer as tokenizer
from .folder import check_folder
from .huggingface_encoders import exported_bert, exported_encoder, is_bert, task_head
from .huggingface_layout import Exported
from .huggingface_seq2seq import exported_seq2seq
from .rows import entries_of, places_of

logger = logging.getLogger(__name__)

WEIGHTS, GENERATION, SEGMENTER = "model.safetensors", "generation_config.json", "sentencepiece.bpe.model"
FROZEN = "frozen.module."
_REFUSED: Tuple[Tuple[str, str], ...] = (
    (
        r"(?:encoder|alignment|denoiser)_prompts\..*",
        "is an SGA, and no model there takes prompts; --frozen writes its masked LM alone, where the checkpoint holds it (else it "
        "is the file that --pretrained-mlm named)",
    ),
    (r".*adapter.*", "has adapters, which no model there has at these places"),
    (r"decoder\..*_embed\..*|.*\.gate\..*", "is a mixture of experts"),
)
"""Names of tensors -> why ``transformers`` has no such model."""


def export_huggingface(
    checkpoint: PathLike,
    folder: PathLike,
    data: Optional[PathLike] = None,
    heads: Optional[int] = None,
    frozen: bool = False,
) -> None:
    """Write a checkpoint as a folder of ``transformers``.

    Args:
        folder: new or empty.
        data: with ``dict.txt`` and the sentencepiece model; None = beside the checkpoint, or else the run's data folder.
        heads: attention heads, for released masked LMs that do not tell.
        frozen: of an SGA, its frozen masked LM alone.

    Raises ValueError: ``transformers`` has no such model, or the checkpoint cannot be read. Nothing is written then.
    """
    check_folder(Path(folder))
    content = _read(checkpoint)
    if not frozen:
        _refuse(content)
    places = places_of(content.entries, content.folder, data)
    if frozen:
        found = _frozen(content, heads)
        made = Exported({}, {}, found, longest=found.sizes["max_positions"])
    elif content.options.get(LAYOUT_ENTRY) is not None or task_head(content):
        made = exported_encoder(content, heads)
    elif is_bert(content):
        made = exported_bert(content)
    elif content.has_layers("encoder", "decoder"):
        made = exported_seq2seq(content)
    else:
        found = read_masked_lm(content.file, heads, "--heads")
        made = Exported({}, {}, found, longest=found.sizes["max_positions"])
    vocabulary = _vocabulary(content, made, places)
    with atomic_folder(folder) as place:
        if made.masked_lm is not None:
            write_masked_lm(place, made.masked_lm.sizes, made.masked_lm.tensors, torch.float32)
        else:
            save_tensors({name: one.clone().contiguous() for name, one in made.tensors.items()}, place / WEIGHTS)
            vocabulary[CONFIG_NAME] = _json({**made.config, "torch_dtype": "float32"})
        for name, written in vocabulary.items():
            (place / name).write_bytes(written)
        logger.info("wrote %s: %s", folder, ", ".join(sorted(file.name for file in place.iterdir())))


def _read(checkpoint: PathLike) -> Checkpoint:
    file = find_weights(Path(checkpoint))
    state = read_checkpoint(file)
    weights = state.get("weights")
    return Checkpoint(
        file, state, weights if isinstance(weights, Mapping) else model_of(state, file), False, find_settings(state)
    )


def _frozen(content: Checkpoint, heads: Optional[int]) -> PretrainedFile:
    """The masked LM inside an SGA. Raises ValueError: the checkpoint holds none."""
    tensors = {name[len(FROZEN) :]: one.float() for name, one in content.tensors.items() if name.startswith(FROZEN)}
    if not tensors:
        raise ValueError(
            f"--frozen: {content.origin} holds no frozen masked LM, only SGA with --save-full-model does; export the file that "
            "--pretrained-mlm named"
        )
    stated = {"heads": content.options.get("encoder_attention_heads")}
    masked_lm = PretrainedFile(content, EXPECTED, tensors, stated_sizes=stated)
    masked_lm.find_sizes(heads, "--heads", "sentence_encoder.")
    return masked_lm


def _refuse(content: Checkpoint) -> None:
    """Raise ValueError, with the reason, where ``transformers`` has no such architecture."""
    names = [str(name) for name in content.tensors]
    reason = next((why for pattern, why in _REFUSED if any(re.fullmatch(pattern, name) for name in names)), None)
    kind = recognise(content)
    if kind == "deltalm":
        reason = "is a DeltaLM, whose decoder has two feed-forward blocks a layer"
    elif kind == "veco":
        reason = "is a VECO, whose cross-attention stands beside an encoder's layers"
    elif content.arch.startswith("nat_ctc"):
        reason = "is a nat_ctc, which decodes slots"
    if reason:
        raise ValueError(f"{content.origin}: {reason}; transformers has no such architecture")


def _vocabulary(content: Checkpoint, made: Exported, places: List[Path]) -> Dict[str, bytes]:
    """Files beside the weights: dictionary, pieces and tokenizer, as far as there is something, and the options of generation.

    Where no ``tokenizer.json`` can repeat what the pieces do, the log says why, and that text is to be split by the sentencepiece
    model and looked up in ``dict.txt``.
    """
    rows, files = made.rows, {}
    entries = entries_of(content.entries, rows, places, content.origin)
    if made.masked_lm is not None and not entries:
        entries = list(made.masked_lm.entries) if len(made.masked_lm.entries) == rows else []
    if made.generation is not None:
        files[GENERATION] = _json(made.generation(entries))
    if not entries:
        logger.warning(
            "%s: no dict.txt tells what the %s rows mean, so there is no tokenizer; give --data", content.origin, rows
        )
        return files
    files[DICTIONARY_NAME] = "".join(f"{entry} 1\n" for entry in entries[len(SPECIAL) :]).encode()
    segmenter = next(filter(None, map(sentencepiece_in, places)), None)
    settings = tokenizer.settings(entries, made.longest)
    if segmenter is not None:
        files[SEGMENTER] = segmenter.read_bytes()
    elif any(entry.startswith("##") for entry in entries):
        text, own = tokenizer.wordpieces(entries)
        return {**files, "vocab.txt": text.encode(), "tokenizer_config.json": _json(own)}
    try:
        if segmenter is None:
            raise ValueError(f"no sentencepiece model in {', '.join(map(str, places))}")
        described = tokenizer.describe(tokenizer.read_pieces(segmenter), entries, made.single(entries), made.pair)
    except ValueError as error:
        logger.warning("no tokenizer.json: %s; split text by the model's pieces and look them up in dict.txt", error)
        return files
    return {**files, "tokenizer.json": _json(described), "tokenizer_config.json": _json(settings)}


def _json(content: Dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()
