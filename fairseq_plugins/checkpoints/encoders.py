"""Reading the encoder of any pretrained model that the package knows, into the names of fairseq's stock encoder."""

import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, List, Mapping, Optional, Sequence, Tuple

import torch

from .errors import CheckpointError
from .layouts import EncoderLayout, expected_shapes
from .pipeline import (
    ENCODER,
    PADDING_IDX,
    POSITIONS,
    WORDS,
    PretrainedFile,
    check_shapes,
    find_sizes,
    open_file,
)
from .reading import PathLike
from .vocabulary import (
    LIST_NAME,
    MASK,
    PAD,
    SPECIAL,
    STYLES,
    WORDPIECE_NAMES,
    Languages,
    checked,
    complete,
    find_dictionary,
    languages_of,
    padding_contradiction,
    read_dictionary,
    read_languages,
    task_options,
    tokenizer_entries,
)

logger = logging.getLogger(__name__)


def read_encoder(path: PathLike, heads: Optional[int] = None, label: str = "heads=…") -> PretrainedFile:
    """Read an encoder; recognises the source by itself.

    Args:
        path: a checkpoint, or a folder with one: fairseq's ``model.pt`` (``dict.txt`` or equal ``dict.LANG.txt`` beside it), or a
            Hugging Face folder.
        heads, label: see :func:`.pipeline.find_sizes`; released DeltaLM and old XLM-R do not tell their heads.

    Returns:
        The file, in the names of the stock ``TransformerEncoder`` (and ``segment_embeddings.weight``); rows of the embedding in
        the order that a fairseq dictionary forces. Its ``layout`` is an :class:`EncoderLayout`.

    Raises:
        CheckpointError: anything unreadable, untrusted, unknown, unaccounted for or contradictory.
    """
    found = open_encoder(path)
    find_sizes(found, heads, None, label)
    shift_positions(found)
    layout = found.layout = EncoderLayout(**found.sizes)
    check_shapes(found.tensors, expected_shapes(layout), found.origin, found.source.expected)
    order = row_order(found.entries, layout.family, found.origin) if found.entries else []
    if order != list(range(len(order))):
        found.tensors[WORDS] = found.tensors[WORDS][[*order, *range(len(order), layout.vocab_size)]]
        found.entries = tuple(found.entries[row] for row in order)
        found.reasons[found.sources[WORDS]] = "rows in the order of a fairseq dictionary"
    return found


def shift_positions(found: PretrainedFile) -> None:
    """Give the first position the row behind fairseq's ``<pad>``."""
    if found.padding_idx != PADDING_IDX and POSITIONS in found.tensors:
        table = found.tensors[POSITIONS]
        unused = torch.zeros(PADDING_IDX + 1, table.size(1), dtype=table.dtype)
        found.tensors[POSITIONS] = torch.cat([unused, table[found.padding_idx + 1 :]])


def open_encoder(
    path: PathLike, dictionary: Optional[PathLike] = None, languages: Sequence[str] = ()
) -> PretrainedFile:
    """An encoder with its languages and the entries of its rows, in the file's order, as far as something tells them.

    Args:
        dictionary: ``dict.txt`` of a fairseq model, where it is not the one beside it.
        languages: in the order of their rows, for files that do not tell.
    """
    found = open_file(path, ENCODER)
    rows = found.matrix(WORDS).size(0)
    _name_rows(found, rows, None if dictionary is None else Path(dictionary), languages)
    if not found.entries and found.padding_idx != PADDING_IDX:
        raise CheckpointError(
            f"{found.origin}: its special symbols are not at rows 0 to 3, and nothing beside it tells its vocabulary; expected "
            f"{found.source.expected}"
        )
    return found


# ---- What its rows mean. ----


def _name_rows(found: PretrainedFile, rows: int, dictionary: Optional[Path], given: Sequence[str]) -> None:
    """Fill in the languages of an encoder and the entries of its rows, in the file's order, as far as something tells.

    Raises:
        CheckpointError: damaged files, or some that contradict each other, what the file says, or the languages that were given.
    """
    content, family, says = found.content, found.wiring["family"], found.stated_languages
    wanted = checked(given, "languages that were given") if given else None
    entries = listed = None
    if content.is_folder and dictionary is None:
        entries = tokenizer_entries(content.folder, STYLES.get(family), rows, wanted or ())
    if entries is not None:
        row = found.padding_idx
        # Positions are counted from the row behind <pad>: the tokenizer must have it where the configuration has.
        if row >= 0 and PAD in entries and entries.index(PAD) != row:
            raise padding_contradiction(row, entries.index(PAD), "the tokenizer", found.origin)
        listed = (languages_of(entries) or None) if family in STYLES else None
    else:
        beside = dictionary or find_dictionary(content.folder) or dictionary_of_run(content.entries)
        names = [content.folder / name for name in (says.file, LIST_NAME) if name]
        list_beside = next((read_languages(file) for file in names if file.is_file()), None)
        found.languages = says.listed or list_beside
        if beside is None:
            return
        if wanted and not found.languages:
            says = replace(says, listed=wanted, guessed=None)
        entries, listed = _entries_by(read_dictionary(beside), says, list_beside, rows, found.origin)
        mask = found.mask_row
        if mask is not None and mask < len(entries) and entries[mask] != MASK:
            raise CheckpointError(
                f"{found.origin}: has {MASK} in row {mask}, where {beside} has {entries[mask]!r}; expected the dictionary that it "
                "was pre-trained with"
            )
    if wanted and listed and wanted != listed:
        raise CheckpointError(f"{found.origin}: has the languages {','.join(listed)}; given were {','.join(wanted)}")
    if not set(says.symbols(wanted)) <= set(entries):
        raise CheckpointError(
            f"{found.origin}: has fewer rows behind its pieces than languages were given ({','.join(wanted or ())}); expected "
            "those of its training, in their order"
        )
    found.entries, found.languages = tuple(entries), listed


def dictionary_of_run(checkpoint: Mapping[str, Any]) -> Optional[Path]:
    """The dictionary in the data folder that a fairseq run was trained on; None where it is not there any more."""
    data = task_options(checkpoint).get("data") or getattr(checkpoint.get("args"), "data", None)
    folder = Path(str(data).split(os.pathsep)[0]) if data else None
    found = find_dictionary(folder) if folder is not None and folder.is_dir() else None
    if found is not None:
        logger.info("no dictionary beside the checkpoint: its rows are those of %s, of its training", found)
    return found


def _entries_by(
    base: List[str], says: Languages, beside: Optional[Tuple[str, ...]], rows: int, origin: str
) -> Tuple[List[str], Optional[Tuple[str, ...]]]:
    """Entries of a fairseq model: those of its dictionary, its languages and ``<mask>``, as far as there are rows; its languages.

    ``says``: what the checkpoint says of its languages; ``beside``: those of the list beside it.
    """
    if says.listed and beside and says.listed != beside:
        logger.warning(
            "%s: its options and the list beside it name different languages: those that fit its rows are used", origin
        )
    for candidate in (says.listed, beside, says.guessed):
        entries = complete(base, says.symbols(candidate), rows)
        if candidate and len(entries) == rows:
            return entries, languages_of(entries, candidate)
    if says.guessed:
        logger.warning(
            "%s: the languages of its pairs, %s, do not explain its rows and are not used",
            origin,
            ",".join(says.guessed),
        )
    entries = complete(base, [], rows)
    if len(entries) == rows:
        return entries, None
    if len(base) > rows:
        logger.warning("%s: has %d rows, the dictionary beside it %d entries", origin, rows, len(base))
    stated = says.listed or beside
    longest = complete(base, says.symbols(stated), 0)
    return (longest if len(longest) <= rows else base[:rows]), stated


def row_order(entries: Sequence[str], family: str, origin: str) -> List[int]:
    """For each row that a fairseq dictionary forces, the row of the file: the four special entries, then the rest as it is.

    ``entries``: of the file's rows, in fairseq's names; BERT's ``<mask>`` goes to the end. Raises CheckpointError: a special entry
    is missing.
    """
    indices = {entry: index for index, entry in reversed(list(enumerate(entries)))}
    missing = [entry for entry in SPECIAL if entry not in indices]
    if missing:
        names = {ours: theirs for theirs, ours in WORDPIECE_NAMES.items()}
        shown = ", ".join(f"{entry} (or {names[entry]})" for entry in missing)
        raise CheckpointError(f"{origin}: its vocabulary has no {shown}")
    first = [indices[entry] for entry in SPECIAL]
    last = [indices[MASK]] if family == "bert" and MASK in indices else []
    moved = {*first, *last}
    return [*first, *(index for index in range(len(entries)) if index not in moved), *last]
