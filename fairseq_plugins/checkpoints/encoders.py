"""Reading the encoder of any pretrained model that the package knows, into the names of fairseq's stock encoder."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any, List, Mapping, Optional, Sequence, Tuple

from .dictionaries import MASK, PAD, STYLES, Languages, find_dictionary, read_dictionary
from .encoder_languages import checked, dictionary_of_run, languages_beside, name_rows
from .encoder_layout import SIZES, EncoderLayout, expected_shapes, family_layout
from .errors import CheckpointError
from .loading import drop, rename
from .pipeline import (
    WORDS,
    Content,
    FileLayout,
    Heads,
    PretrainedFile,
    as_dict,
    check_shapes,
    find_sizes,
    layouts_of,
    matrix,
    open_file,
)
from .reading import PathLike
from .vocabularies import fairseq_order, languages_of, padding_contradiction, tokenizer_entries

LAYOUT_ENTRY = "encoder_layout"
LANGUAGES_ENTRY = "encoder_languages"
"""What checkpoints of the package's own encoder models have among their options."""

KNOWN = (
    "XLM-R or InfoXLM (fairseq, Hugging Face), BERT (Hugging Face), mBART, mBART-50, NLLB, M2M-100 (fairseq, Hugging Face), "
    "DeltaLM, VECO (fairseq, Hugging Face), or an nlu_encoder of this package"
)


# ---- The layout of this package's own encoders. ----


def layout_from(stored: Mapping[str, Any], origin: str) -> EncoderLayout:
    """The layout that a checkpoint's options hold; CheckpointError where fields are missing, unknown or of another type."""
    known = {one.name: getattr(one.type, "__name__", str(one.type)) for one in fields(EncoderLayout)}
    unknown = sorted(set(map(str, stored)) - set(known))
    missing = [name for name in ("family", *SIZES) if name not in stored]
    if unknown or missing:
        raise CheckpointError(
            f"{origin}: its encoder_layout lacks {', '.join(missing) or 'nothing'} and has unknown "
            f"{', '.join(unknown) or 'nothing'}; valid: {', '.join(known)}"
        )
    kinds = {"str": (str,), "int": (int,), "bool": (bool,), "float": (int, float)}
    for name, value in stored.items():
        if not isinstance(value, kinds[known[name]]):
            raise CheckpointError(f"{origin}: its encoder_layout has {name} = {value!r}, expected {known[name]}")
    return family_layout(**dict(stored))


def _stored(content: Content) -> EncoderLayout:
    return layout_from(as_dict(content.options[LAYOUT_ENTRY]), content.origin)


def _settle(content: Content, found: PretrainedFile) -> None:
    layout = _stored(content)
    found.wiring = {one.name: getattr(layout, one.name) for one in fields(layout)}
    found.heads = found.wiring.pop("heads")
    found.stated = {name: found.wiring.pop(name) for name in ("vocab_size", "layers", "embed_dim", "ffn_dim")}
    languages = content.options.get(LANGUAGES_ENTRY)
    listed = tuple(map(str, languages)) if languages else None
    found.stated_languages = Languages(listed, style=STYLES.get(layout.family, "[{}]"))


ENCODERS = (
    FileLayout(
        "an nlu_encoder checkpoint of this package",
        lambda content: not content.is_folder and content.options.get(LAYOUT_ENTRY) is not None,
        (
            drop(r"encoder\.version", "format counter of fairseq"),
            rename(r"encoder\.(.+)", r"\1"),
            drop(r"(?:classification_heads|token_heads)\..*", "head of a task"),
        ),
        {"layers": "", "heads": f"{LAYOUT_ENTRY}.heads"},
        _stored,
        _settle,
    ),
)


# ---- Reading. ----


def read_encoder(path: PathLike, heads: Optional[int] = None, label: str = "heads=…") -> PretrainedFile:
    """Read an encoder; recognises the source by itself.

    Args:
        path: a checkpoint, or a folder with one: fairseq's ``model.pt`` (``dict.txt`` or equal ``dict.LANG.txt`` beside it), or a
            Hugging Face folder.
        heads: attention heads, for files that do not tell (released DeltaLM, old XLM-R).
        label: how the caller names them, for messages.

    Returns:
        The file, in the names of the stock ``TransformerEncoder`` (and ``segment_embeddings.weight``); rows of the embedding in
        the order that a fairseq dictionary forces. Its ``layout`` is an :class:`EncoderLayout`.

    Raises:
        CheckpointError: anything unreadable, untrusted, unknown, unaccounted for or contradictory.
    """
    found = open_encoder(path)
    find_sizes(found, Heads(heads, label=label))
    layout = found.layout = EncoderLayout(**found.sizes)
    check_shapes(found.tensors, expected_shapes(layout), found.origin, found.expected)
    order = row_order(found.entries, layout.family, found.origin) if found.entries else []
    if order != list(range(len(order))):
        found.tensors[WORDS] = found.tensors[WORDS][[*order, *range(len(order), layout.vocab_size)]]
        found.entries = tuple(found.entries[row] for row in order)
        found.reasons[found.sources[WORDS]] = "rows in the order of a fairseq dictionary"
    return found


def row_order(entries: Sequence[str], family: str, origin: str) -> List[int]:
    """For each row that a fairseq dictionary forces, the row of the file."""
    return fairseq_order(entries, origin, mask_last=family == "bert")


def open_encoder(
    path: PathLike, dictionary: Optional[PathLike] = None, languages: Sequence[str] = ()
) -> PretrainedFile:
    """An encoder with its languages and the entries of its rows, in the file's order."""
    given = checked(languages, "languages that were given") if languages else None
    found = open_file(path, layouts_of("ENCODERS"), KNOWN)
    content, origin, family = found.content, found.origin, found.wiring["family"]
    folder, stated = content.file.parent, found.stated_languages
    rows = matrix(found.tensors, WORDS, origin, found.expected).size(0)
    if content.is_folder and dictionary is None:
        entries = tokenizer_entries(folder, family, rows, given or ())
        if entries is not None:
            row = found.padding_row
            # Positions are counted from the row behind <pad>: the tokenizer must have it where the configuration has.
            if row is not None and PAD in entries and entries.index(PAD) != row:
                raise padding_contradiction(row, entries.index(PAD), "the tokenizer", origin)
            listed = (languages_of(entries) or None) if family in STYLES else None
            return _named(found, entries, listed, given, stated)
    beside = Path(dictionary) if dictionary is not None else find_dictionary(folder)
    beside = beside or dictionary_of_run(content.entries)
    list_beside = languages_beside(folder, stated.file)
    found.languages = stated.listed or list_beside
    if beside is not None:
        known = stated if found.languages or not given else replace(stated, listed=given, guessed=None)
        entries, listed = name_rows(read_dictionary(beside), known, list_beside, rows, origin)
        row = found.mask_row
        if row is not None and row < len(entries) and entries[row] != MASK:
            raise CheckpointError(
                f"{origin}: has {MASK} in row {row}, where {beside} has {entries[row]!r}; expected the dictionary that it "
                "was pre-trained with"
            )
        return _named(found, entries, listed, given, known)
    if found.rows_unordered:
        raise CheckpointError(
            f"{origin}: its special symbols are not at rows 0 to 3, and nothing beside it tells its vocabulary; expected "
            f"{found.expected}"
        )
    return found


def _named(
    found: PretrainedFile,
    entries: List[str],
    listed: Optional[Tuple[str, ...]],
    given: Optional[Tuple[str, ...]],
    known: Languages,
) -> PretrainedFile:
    """The file with entries and languages; languages that were given must be those of the encoder, and have rows."""
    if given and listed and given != listed:
        raise CheckpointError(f"{found.origin}: has the languages {','.join(listed)}; given were {','.join(given)}")
    if not set(known.symbols(given)) <= set(entries):
        raise CheckpointError(
            f"{found.origin}: has fewer rows behind its pieces than languages were given ({','.join(given or ())}); expected those "
            "of its training, in their order"
        )
    found.entries, found.languages = tuple(entries), listed
    return found
