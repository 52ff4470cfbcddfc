"""Reading the encoder of any pretrained model that the package knows, into the names of fairseq's stock encoder."""

import logging
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from torch import Tensor

from . import encoder_decoder, huggingface, veco, vocabularies, xlmr
from .encoder_languages import checked, dictionary_of_run, languages_beside, name_rows
from .encoder_layout import EncoderLayout, expected_shapes, layout_from
from .errors import CheckpointError
from .loading import LoadReport, drop, rename
from .pipeline import (
    PADDING_IDX,
    WORDS,
    Content,
    FileLayout,
    Heads,
    Source,
    as_dict,
    check_shapes,
    matrix,
    read_content,
    sizes_of,
    source_of,
)
from .reading import PathLike
from .vocabularies import (
    MASK,
    Languages,
    fairseq_order,
    find_dictionary,
    languages_of,
    read_dictionary,
    tokenizer_entries,
)

logger = logging.getLogger(__name__)

LAYOUT_ENTRY = "encoder_layout"
LANGUAGES_ENTRY = "encoder_languages"
"""What checkpoints of the package's own encoder models have among their options."""

KNOWN = (
    "XLM-R or InfoXLM (fairseq, Hugging Face), BERT (Hugging Face), mBART, mBART-50, NLLB, M2M-100 (fairseq, Hugging Face), "
    "DeltaLM, VECO (fairseq, Hugging Face), or an nlu_encoder of this package"
)


# ---- The layouts that are known. ----


def _of_masked_lm(layout: FileLayout) -> FileLayout:
    """The encoder alone of a masked LM."""

    def settle(content: Content, source: Source) -> None:
        layout.settle(content, source)
        source.renamed.discard_all("lm_head.", "head of the masked LM, unused by an encoder")
        source.renamed.move(huggingface.STACK, "")
        source.wiring["family"] = "xlmr"
        source.padding_row = source.padding_idx
        if source.padding_idx != PADDING_IDX:
            huggingface.shift_positions(source.renamed, first=source.padding_idx + 1)
            source.padding_idx, source.rows_unordered = PADDING_IDX, True

    return replace(layout, settle=settle)


def _settle_veco(content: Content, source: Source) -> None:
    scaled = veco.scaled(content, source.renamed)
    source.renamed.discard_all("lm_head.", "head of the masked LM, unused by an encoder")
    source.renamed.discard_all("decoder.", "decoder, unused by an encoder")
    source.renamed.move("encoder.", "")
    wiring = encoder_decoder.stock_wiring(content, source.renamed.tensors, {"activation": "gelu"})
    source.wiring = {"family": "xlmr", **wiring, "scale_embedding": scaled}
    source.mask_row = veco.mask_row(content.tensors, content.origin)


def _check_own(content: Content) -> None:
    layout_from(as_dict(content.options[LAYOUT_ENTRY]), content.origin)


def _settle_own(content: Content, source: Source) -> None:
    layout = layout_from(as_dict(content.options[LAYOUT_ENTRY]), content.origin)
    source.wiring = {one.name: getattr(layout, one.name) for one in fields(layout)}
    source.heads = source.wiring.pop("heads")
    source.stated = {name: source.wiring.pop(name) for name in ("vocab_size", "layers", "embed_dim", "ffn_dim")}
    languages = content.options.get(LANGUAGES_ENTRY)
    listed = tuple(map(str, languages)) if languages else None
    source.languages = Languages(listed, style=vocabularies.STYLES.get(layout.family, "[{}]"))


OWN = FileLayout(
    "an nlu_encoder checkpoint of this package",
    lambda content: not content.is_folder and content.options.get(LAYOUT_ENTRY) is not None,
    (
        drop(r"encoder\.version", "format counter of fairseq"),
        rename(r"encoder\.(.+)", r"\1"),
        drop(r"(?:classification_heads|token_heads)\..*", "head of a task"),
    ),
    {"layers": "", "heads": f"{LAYOUT_ENTRY}.heads"},
    _check_own,
    _settle_own,
)
_XLMR = replace(
    next(one for one in xlmr.LAYOUTS if one.rules is xlmr.RULES),
    recognised=lambda content: not content.is_folder and any("sentence_encoder." in name for name in content.tensors),
)
_XLMR_FOLDER = replace(
    huggingface.FOLDER,
    recognised=lambda content: content.is_folder and huggingface.model_type(content) in huggingface.MODEL_TYPES,
)
LAYOUTS = (
    OWN,
    _of_masked_lm(_XLMR),
    encoder_decoder.DELTALM_ENCODER,
    FileLayout(veco.EXPECTED, veco.is_veco, veco.RULES, veco.SIZES, settle=_settle_veco),
    encoder_decoder.MBART,
    encoder_decoder.NLLB,
    huggingface.BERT,
    encoder_decoder.MBART_FOLDER,
    encoder_decoder.NLLB_FOLDER,
    _of_masked_lm(_XLMR_FOLDER),
)


# ---- Reading. ----


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


def read_encoder(path: PathLike, heads: Optional[int] = None, label: str = "heads=…") -> EncoderFile:
    """Read an encoder; recognises the source by itself.

    Args:
        path: a checkpoint, or a folder with one: fairseq's ``model.pt`` (``dict.txt`` or equal ``dict.LANG.txt`` beside it), or a
            Hugging Face folder.
        heads: attention heads, for files that do not tell (released DeltaLM, old XLM-R).
        label: how the caller names them, for messages.

    Raises:
        CheckpointError: anything unreadable, untrusted, unknown, unaccounted for or contradictory.
    """
    source, entries, languages, origin = open_encoder(path)
    sizes = sizes_of(source, origin, Heads(heads, label=label))
    layout = EncoderLayout(**sizes)
    tensors, sources = source.renamed.tensors, source.renamed.sources
    check_shapes(tensors, expected_shapes(layout), origin, source.expected)
    report = source.report()
    order = row_order(entries, layout.family, origin) if entries else []
    if order != list(range(len(order))):
        tensors[WORDS] = tensors[WORDS][[*order, *range(len(order), layout.vocab_size)]]
        entries = [entries[row] for row in order]
        report = source.report(**{sources[WORDS]: "rows in the order of a fairseq dictionary"})
    return EncoderFile(tensors, sources, layout, languages, report, tuple(entries), source.mask_last, source.mask_row)


def row_order(entries: Sequence[str], family: str, origin: str) -> List[int]:
    """For each row that a fairseq dictionary forces, the row of the file."""
    return fairseq_order(entries, origin, mask_last=family == "bert")


def open_encoder(
    path: PathLike, dictionary: Optional[PathLike] = None, languages: Sequence[str] = ()
) -> Tuple[Source, List[str], Optional[Tuple[str, ...]], str]:
    """The source, the entries of its rows (in the file's order), its languages, and how messages call it."""
    given = checked(languages, "languages that were given") if languages else None
    content = read_content(path, KNOWN)
    source, origin = source_of(content, LAYOUTS, KNOWN), content.origin
    family, folder = source.wiring["family"], content.file.parent
    rows = matrix(source.renamed.tensors, WORDS, origin, source.expected).size(0)
    named = content.is_folder and dictionary is None
    found = tokenizer_entries(folder, family, rows, given or ()) if named else None
    if found is not None:
        _check_padding(found, source.padding_row, origin)
        listed = (languages_of(found) or None) if family in vocabularies.STYLES else None
        _check_given(given, listed, found, source.languages, origin)
        return source, found, listed, origin
    beside = Path(dictionary) if dictionary is not None else find_dictionary(folder)
    beside = beside or dictionary_of_run(content.entries)
    list_beside = languages_beside(folder, source.languages.file)
    stated = source.languages.listed or list_beside
    if beside is not None:
        known = source.languages if stated or not given else replace(source.languages, listed=given, guessed=None)
        entries, listed = name_rows(read_dictionary(beside), known, list_beside, rows, origin)
        _check_given(given, listed, entries, known, origin)
        _check_mask(entries, source.mask_row, beside, origin)
        return source, entries, listed, origin
    if source.rows_unordered:
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
    if row is not None and huggingface.PAD in entries and entries.index(huggingface.PAD) != row:
        raise huggingface.padding_contradiction(row, entries.index(huggingface.PAD), "the tokenizer", origin)


def _check_mask(entries: List[str], row: Optional[int], beside: Path, origin: str) -> None:
    """A file that tells the row of ``<mask>`` must agree with the dictionary that names its rows."""
    if row is not None and row < len(entries) and entries[row] != MASK:
        raise CheckpointError(
            f"{origin}: has {MASK} in row {row}, where {beside} has {entries[row]!r}; expected the dictionary that it "
            "was pre-trained with"
        )
