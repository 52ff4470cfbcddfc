"""Find the sizes and the weights that an ``nlu_encoder`` starts from."""

import logging
from dataclasses import replace
from typing import Any, Mapping, NamedTuple, Optional, Sequence, Tuple

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from ..checkpoints.encoders import read_encoder
from ..checkpoints.fitting import Filler, FitOptions, explain_difference
from ..checkpoints.inspection import CheckpointError
from ..checkpoints.layouts import (
    LANGUAGES_ENTRY,
    LAYOUT_ENTRY,
    WORDS,
    EncoderLayout,
    family_layout,
    layout_from,
)
from ..checkpoints.opening import find_settings
from ..checkpoints.pretrained import PretrainedFile
from ..checkpoints.reading import read_checkpoint
from ..checkpoints.starting import explain_unread, started_from
from ..checkpoints.vocabulary import MASK, STYLES, as_dict, check_entries, languages_of
from ..common.options import check_sizes, flag
from .config import SIZES

logger = logging.getLogger(__name__)

OPTION = "--pretrained-encoder"
SCRATCH_POSITIONS = 512
"""Positions of an encoder from scratch if the command line gives none."""

MASKLESS = ("nllb", "deltalm")
"""Families of which no released file has a row for ``<mask>``."""

USE_ITS_DICTIONARY = "preprocess with what `fairseq-plugins dictionary` writes for it"


class Start(NamedTuple):
    """Sizes and weights that a model is built from."""

    layout: EncoderLayout  # with as many rows as the dictionary has entries
    languages: Optional[Tuple[str, ...]]  # in order; None = there are none, or nothing states them
    file: Optional[PretrainedFile] = None  # the pretrained encoder; None = it is not read
    origin: str = ""  # option and path of the file, for messages
    absent: Optional[str] = None  # error of a model that is used before a checkpoint fills it
    adds_mask: bool = False  # only ``<mask>``, the dictionary's last entry, has no row in the file


def find_start(args: Any, task: Any) -> Start:
    """Decide what a model is built from.

    ``args`` are completed options; those of a checkpoint also hold the layout.

    Raises:
        ValueError: sizes, languages or entries do not fit, or the file is missing.
    """
    dictionary, path = task.source_dictionary, args.pretrained_encoder
    if getattr(args, LAYOUT_ENTRY, None) is not None:
        return _from_stored(vars(args), dictionary, "the checkpoint")
    if path is None:
        return _from_options(args, dictionary)
    absent = explain_unread(OPTION, path, args, task)
    if absent is None:
        return _from_file(args, dictionary, f"{OPTION} {path}")
    # The checkpoint to be continued has everything; if it is gone, the command line has the sizes.
    checkpoint = started_from(args)
    settings = find_settings(read_checkpoint(checkpoint)) if checkpoint else {}
    if settings.get(LAYOUT_ENTRY) is not None:
        return _from_stored(settings, dictionary, str(checkpoint))._replace(absent=absent)
    return _from_options(args, dictionary, absent)


def fill(encoder: nn.Module, start: Start, options: FitOptions) -> None:
    """Fill a ``TextEncoder`` from its file, if any, whose rows and positions are fitted to it.

    Raises:
        ValueError: the numbers of rows differ in a way that ``options`` do not allow.
    """
    if start.file is None:
        return
    tensors = dict(start.file.tensors)
    filler = Filler(encoder, tensors, options, start.origin)
    if start.adds_mask:
        tensors[WORDS], filler.changes[WORDS] = with_mask_row(tensors[WORDS])
    filler.load()


def with_mask_row(tensor: Tensor) -> Tuple[Tensor, str]:
    """Append a row for ``<mask>``, the mean of all, to an embedding. (V, C) -> (V + 1, C).

    Also returns a description of the change.
    """
    mean = tensor.mean(dim=0, keepdim=True, dtype=torch.float64).to(tensor.dtype)  # 1 C
    rows = f"a row for {MASK} after the file's {tensor.size(0):,}"
    return torch.cat([tensor, mean]), f"{rows}, their mean: it is never read"


def _from_file(args: Any, dictionary: Dictionary, origin: str) -> Start:
    """Read the pretrained file, and compare it with options and dictionary."""
    try:
        encoder = read_encoder(args.pretrained_encoder, args.encoder_heads, flag("encoder_heads"))
    except CheckpointError as error:
        raise ValueError(f"{OPTION}: {error}") from error
    layout, positions = encoder.layout, args.max_source_positions
    fields = {**SIZES, "encoder_family": "family"}
    check_sizes({name: getattr(layout, field) for name, field in fields.items()}, args, origin)
    _compare_languages(encoder.languages, dictionary, origin, layout.family)
    _compare_rows(encoder, dictionary, args, origin)
    longest = positions or layout.max_positions
    layout = replace(layout, vocab_size=len(dictionary), max_positions=longest)
    languages = encoder.languages or _own_languages(layout.family, dictionary)
    adds_mask = _lacks_mask_alone(encoder, dictionary)
    return Start(layout, languages, encoder, origin, adds_mask=adds_mask)


def _from_stored(settings: Mapping[str, Any], dictionary: Dictionary, origin: str) -> Start:
    """Take layout and languages from a checkpoint's options; its weights are loaded later."""
    layout = layout_from(as_dict(settings[LAYOUT_ENTRY]), origin)
    listed = settings.get(LANGUAGES_ENTRY)
    languages = tuple(str(language) for language in listed) if listed else None
    _compare_languages(languages, dictionary, origin, layout.family)
    entries, rows = len(dictionary), layout.vocab_size
    if rows != entries:
        reason = explain_difference(entries - rows)
        raise ValueError(
            f"the dictionary has {entries:,} entries, {origin} was trained with {rows:,}. {reason}"
            "Use the dictionary of the training (its data's dict.txt)"
        )
    return Start(layout, languages)


def _from_options(args: Any, dictionary: Dictionary, absent: Optional[str] = None) -> Start:
    """Take all sizes from the command line; ``absent`` as in :class:`Start`."""
    required = ("encoder_family", *SIZES)
    missing = ", ".join(flag(name) for name in required if getattr(args, name) is None)
    if missing and absent:
        state = f"there is no checkpoint of this run to continue (nor {missing})"
        raise ValueError(f"{absent}, and {state}")
    if missing:
        remedy = f"give them, or {OPTION} with a file that has them"
        raise ValueError(f"an encoder from scratch needs {missing}; {remedy}")
    sizes = {field: getattr(args, name) for name, field in SIZES.items()}
    heads, width = sizes["heads"], sizes["embed_dim"]
    if width % heads:
        divisor = f"must divide {flag('encoder_embed_dim')} {width}"
        raise ValueError(f"{flag('encoder_heads')} {heads}: {divisor}")
    positions, family = args.max_source_positions or SCRATCH_POSITIONS, str(args.encoder_family)
    layout = family_layout(family, vocab_size=len(dictionary), max_positions=positions, **sizes)
    return Start(layout, _own_languages(family, dictionary), absent=absent)


def _own_languages(family: Any, dictionary: Dictionary) -> Optional[Tuple[str, ...]]:
    """Return the languages of the dictionary; None for a family without any."""
    return (languages_of(dictionary.symbols) or None) if str(family) in STYLES else None


def _compare_languages(
    trained: Optional[Sequence[str]], dictionary: Dictionary, origin: str, family: str
) -> None:
    """Raise ValueError if the dictionary has other languages than the encoder, or another order."""
    present = languages_of(dictionary.symbols, trained or ())
    if not trained and family in STYLES:
        text = "%s does not tell its languages: make sure that the dictionary has them in its order"
        logger.warning(text, origin)
    if not trained or list(present) == list(trained):
        return
    names = f"the data's dictionary has {','.join(present) or 'none'}, in this order"
    raise ValueError(
        f"{origin} was trained with the languages {','.join(trained)}, {names}. Every language has "
        f"a row of the embedding by its place in that list: {USE_ITS_DICTIONARY}"
    )


def _lacks_mask_alone(encoder: PretrainedFile, dictionary: Dictionary) -> bool:
    """Return True if ``<mask>``, the dictionary's last entry, is the only one without a row.

    The tasks add ``<mask>`` to every dictionary. In a file whose rows nothing names, the last row
    is ``<mask>`` unless the family has none.
    """
    rows, entries = encoder.layout.vocab_size, encoder.entries
    if len(dictionary) != rows + 1 or dictionary.symbols[-1] != MASK or MASK in entries:
        return False
    return len(entries) == rows or encoder.layout.family in MASKLESS


def _compare_rows(encoder: PretrainedFile, dictionary: Dictionary, args: Any, origin: str) -> None:
    """Raise ValueError if rows of the file stand for other entries than the dictionary's.

    A file that names no entries passes only with ``--unnamed-rows dictionary``.
    """
    rows, entries = encoder.layout.vocab_size, encoder.entries
    if not entries and str(args.unnamed_rows) == "error":
        raise ValueError(
            f"{origin}: nothing beside it tells what its {rows:,} rows mean; put the dict.txt of "
            "its training, or its tokenizer's files, there. --unnamed-rows dictionary takes them "
            f"to be the {len(dictionary):,} entries of the data's dictionary"
        )
    if not entries:
        text = "%s: its rows are taken to be the dictionary's (--unnamed-rows dictionary)"
        logger.warning(text, origin)
    is_strict = str(args.embedding_mismatch) == "error"
    if rows != len(dictionary) and is_strict and not _lacks_mask_alone(encoder, dictionary):
        return  # loading will raise the error that explains the numbers of rows
    if entries:
        symbols = dictionary.symbols
        check_entries(entries, symbols, origin, "its vocabulary", USE_ITS_DICTIONARY)
    elif MASK in dictionary and encoder.mask_row not in (None, dictionary.index(MASK)):
        entry = f"{MASK} is entry {dictionary.index(MASK)} of the dictionary"
        raise ValueError(f"{entry}, but row {encoder.mask_row} of {origin}; {USE_ITS_DICTIONARY}")
