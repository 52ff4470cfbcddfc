"""Read the masked LM that a config names, and check it against the config and the dictionary."""

import logging
import os
from typing import Any, Mapping

from fairseq.data import Dictionary

from ...checkpoints.pipeline import PretrainedFile, read_masked_lm
from ...checkpoints.vocabulary import MASK, read_dictionary

logger = logging.getLogger(__name__)


def read_pretrained(cfg: Any, size_options: Mapping[str, str], dictionary: Dictionary) -> PretrainedFile:
    """Read ``cfg.pretrained_mlm``; sizes that ``cfg`` sets must agree with the file.

    ``size_options``: name of each size in the file -> option. ``dictionary``: the task's, with ``<mask>`` as last entry.

    Raises ValueError: no or missing file, sizes or dictionary that do not match it.
    """
    path = cfg.pretrained_mlm
    if not path:
        raise ValueError("--pretrained-mlm is needed: a fairseq XLM-R model.pt or a Hugging Face XLM-RoBERTa folder")
    if not os.path.exists(path):
        raise ValueError(
            f"--pretrained-mlm {path}: no such file or folder. A checkpoint holds only the trained part; when "
            "decoding, give the pretrained model's new place with --model-overrides \"{'pretrained_mlm': 'PATH'}\""
        )
    found = read_masked_lm(path, default_heads=cfg.encoder_attention_heads, label="--encoder-attention-heads")
    for name, option in size_options.items():
        if getattr(cfg, option) not in (None, found.sizes[name]):
            raise ValueError(
                f"--{option.replace('_', '-')} (or the --arch) asks for {getattr(cfg, option)}, but --pretrained-mlm {path} "
                f"has {found.sizes[name]}; use the --arch that fits, or sga_tiny, which takes every size from the file"
            )
    _check_dictionary(found, f"--pretrained-mlm {path}", dictionary)
    return found


def _check_dictionary(found: PretrainedFile, origin: str, dictionary: Dictionary) -> None:
    """Raise ValueError where the number of rows, special symbols, or any entry of a dict.txt beside the model differs."""
    rows, beside = found.sizes["vocab_size"], found.dictionary_path
    if len(dictionary) != rows:
        raise ValueError(
            f"dictionary has {len(dictionary)} entries (<s>, <pad>, </s>, <unk> and <mask> counted), but {origin} "
            f"has {rows} rows; run fairseq-preprocess with the model's own dict.txt as --srcdict and --tgtdict"
        )
    specials = (dictionary.bos(), dictionary.pad(), dictionary.eos(), dictionary.unk(), dictionary.index(MASK))
    expected = (0, found.padding_idx, 2, 3, rows - 1 if found.mask_row is None else found.mask_row)
    if specials != expected:
        raise ValueError(
            f"special symbols <s>, <pad>, </s>, <unk>, <mask> have ids {specials} in the dictionary, but {expected} in {origin}"
        )
    if beside is None:
        logger.warning(
            "%s: no dict.txt beside it, so that of the dictionary only the number of entries and the special symbols are checked",
            origin,
        )
    for index, (own, theirs) in enumerate(
        zip(read_dictionary(beside)[: rows - 1] if beside else (), dictionary.symbols)
    ):
        if own != theirs:
            raise ValueError(
                f"dictionary differs from {beside} at entry {index}: {theirs!r} instead of {own!r}; run fairseq-preprocess with "
                "that dict.txt as --srcdict and --tgtdict"
            )
