"""Converts BERT from a Hugging Face folder: BERT, mBERT, MiniLM, E5.

BERT counts positions from 0, has two token types, and keeps its masked-LM head under
``cls.predictions``. Its rows have the order of its tokenizer: WordPiece, or in the multilingual
MiniLM and E5 the sentencepiece model of XLM-R, whose rows are those of a fairseq dictionary.
"""

from typing import List, Sequence

from .inspection import CheckpointError
from .layouts import WORDS, epsilon_problems
from .masked_lm import (
    BIAS_COPY,
    FOLDER_NAMES,
    FOLDER_SIZES,
    FOLDER_WIRED,
    OUTPUT,
    STACK_RENAMES,
    TIED,
    TOKEN_TYPES,
    add_token_type,
    folder_epsilon,
    module_renames,
)
from .opening import Checkpoint, differing
from .pretrained import PretrainedFile, convert_tensors
from .renaming import NameTable
from .tokenizers import check_count, fairseq_order, tokenizer_entries
from .vocabulary import DICTIONARY_NAME, MASK, entries_beside

EXPECTED = (
    "a Hugging Face folder of model_type bert (absolute positions, tensors bert.*), with a "
    "tokenizer (vocab.txt, tokenizer.json or sentencepiece.bpe.model) or a dict.txt"
)
_HEAD_MODULES = {"transform.dense": "dense", "transform.LayerNorm": "layer_norm"}
NAMES = NameTable(
    renames={
        **STACK_RENAMES,
        **module_renames(r"cls\.predictions\.", "lm_head.", _HEAD_MODULES),
        r"cls\.predictions\.(bias|decoder\.bias)": r"lm_head.\1",
        r"cls\.predictions\.decoder\.weight": OUTPUT,
    },
    dropped={
        **FOLDER_NAMES.dropped,
        r"cls\.seq_relationship\.(?:weight|bias)": "head of next-sentence prediction",
    },
)


def convert_bert(checkpoint: Checkpoint) -> PretrainedFile:
    """Convert a BERT; rows, positions and token types stay as in the file.

    Raises:
        CheckpointError: the options are not BERT's.
    """
    options = checkpoint.options
    valid = {**FOLDER_WIRED, "is_decoder": False, "add_cross_attention": False}
    problems = [*epsilon_problems(options, "layer_norm_eps"), *differing(options, valid)]
    checkpoint.refuse(problems, EXPECTED)
    sizes = {**FOLDER_SIZES, "segments": "type_vocab_size"}
    copies = (TIED, BIAS_COPY)
    model = convert_tensors(checkpoint, NAMES, sizes, EXPECTED, "bert", copies, padding_idx=-1)
    segments = model.tensors.get(TOKEN_TYPES)
    model.wiring["segments"] = 0 if segments is None or not segments.dim() else len(segments)
    model.wiring["epsilon"] = folder_epsilon(options)
    return model


def convert_masked_lm(checkpoint: Checkpoint) -> PretrainedFile:
    """Convert a BERT to the shape of XLM-R: a sentence of token type 0 has the same logits.

    Token type 0 is added to the positions, the other types are dropped. Rows are brought to the
    order of a fairseq dictionary.

    Raises:
        CheckpointError: the options are not BERT's, or nothing names the rows.
    """
    model = convert_bert(checkpoint)
    add_token_type(model, rows=model.wiring["segments"])
    model.wiring["segments"] = model.stated_sizes["segments"] = 0
    rows = model.matrix(f"encoder.{WORDS}").size(0)
    entries = _list_entries(checkpoint, rows)
    order = fairseq_order(entries, model.origin, mask_is_last=True)
    model.entries = tuple(entries[row] for row in order)
    _order_rows(model, [*order, *range(len(order), rows)])
    return model


def _list_entries(checkpoint: Checkpoint, rows: int) -> List[str]:
    """Return the entries of the first rows, by the tokenizer or else by a fairseq dictionary.

    ``<mask>`` has the row after the entries of a ``dict.txt`` that lacks it, as in fairseq's tasks.

    Raises:
        CheckpointError: neither lies beside the weights, or they have too many entries.
    """
    entries = tokenizer_entries(checkpoint.folder, None, rows)
    if entries is None:
        entries = entries_beside(checkpoint.file)
        check_count(entries, rows, checkpoint.folder / DICTIONARY_NAME)
        if entries and MASK not in entries and len(entries) < rows:
            entries.append(MASK)
    if not entries:
        raise CheckpointError(f"{checkpoint.origin}: nothing names its rows; expected {EXPECTED}")
    return entries


def _order_rows(model: PretrainedFile, order: Sequence[int]) -> None:
    """Bring embedding, output projection and bias to an order of the file's rows."""
    if list(order) == sorted(order):
        return
    for name in (f"encoder.{WORDS}", OUTPUT, "lm_head.bias", BIAS_COPY[0]):
        if name in model.tensors:
            model.tensors[name] = model.tensors[name][list(order)]
