"""Reading the encoder of any pretrained model that the package knows, into the names of fairseq's stock encoder."""

import logging
import re
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from torch import Tensor

from . import bert, huggingface, m2m100, masked_lm, mbart, padding, veco, vocabularies, xlmr
from .deltalm import EXPECTED as DELTALM_EXPECTED
from .deltalm import deltalm_from
from .encoder_decoder import POSITIONS, WORDS, EncoderSource, stock_sizes, stock_wiring
from .encoder_languages import (
    Languages,
    checked,
    dictionary_of_run,
    find_dictionary,
    languages_beside,
    name_rows,
    stock_languages,
)
from .encoder_layout import EncoderLayout, expected_shapes, layout_from
from .loading import LoadReport
from .masked_lm import check_stated, choose_heads, compare_shapes, find_weights, float_tensors
from .reading import CheckpointError, PathLike, read_checkpoint
from .renames import Renamed, apply_rules, drop, rename
from .vocabularies import DICTIONARY_NAME, fairseq_order, languages_of, read_dictionary, tokenizer_entries
from .writing import atomic_path

logger = logging.getLogger(__name__)

LAYOUT_ENTRY = "encoder_layout"
LANGUAGES_ENTRY = "encoder_languages"
"""What checkpoints of the package's own encoder models have among their options."""

KNOWN = (
    "XLM-R or InfoXLM (fairseq, Hugging Face), BERT (Hugging Face), mBART, mBART-50, NLLB, M2M-100 (fairseq, Hugging Face), "
    "DeltaLM, VECO (fairseq, Hugging Face), or an nlu_encoder of this package"
)
_FIRST_FC = "layers.0.fc1.weight"
_DELTALM = re.compile(r"(?:src|tgt)_embedding\..*|decoder\.layers\.\d+\.(?:fc3|ffn_1\.fc1)\..*")
_PADDING = "padding_row"
_DECODER = "decoder, unused by an encoder"
_OWN = "an nlu_encoder checkpoint of this package"
_OWN_RULES = (
    drop(r"encoder\.version", "format counter of fairseq"),
    rename(r"encoder\.(.+)", r"\1"),
    drop(r"(?:classification_heads|token_heads)\..*", "head of a task"),
)


@dataclass(frozen=True)
class EncoderFile:
    """An encoder as read from disk.

    Attributes:
        tensors: name -> float32 tensor, in the names of fairseq's stock ``TransformerEncoder`` (and ``segment_embeddings.weight``);
            rows of the embedding in the order that a fairseq dictionary forces.
        sources: name -> its name in the file.
        layout: sizes and wiring.
        languages: in the order of their rows; None where the file has no list.
        report: what became of every tensor of the file.
        entries: what the first rows of the embedding mean, as entries of a fairseq dictionary; empty where no file beside tells.
        mask_last: whether the last row is that of ``<mask>``, by what the file is: a masked LM as released. Those of this package
            may have it elsewhere, as their data's dictionary does.
        mask_row: row of ``<mask>`` as the file itself tells it; None where it does not.
    """

    tensors: Dict[str, Tensor]
    sources: Mapping[str, str]
    layout: EncoderLayout
    languages: Optional[Tuple[str, ...]]
    report: LoadReport
    entries: Tuple[str, ...] = ()
    mask_last: bool = False
    mask_row: Optional[int] = None


def read_encoder(path: PathLike, heads: Optional[int] = None) -> EncoderFile:
    """Read an encoder; recognises the source by itself.

    Args:
        path: a checkpoint, or a folder with one: fairseq's ``model.pt`` (``dict.txt`` or equal ``dict.LANG.txt`` beside it), or a
            Hugging Face folder.
        heads: attention heads, for files that do not tell (released DeltaLM, old XLM-R).

    Returns:
        Tensors, layout, languages, report, entries.

    Raises:
        CheckpointError: anything unreadable, untrusted, unknown, unaccounted for or contradictory.
    """
    source, entries, languages, origin = _open(path)
    renamed = source.renamed
    layout = _layout(renamed.tensors, source, heads, origin)
    compare_shapes(renamed.tensors, expected_shapes(layout), origin, source.expected)
    reasons = dict(renamed.dropped)
    order = fairseq_order(entries, origin, mask_last=layout.family == bert.FAMILY) if entries else []
    if order != list(range(len(order))):
        rest = range(len(order), layout.vocab_size)
        renamed.tensors[WORDS] = renamed.tensors[WORDS][[*order, *rest]]
        entries = [entries[row] for row in order]
        reasons[renamed.sources[WORDS]] = "rows in the order of a fairseq dictionary"
    report = LoadReport(renamed.used(), dropped=tuple(renamed.dropped), reasons=reasons)
    named = tuple(entries)
    marked = source.mask_last, source.mask_row
    return EncoderFile(renamed.tensors, renamed.sources, layout, languages, report, named, *marked)


def write_dictionary(
    folder: PathLike, path: PathLike, dictionary: Optional[PathLike] = None, languages: Sequence[str] = ()
) -> List[str]:
    """Write a fairseq ``dict.txt`` that names every row of an encoder: languages and ``<mask>`` included, in order.

    Args:
        folder: of the encoder, as in :func:`read_encoder`.
        path: of the file to write.
        dictionary: ``dict.txt`` of a fairseq model; None = the one beside it.
        languages: in the order of their rows, for encoders that do not tell; none = those that it tells.

    Returns:
        All entries, the four special ones first: as many as the embedding has rows. Rows that nothing names, which were never
        used in training, are called ``madeupword…``.

    Raises:
        CheckpointError: no file tells the entries, or rows of languages whose names no file tells; languages that are not those
            of the encoder, or for which it has no rows.
    """
    source, entries, named, origin = _open(folder, dictionary, languages)
    rows = source.renamed.tensors[WORDS].size(0)
    if not entries:
        raise CheckpointError(
            f"{origin}: nothing beside it tells its entries; expected {DICTIONARY_NAME} or dict.LANG.txt (fairseq), "
            "tokenizer.json, vocab.txt or a sentencepiece model with the language codes"
        )
    family = source.wiring["family"]
    unnamed = rows - len(entries)
    if unnamed and family in vocabularies.STYLES and not named:
        raise CheckpointError(
            f"{origin}: has {rows:,} rows, of which {len(entries):,} are named, and no list of its languages; give them, or a "
            "dictionary that has them, in the order of the training (--langs, --dictionary)"
        )
    if unnamed:
        logger.warning("%s: %d rows without a name are called madeupword", origin, unnamed)
    entries = [*entries, *(f"madeupword{index:04d}" for index in range(unnamed))]
    ordered = [entries[row] for row in fairseq_order(entries, origin, mask_last=family == bert.FAMILY)]
    text = vocabularies.dictionary_text(ordered, origin)
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return ordered


def _open(
    path: PathLike, dictionary: Optional[PathLike] = None, languages: Sequence[str] = ()
) -> Tuple[EncoderSource, List[str], Optional[Tuple[str, ...]], str]:
    """The source, the entries of its rows (in the file's order), its languages, and how messages call it."""
    given = checked(languages, "languages that were given") if languages else None
    file = find_weights(Path(path))
    origin = f"checkpoint {file}"
    content = read_checkpoint(file)
    source, in_folder = _source(content, file, origin)
    words = source.renamed.tensors.get(WORDS)
    if words is None or words.dim() != 2:
        raise CheckpointError(f"{origin}: has no matrix for {WORDS}; expected {source.expected}")
    family, rows = source.wiring["family"], words.size(0)
    found = tokenizer_entries(file.parent, family, rows, given or ()) if in_folder and dictionary is None else None
    if found is not None:
        _check_padding(found, source.wiring.get(_PADDING), origin)
        listed = (languages_of(found) or None) if family in vocabularies.STYLES else None
        _check_given(given, listed, found, source.languages, origin)
        return source, found, listed, origin
    beside = Path(dictionary) if dictionary is not None else find_dictionary(file.parent) or dictionary_of_run(content)
    list_beside = languages_beside(file.parent, source.languages.file)
    stated = source.languages.listed or list_beside
    if beside is not None:
        named = source.languages if stated or not given else replace(source.languages, listed=given, guessed=None)
        entries, listed = name_rows(read_dictionary(beside), named, list_beside, rows, origin)
        _check_given(given, listed, entries, named, origin)
        _check_mask(entries, source.mask_row, beside, origin)
        return source, entries, listed, origin
    if source.wiring.pop("rows_unordered", False):
        raise CheckpointError(
            f"{origin}: its special symbols are not at rows 0 to 3, and nothing beside it tells its vocabulary; expected "
            f"{source.expected}"
        )
    return source, [], stated, origin


def _check_given(
    given: Optional[Tuple[str, ...]],
    found: Optional[Tuple[str, ...]],
    entries: List[str],
    languages: Languages,
    origin: str,
) -> None:
    """Languages that were given are those of the encoder, and have rows."""
    if given and found and given != found:
        raise CheckpointError(f"{origin}: has the languages {','.join(found)}; given were {','.join(given)}")
    if not set(languages.symbols(given)) <= set(entries):
        raise CheckpointError(
            f"{origin}: has fewer rows behind its pieces than languages were given ({','.join(given or ())}); expected those "
            "of its training, in their order"
        )


def _check_padding(entries: List[str], row: Optional[int], origin: str) -> None:
    """Positions are counted from the row behind ``<pad>``: the tokenizer must have it where the configuration has."""
    if row is not None and padding.PAD in entries and entries.index(padding.PAD) != row:
        raise padding.contradiction(row, entries.index(padding.PAD), "the tokenizer", origin)


def _check_mask(entries: List[str], row: Optional[int], beside: Path, origin: str) -> None:
    """A file that tells the row of ``<mask>`` must agree with the dictionary that names its rows."""
    if row is not None and row < len(entries) and entries[row] != vocabularies.MASK:
        raise CheckpointError(
            f"{origin}: has {vocabularies.MASK} in row {row}, where {beside} has {entries[row]!r}; expected the dictionary that it "
            "was pre-trained with"
        )


# ---- Recognising. ----


def _source(content: Mapping[str, Any], file: Path, origin: str) -> Tuple[EncoderSource, bool]:
    """What the file holds, and whether it is of a Hugging Face folder."""
    model = content.get("model")
    if isinstance(model, Mapping):
        return _from_fairseq(content, model, file, origin), False
    if isinstance(content.get("weights"), Mapping):
        return _from_deltalm(content, {}, origin), False
    if not content or not all(isinstance(value, Tensor) for value in content.values()):
        keys = ", ".join(sorted(map(str, content))[:8]) or "(none)"
        raise CheckpointError(f"{origin}: holds the entries {keys}; expected {KNOWN}")
    config_file = file.parent / huggingface.CONFIG_NAME
    config = huggingface.read_json(config_file, KNOWN)
    kind = huggingface.model_type(config, content)
    for room in (bert, mbart, m2m100):
        if kind == room.MODEL_TYPE:
            return room.from_folder(float_tensors(content, origin), config, config_file, origin), True
    if kind in huggingface.MODEL_TYPES:
        return _from_masked_lm(content, file, origin), True
    valid = ", ".join([bert.MODEL_TYPE, mbart.MODEL_TYPE, m2m100.MODEL_TYPE, *huggingface.MODEL_TYPES])
    raise CheckpointError(f"checkpoint {config_file}: model_type = {kind!r}, expected one of {valid}")


def _from_fairseq(content: Mapping[str, Any], model: Mapping[str, Any], file: Path, origin: str) -> EncoderSource:
    settings = xlmr.find_settings(content)
    if settings.get(LAYOUT_ENTRY) is not None:
        return _from_own(model, settings, origin)
    if any("sentence_encoder." in name for name in model):
        return _from_masked_lm(content, file, origin)
    arch = str(settings.get("arch") or settings.get("_name"))
    if arch.startswith("deltalm") or any(_DELTALM.fullmatch(name) for name in model):
        return _from_deltalm(content, settings, origin)
    if veco.is_veco(settings, model):
        return veco.from_fairseq(float_tensors(model, origin), settings, origin)
    if any(name.startswith("encoder.layers.") for name in model) and any(name.startswith("decoder.") for name in model):
        veco.check_stated_somehow(settings, model, origin)
        room = mbart if f"encoder.{POSITIONS}" in model else m2m100
        return room.from_fairseq(content, float_tensors(model, origin), settings, origin)
    names = ", ".join(list(map(str, model))[:4]) or "(none)"
    raise CheckpointError(f"{origin}: its tensors ({names}, …) are those of no encoder that is known; expected {KNOWN}")


def _from_own(model: Mapping[str, Any], settings: Mapping[str, Any], origin: str) -> EncoderSource:
    stored = settings[LAYOUT_ENTRY]
    layout = layout_from(stored if isinstance(stored, Mapping) else vars(stored), origin)
    wiring = asdict(layout)
    heads = wiring.pop("heads")
    stated = {name: wiring.pop(name) for name in ("vocab_size", "layers", "embed_dim", "ffn_dim")}
    languages = settings.get(LANGUAGES_ENTRY)
    return EncoderSource(
        apply_rules(float_tensors(model, origin), _OWN_RULES, origin, _OWN),
        wiring,
        stated,
        heads,
        f"{LAYOUT_ENTRY}.heads",
        _OWN,
        Languages(
            tuple(map(str, languages)) if languages else None, style=vocabularies.STYLES.get(layout.family, "[{}]")
        ),
    )


def _from_masked_lm(content: Mapping[str, Any], file: Path, origin: str) -> EncoderSource:
    found = masked_lm.read_source(content, file, origin)
    renamed = bert.without_prefix(found.renamed)
    for name in [name for name in renamed.tensors if name.startswith("lm_head.")]:
        renamed.discard(name, "head of the masked LM, unused by an encoder")
    wiring: Dict[str, Any] = {"family": "xlmr", _PADDING: found.padding_idx}
    if found.padding_idx != bert.PADDING_IDX:
        bert.shift_positions(renamed, first=found.padding_idx + 1)
        wiring["rows_unordered"] = True
    return EncoderSource(renamed, wiring, found.stated, found.heads, found.heads_entry, found.expected, mask_last=True)


def _from_deltalm(content: Mapping[str, Any], settings: Mapping[str, Any], origin: str) -> EncoderSource:
    found = deltalm_from(content, origin)
    renamed = Renamed(dict(found.tensors), dict(found.sources), dict(found.report.reasons))
    for name in [name for name in renamed.tensors if not name.startswith("encoder.")]:
        renamed.discard(name, _DECODER)
    renamed = bert.without_prefix(renamed, "encoder.")
    renamed.tensors = {name: tensor.detach().float() for name, tensor in renamed.tensors.items()}
    wiring = {"family": "deltalm", **stock_wiring(settings, renamed.tensors, {}, origin)}
    return EncoderSource(
        renamed,
        wiring,
        stock_sizes(settings),
        settings.get("encoder_attention_heads"),
        "encoder_attention_heads",
        DELTALM_EXPECTED,
        stock_languages(content, settings, "__{}__"),
    )


# ---- Layout. ----


def _layout(tensors: Mapping[str, Tensor], source: EncoderSource, heads: Optional[int], origin: str) -> EncoderLayout:
    """Sizes from the tensors, the rest from what the file says; contradictions are errors."""
    if _FIRST_FC not in tensors or tensors[_FIRST_FC].dim() != 2:
        raise CheckpointError(f"{origin}: has no matrix for {_FIRST_FC}; expected {source.expected}")
    rows, width = tensors[WORDS].shape
    values: Dict[str, Any] = {
        "vocab_size": rows,
        "layers": 1 + max(int(name.split(".")[1]) for name in tensors if name.startswith("layers.")),
        "embed_dim": width,
        "ffn_dim": tensors[_FIRST_FC].size(0),
        "heads": choose_heads(heads, source.heads, source.heads_entry, width, origin),
        **source.wiring,
    }
    if POSITIONS in tensors:
        values["max_positions"] = tensors[POSITIONS].size(0) - bert.PADDING_IDX - 1
    if bert.SEGMENTS in tensors:
        values["segments"] = tensors[bert.SEGMENTS].size(0)
    if "max_positions" not in values:
        raise CheckpointError(f"{origin}: has no matrix for {POSITIONS}; expected {source.expected}")
    check_stated(values, source.stated, origin)
    known = {one.name for one in fields(EncoderLayout)}
    return EncoderLayout(**{name: value for name, value in values.items() if name in known})
