"""The tokenizer of an exported model, as a ``tokenizer.json`` in the order of the model's rows.

The tokenizers of ``transformers`` assume the order of the released models: the sentencepiece
model's, one row later, with the languages as released. A ``tokenizer.json`` names the row of each
piece, so that it holds for any dictionary.
"""

import base64
import importlib
import re
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Sequence

from ..checkpoints.tokenizers import WORDPIECE_NAMES
from ..checkpoints.vocabulary import LANGUAGE, MASK, PAD, SPECIAL

BARE = re.compile(r"[a-z]{2,3}_(?:[A-Z]{2}|[A-Z][a-z]{3})")
"""Language codes that ``transformers`` writes without brackets or underscores around them."""
UNIGRAM = 1
"""sentencepiece's number of the type of a unigram model."""
NORMAL, UNKNOWN, CONTROL = 1, 2, 3
"""sentencepiece's numbers of types of pieces."""
NEVER = -1e6
"""Score of an entry that is no piece: text is never split into it."""
SPACE = "\u2581"


class Pieces(NamedTuple):
    """Parts of a sentencepiece model that a tokenizer needs."""

    scores: Dict[str, float]  # by piece
    charsmap: bytes  # table of its normaliser; empty if it has none


def read_pieces(file: Path) -> Pieces:
    """Read a sentencepiece model.

    Raises:
        ValueError: a model whose splits ``tokenizers`` cannot repeat, or protobuf is missing.
    """
    try:
        proto = importlib.import_module("sentencepiece.sentencepiece_model_pb2").ModelProto()
    except ImportError as error:
        message = f"{file}: reading it needs protobuf ({error}); pip install protobuf"
        raise ValueError(message) from error
    proto.ParseFromString(file.read_bytes())
    kinds = {piece.type for piece in proto.pieces} - {NORMAL, UNKNOWN, CONTROL}
    if proto.trainer_spec.model_type != UNIGRAM or kinds:
        exceptions = "bytes and symbols defined by users are others"
        raise ValueError(f"{file}: is no unigram model of plain pieces ({exceptions})")
    normalizer = proto.normalizer_spec
    if normalizer.remove_extra_whitespaces is False or normalizer.add_dummy_prefix is False:
        raise ValueError(f"{file}: keeps spaces as they are")
    scores = {piece.piece: piece.score for piece in proto.pieces if piece.type == NORMAL}
    return Pieces(scores, normalizer.precompiled_charsmap)


def token(entry: str) -> str:
    """Return the name of an entry in ``transformers``: ``[de_DE]`` becomes ``de_DE``."""
    match = LANGUAGE.fullmatch(entry)
    code = match and (match[1] or match[2])
    return code if code and BARE.fullmatch(code) else entry


def describe(
    pieces: Pieces, entries: Sequence[str], single: Sequence[str], pair: Sequence[str]
) -> Dict[str, Any]:
    """Make the content of ``tokenizer.json``.

    Args:
        entries: of the rows, as in a fairseq dictionary.
        single, pair: entries around ``A`` and ``B``, the texts.

    Raises:
        ValueError: a piece has no row: text would be split into other pieces in its place.
    """
    rows = set(entries)
    rowless = [piece for piece in pieces.scores if piece not in rows]
    if rowless:
        examples = " ".join(rowless[:5])
        raise ValueError(f"{len(rowless)} of its pieces ({examples} ...) have no row in the model")
    added = []
    for row, entry in enumerate(entries):
        is_symbol = entry in (*SPECIAL, MASK) or LANGUAGE.fullmatch(entry)
        if is_symbol and entry not in pieces.scores:
            added.append(_added_token(row, token(entry)))
    steps: List[Dict[str, Any]] = []
    if pieces.charsmap:
        charsmap = base64.b64encode(pieces.charsmap).decode()
        steps.append({"type": "Precompiled", "precompiled_charsmap": charsmap})
    steps.append({"type": "Strip", "strip_left": True, "strip_right": True})
    steps.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})
    spaces = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": spaces,
        "post_processor": _template(entries, single, pair),
        "decoder": spaces,
        "model": {
            "type": "Unigram",
            "unk_id": SPECIAL.index("<unk>"),
            "vocab": [[token(entry), pieces.scores.get(entry, NEVER)] for entry in entries],
            "byte_fallback": False,
        },
    }


def _added_token(row: int, content: str) -> Dict[str, Any]:
    return {
        "id": row,
        "content": content,
        "special": True,
        "single_word": False,
        "lstrip": content == MASK,
        "rstrip": False,
        "normalized": False,
    }


def _template(entries: Sequence[str], single: Sequence[str], pair: Sequence[str]) -> Dict[str, Any]:
    """Describe the symbols around one text and two."""

    def parts(items: Sequence[str]) -> List[Dict[str, Any]]:
        """Describe texts and symbols in their order."""
        sequence = []
        for item in items:
            kind = "Sequence" if item in ("A", "B") else "SpecialToken"
            sequence.append({kind: {"id": token(item), "type_id": 0}})
        return sequence

    symbols = {}
    for item in (*single, *pair):
        if item not in ("A", "B"):
            name = token(item)
            symbols[name] = {"id": name, "ids": [entries.index(item)], "tokens": [name]}
    return {
        "type": "TemplateProcessing",
        "single": parts(single),
        "pair": parts(pair),
        "special_tokens": symbols,
    }


def settings(entries: Sequence[str], max_tokens: int) -> Dict[str, Any]:
    """Make the content of ``tokenizer_config.json``; ``max_tokens``: longest input."""
    names = {
        "bos_token": "<s>",
        "cls_token": "<s>",
        "eos_token": "</s>",
        "sep_token": "</s>",
        "pad_token": PAD,
        "unk_token": "<unk>",
    }
    if MASK in entries:
        names["mask_token"] = MASK
    return {
        **names,
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_tokens,
    }


def wordpieces(entries: Sequence[str]) -> str:
    """Make BERT's ``vocab.txt``."""
    names = {ours: theirs for theirs, ours in WORDPIECE_NAMES.items()}
    return "".join(f"{names.get(entry, entry)}\n" for entry in entries)


def wordpiece_settings(entries: Sequence[str]) -> Dict[str, Any]:
    """Make the content of BERT's ``tokenizer_config.json``.

    Text is lower-cased if the vocabulary has no capitals.
    """
    has_capitals = any(entry != entry.lower() for entry in entries)
    return {"tokenizer_class": "BertTokenizer", "do_lower_case": not has_capitals}
