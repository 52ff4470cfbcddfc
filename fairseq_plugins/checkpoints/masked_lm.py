"""Reading a masked LM of XLM-R's shape from a fairseq file or a Hugging Face folder into one layout."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Tuple

import torch
from torch import Tensor

from . import huggingface, padding, veco, xlmr
from .encoder_decoder import stock_sizes
from .fingerprints import check_stated as check_fingerprint
from .fingerprints import fingerprint
from .loading import LoadReport
from .reading import CheckpointError, PathLike, read_checkpoint
from .renames import Renamed, apply_rules, listing

_WORDS = huggingface.WORDS
_POSITIONS = huggingface.POSITIONS
_TIED = huggingface.OUTPUT_WEIGHT
_FIRST_FC = "sentence_encoder.layers.0.fc1.weight"
_LAYERS = "sentence_encoder.layers."
_FAIRSEQ_NAME = "model.pt"
_DICTIONARY_NAME = "dict.txt"
_WEIGHT_NAMES = (huggingface.WEIGHTS_NAME, "pytorch_model.bin", _FAIRSEQ_NAME)


@dataclass(frozen=True)
class MaskedLMFile:
    """A masked LM as read from disk.

    Attributes:
        sizes: the fields of ``MaskedLMSizes``.
        tensors: name -> float32 tensor, in the names of ``modules.prefix_masked_lm.MaskedLM``, without the tied
            ``lm_head.weight``.
        fingerprint: of ``tensors``.
        report: what became of every tensor *of the file* (source names).
        dictionary_path: ``dict.txt`` beside the weights, None when there is none.
        mask_row: row of ``<mask>`` as the file itself tells it; None where it does not.
        mask_last: whether the last row is that of ``<mask>`` by what the file is: any but a VECO that was pre-trained here, which
            has it where its data's dictionary has.
    """

    sizes: Dict[str, int]
    tensors: Dict[str, Tensor]
    fingerprint: str
    report: LoadReport
    dictionary_path: Optional[str]
    mask_row: Optional[int] = None
    mask_last: bool = True


@dataclass(frozen=True)
class Source:
    """What one kind of file says: renamed tensors, sizes, heads, how it is named in messages, and where ``<mask>`` is."""

    renamed: Renamed
    stated: Mapping[str, Optional[int]]
    heads: Optional[int]
    padding_idx: int
    expected: str
    heads_entry: str
    mask_row: Optional[int] = None
    mask_last: bool = True


def read_masked_lm(path: PathLike, heads: Optional[int] = None) -> MaskedLMFile:
    """Read a masked LM of XLM-R's shape.

    Args:
        path: a fairseq ``model.pt`` (XLM-R, InfoXLM, RoBERTa; old and current names; a VECO that was pre-trained here, of which
            encoder and head are taken), a Hugging Face XLM-RoBERTa folder (``config.json`` with ``model.safetensors`` or
            ``pytorch_model.bin``; also one of a VECO), a weights file in such a folder, or a folder with a fairseq ``model.pt``.
        heads: attention heads, for files that do not tell (no shape does).

    Returns:
        Sizes, tensors in one layout, fingerprint, report, dictionary.

    Raises:
        CheckpointError: anything unreadable, untrusted, of another layout, unaccounted for or contradictory.
    """
    file = find_weights(Path(path))
    origin = f"checkpoint {file}"
    source = read_source(read_checkpoint(file), file, origin)
    renamed = source.renamed
    untie(renamed, origin)
    sizes = infer_sizes(renamed.tensors, source, origin)
    sizes["heads"] = choose_heads(heads, source.heads, source.heads_entry, sizes["embed_dim"], origin)
    check_stated(sizes, source.stated, origin)
    check_shapes(renamed.tensors, sizes, origin, source.expected)
    dictionary = file.parent / _DICTIONARY_NAME
    made = fingerprint(renamed.tensors)
    check_fingerprint(file, made)
    report = LoadReport(renamed.used(), dropped=tuple(renamed.dropped), reasons=renamed.dropped)
    return MaskedLMFile(
        sizes=sizes,
        tensors=renamed.tensors,
        fingerprint=made,
        report=report,
        dictionary_path=str(dictionary) if dictionary.is_file() else None,
        mask_row=source.mask_row,
        mask_last=source.mask_last,
    )


def expected_shapes(sizes: Mapping[str, int]) -> Dict[str, Tuple[int, ...]]:
    """Name -> shape of every tensor of a masked LM of these sizes, without the tied ``lm_head.weight``."""
    width, inner = sizes["embed_dim"], sizes["ffn_dim"]
    shapes: Dict[str, Tuple[int, ...]] = {
        _WORDS: (sizes["vocab_size"], width),
        _POSITIONS: (sizes["max_positions"] + sizes["padding_idx"] + 1, width),
        "sentence_encoder.layernorm_embedding.weight": (width,),
        "sentence_encoder.layernorm_embedding.bias": (width,),
        "lm_head.dense.weight": (width, width),
        "lm_head.dense.bias": (width,),
        "lm_head.layer_norm.weight": (width,),
        "lm_head.layer_norm.bias": (width,),
        "lm_head.bias": (sizes["vocab_size"],),
    }
    block: Dict[str, Tuple[int, ...]] = {"fc1.weight": (inner, width), "fc1.bias": (inner,)}
    block.update({"fc2.weight": (width, inner), "fc2.bias": (width,)})
    for projection in ("q_proj", "k_proj", "v_proj", "out_proj"):
        block[f"self_attn.{projection}.weight"] = (width, width)
        block[f"self_attn.{projection}.bias"] = (width,)
    for norm in ("self_attn_layer_norm", "final_layer_norm"):
        block[f"{norm}.weight"] = block[f"{norm}.bias"] = (width,)
    for layer in range(sizes["layers"]):
        shapes.update({f"{_LAYERS}{layer}.{name}": shape for name, shape in block.items()})
    return shapes


def check_shapes(tensors: Mapping[str, Tensor], sizes: Mapping[str, int], origin: str, expected: str) -> None:
    """Compare names and shapes with :func:`expected_shapes`.

    Raises:
        CheckpointError: lists missing tensors, surplus tensors, and shapes found and expected.
    """
    compare_shapes(tensors, expected_shapes(sizes), origin, expected)


def compare_shapes(
    tensors: Mapping[str, Tensor], shapes: Mapping[str, Tuple[int, ...]], origin: str, expected: str
) -> None:
    """Compare names and shapes with those wanted; raises as :func:`check_shapes`."""
    missing = [f"{name} {shape}" for name, shape in shapes.items() if name not in tensors]
    surplus = [f"{name} {tuple(tensor.shape)}" for name, tensor in tensors.items() if name not in shapes]
    wrong = [
        f"{name} {tuple(tensors[name].shape)} instead of {shape}"
        for name, shape in shapes.items()
        if name in tensors and tuple(tensors[name].shape) != shape
    ]
    nofloat_tensors = [f"{name} {tensor.dtype}" for name, tensor in tensors.items() if not tensor.is_floating_point()]
    kinds = (
        ("missing tensors", missing),
        ("surplus tensors", surplus),
        ("wrong shapes", wrong),
        ("not floating-point", nofloat_tensors),
    )
    problems = [f"{title}: {listing(names)}" for title, names in kinds if names]
    if problems:
        raise CheckpointError(f"{origin}: {'; '.join(problems)}; expected {expected}")


def find_weights(path: Path) -> Path:
    """The weights file that a path means: the file itself, or the one in a folder.

    Raises:
        CheckpointError: a folder without weights, with several, or with weights in parts.
    """
    if not path.is_dir():
        return path
    present = [name for name in _WEIGHT_NAMES if (path / name).is_file()]
    if _FAIRSEQ_NAME in present and len(present) > 1:
        raise CheckpointError(f"checkpoint {path}: holds {' and '.join(present)}; name the file that is meant")
    if present:
        return path / present[0]
    if any(path.glob("*.index.json")):
        raise CheckpointError(f"checkpoint {path}: its weights are split over several files; save it as one file first")
    raise CheckpointError(f"checkpoint {path}: the folder holds none of {', '.join(_WEIGHT_NAMES)}")


def read_source(checkpoint: Mapping[str, Any], file: Path, origin: str) -> Source:
    """Recognise and rename a masked LM of XLM-R's shape; the head, where there is one, is ``lm_head.*``.

    Args:
        checkpoint: content of ``file``.
        file: a ``config.json`` lies beside it where it is a Hugging Face model.
        origin: how messages call it.

    Raises:
        CheckpointError: another layout or configuration, or tensors that are not accounted for.
    """
    model = checkpoint.get("model")
    if isinstance(model, Mapping):
        settings = xlmr.find_settings(checkpoint)
        if veco.is_veco(settings, model):
            renamed = veco.masked_lm_of(float_tensors(model, origin), settings, origin)
            stated, heads, row = stock_sizes(settings), xlmr.attention_heads(settings), veco.mask_row(model, origin)
            return Source(renamed, stated, heads, 1, veco.EXPECTED, "encoder_attention_heads", row, mask_last=False)
        renamed = apply_rules(float_tensors(model, origin), xlmr.RULES, origin, xlmr.EXPECTED)
        xlmr.check_settings(settings, origin)
        stated, heads = xlmr.stated_sizes(settings), xlmr.attention_heads(settings)
        return Source(renamed, stated, heads, 1, xlmr.EXPECTED, "encoder_attention_heads")
    if not checkpoint or not all(isinstance(value, Tensor) for value in checkpoint.values()):
        keys = listing([str(key) for key in checkpoint]) or "(none)"
        raise CheckpointError(f"{origin}: holds the entries {keys}, expected 'model', as in {xlmr.EXPECTED}")
    config = huggingface.read_config(file.parent, list(checkpoint))
    renamed = apply_rules(float_tensors(checkpoint, origin), huggingface.RULES, origin, huggingface.EXPECTED)
    huggingface.settle(renamed, origin)
    words = renamed.tensors.get(_WORDS)
    rows = words.size(0) if words is not None and words.dim() else 0
    padding_idx = padding.padding_row(config, file.parent, rows, origin)
    stated, heads = huggingface.stated_sizes(config, padding_idx), huggingface.attention_heads(config)
    return Source(renamed, stated, heads, padding_idx, huggingface.EXPECTED, "num_attention_heads")


def float_tensors(tensors: Mapping[str, Any], origin: str) -> Dict[str, Tensor]:
    """Floating-point tensors as float32, others (dropped by name, or refused by shape or name later) as they are.

    What shares memory still does: a VECO has most of its tensors under several names.

    Raises:
        CheckpointError: something that is no tensor.
    """
    result: Dict[str, Tensor] = {}
    made: Dict[Tuple[Any, ...], Tensor] = {}
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise CheckpointError(f"{origin}: {name} is of type {type(tensor).__name__}, expected a tensor")
        if not tensor.is_floating_point():
            result[name] = tensor
            continue
        place = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
        if place not in made:
            made[place] = tensor.detach().float()
        result[name] = made[place]
    return result


def untie(renamed: Renamed, origin: str) -> None:
    """Drop ``lm_head.weight`` after making sure that it is the embedding; changes ``renamed``.

    Raises:
        CheckpointError: it is another matrix.
    """
    output, words = renamed.tensors.get(_TIED), renamed.tensors.get(_WORDS)
    if output is None or words is None:
        return
    if not torch.equal(output, words):
        raise CheckpointError(
            f"{origin}: the output projection ({renamed.sources[_TIED]}, shape {tuple(output.shape)}) differs from the "
            f"token embedding (shape {tuple(words.shape)}); this package projects with the embedding, so an untied "
            "model cannot be used"
        )
    renamed.discard(_TIED, "equal to the token embedding")


def infer_sizes(tensors: Mapping[str, Tensor], source: Source, origin: str) -> Dict[str, int]:
    """The fields of ``MaskedLMSizes`` that shapes tell; ``heads`` is 0.

    Raises:
        CheckpointError: a matrix that tells them is missing.
    """
    for name in (_WORDS, _POSITIONS, _FIRST_FC):
        if name not in tensors or tensors[name].dim() != 2:
            found = f"shape {tuple(tensors[name].shape)}" if name in tensors else "no such tensor"
            raise CheckpointError(f"{origin}: {name}: {found}, expected two dimensions; expected {source.expected}")
    numbers = {int(name[len(_LAYERS) :].split(".")[0]) for name in tensors if name.startswith(_LAYERS)}
    vocabulary, width = tensors[_WORDS].shape
    return {
        "vocab_size": vocabulary,
        "layers": max(numbers) + 1,
        "embed_dim": width,
        "ffn_dim": tensors[_FIRST_FC].size(0),
        "heads": 0,
        "max_positions": tensors[_POSITIONS].size(0) - source.padding_idx - 1,
        "padding_idx": source.padding_idx,
    }


def choose_heads(given: Optional[int], stated: Optional[int], entry: str, width: int, origin: str) -> int:
    """Attention heads, which no shape tells.

    Args:
        given: by the caller; None = take the file's.
        stated: by the file; None = it does not say.
        entry: what the file calls them.
        width: C, which they must divide.
        origin: how messages call the file.

    Raises:
        CheckpointError: neither says, both do and differ, or no divisor of the width.
    """
    if given is None and stated is None:
        raise CheckpointError(
            f"{origin}: does not tell the number of attention heads (no {entry}), and no shape does; pass heads=…"
        )
    if given is not None and stated is not None and given != stated:
        raise CheckpointError(f"{origin}: heads = {given} was given, but the file says {entry} = {stated}")
    heads = given if stated is None else stated
    if not isinstance(heads, int) or heads < 1 or width % heads:
        raise CheckpointError(f"{origin}: heads = {heads!r}, expected a divisor of the width {width}")
    return heads


def check_stated(sizes: Mapping[str, int], stated: Mapping[str, Optional[int]], origin: str) -> None:
    """Compare sizes of the tensors with those that the options state (None = they do not).

    Raises:
        CheckpointError: they contradict each other.
    """
    for name, value in stated.items():
        if isinstance(value, int) and value != sizes[name]:
            raise CheckpointError(f"{origin}: its options say {name} = {value}, its tensors {sizes[name]}")
