"""Fitting a pretrained file to a model: sizes, rows, positions, dictionaries; loading it and saying where every tensor is from.

Also what a run starts from: a checkpoint that is about to be loaded has everything, so that no pretrained file is opened.
"""

import logging
import os
import re
from dataclasses import replace
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn

from .layouts import MASK_ROW
from .loading import LoadReport, fold, load
from .reading import read_checkpoint
from .vocabulary import MASK, stock_languages

logger = logging.getLogger(__name__)

MARKERS = (
    r"(?:(?:encoder|decoder)\.)?version",
    r"(?:(?:encoder|decoder)\.)?embed_positions\._float_tensor",
    re.escape(MASK_ROW),
)
"""Tensors that the model makes itself and no file needs to have."""

LANGUAGES = "languages"  # in the state of a task, which checkpoints keep
LAST_CHECKPOINT = "checkpoint_last.pt"
USE_ITS_DICTIONARY = "run fairseq-preprocess with that dict.txt as --srcdict and --tgtdict, new symbols at its end"


def check_entries(
    own: Sequence[str], found: Sequence[str], origin: str, where: str, remedy: str = USE_ITS_DICTIONARY
) -> None:
    """Raise ValueError for the first entry of a model that differs from that of the data's dictionary, as far as both go."""
    for index, (ours, theirs) in enumerate(zip(own, found)):
        if ours != theirs:
            raise ValueError(
                f"{origin}: {where} has {ours!r} as entry {index}, the data's dictionary {theirs!r}; {remedy}"
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


def check_sizes(sizes: Mapping[str, Any], args: Any, origin: str, remedy: str = "") -> None:
    """Raise ValueError where the sizes of a file (option -> value) are not those of the options that are set."""
    wrong = [
        f"--{name.replace('_', '-')} {getattr(args, name)} (valid here: {value})"
        for name, value in sizes.items()
        if getattr(args, name, None) is not None and str(getattr(args, name)) != str(value)
    ]
    if wrong:
        raise ValueError(f"{origin} has other sizes than the --arch and the command line: {', '.join(wrong)}{remedy}")


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


def started_from(options: Any) -> Optional[str]:
    """What fairseq-train will read: ``--restore-file``, else the run's own last checkpoint, else ``--finetune-from-model``."""
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
    """Like :func:`compare_order`, for the checkpoint that training starts from or goes on with, if there is one."""
    if (path := started_from(options)) is not None:
        content = read_checkpoint(path)
        settings = vars(content["args"]) if content.get("args") else {}
        compare_order(langs, stock_languages(content, settings, "[{}]").listed, path)
