"""Reads the encoder of any known model, and the vocabulary entry of each row of its embedding.

The entries come from a dictionary, a tokenizer or a list of languages beside the weights.
:func:`write_dictionary` writes them as a fairseq dictionary, with which data is preprocessed.
"""

from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from data_prep.files import atomic_path

from .inspection import CheckpointError
from .layouts import PADDING_IDX, WORDS, EncoderLayout, expected_shapes
from .loading import check_shapes
from .pretrained import PretrainedFile, convert
from .reading import PathLike
from .tokenizers import (
    UNNAMED,
    append_entries,
    check_padding,
    fairseq_order,
    tokenizer_entries,
)
from .vocabulary import (
    DICTIONARY_NAME,
    LIST_NAME,
    SPECIAL,
    STYLES,
    Languages,
    check_languages,
    find_dictionary,
    languages_of,
    read_dictionary,
    read_languages,
)

ENCODER = (
    "XLM-R, InfoXLM, mBART, mBART-50, NLLB, M2M-100, VECO (fairseq, Hugging Face), BERT (Hugging "
    "Face), DeltaLM or an nlu_encoder"
)
CONVERTERS = {
    "xlmr": ".masked_lm:convert_xlmr",
    "bert": ".bert:convert_bert",
    "own": ".bart:convert_own",
    "deltalm": ".bart:convert_deltalm",
    "veco": ".veco:convert_encoder",
    "bart": ".bart:convert_bart",
}


def read_encoder(
    path: PathLike,
    heads: Optional[int] = None,
    label: str = "heads=…",
    languages: Sequence[str] = (),
) -> PretrainedFile:
    """Read the encoder of any known model, in the names of fairseq's ``TransformerEncoder``.

    Args:
        path: weights file of fairseq or Hugging Face, or its folder. ``dict.txt``, or equal
            ``dict.LANG.txt`` files, may lie beside a fairseq checkpoint.
        heads: number of heads; released DeltaLM and old XLM-R files do not state it.
        label: option or argument by which the user states the heads, for messages.
        languages: languages in the order of their rows, for files that do not state them.

    Returns:
        the file; its ``layout`` is an ``EncoderLayout``. The rows of the embedding have the order
        of a fairseq dictionary. BERT's segments are ``segment_embeddings.weight``.

    Raises:
        CheckpointError: as ``read_masked_lm``.
    """
    model = convert(path, CONVERTERS, ENCODER)
    model.take({"encoder.": ""}, "an encoder")
    _name_rows(model, model.matrix(WORDS).size(0), languages)
    if not model.entries and model.padding_idx != PADDING_IDX:
        reason = "no vocabulary lies beside it"
        raise CheckpointError(f"{model.origin}: {reason}; expected {model.expected}")
    model.find_sizes(heads, label)
    layout = model.layout = EncoderLayout(**{**model.sizes, **model.wiring})
    check_shapes(model.tensors, expected_shapes(layout), model.origin, model.expected)
    if model.entries:
        order = fairseq_order(model.entries, model.origin, mask_is_last=layout.family == "bert")
        unnamed = range(len(order), layout.vocab_size)
        if order != list(range(len(order))):
            model.tensors[WORDS] = model.tensors[WORDS][[*order, *unnamed]]
            model.entries = tuple(model.entries[row] for row in order)
    return model


# ---- Dictionaries. ----


def write_dictionary(folder: PathLike, path: PathLike, languages: Sequence[str] = ()) -> List[str]:
    """Write the fairseq ``dict.txt`` of an encoder, with which its data is preprocessed.

    Args:
        folder: folder or weights file of the encoder.
        path: path of the dictionary.
        languages: languages in the order of their rows, for files that do not state them.

    Returns:
        the entry of every row of the embedding; rows without one are called ``madeupword...``.

    Raises:
        CheckpointError: no file states the entries or the languages, or ``languages`` are not
            those of the encoder.
    """
    encoder = read_encoder(folder, heads=1, languages=languages)  # the rows depend on no heads
    names, rows, origin = len(encoder.entries), encoder.layout.vocab_size, encoder.origin
    if not names:
        raise CheckpointError(
            f"{origin}: nothing beside it tells its entries; expected {DICTIONARY_NAME} or "
            "dict.LANG.txt (fairseq), tokenizer.json, vocab.txt or a sentencepiece model with the "
            "language codes"
        )
    if rows > names and encoder.layout.family in STYLES and not encoder.languages:
        raise CheckpointError(
            f"{origin}: has {rows:,} rows, of which {names:,} are named, and no list of its "
            "languages; give them, in the order of the training (--langs), or put a dict.txt that "
            "has them beside it"
        )
    entries = [*encoder.entries, *map(UNNAMED.format, range(rows - names))]
    _check_lines(entries, origin)
    text = "".join(f"{entry} 1\n" for entry in entries[len(SPECIAL) :])
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return entries


def _check_lines(entries: Sequence[str], origin: str) -> None:
    """Raise CheckpointError if an entry occurs twice or has a line break."""
    rows: Dict[str, int] = {}
    for row, entry in enumerate(entries):
        if entry in rows:
            raise CheckpointError(f"{origin}: entries {rows[entry]} and {row} are both {entry!r}")
        if "\n" in entry or "\r" in entry:
            reason = f"entry {row} is {entry!r}, which no line of a dictionary can hold"
            raise CheckpointError(f"{origin}: {reason}")
        rows[entry] = row


# ---- Entries of the rows. ----


class _Rows(NamedTuple):
    """Entries of the first rows, and the languages in row order (None if nothing lists them)."""

    entries: Tuple[str, ...]
    languages: Optional[Tuple[str, ...]]


def _name_rows(model: PretrainedFile, count: int, languages: Sequence[str]) -> None:
    """Fill in ``entries`` and ``languages`` of an encoder as far as known, in the file's row order.

    Args:
        count: rows of the embedding.
        languages: languages that the user states, in the order of their rows.

    Raises:
        CheckpointError: a file is damaged, or contradicts another, the weights or the user.
    """
    user = check_languages(languages, "languages that were given") if languages else ()
    style = STYLES.get(model.wiring["family"])
    rows = _rows_of_tokenizer(model, count, user) or _rows_of_dictionary(model, count, user)
    model.entries, model.languages = rows
    if not rows.entries:
        return
    if rows.languages is None and style:
        model.languages = languages_of(rows.entries) or None
    if user and model.languages and user != model.languages:
        names = f"has the languages {','.join(model.languages)}; given were {','.join(user)}"
        raise CheckpointError(f"{model.origin}: {names}")
    if not set(model.stated_languages.symbols(user)) <= set(rows.entries):
        reason = "has fewer rows after its pieces than languages were given"
        raise CheckpointError(f"{model.origin}: {reason} ({','.join(user)})")


def _rows_of_tokenizer(model: PretrainedFile, count: int, user: Sequence[str]) -> Optional[_Rows]:
    """Return the rows' entries by the tokenizer in a Hugging Face folder.

    None if there is no tokenizer, or if it lacks the languages of the model.
    """
    if not model.checkpoint.is_folder:
        return None
    style = STYLES.get(model.wiring["family"])
    entries = tokenizer_entries(model.checkpoint.folder, style, count, user)
    if entries is None:
        return None
    # Positions that start after row 1 are counted from <pad>, which must be in row 1. BERT's start
    # at row 0, and its [PAD] is row 0.
    if model.padding_idx == PADDING_IDX:
        check_padding(entries, model.origin)
    return _Rows(tuple(entries), None)


def _rows_of_dictionary(model: PretrainedFile, count: int, user: Tuple[str, ...]) -> _Rows:
    """Return the rows' entries by a fairseq dictionary; without one, only the stated languages."""
    folder, file_languages = model.checkpoint.folder, model.stated_languages
    lists = _language_lists(folder, file_languages)
    dictionary = find_dictionary(folder, model.checkpoint.entries)
    if dictionary is None:
        return _Rows(model.entries, lists[0] if lists else None)
    if user and not lists:
        lists = [user]
    rows = _complete_dictionary(read_dictionary(dictionary), file_languages, lists, count)
    model.name_rows(rows.entries, dictionary)
    return rows


def _language_lists(folder: Path, file_languages: Languages) -> List[Tuple[str, ...]]:
    """Return every list of languages in the checkpoint and in the files beside it."""
    files = [folder / name for name in (file_languages.file, LIST_NAME) if name]
    lists = [read_languages(file) for file in files if file.is_file()]
    return [languages for languages in (file_languages.listed, *lists) if languages]


def _complete_dictionary(
    base: List[str], file_languages: Languages, lists: List[Tuple[str, ...]], count: int
) -> _Rows:
    """Append languages and ``<mask>`` to the entries of a dictionary, as fairseq's tasks do.

    If neither a list nor the dictionary alone fills all rows, the first list is appended. If that
    makes too many entries, the dictionary alone is cut to the rows.

    Args:
        base: entries of the dictionary.
        file_languages: gives the format of a language as an entry.
        lists: lists of languages, of which the first that fills all rows is the model's.
        count: rows of the embedding.
    """
    for languages in (*lists, ()):
        entries = append_entries(base, file_languages.symbols(languages), count)
        if len(entries) == count:
            present = languages_of(entries, languages) if languages else None
            return _Rows(tuple(entries), present)
    first = lists[0] if lists else None
    entries = append_entries(base, file_languages.symbols(first))
    return _Rows(tuple(entries if len(entries) <= count else base[:count]), first)
