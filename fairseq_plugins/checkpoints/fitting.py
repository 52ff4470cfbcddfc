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

from .layouts import MASK_ROW
from .loading import LoadReport, fold, load
from .pipeline import POSITIONS, WORDS, PretrainedFile
from .reading import read_checkpoint
from .vocabulary import DICTIONARY_NAME, MASK, read_dictionary, stock_languages

logger = logging.getLogger(__name__)

_WORDS = re.compile(r"(encoder|decoder)\.embed_tokens\.weight|decoder\.output_projection\.weight")
_POSITIONS = re.compile(r"(encoder|decoder)\.embed_positions\.weight")
_TAG = re.compile(r"<[^<>\s]+>|\[[^\[\]\s]+\]")
_EMBEDDINGS = (WORDS, POSITIONS, "layernorm_embedding.weight", "layernorm_embedding.bias")

MARKERS = (
    r"(?:(?:encoder|decoder)\.)?version",
    r"(?:(?:encoder|decoder)\.)?embed_positions\._float_tensor",
    re.escape(MASK_ROW),
)
"""Tensors that the model makes itself and no file needs to have."""

LANGUAGES = "languages"  # in the state of a task, which checkpoints keep
LAST_CHECKPOINT = "checkpoint_last.pt"
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


def check_rows(found: PretrainedFile, origin: str) -> None:
    """Raise ValueError where the last row of a masked LM is not that of ``<mask>``."""
    last = found.sizes["vocab_size"] - 1
    if found.mask_row not in (None, last):
        raise ValueError(
            f"{origin} has {MASK} in row {found.mask_row} and {last - found.mask_row:,} rows behind it; valid here: a masked LM "
            f"whose last row is that of {MASK}"
        )


def fit_words(
    tensor: Tensor, target: Tensor, policy: str, origin: str, languages: Sequence[str] = ()
) -> Tuple[Tensor, str]:
    """A token embedding with as many rows as the dictionary has entries, (V, C), and what was changed.

    ``tensor``: (rows, C) of the file; ``target``: (V, C) of the model, at random. ``policy``, an option with its value: ``error``,
    ``extend`` (rows beyond the file's keep the model's values) or ``truncate`` (the file's last rows are left out). ``languages``
    of the file, in order.

    Raises ValueError: the policy does not allow it; says where the difference may come from.
    """
    (have, want), (option, _, value) = (tensor.size(0), target.size(0)), policy.rpartition(" ")
    wanted, effect = "truncate", "leaves the file's last rows out"
    if want > have:
        wanted, effect = "extend", "gives random values to the rows beyond the file's"
    if value != wanted:
        raise ValueError(
            f"the dictionary has {want:,} entries, {origin} {have:,} rows, and {option} is {value}; valid here: {wanted}, which "
            f"{effect}. {explain(want, have, languages)}Entries must mean the same: preprocess with the model's own dictionary, "
            "new symbols at its end"
        )
    if want < have:
        return tensor[:want], f"the first {want:,} of {have:,} rows ({policy})"
    rows = torch.cat([tensor, target[have:].to(tensor.dtype)])
    return rows, f"{want - have:,} random rows after the file's {have:,} ({policy})"


def fit_positions(tensor: Tensor, want: int, unused: int, origin: str, option: str) -> Tuple[Tensor, str]:
    """A position embedding (rows, C) cut to ``want`` rows, ``unused`` of them before the first one; ValueError: it has fewer."""
    have = tensor.size(0) - unused
    if want - unused > have:
        raise ValueError(f"{option} {want - unused}: {origin} has {have} learned positions; valid: at most that")
    return tensor[:want], f"the first {want - unused} of {have} positions ({option})"


def explain(entries: int, rows: int, languages: Optional[Sequence[str]] = ()) -> str:
    """Where a difference between a dictionary (with what the task adds to it) and a file probably comes from, as a sentence."""
    difference, listed = entries - rows, ",".join(languages or ())
    if abs(difference) == 1:
        return f"The one entry {'more' if difference > 0 else 'fewer'} is probably {MASK}. "
    if languages and -difference in (len(languages), len(languages) + 1):
        return (
            f"The difference is the file's {len(languages)} languages, in the order {listed}: "
            "`python -m fairseq_plugins.checkpoints.dictionary` writes a dictionary that has them. "
        )
    return ""


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

    ``kept``: a map, which entries of the file's dictionary (special symbols not counted) the data's has; None = all. Returns the
    number of entries of the file's dictionary; None when there is no such file.

    Raises ValueError: the first entry that differs, or another number of entries than ``kept`` has.
    """
    beside = (Path(path) if os.path.isdir(path) else Path(path).parent) / DICTIONARY_NAME
    if not beside.is_file():
        return None
    own = read_dictionary(beside)
    special = dictionary.nspecial
    if kept is not None and len(own) - len(kept) != special:
        raise ValueError(
            f"the dictionary map has {len(kept):,} lines; valid: {len(own) - special:,}, one for each entry of the dict.txt beside "
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
    """Brings the tensors of a file to the rows of an encoder-decoder; ``changes``: name -> what was cut or added.

    ``policy``: see :func:`fit_words`. ``lengths``: encoder and decoder -> the option of its longest input, for messages.
    """

    def __init__(self, model: Any, policy: str, lengths: Mapping[str, str], origin: str):
        self.model, self.policy, self.lengths, self.origin = model, policy, lengths, origin
        self.targets: Dict[str, Tensor] = model.state_dict()
        self.changes: Dict[str, str] = {}

    def leave_mask_out(
        self, side: str, tensors: Dict[str, Tensor], entries: Optional[int], row: Optional[int] = None
    ) -> None:
        """Drop a masked LM's row of ``<mask>`` from ``tensors``, where the dictionary goes on without it.

        ``entries``: of the dictionary beside the file, which has no ``<mask>``; None when there is none: then as many entries as
        rows are taken to mean the same, unless the last one is a tag. ``row``: that of ``<mask>``; None = the last one, probably.

        Raises ValueError: ``<mask>`` is another entry than the file's row of it.
        """
        dictionary = getattr(self.model, side).dictionary
        found = dictionary.index(MASK) if MASK in dictionary else None
        tagged = entries is None and bool(trailing_tags(dictionary))
        for name in [name for name in tensors if name.startswith(side) and _WORDS.fullmatch(name)]:
            rows = tensors[name].size(0)
            place = rows - 1 if row is None else row
            shown = f"row {place:,}, the last one," if place == rows - 1 else f"row {place:,}"
            if found is not None and found != place:
                raise ValueError(
                    f"{MASK} is entry {found} of the dictionary, but {shown} of {self.origin}; run fairseq-preprocess with the "
                    "model's own dict.txt as --srcdict and --tgtdict, new symbols at its end"
                )
            same = len(dictionary) == rows and entries != rows - 1 and not tagged
            if found is None and (row is not None or not same):
                tensors[name] = torch.cat([tensors[name][:place], tensors[name][place + 1 :]])
                self.changes[name] = f"without {shown} {MASK}, which the dictionary does not have"

    def rows(self, name: str, tensor: Tensor) -> Tensor:
        """The tensor with as many rows as the model has; what is neither words nor positions is left as it is."""
        target, positions = self.targets.get(name), _POSITIONS.fullmatch(name)
        if target is None or tensor.dim() != 2 or tensor.size(0) == target.size(0):
            return tensor
        if positions:
            unused = getattr(self.model, positions[1]).padding_idx + 1
            rows, change = fit_positions(tensor, target.size(0), unused, self.origin, self.lengths[positions[1]])
        elif _WORDS.fullmatch(name):
            rows, change = fit_words(tensor, target, self.policy, self.origin)
        else:
            return tensor
        self.changes[name] = "; ".join([*filter(None, [self.changes.get(name)]), change])
        return rows

    def tie(self, tensors: Dict[str, Tensor]) -> None:
        """An output projection that is not tied starts as the decoder's embedding. ValueError: the model ties what differs."""
        encoder, decoder = self.model.encoder, self.model.decoder
        source, target, output = "encoder." + WORDS, "decoder." + WORDS, "decoder.output_projection.weight"
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
        if "decoder." + WORDS in tensors:
            self.tie(tensors)
            sources.setdefault("decoder.output_projection.weight", sources["decoder." + WORDS])
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
    """As :func:`compare_order`, with the checkpoint that training starts from or goes on with, if there is one."""
    if (path := started_from(options)) is not None:
        content = read_checkpoint(path)
        settings = vars(content["args"]) if content.get("args") else {}
        compare_order(langs, stock_languages(content, settings, "[{}]").listed, path)
