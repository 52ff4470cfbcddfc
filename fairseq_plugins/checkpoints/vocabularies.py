"""What the rows of an embedding mean, by the tokenizer's files beside the weights."""

import importlib
import logging
import re
from pathlib import Path
from typing import Any, List, Mapping, Optional, Sequence, Set, Tuple

from .dictionaries import CONFIG_NAME, MASK, PAD, SPECIAL, STYLES, read_json
from .errors import CheckpointError

logger = logging.getLogger(__name__)

_TOKENIZER = "tokenizer.json"
_TOKENIZER_CONFIG = "tokenizer_config.json"
_SPECIAL_TOKENS = "special_tokens_map.json"
_WORDPIECES = "vocab.txt"
_JSON_VOCABULARY = "vocab.json"
SENTENCEPIECE = ("sentencepiece.bpe.model", "sentencepiece.model", "spiece.model")
_SENTENCEPIECE_START = ["<unk>", "<s>", "</s>"]
_WORDPIECE_NAMES = {"[CLS]": "<s>", "[PAD]": "<pad>", "[SEP]": "</s>", "[UNK]": "<unk>", "[MASK]": MASK}
_CODE = r"[a-z]{2,3}(?:_(?:[A-Z]{2}|[A-Z][a-z]{3}))?"
_LANGUAGE = re.compile(rf"\[({_CODE})\]|__({_CODE})__")
_BARE_CODE = re.compile(r"[a-z]{2,3}_(?:[A-Z]{2}|[A-Z][a-z]{3})")


def tokenizer_entries(folder: Path, family: str, rows: int, languages: Sequence[str] = ()) -> Optional[List[str]]:
    """Entries that the tokenizer's files in a Hugging Face folder give, in the order of the model's rows, in fairseq's names.

    Args:
        folder: with ``tokenizer.json``, ``vocab.txt``, ``vocab.json`` or a sentencepiece model (with the language codes that
            ``tokenizer_config.json`` or ``special_tokens_map.json`` list, in their order).
        family: decides how languages are written.
        rows: of the embedding; rows that no file names are called ``madeupword…``, as fairseq calls them.
        languages: for a folder that lists none, in the order of their rows.

    Returns:
        ``rows`` entries; None where the folder has no such file, or only one that leaves the languages of the model out.

    Raises:
        CheckpointError: a damaged file, or more entries than rows.
    """
    style = STYLES.get(family)
    symbols = [(style or "{}").format(language) for language in languages]
    found = _stored_entries(folder, rows, languages, symbols)
    if found is None:
        return None
    origin, entries, added = found
    if len(entries) > rows:
        raise CheckpointError(
            f"{origin}: names {len(entries):,} entries, the embedding has {rows:,} rows; they must belong to one model"
        )
    if style and len(entries) < rows and not any(_is_language(entry) for entry in (*entries, *added)):
        logger.warning(
            "%s: names %s entries of %s rows and no language: what the other rows mean is not known",
            origin,
            len(entries),
            rows,
        )
        return None
    named = [_in_fairseq(entry, style) if entry in added else entry for entry in entries]
    return named + [f"madeupword{index:04d}" for index in range(rows - len(named))]


def _stored_entries(
    folder: Path, rows: int, languages: Sequence[str], symbols: Sequence[str]
) -> Optional[Tuple[Path, List[str], Set[str]]]:
    """The file that names the rows, its entries, and those of them that were added to the pieces."""
    listed = _listed_tokens(folder) or list(symbols)
    if (folder / _TOKENIZER).is_file():
        # Some have their languages among the pieces, and list them elsewhere.
        entries, added = _fast_tokenizer(folder / _TOKENIZER)
        return folder / _TOKENIZER, entries, {*added, *listed, *languages}
    if (folder / _WORDPIECES).is_file():
        return folder / _WORDPIECES, _wordpieces(folder / _WORDPIECES), set()
    if (folder / _JSON_VOCABULARY).is_file():
        file = folder / _JSON_VOCABULARY
        entries = _by_index(read_json(file, "a vocabulary"), file)
        return file, entries + [token for token in listed if token not in set(entries)], set(listed)
    model = next((folder / name for name in SENTENCEPIECE if (folder / name).is_file()), None)
    if model is None:
        return None
    pieces = _sentencepieces(model)
    entries = _with_added(pieces, listed, folder, rows)
    return model, entries, set(entries) - set(pieces)


def _is_language(entry: str) -> bool:
    return bool(_BARE_CODE.fullmatch(entry) or _LANGUAGE.fullmatch(entry))


def _in_fairseq(entry: str, style: Optional[str]) -> str:
    return style.format(entry) if style and _BARE_CODE.fullmatch(entry) else entry


def _by_index(indices: Mapping[str, Any], file: Path) -> List[str]:
    """Entry -> index, as a list; indices that nothing has become ``madeupword…``."""
    if not indices or not all(isinstance(index, int) and index >= 0 for index in indices.values()):
        raise CheckpointError(f"tokenizer {file}: expected entries with their indices")
    entries: List[Optional[str]] = [None] * (max(indices.values()) + 1)
    for entry, index in indices.items():
        entries[index] = entry
    return [f"madeupword_{index}" if entry is None else entry for index, entry in enumerate(entries)]


def _wordpieces(file: Path) -> List[str]:
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeError) as error:
        raise CheckpointError(f"tokenizer {file}: cannot be read ({error})") from error
    return [_WORDPIECE_NAMES.get(line, line) for line in (lines if lines[-1] else lines[:-1])]


def _fast_tokenizer(file: Path) -> Tuple[List[str], Set[str]]:
    content = read_json(file, "a tokenizer")
    model = content.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocabulary, list):
        vocabulary = {piece[0]: index for index, piece in enumerate(vocabulary)}
    if not isinstance(vocabulary, dict):
        raise CheckpointError(f"tokenizer {file}: has no vocabulary; expected model.vocab, a list or an object")
    added = {str(token["content"]): token["id"] for token in content.get("added_tokens", ())}
    names = _WORDPIECE_NAMES if isinstance(model, dict) and model.get("type") == "WordPiece" else {}
    return [names.get(entry, entry) for entry in _by_index({**vocabulary, **added}, file)], set(added)


def pieces_of(file: Path) -> List[str]:
    """Pieces of a sentencepiece model in its own order.

    Raises CheckpointError: no such model, or the package sentencepiece is not installed.
    """
    try:
        sentencepiece = importlib.import_module("sentencepiece")
    except ImportError as error:
        raise CheckpointError(f"tokenizer {file}: needs the package sentencepiece to be read") from error
    try:
        model = sentencepiece.SentencePieceProcessor(model_file=str(file))
    except (OSError, RuntimeError) as error:
        raise CheckpointError(f"tokenizer {file}: is no sentencepiece model ({error})") from error
    return [model.id_to_piece(index) for index in range(model.get_piece_size())]


def _sentencepieces(file: Path) -> List[str]:
    """Pieces behind fairseq's four special entries."""
    pieces = pieces_of(file)
    if pieces[:3] != _SENTENCEPIECE_START:
        raise CheckpointError(
            f"tokenizer {file}: starts with {pieces[:3]}, expected {_SENTENCEPIECE_START}, as in fairseq's models"
        )
    return [*SPECIAL, *pieces[3:]]


def _with_added(entries: List[str], listed: List[str], folder: Path, rows: int) -> List[str]:
    """Pieces, then what was added to them: by stored index, or in the stored order; ``<mask>`` last where a row is left."""
    config = read_json(folder / _TOKENIZER_CONFIG, "") if (folder / _TOKENIZER_CONFIG).is_file() else {}
    indexed = config.get("added_tokens_decoder")
    if isinstance(indexed, dict) and indexed:
        indices = {entry: index for index, entry in enumerate(entries)}
        indices.update({str(token["content"]): int(index) for index, token in indexed.items()})
        return _by_index(indices, folder / _TOKENIZER_CONFIG)
    known = set(entries)
    added = [token for token in listed if token not in known and token != MASK]
    left = rows - len(entries) - len(added)
    # Without a list of languages, rows that are left are theirs: only the last row of all can be the mask's then.
    mask = [MASK] if MASK not in known and left > 0 and (added or left == 1) else []
    return [*entries, *added, *mask]


def _listed_tokens(folder: Path) -> List[str]:
    """Additional special tokens, in the order in which they are stored."""
    for name in (_TOKENIZER_CONFIG, _SPECIAL_TOKENS):
        if not (folder / name).is_file():
            continue
        content = read_json(folder / name, "")
        for key in ("additional_special_tokens", "extra_special_tokens"):
            tokens = content.get(key)
            if isinstance(tokens, list) and tokens:
                return [str(token["content"]) if isinstance(token, dict) else str(token) for token in tokens]
    return []


def fairseq_order(entries: Sequence[str], origin: str, mask_last: bool = False) -> List[int]:
    """Rows of a model in the order that a fairseq dictionary forces: the four special entries, then the rest as it is.

    Args:
        entries: of the model, in the order of its rows, in fairseq's names.
        origin: how messages call the model.
        mask_last: ``<mask>`` goes to the end.

    Returns:
        For each row of the result, the row of the model.

    Raises:
        CheckpointError: a special entry is missing.
    """
    indices = {entry: index for index, entry in reversed(list(enumerate(entries)))}
    missing = [entry for entry in SPECIAL if entry not in indices]
    if missing:
        names = {ours: theirs for theirs, ours in _WORDPIECE_NAMES.items()}
        shown = ", ".join(f"{entry} (or {names[entry]})" for entry in missing)
        raise CheckpointError(f"{origin}: its vocabulary has no {shown}")
    first = [indices[entry] for entry in SPECIAL]
    last = [indices[MASK]] if mask_last and MASK in indices else []
    moved = {*first, *last}
    return [*first, *(index for index in range(len(entries)) if index not in moved), *last]


def padding_contradiction(stated: int, found: int, file: str, origin: str) -> CheckpointError:
    """The error where the configuration has ``<pad>`` in another row than a file beside it."""
    return CheckpointError(
        f"{origin}: {CONFIG_NAME} has {PAD} in row {stated} (pad_token_id), {file} beside it in row {found}; expected "
        "the same, since positions are counted from the row behind it"
    )


def languages_of(entries: Sequence[str], known: Sequence[str] = ()) -> Tuple[str, ...]:
    """Languages that are entries of a dictionary (``[en_XX]`` or ``__eng_Latn__``), in their order.

    Args:
        entries: of the dictionary.
        known: languages of a model; where one of them is found, what looks like a language earlier in the dictionary and
            apart from it counts as a piece.
    """
    codes = [language_of(entry) for entry in entries]
    wanted = set(known)
    first = next((index for index, code in enumerate(codes) if code in wanted), 0)
    while first > 0 and codes[first - 1] is not None:
        first -= 1
    return tuple(code for code in codes[first:] if code is not None)


def language_of(entry: str) -> Optional[str]:
    """The language that a dictionary entry stands for, None for any other entry."""
    found = _LANGUAGE.fullmatch(entry)
    return None if found is None else found.group(1) or found.group(2)
