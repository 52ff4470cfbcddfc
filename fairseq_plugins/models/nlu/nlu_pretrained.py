"""Where an ``nlu_encoder`` has its sizes and its weights from."""

import logging
from dataclasses import replace
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from ...checkpoints.fitting import Filler, FitOptions, explain_difference
from ...checkpoints.inspection import CheckpointError
from ...checkpoints.layouts import (
    LANGUAGES_ENTRY,
    LAYOUT_ENTRY,
    WORDS,
    EncoderLayout,
    family_layout,
    layout_from,
)
from ...checkpoints.loading import LoadReport
from ...checkpoints.pretrained import PretrainedFile, find_settings
from ...checkpoints.readers import read_encoder
from ...checkpoints.reading import read_checkpoint
from ...checkpoints.starting import left_closed, started_from
from ...checkpoints.vocabulary import MASK, STYLES, as_dict, check_entries, languages_of
from ...common.fit_options import check_sizes
from ...modules.option_checks import flag

logger = logging.getLogger(__name__)

OPTION = "--pretrained-encoder"
SCRATCH_POSITIONS = 512  # of an encoder from scratch, unless the command line says otherwise

SIZES: Dict[str, str] = {
    "encoder_layers": "layers",
    "encoder_embed_dim": "embed_dim",
    "encoder_ffn_embed_dim": "ffn_dim",
    "encoder_heads": "heads",
}
"""Option -> field of the layout. A pretrained file has them; from scratch all must be given."""

MASKLESS = ("nllb", "deltalm")
"""Families of which no released file has a row for ``<mask>``."""

USE_ITS_DICTIONARY = "preprocess with what `python -m fairseq_plugins.checkpoints.dictionary` writes for it"


class Start(NamedTuple):
    """What a model is built from.

    ``layout``: with as many rows as the dictionary has entries. ``languages``: ordered; None where there are none, or nothing
    tells. ``file``: the pretrained encoder, None where there is none (any more); ``origin``: its option and path. ``absent``: why
    nothing may be computed before a checkpoint was loaded; None where all is well. ``adds_mask``: the dictionary has ``<mask>`` as
    its last entry, and the file, which has every other one, has no row for it.
    """

    layout: EncoderLayout
    languages: Optional[Tuple[str, ...]]
    file: Optional[PretrainedFile] = None
    origin: str = ""
    absent: Optional[str] = None
    adds_mask: bool = False


def find_start(args: Any, task: Any) -> Start:
    """Decide what the model is built from. ``args``: completed options; those of a checkpoint also hold the layout.

    Raises ValueError: sizes, languages or entries that do not fit, or a file that is not there and cannot be done without.
    """
    dictionary, path = task.source_dictionary, args.pretrained_encoder
    if getattr(args, LAYOUT_ENTRY, None) is not None:
        return _from_stored(vars(args), dictionary, "the checkpoint")
    if path is None:
        return _from_options(args, dictionary)
    absent = left_closed(OPTION, path, args, task)
    if absent is None:
        return _from_file(args, dictionary, f"{OPTION} {path}")
    # The checkpoint that will be continued has everything, or, where the file is gone, the command line has the sizes.
    continued = started_from(args)
    settings = find_settings(read_checkpoint(continued)) if continued else {}
    if settings.get(LAYOUT_ENTRY) is not None:
        return _from_stored(settings, dictionary, str(continued))._replace(absent=absent)
    return _from_options(args, dictionary, absent)


def fill(encoder: nn.Module, start: Start, options: FitOptions) -> Optional[LoadReport]:
    """Fill a ``TextEncoder`` from the file it starts from, fitted to its rows and positions.

    Returns:
        account of every tensor; None if there is no file.

    Raises:
        ValueError: ``options`` do not allow to fit the rows.
    """
    if start.file is None:
        return None
    tensors = dict(start.file.tensors)
    filler = Filler(encoder, tensors, options, start.origin)
    if start.adds_mask:
        tensors[WORDS], filler.changes[WORDS] = with_mask_row(tensors[WORDS])
    return filler.load()


def with_mask_row(tensor: Tensor) -> Tuple[Tensor, str]:
    """A token embedding with one row more, the mean of all, for a ``<mask>`` that the model never had and that is never read."""
    mean = tensor.mean(dim=0, keepdim=True, dtype=torch.float64).to(tensor.dtype)
    change = f"a row for {MASK} after the file's {tensor.size(0):,}, their mean: it is never read"
    return torch.cat([tensor, mean]), change


def _from_file(args: Any, dictionary: Dictionary, origin: str) -> Start:
    try:
        found = read_encoder(args.pretrained_encoder, args.encoder_heads, flag("encoder_heads"))
    except CheckpointError as error:
        raise ValueError(f"{OPTION}: {error}") from error
    layout, positions = found.layout, args.max_source_positions
    fields = {**SIZES, "encoder_family": "family"}
    check_sizes({name: getattr(layout, field) for name, field in fields.items()}, args, origin)
    _compare_languages(found.languages, dictionary, origin, found.layout.family)
    _compare_rows(found, dictionary, str(args.embedding_mismatch), str(args.unnamed_rows), origin)
    layout = replace(layout, vocab_size=len(dictionary), max_positions=positions or layout.max_positions)
    languages = found.languages or _own_languages(layout.family, dictionary)
    return Start(layout, languages, found, origin, adds_mask=_lacks_mask_alone(found, dictionary))


def _from_stored(settings: Mapping[str, Any], dictionary: Dictionary, origin: str) -> Start:
    layout, listed = layout_from(as_dict(settings[LAYOUT_ENTRY]), origin), settings.get(LANGUAGES_ENTRY)
    languages = tuple(str(language) for language in listed) if listed else None
    _compare_languages(languages, dictionary, origin, layout.family)
    if layout.vocab_size != len(dictionary):
        raise ValueError(
            f"the dictionary has {len(dictionary):,} entries, {origin} was trained with {layout.vocab_size:,}. "
            f"{explain_difference(len(dictionary) - layout.vocab_size)}Use the dictionary of the training (its data's dict.txt)"
        )
    return Start(layout, languages)


def _from_options(args: Any, dictionary: Dictionary, absent: Optional[str] = None) -> Start:
    missing = ", ".join(flag(name) for name in ("encoder_family", *SIZES) if getattr(args, name) is None)
    if missing and absent:
        raise ValueError(f"{absent}, and there is no checkpoint of this run to continue (nor {missing})")
    if missing:
        raise ValueError(f"an encoder from scratch needs {missing}; give them, or {OPTION} with a file that has them")
    sizes = {field: getattr(args, name) for name, field in SIZES.items()}
    if sizes["embed_dim"] % sizes["heads"]:
        raise ValueError(
            f"{flag('encoder_heads')} {sizes['heads']}: must divide {flag('encoder_embed_dim')} {sizes['embed_dim']}"
        )
    positions, family = args.max_source_positions or SCRATCH_POSITIONS, str(args.encoder_family)
    layout = family_layout(family, vocab_size=len(dictionary), max_positions=positions, **sizes)
    return Start(layout, _own_languages(family, dictionary), absent=absent)


def _own_languages(family: Any, dictionary: Dictionary) -> Optional[Tuple[str, ...]]:
    return (languages_of(dictionary.symbols) or None) if str(family) in STYLES else None


def _compare_languages(trained: Optional[Sequence[str]], dictionary: Dictionary, origin: str, family: str) -> None:
    """Raise ValueError where the languages among the entries of the data's dictionary are not the encoder's, in their order."""
    found = languages_of(dictionary.symbols, trained or ())
    if not trained and family in STYLES:
        logger.warning("%s does not tell its languages: make sure that the dictionary has them in its order", origin)
    if not trained or list(found) == list(trained):
        return
    raise ValueError(
        f"{origin} was trained with the languages {','.join(trained)}, the data's dictionary has {','.join(found) or 'none'}, in "
        f"this order. Every language has a row of the embedding by its place in that list: {USE_ITS_DICTIONARY}"
    )


def _lacks_mask_alone(found: PretrainedFile, dictionary: Dictionary) -> bool:
    """Whether the data's dictionary has one entry more than the file has rows: ``<mask>``, its last one, which no row of it is.

    The understanding tasks add it to every dictionary. A file whose last row nothing tells has it there, unless it is maskless.
    """
    rows, known = found.layout.vocab_size, found.entries
    if len(dictionary) != rows + 1 or dictionary.symbols[-1] != MASK or MASK in known:
        return False
    return len(known) == rows or found.layout.family in MASKLESS


def _compare_rows(found: PretrainedFile, dictionary: Dictionary, policy: str, unnamed: str, origin: str) -> None:
    """Compare what is known of the file's rows with the data's dictionary; ValueError: nothing, or something else than it says."""
    rows = found.layout.vocab_size
    if not found.entries and unnamed == "error":
        raise ValueError(
            f"{origin}: nothing beside it tells what its {rows:,} rows mean; put the dict.txt of its training, or its tokenizer's "
            f"files, there. --unnamed-rows dictionary takes them to be the {len(dictionary):,} entries of the data's dictionary"
        )
    if not found.entries:
        logger.warning("%s: its rows are taken to be the dictionary's (--unnamed-rows dictionary)", origin)
    if rows != len(dictionary) and policy == "error" and not _lacks_mask_alone(found, dictionary):
        return  # the numbers will be explained
    if found.entries:
        check_entries(found.entries, dictionary.symbols, origin, "its vocabulary", USE_ITS_DICTIONARY)
    elif MASK in dictionary and found.mask_row not in (None, dictionary.index(MASK)):
        entry = f"{MASK} is entry {dictionary.index(MASK)} of the dictionary"
        raise ValueError(f"{entry}, but row {found.mask_row} of {origin}; {USE_ITS_DICTIONARY}")
