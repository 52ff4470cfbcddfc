"""The tokenizer of an exported model, as a ``tokenizer.json`` whose vocabulary has the order of the model's rows.

The tokenizers of ``transformers`` assume the order of the released models: the sentencepiece model's, one row later, languages as
released. A ``tokenizer.json`` says itself which row a piece has, so that it holds for any dictionary.
"""

import base64
import importlib
import re
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from ..checkpoints.tokenizers import WORDPIECE_NAMES
from ..checkpoints.vocabulary import LANGUAGE, MASK, PAD, SPECIAL

_BARE = re.compile(r"[a-z]{2,3}_(?:[A-Z]{2}|[A-Z][a-z]{3})")
_UNIGRAM, _NORMAL, _UNKNOWN, _CONTROL = 1, 1, 2, 3  # sentencepiece's model type, and types of pieces
_NEVER = -1e6  # score of an entry that no text has
_SPACE = "\u2581"


class Pieces(NamedTuple):
    """What of a sentencepiece model a tokenizer needs: piece -> score, and the table of its normaliser, empty where it has none."""

    scores: Dict[str, float]
    charsmap: bytes


def read_pieces(file: Path) -> Pieces:
    """Read a sentencepiece model. Raises ValueError: one whose splits ``tokenizers`` cannot repeat, or protobuf is missing."""
    try:
        proto = importlib.import_module("sentencepiece.sentencepiece_model_pb2").ModelProto()
    except ImportError as error:
        raise ValueError(f"{file}: reading it needs protobuf ({error}); pip install protobuf") from error
    proto.ParseFromString(file.read_bytes())
    kinds = {piece.type for piece in proto.pieces} - {_NORMAL, _UNKNOWN, _CONTROL}
    if proto.trainer_spec.model_type != _UNIGRAM or kinds:
        raise ValueError(f"{file}: is no unigram model of plain pieces (bytes and symbols defined by users are others)")
    if proto.normalizer_spec.remove_extra_whitespaces is False or proto.normalizer_spec.add_dummy_prefix is False:
        raise ValueError(f"{file}: keeps spaces as they are")
    scores = {piece.piece: piece.score for piece in proto.pieces if piece.type == _NORMAL}
    return Pieces(scores, proto.normalizer_spec.precompiled_charsmap)


def token(entry: str) -> str:
    """How ``transformers`` calls an entry of a dictionary: ``[en_XX]`` and ``__eng_Latn__`` without the signs, others as here."""
    match = LANGUAGE.fullmatch(entry)
    code = match and (match[1] or match[2])
    return code if code and _BARE.fullmatch(code) else entry


def describe(pieces: Pieces, entries: Sequence[str], single: Sequence[str], pair: Sequence[str]) -> Dict[str, Any]:
    """The content of ``tokenizer.json``.

    ``entries``: of the rows, as in a fairseq dictionary. ``single``, ``pair``: entries around ``A`` and ``B``, the texts.

    Raises ValueError: pieces without a row, which no text could be split into, so that others would take their place.
    """
    lost = [piece for piece in pieces.scores if piece not in set(entries)]
    if lost:
        raise ValueError(f"{len(lost)} of its pieces ({' '.join(lost[:5])} ...) have no row in the model")
    special = [(row, one) for row, one in enumerate(entries) if one in (*SPECIAL, MASK) or LANGUAGE.fullmatch(one)]
    special = [(row, one) for row, one in special if one not in pieces.scores]
    vocabulary = [[token(entry), pieces.scores.get(entry, _NEVER)] for entry in entries]
    steps: List[Dict[str, Any]] = [
        {"type": "Strip", "strip_left": True, "strip_right": True},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
    ]
    if pieces.charsmap:
        steps.insert(0, {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(pieces.charsmap).decode()})
    spaces = {"type": "Metaspace", "replacement": _SPACE, "prepend_scheme": "always", "split": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added(row, token(one)) for row, one in special],
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": spaces,
        "post_processor": _template(entries, single, pair),
        "decoder": spaces,
        "model": {"type": "Unigram", "unk_id": SPECIAL.index("<unk>"), "vocab": vocabulary, "byte_fallback": False},
    }


def _added(row: int, content: str) -> Dict[str, Any]:
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": row, "content": content, "special": True, **plain, "lstrip": content == MASK}


def _template(entries: Sequence[str], single: Sequence[str], pair: Sequence[str]) -> Dict[str, Any]:
    def parts(items: Sequence[str]) -> List[Dict[str, Any]]:
        kinds = [("Sequence", item) if item in ("A", "B") else ("SpecialToken", token(item)) for item in items]
        return [{kind: {"id": name, "type_id": 0}} for kind, name in kinds]

    used = [item for item in dict.fromkeys((*single, *pair)) if item not in ("A", "B")]
    ids = {token(item): entries.index(item) for item in used}
    known = {name: {"id": name, "ids": [row], "tokens": [name]} for name, row in ids.items()}
    return {"type": "TemplateProcessing", "single": parts(single), "pair": parts(pair), "special_tokens": known}


def settings(entries: Sequence[str], longest: int) -> Dict[str, Any]:
    """The content of ``tokenizer_config.json``; ``longest``: tokens of an input."""
    names = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>"}
    names.update(pad_token=PAD, unk_token="<unk>", **({"mask_token": MASK} if MASK in entries else {}))
    return {**names, "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": longest}


def wordpieces(entries: Sequence[str]) -> Tuple[str, Dict[str, Any]]:
    """BERT's ``vocab.txt``, and what its ``tokenizer_config.json`` says; a vocabulary without capitals is a lower-case one."""
    names = {ours: theirs for theirs, ours in WORDPIECE_NAMES.items()}
    lower = not any(entry != entry.lower() for entry in entries)
    text = "".join(f"{names.get(entry, entry)}\n" for entry in entries)
    return text, {"tokenizer_class": "BertTokenizer", "do_lower_case": lower}
