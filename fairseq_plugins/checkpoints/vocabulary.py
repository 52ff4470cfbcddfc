"""What the rows of an embedding mean: by a fairseq dictionary, the tokenizer's files, and what a model says of its languages."""

import importlib
import json
import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from .errors import CheckpointError

logger = logging.getLogger(__name__)

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
"""The first entries of every fairseq dictionary, which its files leave out."""

PAD, MASK = "<pad>", "<mask>"
CONFIG_NAME = "config.json"
DICTIONARY_NAME = "dict.txt"
LIST_NAME = "ML50_langs.txt"
"""List of languages, one a line, in the folder of a released mBART-50."""

STYLES = {"mbart": "[{}]", "nllb": "__{}__"}
"""Family -> how fairseq writes a language as a dictionary entry."""

_TASK_STYLES = {"mbart": "[{}]", "multilingual": "__{}__"}
_TOKENIZER, _TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"
_SPECIAL_TOKENS, _WORDPIECES, _JSON_VOCABULARY = "special_tokens_map.json", "vocab.txt", "vocab.json"
_SENTENCEPIECE = ("sentencepiece.bpe.model", "sentencepiece.model", "spiece.model")
_SENTENCEPIECE_START = ["<unk>", "<s>", "</s>"]
WORDPIECE_NAMES = {"[CLS]": "<s>", "[PAD]": "<pad>", "[SEP]": "</s>", "[UNK]": "<unk>", "[MASK]": MASK}
_CODE = r"[a-z]{2,3}(?:_(?:[A-Z]{2}|[A-Z][a-z]{3}))?"
_LANGUAGE = re.compile(rf"\[({_CODE})\]|__({_CODE})__")
_BARE_CODE = re.compile(r"[a-z]{2,3}_(?:[A-Z]{2}|[A-Z][a-z]{3})")


# ---- Files. ----


def read_json(file: Path, expected: str) -> Dict[str, Any]:
    """Read a JSON object.

    Raises CheckpointError: missing, damaged or something else; ``expected`` says what the folder should hold.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CheckpointError(f"checkpoint {file.parent}: has no {file.name}; expected {expected}") from error
    except (ValueError, OSError, RecursionError) as error:
        raise CheckpointError(f"checkpoint {file}: is no readable JSON ({error})") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"checkpoint {file}: expected a JSON object, found {type(content).__name__}")
    return content


def _read_lines(file: Path, kind: str) -> List[str]:
    """Lines without their ends. Raises CheckpointError: unreadable, or no UTF-8."""
    try:
        with file.open(encoding="utf-8") as stream:
            return [line.rstrip("\n") for line in stream]
    except (OSError, UnicodeError) as error:
        raise CheckpointError(f"{kind} {file}: cannot be read ({error})") from error


def find_dictionary(folder: Path) -> Optional[Path]:
    """``dict.txt``, or one of several equal ``dict.LANG.txt``, as releases of multilingual models have; None where there is none.

    Raises CheckpointError: dictionaries of several languages that differ.
    """
    file = folder / DICTIONARY_NAME
    if file.is_file():
        return file
    found = sorted(folder.glob("dict.*.txt"))
    for other in found[1:]:
        if other.read_bytes() != found[0].read_bytes():
            raise CheckpointError(
                f"dictionary {found[0]}: differs from {other.name} beside it; expected equal ones, or {DICTIONARY_NAME} with the "
                "entries of the encoder"
            )
    return found[0] if found else None


def read_dictionary(file: Path) -> List[str]:
    """Entries of a fairseq dictionary in row order, the four special ones first.

    Raises CheckpointError: the file is no fairseq dictionary; names the line.
    """
    entries = list(SPECIAL)
    for number, line in enumerate(_read_lines(file, "dictionary"), 1):
        symbol, space, count = line.rstrip().rpartition(" ")
        if count == "#fairseq:overwrite":
            symbol, space, count = symbol.rpartition(" ")
        if not space or not count.lstrip("-").isdigit():
            raise CheckpointError(f"dictionary {file}, line {number}: {line.rstrip()!r}, expected 'symbol count'")
        entries.append(symbol)
    return entries


def read_languages(file: Path) -> Tuple[str, ...]:
    """Languages of a file, one a line, in its order. Raises CheckpointError: no text, none, several a line, or one twice."""
    lines = [line.strip() for line in _read_lines(file, "languages")]
    for number, line in enumerate(lines, 1):
        if any(sign in line for sign in " \t,"):
            raise CheckpointError(f"languages {file}, line {number}: {line[:60]!r}, expected one language a line")
    return checked([line for line in lines if line], f"languages {file}")


def checked(languages: Sequence[str], origin: str) -> Tuple[str, ...]:
    """The languages, if there are some and each is there once. Raises CheckpointError: there is none, or one is there twice."""
    twice = sorted({language for language in languages if languages.count(language) > 1})
    if twice or not languages:
        raise CheckpointError(f"{origin}: {', '.join(twice) or 'none'}, expected every language once")
    return tuple(languages)


# ---- Languages. ----


@dataclass(frozen=True)
class Languages:
    """What a model says of its languages.

    Attributes:
        listed: in the order of their rows; None where it has no list.
        guessed: those of its language pairs, as fairseq takes them where no list is given. Dictionaries often have others too, so
            that they are believed only where they explain every row.
        file: name of the list that it was trained with.
        style: how a language is written as a dictionary entry.
    """

    listed: Optional[Tuple[str, ...]] = None
    guessed: Optional[Tuple[str, ...]] = None
    file: Optional[str] = None
    style: str = "[{}]"

    def symbols(self, languages: Optional[Sequence[str]]) -> List[str]:
        """Dictionary entries of these languages."""
        return [self.style.format(language) for language in languages or ()]


def as_dict(value: Any) -> Dict[str, Any]:
    """A mapping or namespace as a dictionary; empty for None."""
    if value is None:
        return {}
    return dict(value) if isinstance(value, Mapping) else dict(vars(value))


def task_options(checkpoint: Mapping[str, Any]) -> Dict[str, Any]:
    """Options of the task, from a checkpoint's ``cfg["task"]``; empty when absent."""
    return as_dict(as_dict(checkpoint.get("cfg")).get("task"))


def stock_languages(checkpoint: Mapping[str, Any], settings: Mapping[str, Any], style: str) -> Languages:
    """Languages that a fairseq checkpoint's task has as dictionary entries.

    Args:
        checkpoint: the whole file: its task's options and state are looked at before the model's.
        settings: options of the model, where older files have those of the task as well.
        style: how a language is written, where the task does not say.
    """
    task = task_options(checkpoint)
    options = {**settings, **task}
    style = _TASK_STYLES.get(str(options.get("lang_tok_style")), style)
    kept = (as_dict(checkpoint.get("task_state") or {}).get("languages") or {}).get("langs")
    if kept is not None:
        return Languages(tuple(map(str, kept)), style=style)
    denoising = "denoising" in str(task.get("_name") or settings.get("task"))
    if denoising and options.get("add_lang_token") is False:
        return Languages(style=style)
    file, listed = options.get("lang_dict"), tuple(_as_list(options.get("langs")))
    pairs = {language for pair in _as_list(options.get("lang_pairs")) for language in pair.split("-")}
    guessed = None if listed or file or denoising else tuple(sorted(pairs)) or None
    return Languages(listed or None, guessed, Path(str(file)).name if file else None, style)


def _as_list(value: Any) -> List[str]:
    value = value.split(",") if isinstance(value, str) else value or ()
    return [str(item).strip() for item in value if str(item).strip()]


def languages_of(entries: Sequence[str], known: Sequence[str] = ()) -> Tuple[str, ...]:
    """Languages that are entries of a dictionary (``[en_XX]`` or ``__eng_Latn__``), in their order.

    Args:
        entries: of the dictionary.
        known: languages of a model; where one of them is found, what looks like a language earlier in the dictionary and
            apart from it counts as a piece.
    """
    matches = [_LANGUAGE.fullmatch(entry) for entry in entries]
    codes = [match and (match.group(1) or match.group(2)) for match in matches]
    first = next((index for index, code in enumerate(codes) if code in set(known)), 0)
    while first > 0 and codes[first - 1] is not None:
        first -= 1
    return tuple(code for code in codes[first:] if code is not None)


def complete(base: List[str], symbols: Sequence[str], rows: int) -> List[str]:
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

    Returns:
        ``rows`` entries; None where the folder has no such file, or only one that leaves the languages of the model out.

    Raises:
        CheckpointError: a damaged file, or more entries than rows.
    """
    found = _stored_entries(folder, rows, languages, [(style or "{}").format(language) for language in languages])
    if found is None:
        return None
    origin, entries, added = found
    fits(entries, rows, origin)
    if style and len(entries) < rows:
        if not any(_BARE_CODE.fullmatch(one) or _LANGUAGE.fullmatch(one) for one in (*entries, *added)):
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
        lines = _read_lines(wordpieces, "tokenizer")
        return wordpieces, [WORDPIECE_NAMES.get(line, line) for line in lines], set()
    if vocabulary.is_file():
        entries = _by_index(read_json(vocabulary, "a vocabulary"), vocabulary)
        return vocabulary, complete(entries, listed, 0), set(listed)
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
    names = WORDPIECE_NAMES if model.get("type") == "WordPiece" else {}
    return [names.get(entry, entry) for entry in _by_index({**vocabulary, **added}, file)], set(added)


def sentencepiece_in(folder: Path) -> Optional[Path]:
    """The sentencepiece model of a folder; None where there is none."""
    return next((folder / name for name in _SENTENCEPIECE if (folder / name).is_file()), None)


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
