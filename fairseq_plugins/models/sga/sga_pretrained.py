"""Read the masked LM that a config names, and check it against the config and the dictionary."""

import logging
import os
from typing import Any, Mapping

from fairseq.data import Dictionary

from ...checkpoints.pipeline import PretrainedFile, read_masked_lm
from ...checkpoints.vocabulary import read_dictionary

logger = logging.getLogger(__name__)


def read_pretrained(cfg: Any, size_options: Mapping[str, str], dictionary: Dictionary) -> PretrainedFile:
    """Read ``cfg.pretrained_mlm``.

    Args:
        cfg: options; sizes that are set must agree with the file.
        size_options: name of each size in the file -> option.
        dictionary: the task's, with ``<mask>`` as last entry.

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
    heads = cfg.encoder_attention_heads
    found = read_masked_lm(path, default_heads=heads, label="--encoder-attention-heads")
    for name, option in size_options.items():
        wanted = getattr(cfg, option)
        if wanted is not None and wanted != found.sizes[name]:
            raise ValueError(
                f"--{option.replace('_', '-')} (or the --arch) asks for {wanted}, but --pretrained-mlm {path} "
                f"has {found.sizes[name]}; use the --arch that fits, or sga_tiny, which takes every size from the file"
            )
    check_dictionary(found, f"--pretrained-mlm {path}", dictionary)
    return found


def check_dictionary(found: PretrainedFile, origin: str, dictionary: Dictionary) -> None:
    """Compare the data's dictionary with the pretrained model.

    Raises ValueError: number of rows, special symbols, or - where a dict.txt lies beside the model - any entry differs.
    """
    rows, beside = found.sizes["vocab_size"], found.dictionary_path
    if len(dictionary) != rows:
        raise ValueError(
            f"dictionary has {len(dictionary)} entries (<s>, <pad>, </s>, <unk> and <mask> counted), but {origin} "
            f"has {rows} rows; run fairseq-preprocess with the model's own dict.txt as --srcdict and --tgtdict"
        )
    specials = (dictionary.bos(), dictionary.pad(), dictionary.eos(), dictionary.unk(), dictionary.index("<mask>"))
    expected = (0, found.padding_idx, 2, 3, rows - 1)
    if specials != expected:
        raise ValueError(
            f"special symbols <s>, <pad>, </s>, <unk>, <mask> have ids {specials} in the dictionary, but {expected} in {origin}"
        )
    if beside is None:
        logger.warning(
            "%s: no dict.txt beside it, so that of the dictionary only the number of entries and the special symbols are checked",
            origin,
        )
        return
    own = read_dictionary(beside)
    for index in range(min(len(own), rows - 1)):
        if own[index] != dictionary[index]:
            raise ValueError(
                f"dictionary differs from {beside} at entry {index}: {dictionary[index]!r} instead of {own[index]!r}; run "
                "fairseq-preprocess with that dict.txt as --srcdict and --tgtdict"
            )
