"""Reading the encoder of any pretrained model that the package knows, into the names of fairseq's stock encoder."""

import importlib
import logging
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, List, Mapping, Optional, Sequence, Set, Tuple

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
    CONFIG_NAME,
    LANGUAGE,
    LIST_NAME,
    MASK,
    PAD,
    SPECIAL,
    STYLES,
    Languages,
    checked,
    find_dictionary,
    languages_of,
    read_dictionary,
    read_json,
    read_languages,
    read_lines,
    task_options,
)

logger = logging.getLogger(__name__)

_TOKENIZER, _TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"
_SPECIAL_TOKENS, _WORDPIECES, _JSON_VOCABULARY = "special_tokens_map.json", "vocab.txt", "vocab.json"
_SENTENCEPIECE = ("sentencepiece.bpe.model", "sentencepiece.model", "spiece.model")
_SENTENCEPIECE_START = ["<unk>", "<s>", "</s>"]
_WORDPIECE_NAMES = {"[CLS]": "<s>", "[PAD]": "<pad>", "[SEP]": "</s>", "[UNK]": "<unk>", "[MASK]": MASK}
_BARE_CODE = re.compile(r"[a-z]{2,3}_(?:[A-Z]{2}|[A-Z][a-z]{3})")


def read_encoder(path: PathLike, heads: Optional[int] = None, label: str = "heads=…") -> PretrainedFile:
    """Read an encoder of any known layout, in the names of the stock ``TransformerEncoder`` (and ``segment_embeddings.weight``).

    ``path`` is a checkpoint, or a folder with one: fairseq's ``model.pt`` (``dict.txt`` or equal ``dict.LANG.txt`` beside it), or
    a Hugging Face folder. ``heads``, ``label``: see :func:`.pipeline.find_sizes`; released DeltaLM and old XLM-R do not tell
    theirs.

    Returns the file; its ``layout`` is an :class:`EncoderLayout`, the rows of the embedding have the order that a fairseq
    dictionary forces. Raises CheckpointError: anything unreadable, untrusted, unknown, unaccounted for or contradictory.
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

    ``dictionary``: ``dict.txt`` of a fairseq model, where it is not the one beside it. ``languages``: in the order of their rows,
    for files that do not tell.
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

    Raises CheckpointError: damaged files, or some that contradict each other, what the file says, or the languages that were given.
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
        entries = _complete(base, says.symbols(candidate), rows)
        if candidate and len(entries) == rows:
            return entries, languages_of(entries, candidate)
    if says.guessed:
        logger.warning(
            "%s: the languages of its pairs, %s, do not explain its rows and are not used",
            origin,
            ",".join(says.guessed),
        )
    entries = _complete(base, [], rows)
    if len(entries) == rows:
        return entries, None
    if len(base) > rows:
        logger.warning("%s: has %d rows, the dictionary beside it %d entries", origin, rows, len(base))
    stated = says.listed or beside
    longest = _complete(base, says.symbols(stated), 0)
    return (longest if len(longest) <= rows else base[:rows]), stated


def row_order(entries: Sequence[str], family: str, origin: str) -> List[int]:
    """For each row that a fairseq dictionary forces, the row of the file: the four special entries, then the rest as it is.

    ``entries``: of the file's rows, in fairseq's names; BERT's ``<mask>`` goes to the end. Raises CheckpointError: a special entry
    is missing.
    """
    indices = {entry: index for index, entry in reversed(list(enumerate(entries)))}
    missing = [entry for entry in SPECIAL if entry not in indices]
    if missing:
        names = {ours: theirs for theirs, ours in _WORDPIECE_NAMES.items()}
        shown = ", ".join(f"{entry} (or {names[entry]})" for entry in missing)
        raise CheckpointError(f"{origin}: its vocabulary has no {shown}")
    first = [indices[entry] for entry in SPECIAL]
    last = [indices[MASK]] if family == "bert" and MASK in indices else []
    moved = {*first, *last}
    return [*first, *(index for index in range(len(entries)) if index not in moved), *last]


def _complete(base: List[str], symbols: Sequence[str], rows: int) -> List[str]:
    """The dictionary's entries, the symbols that are not among them, and ``<mask>`` where just one row is left."""
    known = set(base)
    entries = [*base, *(symbol for symbol in symbols if symbol not in known)]
    return [*entries, MASK] if len(entries) == rows - 1 and MASK not in entries else entries


# ---- Tokenizers of Hugging Face folders. ----


def tokenizer_entries(
    folder: Path, style: Optional[str], rows: int, languages: Sequence[str] = ()
) -> Optional[List[str]]:
    """Entries that the tokenizer's files in a Hugging Face folder give, in the order of the model's rows, in fairseq's names.

    Args:
        folder: with ``tokenizer.json``, ``vocab.txt``, ``vocab.json`` or a sentencepiece model (with the language codes that
            ``tokenizer_config.json`` or ``special_tokens_map.json`` list, in their order).
        style: how languages are written; None for a model that has none.
        rows: of the embedding; rows that no file names are called ``madeupword…``, as fairseq calls them.
        languages: for a folder that lists none, in the order of their rows.

    Returns ``rows`` entries; None where the folder has no such file, or only one that leaves the languages of the model out. Raises
    CheckpointError: a damaged file, or more entries than rows.
    """
    found = _stored_entries(folder, rows, languages, [(style or "{}").format(language) for language in languages])
    if found is None:
        return None
    origin, entries, added = found
    fits(entries, rows, origin)
    if style and len(entries) < rows:
        if not any(_BARE_CODE.fullmatch(one) or LANGUAGE.fullmatch(one) for one in (*entries, *added)):
            logger.warning(
                "%s: names %s entries of %s rows and no language: what the other rows mean is not known",
                origin,
                len(entries),
                rows,
            )
            return None
    named = [
        style.format(entry) if style and entry in added and _BARE_CODE.fullmatch(entry) else entry for entry in entries
    ]
    return named + [f"madeupword{index:04d}" for index in range(rows - len(named))]


def fits(entries: List[str], rows: int, file: Path) -> List[str]:
    """The entries; raises CheckpointError when a file names more of them than there are rows."""
    if len(entries) > rows:
        raise CheckpointError(
            f"{file}: names {len(entries):,} entries, the embedding has {rows:,} rows; they must belong to one model"
        )
    return entries


def _stored_entries(
    folder: Path, rows: int, languages: Sequence[str], symbols: Sequence[str]
) -> Optional[Tuple[Path, List[str], Set[str]]]:
    """The file that names the rows, its entries, and those of them that were added to the pieces."""
    listed = _listed_tokens(folder) or list(symbols)
    tokenizer, wordpieces, vocabulary = (folder / name for name in (_TOKENIZER, _WORDPIECES, _JSON_VOCABULARY))
    if tokenizer.is_file():
        # Some have their languages among the pieces, and list them elsewhere.
        entries, added = _fast_tokenizer(tokenizer)
        return tokenizer, entries, {*added, *listed, *languages}
    if wordpieces.is_file():
        lines = read_lines(wordpieces, "tokenizer")
        return wordpieces, [_WORDPIECE_NAMES.get(line, line) for line in lines], set()
    if vocabulary.is_file():
        entries = _by_index(read_json(vocabulary, "a vocabulary"), vocabulary)
        return vocabulary, _complete(entries, listed, 0), set(listed)
    model = sentencepiece_in(folder)
    if model is None:
        return None
    pieces = pieces_of(model)
    if pieces[:3] != _SENTENCEPIECE_START:
        raise CheckpointError(
            f"tokenizer {model}: starts with {pieces[:3]}, expected {_SENTENCEPIECE_START}, as in fairseq's models"
        )
    pieces = [*SPECIAL, *pieces[3:]]
    entries = _with_added(pieces, listed, folder, rows)
    return model, entries, set(entries) - set(pieces)


def _by_index(indices: Mapping[str, Any], file: Path) -> List[str]:
    """Entry -> index, as a list; indices that nothing has become ``madeupword…``."""
    if not indices or not all(isinstance(index, int) and index >= 0 for index in indices.values()):
        raise CheckpointError(f"tokenizer {file}: expected entries with their indices")
    entries = {index: entry for entry, index in indices.items()}
    return [entries.get(index, f"madeupword_{index}") for index in range(max(entries) + 1)]


def _fast_tokenizer(file: Path) -> Tuple[List[str], Set[str]]:
    content = read_json(file, "a tokenizer")
    model = content.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocabulary, list):
        vocabulary = {piece[0]: index for index, piece in enumerate(vocabulary)}
    if not isinstance(model, dict) or not isinstance(vocabulary, dict):
        raise CheckpointError(f"tokenizer {file}: has no vocabulary; expected model.vocab, a list or an object")
    added = {str(token["content"]): token["id"] for token in content.get("added_tokens", ())}
    names = _WORDPIECE_NAMES if model.get("type") == "WordPiece" else {}
    return [names.get(entry, entry) for entry in _by_index({**vocabulary, **added}, file)], set(added)


def sentencepiece_in(folder: Path) -> Optional[Path]:
    """The sentencepiece model of a folder; None where there is none."""
    return next((folder / name for name in _SENTENCEPIECE if (folder / name).is_file()), None)


def pieces_of(file: Path) -> List[str]:
    """Pieces of a sentencepiece model in its own order.

    Raises CheckpointError: no such model, or sentencepiece is not installed.
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


def _with_added(entries: List[str], listed: List[str], folder: Path, rows: int) -> List[str]:
    """Pieces, then what was added to them: by stored index, or in the stored order; ``<mask>`` last where a row is left."""
    config = folder / _TOKENIZER_CONFIG
    indexed = read_json(config, "").get("added_tokens_decoder") if config.is_file() else None
    if isinstance(indexed, dict) and indexed:
        indices = {entry: index for index, entry in enumerate(entries)}
        indices.update({str(token["content"]): int(index) for index, token in indexed.items()})
        return _by_index(indices, config)
    known = set(entries)
    added = [token for token in listed if token not in known and token != MASK]
    left = rows - len(entries) - len(added)
    # Without a list of languages, rows that are left are theirs: only the last row of all can be the mask's then.
    mask = [MASK] if MASK not in known and left > 0 and (added or left == 1) else []
    return [*entries, *added, *mask]


def _listed_tokens(folder: Path) -> List[str]:
    """Additional special tokens, in the order in which they are stored."""
    for name in (_TOKENIZER_CONFIG, _SPECIAL_TOKENS):
        content = read_json(folder / name, "") if (folder / name).is_file() else {}
        for key in ("additional_special_tokens", "extra_special_tokens"):
            tokens = content.get(key)
            if isinstance(tokens, list) and tokens:
                return [str(token["content"]) if isinstance(token, dict) else str(token) for token in tokens]
    return []


def padding_contradiction(stated: int, found: int, file: str, origin: str) -> CheckpointError:
    """The error where the configuration has ``<pad>`` in another row than a file beside it."""
    return CheckpointError(
        f"{origin}: {CONFIG_NAME} has {PAD} in row {stated} (pad_token_id), {file} beside it in row {found}; expected "
        "the same, since positions are counted from the row behind it"
    )
