"""Reading the encoder of any pretrained model that the package knows, into the names of fairseq's stock encoder."""

import importlib
import logging
import re
from pathlib import Path
from typing import Any, List, Mapping, Optional, Sequence, Set, Tuple

from . import vocabulary
from .inspection import CheckpointError
from .layouts import EncoderLayout, expected_shapes
from .pipeline import ENCODER, PADDING_IDX, WORDS, PretrainedFile, check_shapes, find_sizes, open_file
from .reading import PathLike
from .vocabulary import MASK, PAD, SPECIAL, STYLES, Languages

logger = logging.getLogger(__name__)

_TOKENIZER, _TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"
_SPECIAL_TOKENS, _WORDPIECES, _JSON_VOCABULARY = "special_tokens_map.json", "vocab.txt", "vocab.json"
_SENTENCEPIECE = ("sentencepiece.bpe.model", "sentencepiece.model", "spiece.model")
_SENTENCEPIECE_START = ["<unk>", "<s>", "</s>"]
WORDPIECE_NAMES = {"[CLS]": "<s>", "[PAD]": "<pad>", "[SEP]": "</s>", "[UNK]": "<unk>", "[MASK]": MASK}
_BARE_CODE = re.compile(r"[a-z]{2,3}_(?:[A-Z]{2}|[A-Z][a-z]{3})")


def read_encoder(
    path: PathLike, heads: Optional[int] = None, label: str = "heads=…", languages: Sequence[str] = ()
) -> PretrainedFile:
    """Read an encoder of any known layout, in the names of the stock ``TransformerEncoder`` (and ``segment_embeddings.weight``).

    ``path`` is a checkpoint, or a folder with one: fairseq's ``model.pt`` (``dict.txt`` or equal ``dict.LANG.txt`` beside it), or
    a Hugging Face folder. ``heads``, ``label``: see :func:`.pipeline.find_sizes`; released DeltaLM and old XLM-R do not tell them.
    ``languages``: in the order of their rows, for files that do not tell.

    Returns the file; its ``layout`` is an :class:`EncoderLayout`, the rows of the embedding have the order that a fairseq
    dictionary forces. Raises CheckpointError: anything unreadable, untrusted, unknown, unaccounted for or contradictory.
    """
    found = open_file(path, ENCODER)
    given = vocabulary.checked(languages, "languages that were given") if languages else ()
    _name_rows(found, found.matrix(WORDS).size(0), given)
    if not found.entries and found.padding_idx != PADDING_IDX:
        raise CheckpointError(f"{found.origin}: no vocabulary lies beside it; expected {found.source.expected}")
    find_sizes(found, heads, label)
    layout = found.layout = EncoderLayout(**found.sizes)
    check_shapes(found.tensors, expected_shapes(layout), found.origin, found.source.expected)
    order = row_order(found.entries, layout.family, found.origin) if found.entries else []
    if order != list(range(len(order))):
        found.tensors[WORDS] = found.tensors[WORDS][[*order, *range(len(order), layout.vocab_size)]]
        found.entries = tuple(found.entries[row] for row in order)
    return found


def _name_rows(found: PretrainedFile, rows: int, given: Tuple[str, ...]) -> None:
    """Fill in the languages of an encoder and the entries of its rows, in the file's order, as far as something tells.

    Raises CheckpointError: damaged files, or some that contradict each other, what the file says, or the languages that were given.
    """
    content, style, says = found.content, STYLES.get(found.wiring["family"]), found.stated_languages
    listed = None
    entries = tokenizer_entries(content.folder, style, rows, given) if content.is_folder else None
    if entries is not None:
        if found.padding_idx == PADDING_IDX:
            check_padding(entries, found.origin)
        found.entries = tuple(entries)
    else:
        beside = vocabulary.find_dictionary(content.folder, content.entries)
        files = [content.folder / name for name in (says.file, vocabulary.LIST_NAME) if name]
        lists = [says.listed, *(vocabulary.read_languages(file) for file in files if file.is_file())]
        found.languages = next(filter(None, lists), None)
        if beside is None:
            return
        known = [*filter(None, lists if found.languages else [given])]
        entries, listed = _entries_by(vocabulary.read_dictionary(beside), says, known, rows)
        found.name_rows(entries, beside)
    if listed is None and style:
        listed = vocabulary.languages_of(entries) or None
    if given and listed and given != listed:
        raise CheckpointError(f"{found.origin}: has the languages {','.join(listed)}; given were {','.join(given)}")
    if not set(says.symbols(given)) <= set(entries):
        raise CheckpointError(
            f"{found.origin}: has fewer rows behind its pieces than languages were given ({','.join(given)})"
        )
    found.languages = listed


def _entries_by(
    base: List[str], says: Languages, lists: List[Tuple[str, ...]], rows: int
) -> Tuple[List[str], Optional[Tuple[str, ...]]]:
    """Entries of a fairseq model: its dictionary's, its languages, ``<mask>``, as far as there are rows; and its languages.

    ``lists``: of languages that may be the model's; the first one that fits the rows is.
    """
    for candidate in (*lists, ()):
        entries = _complete(base, says.symbols(candidate), rows)
        if len(entries) == rows:
            return entries, vocabulary.languages_of(entries, candidate) if candidate else None
    stated = next(iter(lists), None)
    longest = _complete(base, says.symbols(stated), 0)
    return (longest if len(longest) <= rows else base[:rows]), stated


def row_order(entries: Sequence[str], family: str, origin: str) -> List[int]:
    """For each row that a fairseq dictionary forces, the row of the file: the four special entries, then the rest as it is.

    ``entries``: of the file's rows, in fairseq's names; BERT's ``<mask>`` goes to the end. Raises CheckpointError: a special entry
    is missing.
    """
    missing = [entry for entry in SPECIAL if entry not in entries]
    if missing:
        raise CheckpointError(f"{origin}: its vocabulary has no {', '.join(missing)} (or what BERT calls them)")
    first = [entries.index(entry) for entry in SPECIAL]
    last = [entries.index(MASK)] if family == "bert" and MASK in entries else []
    moved = {*first, *last}
    return [*first, *(index for index in range(len(entries)) if index not in moved), *last]


def _complete(base: List[str], symbols: Sequence[str], rows: int) -> List[str]:
    """The dictionary's entries, the symbols that are not among them, and ``<mask>`` where just one row is left."""
    known = set(base)
    entries = [*base, *(symbol for symbol in symbols if symbol not in known)]
    return [*entries, MASK] if len(entries) == rows - 1 and MASK not in entries else entries


def tokenizer_entries(
    folder: Path, style: Optional[str], rows: int, languages: Sequence[str] = ()
) -> Optional[List[str]]:
    """Entries that the tokenizer's files in a Hugging Face folder give, in the order of the model's rows, in fairseq's names.

    ``folder``: with ``tokenizer.json``, ``vocab.txt``, ``vocab.json`` or a sentencepiece model (with the language codes that
    ``tokenizer_config.json`` or ``special_tokens_map.json`` list, in their order). ``style``: how languages are written; None for
    a model that has none. ``languages``: for a folder that lists none, in the order of their rows.

    Returns ``rows`` entries, of which those that no file names are called ``madeupword…``; None where the folder has no such file,
    or only one that leaves the languages of the model out. Raises CheckpointError: a damaged file, or more entries than rows.
    """
    listed = _listed_tokens(folder) or [(style or "{}").format(language) for language in languages]
    origin, entries, added = _stored_entries(folder, rows, listed)
    if origin is None:
        return None
    added.update(languages)
    fits(entries, rows, origin)
    codes = any(_BARE_CODE.fullmatch(one) or vocabulary.LANGUAGE.fullmatch(one) for one in (*entries, *added))
    if style and len(entries) < rows and not codes:
        logger.warning("%s: names %s entries of %s rows and no language", origin, len(entries), rows)
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


def _stored_entries(folder: Path, rows: int, listed: Sequence[str]) -> Tuple[Optional[Path], List[str], Set[str]]:
    """The file that names the rows (None = there is none), its entries, and those of them that were added to the pieces."""
    tokenizer, wordpieces, indexed = (folder / name for name in (_TOKENIZER, _WORDPIECES, _JSON_VOCABULARY))
    if tokenizer.is_file():
        # Some have their languages among the pieces, and list them elsewhere.
        entries, added = _fast_tokenizer(tokenizer, rows)
        return tokenizer, entries, {*added, *listed}
    if wordpieces.is_file():
        lines = vocabulary.read_lines(wordpieces, "tokenizer")
        return wordpieces, [WORDPIECE_NAMES.get(line, line) for line in lines], set()
    if indexed.is_file():
        entries = _by_index(vocabulary.read_json(indexed, "a vocabulary"), indexed, rows)
        return indexed, _complete(entries, listed, 0), set(listed)
    model = sentencepiece_in(folder)
    if model is None:
        return None, [], set()
    pieces = pieces_of(model)
    if pieces[:3] != _SENTENCEPIECE_START:
        raise CheckpointError(
            f"tokenizer {model}: starts with {pieces[:3]}, expected {_SENTENCEPIECE_START}, as in fairseq's models"
        )
    entries = _complete([*SPECIAL, *pieces[3:]], [token for token in listed if token != MASK], 0)
    left = rows - len(entries)
    # Without a list of languages, rows that are left are theirs: only the last row of all can be the mask's then.
    if MASK not in entries and left > 0 and (listed or left == 1):
        entries.append(MASK)
    return model, entries, set(entries[len(pieces) + 1 :])


def _by_index(indices: Mapping[str, Any], file: Path, rows: int) -> List[str]:
    """Entry -> index, as a list; indices that nothing has become ``madeupword…``. CheckpointError: one is none of the rows."""
    if not indices or not all(isinstance(index, int) and 0 <= index < rows for index in indices.values()):
        raise CheckpointError(f"tokenizer {file}: expected indices below the {rows:,} rows of the embedding")
    entries = {index: entry for entry, index in indices.items()}
    return [entries.get(index, f"madeupword_{index}") for index in range(max(entries) + 1)]


def _fast_tokenizer(file: Path, rows: int) -> Tuple[List[str], Set[str]]:
    content = vocabulary.read_json(file, "a tokenizer")
    try:
        pieces, kind = content["model"]["vocab"], content["model"].get("type")
        if isinstance(pieces, list):
            pieces = {piece[0]: index for index, piece in enumerate(pieces)}
        added = {str(token["content"]): token["id"] for token in content.get("added_tokens", ())}
        entries = _by_index({**pieces, **added}, file, rows)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"tokenizer {file}: expected model.vocab, and added_tokens with content and id"
        ) from error
    return [WORDPIECE_NAMES.get(entry, entry) if kind == "WordPiece" else entry for entry in entries], set(added)


def sentencepiece_in(folder: Path) -> Optional[Path]:
    """The sentencepiece model of a folder; None where there is none."""
    return next((folder / name for name in _SENTENCEPIECE if (folder / name).is_file()), None)


def pieces_of(file: Path) -> List[str]:
    """Pieces of a sentencepiece model in its own order. Raises CheckpointError: it is none."""
    try:
        model = importlib.import_module("sentencepiece").SentencePieceProcessor(model_file=str(file))
    except (OSError, RuntimeError) as error:
        raise CheckpointError(f"tokenizer {file}: is no sentencepiece model ({error})") from error
    return [model.id_to_piece(index) for index in range(model.get_piece_size())]


def _listed_tokens(folder: Path) -> List[str]:
    """Additional special tokens, in the order in which they are stored."""
    for name in (_TOKENIZER_CONFIG, _SPECIAL_TOKENS):
        content = vocabulary.read_json(folder / name, "") if (folder / name).is_file() else {}
        for key in ("additional_special_tokens", "extra_special_tokens"):
            tokens = content.get(key)
            if isinstance(tokens, list) and tokens:
                return [str(token.get("content")) if isinstance(token, dict) else str(token) for token in tokens]
    return []


def check_padding(entries: Sequence[str], origin: str) -> None:
    """Raise CheckpointError where a tokenizer has ``<pad>`` elsewhere: positions are counted from the row behind it."""
    if PAD in entries and entries.index(PAD) != PADDING_IDX:
        raise CheckpointError(
            f"{origin}: the tokenizer beside it has {PAD} in row {entries.index(PAD)}; expected {PADDING_IDX}, as in XLM-R"
        )
