"""Fitting a pretrained file to a model: sizes, rows, positions, dictionaries; loading it and saying where every tensor is from.

Also what a run starts from: a checkpoint that is about to be loaded has everything, so that no pretrained file is opened.
"""

import logging
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn

from .layouts import MASK_ROW, PADDING_IDX
from .loading import LoadReport, fold, load
from .pipeline import PretrainedFile
from .reading import read_checkpoint
from .vocabulary import DICTIONARY_NAME, MASK, PAD, read_dictionary, stock_languages

logger = logging.getLogger(__name__)

_WORDS = re.compile(r"(encoder|decoder)\.embed_tokens\.weight|decoder\.output_projection\.weight")
_POSITIONS = re.compile(r"(encoder|decoder)\.embed_positions\.weight")
_TAG = re.compile(r"<[^<>\s]+>|\[[^\[\]\s]+\]")
_EMBEDDINGS = (
    "embed_tokens.weight",
    "embed_positions.weight",
    "layernorm_embedding.weight",
    "layernorm_embedding.bias",
)

MARKERS = (
    r"(?:(?:encoder|decoder)\.)?version",
    r"(?:(?:encoder|decoder)\.)?embed_positions\._float_tensor",
    re.escape(MASK_ROW),
)
"""Tensors that the model makes itself and no file needs to have."""

LANGUAGES = "languages"  # in the state of a task, which checkpoints keep
LAST_CHECKPOINT = "checkpoint_last.pt"
MULTIPLE = 8  # fairseq-preprocess pads the dictionaries it makes to a multiple of this
POLICY = "--embedding-mismatch"
USE_ITS_DICTIONARY = "run fairseq-preprocess with that dict.txt as --srcdict and --tgtdict, new symbols at its end"


# ---- Rows. ----


def check_entries(
    own: Sequence[str], found: Sequence[str], origin: str, where: str, remedy: str = USE_ITS_DICTIONARY
) -> None:
    """Raise ValueError for the first entry of a model that differs from that of the data's dictionary, as far as both go."""
    for index, (ours, theirs) in enumerate(zip(own, found)):
        if ours != theirs:
            raise ValueError(
                f"{origin}: {where} has {ours!r} as entry {index}, the data's dictionary {theirs!r}; {remedy}"
            )


def check_rows(found: PretrainedFile, origin: str, mask_anywhere: bool = False) -> None:
    """Raise ValueError where the rows of a masked LM are in another order than fairseq's.

    ``mask_anywhere``: the caller asks the file for the row of ``<mask>``; otherwise it must be the last one.
    """
    rows = found.sizes["vocab_size"]
    if found.padding_idx != PADDING_IDX:
        raise ValueError(
            f"{origin} has {PAD} in row {found.padding_idx}; valid here: {PADDING_IDX}, as in every fairseq dictionary, with "
            f"positions from {PADDING_IDX + 1}"
        )
    if found.mask_row not in (None, rows - 1) and not mask_anywhere:
        raise ValueError(
            f"{origin} has {MASK} in row {found.mask_row} and {rows - 1 - found.mask_row:,} rows behind it; valid here: a "
            f"masked LM whose last row is that of {MASK}"
        )


def fit_words(
    tensor: Tensor, target: Tensor, policy: str, origin: str, languages: Sequence[str] = ()
) -> Tuple[Tensor, str]:
    """A token embedding with as many rows as the dictionary has entries, (V, C), and what was changed.

    ``tensor``: (rows, C) of the file; ``target``: (V, C) of the model, at random. ``policy``: ``error``, ``extend`` (rows beyond
    the file's keep the model's values) or ``truncate`` (the file's last rows are left out). ``languages`` of the file, in order.

    Raises ValueError: the policy does not allow it; says where the difference may come from.
    """
    have, want = tensor.size(0), target.size(0)
    wanted = "extend" if want > have else "truncate"
    if policy != wanted:
        effect = (
            "gives random values to the rows beyond the file's" if want > have else "leaves the file's last rows out"
        )
        reason = explain(want, have, languages)
        raise ValueError(
            f"the dictionary has {want:,} entries, {origin} {have:,} rows, and {POLICY} is {policy}; valid "
            f"here: {wanted}, which {effect}. {reason + '. ' if reason else ''}Entries must mean the same: preprocess with the "
            "model's own dictionary, new symbols at its end"
        )
    if want < have:
        return tensor[:want], f"the first {want:,} of {have:,} rows ({POLICY} truncate)"
    rows = torch.cat([tensor, target[have:].to(tensor.dtype)])
    return rows, f"{want - have:,} random rows after the file's {have:,} ({POLICY} extend)"


def fit_positions(tensor: Tensor, want: int, unused: int, origin: str, option: str) -> Tuple[Tensor, str]:
    """A position embedding (rows, C) cut to ``want`` rows, ``unused`` of them before the first one; ValueError: it has fewer."""
    have = tensor.size(0) - unused
    if want - unused > have:
        raise ValueError(f"{option} {want - unused}: {origin} has {have} learned positions; valid: at most that")
    return tensor[:want], f"the first {want - unused} of {have} positions ({option})"


def explain(entries: int, rows: int, languages: Optional[Sequence[str]] = ()) -> str:
    """Where a difference between a dictionary (with what the task adds to it) and a file probably comes from; empty: no idea."""
    difference, count, more = abs(entries - rows), len(languages or ()), entries > rows
    if difference == 1 and more:
        return f"The one entry more is probably {MASK}, which some tasks add and for which this file has no row"
    if difference == 1:
        return f"The one entry fewer is probably {MASK}, which the file has as its last row"
    if count and difference in (count, count + 1):
        origin = f"The difference is the file's {count} languages{f' and {MASK}' if difference > count else ''}"
        if more:
            return f"{origin}: they are probably counted twice in the dictionary"
        return (
            f"{origin}, for which it has rows behind the pieces and the dictionary no entries. Their order is "
            f"{','.join(languages or ())}; `python -m fairseq_plugins.checkpoints.dictionary` writes the whole dictionary"
        )
    padded = [f"{number:,}" for number in (entries, rows) if number % MULTIPLE == 0]
    if not padded:
        return ""
    return (
        f"{' and '.join(padded)} {'are multiples' if len(padded) > 1 else 'is a multiple'} of {MULTIPLE}, as of a dictionary that "
        "was padded with madeupword entries, perhaps after languages were added"
    )


def trailing_tags(dictionary: Any) -> List[str]:
    """What stands at the end of a dictionary (fairseq's) and looks as if it was added to it: ``[en]``, ``<2de>``."""
    entries = list(dictionary.symbols[dictionary.nspecial :])
    first = len(entries)
    while first > 0 and _TAG.fullmatch(entries[first - 1]):
        first -= 1
    return entries[first:]


# ---- A file and a model. ----


def sizes_of_sides(sizes: Mapping[str, int], *sides: str) -> Dict[str, int]:
    """Option of the model -> value, for the sides that are wired as a masked LM of these sizes."""
    names = {"embed_dim": "embed_dim", "ffn_dim": "ffn_embed_dim", "heads": "attention_heads"}
    return {f"{side}_{option}": sizes[size] for side in sides for size, option in names.items()}


def check_sizes(sizes: Mapping[str, Any], args: Any, origin: str, remedy: str = "") -> None:
    """Raise ValueError where the sizes of a file (option -> value) are not those of the options that are set."""
    wrong = [
        f"--{name.replace('_', '-')} {getattr(args, name)} (valid here: {value})"
        for name, value in sizes.items()
        if getattr(args, name, None) is not None and str(getattr(args, name)) != str(value)
    ]
    if wrong:
        raise ValueError(f"{origin} has other sizes than the --arch and the command line: {', '.join(wrong)}{remedy}")


def stack_sources(found: PretrainedFile, side: str, layers: Sequence[int]) -> Dict[str, str]:
    """Name in one side of a model -> name in a masked LM: its embeddings and these of its layers, renumbered."""
    sources = {f"{side}.{name}": f"sentence_encoder.{name}" for name in _EMBEDDINGS}
    for number, layer in enumerate(layers):
        start = f"sentence_encoder.layers.{layer}."
        names = [name for name in found.tensors if name.startswith(start)]
        sources.update({f"{side}.layers.{number}.{name[len(start) :]}": name for name in names})
    return sources


def check_dictionary(path: str, dictionary: Any, origin: str, kept: Optional[Sequence[bool]] = None) -> Optional[int]:
    """Compare a dictionary of the data (fairseq's) with a ``dict.txt`` beside the file at ``path``, where there is one.

    ``kept``: which entries of the file's dictionary (special symbols not counted) the data's has; None = all. Returns the number of
    entries of the file's dictionary; None when there is no such file.

    Raises ValueError: the first entry that differs, or another number of entries than ``kept`` has.
    """
    beside = (Path(path) if os.path.isdir(path) else Path(path).parent) / DICTIONARY_NAME
    if not beside.is_file():
        return None
    own = read_dictionary(beside)
    special = dictionary.nspecial
    if kept is not None and len(own) - len(kept) != special:
        raise ValueError(
            f"--resized-dict-map has {len(kept):,} lines; valid: {len(own) - special:,}, one for each entry of the dict.txt beside "
            f"{origin}"
        )
    shared = [entry for entry, stays in zip(own[special:], kept or [True] * len(own)) if stays]
    check_entries([*own[:special], *shared], dictionary.symbols, origin, "the dict.txt beside it")
    return len(own)


def folded(sources: Mapping[str, str]) -> str:
    """``decoder.layers.{0..1}.fc3.weight from layers.{0,2}.fc1.weight``: names that differ in their layers alone, together."""
    return ", ".join(fold(sources.items()))


def load_fitted(
    model: nn.Module,
    tensors: Mapping[str, Tensor],
    origin: str,
    sources: Optional[Mapping[str, str]] = None,
    changes: Optional[Mapping[str, str]] = None,
    random: Sequence[str] = (),
) -> LoadReport:
    """Load tensors that fit, and log where everything comes from.

    ``sources``: name in the model -> name in the file, where they differ. ``changes``: name -> what was cut or added. ``random``:
    regular expressions of the names that may keep their initial values.

    Returns what became of every tensor of the model; ``reasons`` names the source of each. Raises ValueError: others than wanted.
    """
    changes = changes or {}
    try:
        report = load(model, tensors, allow_missing=(*MARKERS, *random))
    except ValueError as error:
        raise ValueError(f"{origin}: {error}") from error
    reasons = {**report.reasons, **changes}
    if sources is None:
        logger.info("%s: %s", origin, report.summary())
    else:
        used = {name: sources[name] for name in report.loaded if name in sources}
        logger.info("%s: filled %s", origin, folded(used))
        for name in report.initialised:
            marker = any(re.fullmatch(marker, name) for marker in MARKERS)
            reasons[name] = "of the layout itself" if marker else "random"
        reasons.update({name: "; ".join([used[name], *filter(None, [changes.get(name)])]) for name in used})
    for name, change in changes.items():
        logger.info("%s: %s: %s", origin, name, change)
    return replace(report, reasons=reasons)


class Fit:
    """Brings the tensors of a file to the rows of an encoder-decoder; ``changes``: name -> what was cut or added."""

    def __init__(self, model: Any, policy: Any, origin: str):
        self.model, self.policy, self.origin = model, str(policy), origin
        self.targets: Dict[str, Tensor] = model.state_dict()
        self.changes: Dict[str, str] = {}

    def leave_mask_out(
        self, side: str, tensors: Dict[str, Tensor], entries: Optional[int], row: Optional[int] = None
    ) -> None:
        """Drop a masked LM's row of ``<mask>``, where the dictionary goes on without it: it would be another symbol's.

        Args:
            tensors: those of the file; changed.
            entries: of the dictionary beside the file, which has no ``<mask>``; None when there is none. Without it, as many
                entries as rows are taken to mean the same, unless the last one is a tag.
            row: that of ``<mask>``, where it is known for sure; else it is the last one.

        Raises ValueError: ``<mask>`` is another entry than the file's row of it.
        """
        dictionary = getattr(self.model, side).dictionary
        found = dictionary.index(MASK) if MASK in dictionary else None
        tagged = entries is None and bool(trailing_tags(dictionary))
        for name in [name for name in tensors if name.startswith(side) and _WORDS.fullmatch(name)]:
            rows = tensors[name].size(0)
            place = rows - 1 if row is None else row
            if found is not None and found != place:
                shown = f"row {place}, the last one," if place == rows - 1 else f"row {place}"
                raise ValueError(
                    f"{MASK} is entry {found} of the dictionary, but {shown} of {self.origin}; run fairseq-preprocess with the "
                    "model's own dict.txt as --srcdict and --tgtdict, new symbols at its end"
                )
            same = len(dictionary) == rows and entries != rows - 1 and not tagged
            if found is None and (row is not None or not same):
                tensors[name] = torch.cat([tensors[name][:place], tensors[name][place + 1 :]])
                shown = "the last row" if place == rows - 1 else f"row {place:,}"
                self.changes[name] = f"without {shown}, {MASK}, which the dictionary does not have"

    def rows(self, name: str, tensor: Tensor) -> Tensor:
        """The tensor with as many rows as the model has; what is neither words nor positions is left as it is."""
        target = self.targets.get(name)
        if target is None or tensor.dim() != 2 or tensor.size(0) == target.size(0):
            return tensor
        if _POSITIONS.fullmatch(name):
            side = name.split(".")[0]
            unused = getattr(self.model, side).padding_idx + 1
            option = f"--max-{'source' if side == 'encoder' else 'target'}-positions"
            rows, change = fit_positions(tensor, target.size(0), unused, self.origin, option)
        elif _WORDS.fullmatch(name):
            rows, change = fit_words(tensor, target, self.policy, self.origin)
        else:
            return tensor
        self.changes[name] = "; ".join([*filter(None, [self.changes.get(name)]), change])
        return rows

    def tie(self, tensors: Dict[str, Tensor]) -> None:
        """An output projection that is not tied starts as the decoder's embedding. ValueError: an option ties what differs."""
        encoder, decoder = self.model.encoder, self.model.decoder
        source, target, output = (
            f"{name}.weight" for name in ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection")
        )
        if encoder.embed_tokens is decoder.embed_tokens and not torch.equal(tensors[source], tensors[target]):
            raise ValueError(
                f"{self.origin} has different source and target embeddings; leave --share-all-embeddings out"
            )
        if output not in tensors and not decoder.share_input_output_embed:
            self.changes[output] = f"a copy of {target}"
        tensors.setdefault(output, tensors[target])
        if decoder.share_input_output_embed and not torch.equal(tensors[output], tensors[target]):
            raise ValueError(
                f"{self.origin} has an output projection of its own; leave --share-all-embeddings and "
                "--share-decoder-input-output-embed out"
            )

    def load(self, tensors: Dict[str, Tensor], sources: Dict[str, str], random: Sequence[str] = ()) -> LoadReport:
        """Bring all tensors to the model's rows, tie what it ties, and load them; see :func:`load_fitted`."""
        tensors = {name: self.rows(name, tensor) for name, tensor in tensors.items()}
        if "decoder.embed_tokens.weight" in tensors:
            self.tie(tensors)
            sources.setdefault("decoder.output_projection.weight", sources["decoder.embed_tokens.weight"])
        return load_fitted(self.model, tensors, self.origin, sources, self.changes, random)


# ---- What a run starts from. ----


def started_from(options: Any) -> Optional[str]:
    """What fairseq-train will read: ``--restore-file``, else the run's own last checkpoint, else ``--finetune-from-model``."""
    path = getattr(options, "restore_file", None) or LAST_CHECKPOINT
    if path == LAST_CHECKPOINT:
        last = os.path.join(getattr(options, "save_dir", None) or "", path)
        path = last if os.path.isfile(last) else getattr(options, "finetune_from_model", None) or ""
    return path if os.path.isfile(path) else None


def left_closed(option: str, path: str, options: Any, task: Any) -> Optional[str]:
    """Why the pretrained file at ``path``, which an ``option`` names, is not opened; None where it is to be opened.

    A checkpoint that is about to be loaded has everything. What is returned is the error of a model that nothing was loaded into.
    ``options`` of the command line have ``restore_file`` and ``save_dir``, those of a YAML do not. ``task`` has ``from_checkpoint``
    where the model is built to be filled from a checkpoint; see ``compat.stock_tasks``.
    """
    if getattr(task, "from_checkpoint", False):
        return f"{option} {path}: was not opened, since the model is read from a checkpoint"
    if not os.path.exists(path):
        return f"{option} {path}: no such file"
    checkpoint = started_from(options) if getattr(options, "save_dir", None) else None
    return checkpoint and f"{option} {path}: was not opened, since {checkpoint} is there to be continued"


def language_state(langs: Sequence[str]) -> Dict[str, Any]:
    """What the state of a task keeps of its languages."""
    return {LANGUAGES: {"langs": [str(language) for language in langs]}}


def compare_order(langs: Sequence[str], trained: Optional[Sequence[str]], origin: str) -> None:
    """Raise ValueError where ``--langs`` are not the languages of a checkpoint, in their order, which the rows of their ids follow.

    ``trained``: None = the checkpoint does not tell, which is logged.
    """
    if trained is None:
        logger.warning("%s does not tell its languages: --langs must have them in the order of its training", origin)
    elif list(trained) != list(langs):
        raise ValueError(
            f"--langs {','.join(langs)}: {origin} was trained with {','.join(trained)}; give the same languages in the same "
            "order, because the rows of their ids follow it"
        )


def compare_start(langs: Sequence[str], options: Any) -> None:
    """As :func:`compare_order`, with the checkpoint that training starts from or goes on with, if there is one.

    ``options`` have ``restore_file``, ``save_dir``, ``finetune_from_model``, as fairseq-train's.
    """
    if (path := started_from(options)) is not None:
        content = read_checkpoint(path)
        settings = vars(content["args"]) if content.get("args") else {}
        compare_order(langs, stock_languages(content, settings, "[{}]").listed, path)
