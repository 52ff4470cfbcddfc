"""Segmenters of pretrained models: sentencepiece, ``tokenizer.json`` and WordPiece."""

import functools
import importlib
import json
import os
from typing import Any, Callable, List

SEGMENTERS = (
    "sentencepiece.bpe.model",
    "sentence.bpe.model",
    "sentencepiece.model",
    "spiece.model",
    "tokenizer.json",
    "vocab.txt",
)
"""Names of a segmenter's file beside a model; the first that is there is used."""

Segmenter = Callable[[str], List[str]]
"""Gives the pieces of a line."""


def load_segmenter(path: str) -> Segmenter:
    """Load a segmenter; its kind is told by the name of the file.

    Args:
        path: ``tokenizer.json`` (any name that ends so), the ``vocab.txt`` of a WordPiece
            vocabulary, or else a sentencepiece model.

    Raises:
        ValueError: no such file, or it is not of this kind.
    """
    if not os.path.isfile(path):
        raise ValueError(f"--sentencepiece {path}: no such file")
    if path.endswith(".json"):
        return functools.partial(_fast_pieces, _load_fast_tokenizer(path))
    if os.path.basename(path) == "vocab.txt":
        return functools.partial(_fast_pieces, _load_wordpieces(path))
    return functools.partial(_load_sentencepiece(path).encode, out_type=str)


def _load_sentencepiece(path: str) -> Any:
    import sentencepiece

    try:
        # By path: an empty model_proto would be no error.
        return sentencepiece.SentencePieceProcessor(model_file=path)
    except (RuntimeError, OSError) as error:
        message = f"--sentencepiece {path}: not a sentencepiece model ({error})"
        raise ValueError(message) from None


def _load_fast_tokenizer(path: str) -> Any:
    tokenizers = _import_tokenizers(path)
    try:
        return tokenizers.Tokenizer.from_file(path)
    except Exception as error:  # of no class of its own
        raise ValueError(f"--sentencepiece {path}: not a tokenizer.json ({error})") from None


def _load_wordpieces(path: str) -> Any:
    """Load a WordPiece vocabulary; ``tokenizer_config.json`` beside it tells whether it has case.

    If that file does not tell, a vocabulary without capital letters is taken to be uncased.
    """
    tokenizers = _import_tokenizers(path)
    config_file = os.path.join(os.path.dirname(path), "tokenizer_config.json")
    lowercase = _read_lowercase(config_file) if os.path.isfile(config_file) else None
    try:
        if lowercase is None:
            with open(path, encoding="utf-8") as file:
                text = "".join(line for line in file if not line.startswith("["))
            lowercase = text == text.lower()
        return tokenizers.BertWordPieceTokenizer(path, lowercase=bool(lowercase))
    except Exception as error:  # the library raises its own, or TypeError for a missing symbol
        raise ValueError(f"--sentencepiece {path}: not the vocab.txt of a BERT ({error})") from None


def _import_tokenizers(path: str) -> Any:
    try:
        return importlib.import_module("tokenizers")
    except ImportError:
        reason = "the package tokenizers is missing; valid: pip install tokenizers"
        raise ValueError(f"--sentencepiece {path}: {reason}") from None


def _fast_pieces(tokenizer: Any, line: str) -> List[str]:
    """Return the pieces of a line, without special symbols around them."""
    pieces: List[str] = tokenizer.encode(line, add_special_tokens=False).tokens
    return pieces


def _read_lowercase(path: str) -> Any:
    """Return ``do_lower_case`` of a ``tokenizer_config.json``; None if it does not state it."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file).get("do_lower_case")
    except (ValueError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path}: is no readable JSON object ({error})") from None
