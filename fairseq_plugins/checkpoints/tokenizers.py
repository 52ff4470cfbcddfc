"""Reads the vocabulary of a tokenizer in a Hugging Face folder: the entries of its rows."""

import importlib
import logging
import re
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from .inspection import CheckpointError
from .layouts import PADDING_IDX
from .vocabulary import DICTIONARY_NAME, LANGUAGE, MASK, PAD, SPECIAL, read_json, read_lines

logger = logging.getLogger(__name__)

TOKENIZER = "tokenizer.json"
_SPECIAL_TOKEN_FILES = ("tokenizer_config.json", "special_tokens_map.json")
_SPECIAL_TOKEN_ENTRIES = ("additional_special_tokens", "extra_special_tokens")
_SENTENCEPIECE = ("sentencepiece.bpe.model", "sentencepiece.model", "spiece.model")
_SENTENCEPIECE_START = ["<unk>", "<s>", "</s>"]
WORDPIECE_NAMES = {
    "[CLS]": "<s>",
    "[PAD]": "<pad>",
    "[SEP]": "</s>",
    "[UNK]": "<unk>",
    "[MASK]": MASK,
}
"""BERT's name of a special entry -> fairseq's."""
UNNAMED = "madeupword{:04d}"
"""Entry of a row that no file names; numbers count from 0."""
_BARE_CODE = re.compile(r"[a-z]{2,3}_(?:[A-Z]{2}|[A-Z][a-z]{3})")


class _Tokens(NamedTuple):
    """Entries of a tokenizer's file; ``added`` are those that are no pieces of text."""

    file: Path
    entries: List[str]
    added: Set[str]


def tokenizer_entries(
    folder: Path, style: Optional[str], rows: int, languages: Sequence[str] = ()
) -> Optional[List[str]]:
    """Return the entry of every row by the tokenizer's files in a folder, in fairseq's names.

    Args:
        folder: folder with ``tokenizer.json``, ``vocab.txt``, ``vocab.json`` or a sentencepiece
            model, and perhaps language codes in ``tokenizer_config.json`` or
            ``special_tokens_map.json``.
        style: format of a language as an entry; None for a model without languages.
        rows: number of rows of the embedding.
        languages: languages in the order of their rows, for a folder that lists none.

    Returns:
        the entries of the first rows, as many as the files name; None if the folder has no such
        file, the languages of the model are missing in it, or a ``dict.txt`` lies beside the
        sentencepiece model of a model without languages (whose rows may have been cut to it).

    Raises:
        CheckpointError: a file is damaged, or has more entries than there are rows.
    """
    codes = [(style or "{}").format(language) for language in languages]
    tokens = _read_tokens(folder, rows, _special_tokens(folder) or codes, has_languages=bool(style))
    if tokens is None:
        return None
    entries, added = check_count(tokens.entries, rows, tokens.file), tokens.added | set(languages)
    if style and len(entries) < rows and not any(map(_is_language, (*entries, *added))):
        text = "%s: names %s entries of %s rows and no language"
        logger.warning(text, tokens.file, len(entries), rows)
        return None
    for row, entry in enumerate(entries):
        if style and entry in added and _BARE_CODE.fullmatch(entry):
            entries[row] = style.format(entry)
    return entries


def _is_language(entry: str) -> bool:
    return bool(_BARE_CODE.fullmatch(entry) or LANGUAGE.fullmatch(entry))


def _read_tokens(
    folder: Path, rows: int, listed: Sequence[str], has_languages: bool
) -> Optional[_Tokens]:
    """Read the tokenizer's file; None if the folder has none.

    Args:
        listed: special tokens, often languages, that another file or the user lists; ``vocab.json``
            and sentencepiece models do not contain them.
        has_languages: the model has rows for languages.
    """
    tokenizer, wordpieces = folder / TOKENIZER, folder / "vocab.txt"
    indices, segmenter = folder / "vocab.json", sentencepiece_in(folder)
    if tokenizer.is_file():
        # Some of these files have the languages among the pieces, and another file lists them.
        entries, added = _fast_tokenizer(tokenizer, rows)
        return _Tokens(tokenizer, entries, {*added, *listed})
    if wordpieces.is_file():
        lines = read_lines(wordpieces, "tokenizer")
        return _Tokens(wordpieces, [WORDPIECE_NAMES.get(line, line) for line in lines], set())
    if indices.is_file():
        entries = _by_index(read_json(indices, "a vocabulary"), indices, rows)
        return _Tokens(indices, append_entries(entries, listed), set(listed))
    is_named_otherwise = not has_languages and (folder / DICTIONARY_NAME).is_file()
    if segmenter is None or is_named_otherwise:
        return None
    return _sentencepiece_tokens(segmenter, rows, listed, has_languages)


def _sentencepiece_tokens(
    model: Path, rows: int, listed: Sequence[str], has_languages: bool
) -> _Tokens:
    """Return the entries of an embedding whose tokenizer is a sentencepiece model.

    As in fairseq, the rows are the special entries, the other pieces, the listed tokens, and
    ``<mask>``.
    """
    pieces = pieces_of(model)
    if pieces[:3] != _SENTENCEPIECE_START:
        expected = f"expected {_SENTENCEPIECE_START}, as in fairseq's models"
        raise CheckpointError(f"tokenizer {model}: starts with {pieces[:3]}, {expected}")
    tokens = [token for token in listed if token != MASK]
    entries = append_entries([*SPECIAL, *pieces[3:]], tokens)
    remaining = rows - len(entries)
    # Without a list, several remaining rows may be those of unknown languages; a single one is the
    # mask's.
    has_mask_next = listed or remaining == 1 or not has_languages
    if MASK not in entries and remaining > 0 and has_mask_next:
        entries.append(MASK)
    pieces_end = len(SPECIAL) + len(pieces) - len(_SENTENCEPIECE_START)
    return _Tokens(model, entries, set(entries[pieces_end:]))


def _by_index(indices: Mapping[str, Any], file: Path, rows: int) -> List[str]:
    """Return the entries in the order of their indices, ``madeupword_...`` for an unused index.

    Args:
        indices: entry -> index.
        rows: number of rows of the embedding.

    Raises:
        CheckpointError: there are no indices, or one is not a row of the embedding.
    """
    if not indices or not all(isinstance(row, int) and 0 <= row < rows for row in indices.values()):
        expected = f"expected indices below the {rows:,} rows of the embedding"
        raise CheckpointError(f"tokenizer {file}: {expected}")
    entries: Dict[int, str] = {row: entry for entry, row in indices.items()}
    return [entries.get(row, f"madeupword_{row}") for row in range(max(entries) + 1)]


def _fast_tokenizer(file: Path, rows: int) -> Tuple[List[str], Set[str]]:
    """Return the entries of a ``tokenizer.json``, and those among them that are added tokens."""
    content = read_json(file, "a tokenizer")
    try:
        pieces, kind = content["model"]["vocab"], content["model"].get("type")
        if isinstance(pieces, list):
            pieces = {piece[0]: row for row, piece in enumerate(pieces)}
        added = {str(token["content"]): token["id"] for token in content.get("added_tokens", ())}
        entries = _by_index({**pieces, **added}, file, rows)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        expected = "expected model.vocab, and added_tokens with content and id"
        raise CheckpointError(f"tokenizer {file}: {expected}") from error
    if kind == "WordPiece":
        entries = [WORDPIECE_NAMES.get(entry, entry) for entry in entries]
    return entries, set(added)


def sentencepiece_in(folder: Path) -> Optional[Path]:
    """Return the sentencepiece model of a folder; None if there is none."""
    files = (folder / name for name in _SENTENCEPIECE)
    return next((file for file in files if file.is_file()), None)


def pieces_of(file: Path) -> List[str]:
    """Return the pieces of a sentencepiece model in the order of their ids.

    Raises:
        CheckpointError: the file is no sentencepiece model.
    """
    try:
        processor = importlib.import_module("sentencepiece").SentencePieceProcessor
        model = processor(model_file=str(file))
    except (OSError, RuntimeError) as error:
        raise CheckpointError(f"tokenizer {file}: is no sentencepiece model ({error})") from error
    return [model.id_to_piece(index) for index in range(model.get_piece_size())]


def _special_tokens(folder: Path) -> List[str]:
    """Return the additional special tokens, often languages, in the order of their file."""
    for file in (folder / name for name in _SPECIAL_TOKEN_FILES):
        content = read_json(file, "") if file.is_file() else {}
        for key in _SPECIAL_TOKEN_ENTRIES:
            tokens = content.get(key)
            if isinstance(tokens, list) and tokens:
                return [
                    str(token.get("content")) if isinstance(token, dict) else str(token)
                    for token in tokens
                ]
    return []


# ---- Lists of entries. ----


def fairseq_order(entries: Sequence[str], origin: str, mask_is_last: bool) -> List[int]:
    """Return the order of a fairseq dictionary as rows of the file.

    A fairseq dictionary begins with the four special entries. The other entries keep their order.

    Args:
        entries: entries of the file's rows.
        origin: name of the file, for messages.
        mask_is_last: ``<mask>`` becomes the last entry, as in fairseq's masked LMs.

    Returns:
        a permutation: element j is the file's row for entry j of the dictionary.

    Raises:
        CheckpointError: a special entry is missing.
    """
    missing = [entry for entry in SPECIAL if entry not in entries]
    if missing:
        names = f"{', '.join(missing)} (or what BERT calls them)"
        raise CheckpointError(f"{origin}: its vocabulary has no {names}")
    first = [entries.index(entry) for entry in SPECIAL]
    last = [entries.index(MASK)] if mask_is_last and MASK in entries else []
    special = {*first, *last}
    return [*first, *(row for row in range(len(entries)) if row not in special), *last]


def append_entries(base: List[str], symbols: Sequence[str], count: int = 0) -> List[str]:
    """Append the symbols that ``base`` lacks; then ``<mask>`` if one of ``count`` rows is left."""
    present = set(base)
    entries = [*base, *(symbol for symbol in symbols if symbol not in present)]
    return [*entries, MASK] if len(entries) == count - 1 and MASK not in entries else entries


def check_padding(entries: Sequence[str], origin: str) -> None:
    """Raise CheckpointError if a tokenizer has ``<pad>`` elsewhere than in fairseq's row."""
    if PAD in entries and entries.index(PAD) != PADDING_IDX:
        place = f"{PAD} in row {entries.index(PAD)}; expected {PADDING_IDX}, as in XLM-R"
        raise CheckpointError(f"{origin}: the tokenizer beside it has {place}")


def check_count(entries: List[str], rows: int, file: Path) -> List[str]:
    """Return the entries of a file. Raises CheckpointError if there are more than rows."""
    if len(entries) > rows:
        counts = f"names {len(entries):,} entries, the embedding has {rows:,} rows"
        raise CheckpointError(f"{file}: {counts}; they must belong to one model")
    return entries
