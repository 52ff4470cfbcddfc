"""Fitting a pretrained file to a model: sizes, rows, positions, ``<mask>``, ties; loading it and saying where every tensor is from.

Also what a run starts from: a checkpoint that is about to be loaded has everything, so that no pretrained file is opened.
"""

import logging
import os
import re
from dataclasses import replace
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .layouts import MASK_ROW, size_options
from .loading import LoadReport, fold, load
from .pipeline import POSITIONS, WORDS, PretrainedFile, find_settings
from .reading import read_checkpoint
from .vocabulary import MASK, check_entries, stock_languages

logger = logging.getLogger(__name__)

MARKERS = (
    r"(?:(?:encoder|decoder)\.)?version",
    r"(?:(?:encoder|decoder)\.)?embed_positions\._float_tensor",
    re.escape(MASK_ROW),
)
"""Tensors that the model makes itself and no file needs to have."""

LANGUAGES = "languages"  # in the state of a task, which checkpoints keep
LAST_CHECKPOINT = "checkpoint_last.pt"
_OUTPUT = "decoder.output_projection.weight"
_WORDS = re.compile(rf"(?:(?:encoder|decoder)\.)?{re.escape(WORDS)}|{re.escape(_OUTPUT)}|lm_head\.bias")
_POSITIONS = re.compile(rf"(?:(encoder|decoder)\.)?{re.escape(POSITIONS)}")


def fit_words(tensor: Tensor, target: Tensor, policy: str, origin: str) -> Tuple[Tensor, str]:
    """A token embedding with as many rows as the dictionary has entries, (V, C), and what was changed.

    ``tensor``: (rows, C) of the file; ``target``: (V, C) of the model, at random. ``policy``, an option with its value: ``error``,
    ``extend`` (rows beyond the file's keep the model's values) or ``truncate`` (the file's last rows are left out).

    Raises ValueError: the policy does not allow it; says where the difference may come from.
    """
    (have, want), (option, _, value) = (tensor.size(0), target.size(0)), policy.rpartition(" ")
    wanted, effect = "truncate", "leaves the file's last rows out"
    if want > have:
        wanted, effect = "extend", "gives random values to the rows beyond the file's"
    if value != wanted:
        raise ValueError(
            f"the dictionary has {want:,} entries, {origin} {have:,} rows, and {option} is {value}; valid here: {wanted}, which "
            f"{effect}. {explain(want - have)}Entries must mean the same: preprocess with the model's own dictionary, "
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


def explain(difference: int) -> str:
    """Where one entry more or fewer in a dictionary (with what the task adds to it) than in a file probably comes from."""
    more = "more" if difference > 0 else "fewer"
    return f"The one entry {more} is probably {MASK}. " if abs(difference) == 1 else ""


def sizes_of_sides(sizes: Mapping[str, int], *sides: str) -> Dict[str, int]:
    """Option of the model -> value, for the sides that are wired as a masked LM of these sizes."""
    names = [(size, option) for side in sides for size, option in size_options(side, "").items()]
    return {option: sizes[size] for size, option in names if size not in ("layers", "max_positions")}


def stack_sources(found: PretrainedFile, side: str, layers: Sequence[int]) -> Dict[str, str]:
    """Name in one side of a model -> name in a masked LM: its embeddings and these of its layers, renumbered."""
    embeddings = (WORDS, POSITIONS, "layernorm_embedding.weight", "layernorm_embedding.bias")
    sources = {f"{side}.{name}": f"sentence_encoder.{name}" for name in embeddings}
    for number, layer in enumerate(layers):
        start = f"sentence_encoder.layers.{layer}."
        names = [name for name in found.tensors if name.startswith(start)]
        sources.update({f"{side}.layers.{number}.{name[len(start) :]}": name for name in names})
    return sources


class Fit:
    """Brings the tensors of a file to the rows of a model; ``changes``: name -> what was cut or added.

    ``model``: an encoder-decoder, or an encoder. ``names``: how messages call the options that help, see ``FIT_NAMES`` of
    ``modules.option_checks``.
    """

    def __init__(self, model: Any, names: Mapping[str, str], origin: str):
        self.model, self.names, self.origin = model, names, origin
        self.targets: Dict[str, Tensor] = model.state_dict()
        self.changes: Dict[str, str] = {}

    def check_beside(self, side: str, entries: Sequence[str]) -> None:
        """Raise ValueError where the dictionary of one side is not the one beside the file, as far as both go."""
        own, where = getattr(self.model, side).dictionary.symbols, "the dict.txt beside it"
        check_entries(entries, own, self.origin, where, self.names["dictionary"])

    def leave_mask_out(self, side: str, tensors: Dict[str, Tensor], row: Optional[int]) -> None:
        """Drop the row of ``<mask>`` from the words of one side, where the dictionary goes on without it; None: there is none.

        Raises ValueError: ``<mask>`` is another entry of the dictionary.
        """
        if row is None:
            return
        dictionary = getattr(self.model, side).dictionary
        own = dictionary.index(MASK) if MASK in dictionary else None
        for name in [name for name in tensors if name.startswith(side) and _WORDS.fullmatch(name)]:
            tensor, shown = tensors[name], "the last row" if row == tensors[name].size(0) - 1 else f"row {row:,}"
            if own not in (None, row):
                raise ValueError(
                    f"{MASK} is entry {own} of the dictionary, but {shown} of {self.origin}; {self.names['dictionary']}"
                )
            if own is None:
                tensors[name] = torch.cat([tensor[:row], tensor[row + 1 :]])
                self.changes[name] = f"without {shown}, {MASK}, which the dictionary does not have"

    def rows(self, name: str, tensor: Tensor) -> Tensor:
        """The tensor with as many rows as the model has; what is neither words nor positions is left as it is."""
        target, positions = self.targets.get(name), _POSITIONS.fullmatch(name)
        if target is None or not tensor.dim() or tensor.size(0) == target.size(0):
            return tensor
        if positions:
            side = positions[1] or "encoder"
            unused = getattr(self.model, side, self.model).padding_idx + 1
            rows, change = fit_positions(tensor, target.size(0), unused, self.origin, self.names[side])
        elif _WORDS.fullmatch(name):
            rows, change = fit_words(tensor, target, self.names["policy"], self.origin)
        else:
            return tensor
        self.changes[name] = "; ".join([*filter(None, [self.changes.get(name)]), change])
        return rows

    def tie(self, tensors: Dict[str, Tensor]) -> None:
        """An output projection that is not tied starts as the decoder's embedding. ValueError: the model ties what differs."""
        encoder, decoder = self.model.encoder, self.model.decoder
        source, target = "encoder." + WORDS, "decoder." + WORDS
        if encoder.embed_tokens is decoder.embed_tokens and not torch.equal(tensors[source], tensors[target]):
            raise ValueError(
                f"{self.origin} has different source and target embeddings; leave {self.names['shared']} out"
            )
        if _OUTPUT not in tensors and not decoder.share_input_output_embed:
            self.changes[_OUTPUT] = f"a copy of {target}"
        tensors.setdefault(_OUTPUT, tensors[target])
        if decoder.share_input_output_embed and not torch.equal(tensors[_OUTPUT], tensors[target]):
            raise ValueError(f"{self.origin} has an output projection of its own; leave {self.names['tied']} out")

    def load(
        self, tensors: Mapping[str, Tensor], sources: Optional[Dict[str, str]] = None, random: Sequence[str] = ()
    ) -> LoadReport:
        """Bring all tensors to the model's rows, tie what it ties, load them, and log where everything comes from.

        ``sources``: name in the model -> name in the file; None where they are the same. ``random``: regular expressions of the
        names that may keep their initial values.

        Returns what became of every tensor of the model; ``reasons`` names the source of each. ValueError: others than wanted.
        """
        tensors = {name: self.rows(name, tensor) for name, tensor in tensors.items()}
        if sources is not None and "decoder." + WORDS in tensors:
            self.tie(tensors)
            sources.setdefault(_OUTPUT, sources["decoder." + WORDS])
        try:
            report = load(self.model, tensors, allow_missing=(*MARKERS, *random))
        except ValueError as error:
            raise ValueError(f"{self.origin}: {error}") from error
        reasons = {**report.reasons, **self.changes}
        if sources is None:
            logger.info("%s: %s", self.origin, report.summary())
        else:
            used = {name: sources[name] for name in report.loaded if name in sources}
            logger.info("%s: filled %s", self.origin, ", ".join(fold(used.items())))
            for name in report.initialised:
                marker = any(re.fullmatch(marker, name) for marker in MARKERS)
                reasons[name] = "of the layout itself" if marker else "random"
            reasons.update({name: "; ".join([used[name], *filter(None, [self.changes.get(name)])]) for name in used})
        for name, change in self.changes.items():
            logger.info("%s: %s: %s", self.origin, name, change)
        return replace(report, reasons=reasons)


def started_from(options: Any) -> Optional[str]:
    """What training will read: ``restore_file``, else the run's own last checkpoint, else ``finetune_from_model``."""
    path = getattr(options, "restore_file", None) or LAST_CHECKPOINT
    if path == LAST_CHECKPOINT:
        last = os.path.join(getattr(options, "save_dir", None) or "", path)
        path = last if os.path.isfile(last) else getattr(options, "finetune_from_model", None) or ""
    return path if os.path.isfile(path) else None


def left_closed(option: str, path: str, options: Any, task: Any) -> Optional[str]:
    """Why the pretrained file at ``path``, which an ``option`` names, is not opened; None where it is to be opened.

    What is returned is the error of a model that nothing was loaded into. ``options`` of the command line have ``restore_file`` and
    ``save_dir``, those of a YAML do not. ``task`` has ``from_checkpoint`` where a checkpoint will fill the model.
    """
    if getattr(task, "from_checkpoint", False):
        return f"{option} {path}: was not opened, since the model is read from a checkpoint"
    if not os.path.exists(path):
        return f"{option} {path}: no such file"
    checkpoint = started_from(options) if getattr(options, "save_dir", None) else None
    return checkpoint and f"{option} {path}: was not opened, since {checkpoint} is there to be continued"


def compare_order(langs: Sequence[str], trained: Optional[Sequence[str]], origin: str, option: str) -> None:
    """Raise ValueError where the languages of an ``option`` are not those of a checkpoint in their order, which rows of ids follow.

    ``trained``: None = the checkpoint does not tell, which is logged.
    """
    if trained is None:
        logger.warning("%s does not tell its languages: %s must have them in the order of its training", origin, option)
    elif list(trained) != list(langs):
        raise ValueError(
            f"{option} {','.join(langs)}: {origin} was trained with {','.join(trained)}; give the same languages in the same "
            "order, because the rows of their ids follow it"
        )


def compare_start(langs: Sequence[str], options: Any, option: str) -> None:
    """Like :func:`compare_order`, for the checkpoint that training starts from or goes on with, if there is one."""
    if (path := started_from(options)) is not None:
        content = read_checkpoint(path)
        compare_order(langs, stock_languages(content, find_settings(content), "[{}]").listed, path, option)
