"""Write checkpoints as folders that ``transformers`` loads, if it has the architecture.

Names come from the tables by which ``checkpoints`` reads such folders. Masked LMs and encoders are
read back by the options that take a pretrained file (``--pretrained-mlm``, ``--init-from-mlm``,
``--pretrained-encoder``), encoder-decoders by :func:`.huggingface_seq2seq.import_seq2seq`.
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
from ..checkpoints.masked_lm import EXPECTED, recorded_epsilon
from ..checkpoints.opening import Checkpoint, find_settings, find_weights, recognise
from ..checkpoints.pretrained import PretrainedFile
from ..checkpoints.reading import PathLike, model_of
from ..checkpoints.tokenizers import sentencepiece_in
from ..checkpoints.vocabulary import CONFIG_NAME, DICTIONARY_NAME, SPECIAL
from ..checkpoints.writing import save_tensors
from . import huggingface_tokenizer as tokenizer
from . import text
from .folder import check_folder
from .huggingface_encoders import exported_bert, exported_encoder, is_bert, task_head
from .huggingface_layout import Exported
from .huggingface_seq2seq import exported_seq2seq

logger = logging.getLogger(__name__)

WEIGHTS, GENERATION = "model.safetensors", "generation_config.json"
FROZEN = "frozen.module."
REFUSED: Tuple[Tuple[str, str], ...] = (
    (
        r"(?:encoder|alignment|denoiser)_prompts\..*",
        "is an SGA, and no model there takes prompts; --frozen writes its masked LM alone, where "
        "the checkpoint holds it (else it is the file that --pretrained-mlm named)",
    ),
    (r".*adapter.*", "has adapters, which no model there has at these places"),
    (r"decoder\..*_embed\..*|.*\.gate\..*", "is a mixture of experts"),
)
"""Pattern of names of tensors, and the reason why ``transformers`` has no such model."""


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
        data: folder of ``dict.txt`` and the sentencepiece model; None = beside the checkpoint, or
            else the run's data folder.
        heads: attention heads, for released masked LMs that do not tell.
        frozen: write the frozen masked LM of an SGA alone.

    Raises:
        ValueError: ``transformers`` has no such model, or the checkpoint cannot be read; nothing is
            written.
    """
    check_folder(Path(folder))
    content = _read(checkpoint)
    if not frozen:
        _check_architecture(content)
    places = text.places_of(content.entries, content.folder, data)
    exported = _export_model(content, heads, frozen)
    files = _vocabulary(content, exported, places)
    with atomic_folder(folder) as place:
        masked_lm = exported.masked_lm
        if masked_lm is not None:
            write_masked_lm(place, masked_lm.sizes, masked_lm.tensors, torch.float32)
        else:
            tensors = {key: part.clone().contiguous() for key, part in exported.tensors.items()}
            save_tensors(tensors, place / WEIGHTS)
            files[CONFIG_NAME] = _json({**exported.config, "torch_dtype": "float32"})
        for name, file_content in files.items():
            (place / name).write_bytes(file_content)
        names = sorted(file.name for file in place.iterdir())
        logger.info("wrote %s: %s", folder, ", ".join(names))


def _read(checkpoint: PathLike) -> Checkpoint:
    """Open a fairseq checkpoint; the release of DeltaLM has its tensors in ``weights``."""
    file = find_weights(Path(checkpoint))
    state = read_checkpoint(file)
    weights = state.get("weights")
    tensors = weights if isinstance(weights, Mapping) else model_of(state, file)
    return Checkpoint(file, state, tensors, is_folder=False, options=find_settings(state))


def _check_architecture(content: Checkpoint) -> None:
    """Raise ValueError, with the reason, if ``transformers`` has no such architecture."""
    names = [str(name) for name in content.tensors]
    reason = None
    kind = recognise(content)
    if kind == "deltalm":
        reason = "is a DeltaLM, whose decoder has two feed-forward blocks a layer"
    elif kind == "veco":
        reason = "is a VECO, whose cross-attention stands beside an encoder's layers"
    elif content.arch.startswith("nat_ctc"):
        reason = "is a nat_ctc, which decodes slots"
    else:
        for pattern, problem in REFUSED:
            if reason is None and any(re.fullmatch(pattern, name) for name in names):
                reason = problem
    if reason:
        raise ValueError(f"{content.origin}: {reason}; transformers has no such architecture")


def _export_model(content: Checkpoint, heads: Optional[int], frozen: bool) -> Exported:
    """Convert a checkpoint by the converter of its kind."""
    if frozen:
        return Exported.from_masked_lm(_frozen(content, heads))
    if content.options.get(LAYOUT_ENTRY) is not None or task_head(content):
        return exported_encoder(content, heads)
    if is_bert(content):
        return exported_bert(content)
    if content.has_layers("encoder", "decoder"):
        return exported_seq2seq(content)
    return Exported.from_masked_lm(read_masked_lm(content.file, heads, "--heads"))


def _frozen(content: Checkpoint, heads: Optional[int]) -> PretrainedFile:
    """Return the masked LM inside an SGA. Raises ValueError: the checkpoint holds none."""
    tensors = {
        name[len(FROZEN) :]: tensor.float()
        for name, tensor in content.tensors.items()
        if name.startswith(FROZEN)
    }
    if not tensors:
        raise ValueError(
            f"--frozen: {content.origin} holds no frozen masked LM, only SGA with "
            "--save-full-model does; export the file that --pretrained-mlm named"
        )
    sizes = {"heads": content.options.get("encoder_attention_heads")}
    masked_lm = PretrainedFile(content, EXPECTED, tensors, stated_sizes=sizes)
    masked_lm.find_sizes(heads, "--heads", "sentence_encoder.")
    masked_lm.sizes["epsilon"] = recorded_epsilon(content.options)
    return masked_lm


def _vocabulary(content: Checkpoint, exported: Exported, places: List[Path]) -> Dict[str, bytes]:
    """Make the files beside the weights: dictionary, pieces, tokenizer, options of generation.

    If no ``tokenizer.json`` can split text as the sentencepiece model does, the log says why.
    """
    rows = exported.rows
    files: Dict[str, bytes] = {}
    entries = text.entries_of(content.entries, rows, places, content.origin)
    if not entries and exported.masked_lm is not None and len(exported.masked_lm.entries) == rows:
        entries = list(exported.masked_lm.entries)
    if exported.generation is not None:
        files[GENERATION] = _json(exported.generation(entries))
    if not entries:
        problem = "no dict.txt tells what the %s rows mean, so there is no tokenizer; give --data"
        logger.warning(f"%s: {problem}", content.origin, rows)
        return files
    files[DICTIONARY_NAME] = "".join(f"{entry} 1\n" for entry in entries[len(SPECIAL) :]).encode()
    segmenter = next(filter(None, map(sentencepiece_in, places)), None)
    if segmenter is None and any(entry.startswith("##") for entry in entries):
        files["vocab.txt"] = tokenizer.wordpieces(entries).encode()
        files["tokenizer_config.json"] = _json(tokenizer.wordpiece_settings(entries))
        return files
    if segmenter is not None:
        files[text.PIECES] = segmenter.read_bytes()
    try:
        if segmenter is None:
            raise ValueError(f"no sentencepiece model in {', '.join(map(str, places))}")
        pieces = tokenizer.read_pieces(segmenter)
        single = exported.single(entries)
        description = tokenizer.describe(pieces, entries, single, exported.pair)
    except ValueError as error:
        remedy = "split text by the model's pieces and look them up in dict.txt"
        logger.warning("no tokenizer.json: %s; %s", error, remedy)
        return files
    files["tokenizer.json"] = _json(description)
    files["tokenizer_config.json"] = _json(tokenizer.settings(entries, exported.max_tokens))
    return files


def _json(content: Dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()
