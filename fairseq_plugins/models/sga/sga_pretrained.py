"""Read the frozen masked LM that a config names, and check it against the config and the dictionary."""

import logging
import os
from pathlib import Path
from typing import Any, Dict, Optional

import torch
from fairseq.data import Dictionary

from ...checkpoints.loading import load
from ...checkpoints.vocabularies import read_dictionary
from ...checkpoints.xlmr import read_masked_lm
from ...modules.frozen import Frozen
from ...modules.prefix_masked_lm import MaskedLM, MaskedLMSizes
from .config import SIZE_OPTIONS, SGAConfig

logger = logging.getLogger(__name__)


def build_frozen(cfg: SGAConfig, dictionary: Dictionary) -> Frozen:
    """Read ``cfg.pretrained_mlm`` and wrap it.

    Args:
        cfg: options; sizes that are set must agree with the file.
        dictionary: the task's, with ``<mask>`` as last entry.

    Returns:
        The frozen masked LM, on the CPU, float32.

    Raises:
        ValueError: no or missing file, sizes or dictionary that do not match it.
    """
    if not cfg.pretrained_mlm:
        raise ValueError("--pretrained-mlm is needed: a fairseq XLM-R model.pt or a Hugging Face XLM-RoBERTa folder")
    if not os.path.exists(cfg.pretrained_mlm):
        raise ValueError(
            f"--pretrained-mlm {cfg.pretrained_mlm}: no such file or folder. A checkpoint holds only the trained part; when "
            "decoding, give the pretrained model's new place with --model-overrides \"{'pretrained_mlm': 'PATH'}\""
        )
    heads = cfg.encoder_attention_heads
    found = read_masked_lm(cfg.pretrained_mlm, default_heads=heads, label="--encoder-attention-heads")
    check_sizes(cfg, found.sizes)
    check_dictionary(cfg.pretrained_mlm, found.sizes, found.dictionary_path, dictionary)
    module = MaskedLM(MaskedLMSizes(**found.sizes), cfg.frozen_dropout, cfg.frozen_dropout)
    load(module, found.tensors)
    logger.info("frozen masked LM %s: %s, fingerprint %s", cfg.pretrained_mlm, module.sizes, found.fingerprint)
    return Frozen(module, found.fingerprint, cfg.pretrained_mlm, cfg.save_full_model, cfg.frozen_dropout > 0)


def build_empty(cfg: SGAConfig, dictionary: Dictionary, fingerprint: str = "") -> Frozen:
    """A frozen masked LM of the config's sizes without weights: for checkpoints that hold them (``--save-full-model``).

    Raises:
        ValueError: a size is not set.
    """
    missing = [option for option in SIZE_OPTIONS.values() if getattr(cfg, option) is None]
    if missing:
        raise ValueError(
            f"--save-full-model checkpoint without {', '.join(missing)}: it was not written by this package"
        )
    sizes: Dict[str, Any] = {name: getattr(cfg, option) for name, option in SIZE_OPTIONS.items()}
    module = MaskedLM(MaskedLMSizes(vocab_size=len(dictionary), padding_idx=dictionary.pad(), **sizes))
    for parameter in module.parameters():
        torch.nn.init.zeros_(parameter)
    return Frozen(module, fingerprint, "the checkpoint itself", True, cfg.frozen_dropout > 0)


def check_sizes(cfg: SGAConfig, sizes: Dict[str, int]) -> None:
    """Raise ValueError where the architecture or the command line asks for another size than the file has."""
    for name, option in SIZE_OPTIONS.items():
        wanted = getattr(cfg, option)
        if wanted is not None and wanted != sizes[name]:
            raise ValueError(
                f"--{option.replace('_', '-')} (or the --arch) asks for {wanted}, but --pretrained-mlm {cfg.pretrained_mlm} "
                f"has {sizes[name]}; use the --arch that fits, or sga_tiny, which takes every size from the file"
            )


def check_dictionary(path: str, sizes: Dict[str, int], beside: Optional[str], dictionary: Dictionary) -> None:
    """Compare the data's dictionary with the pretrained model.

    Raises:
        ValueError: number of rows, special symbols, or - where a dict.txt lies beside the model - any entry differs.
    """
    rows = sizes["vocab_size"]
    if len(dictionary) != rows:
        raise ValueError(
            f"dictionary has {len(dictionary)} entries (<s>, <pad>, </s>, <unk> and <mask> counted), but --pretrained-mlm {path} "
            f"has {rows} rows; run fairseq-preprocess with the model's own dict.txt as --srcdict and --tgtdict"
        )
    specials = (dictionary.bos(), dictionary.pad(), dictionary.eos(), dictionary.unk(), dictionary.index("<mask>"))
    expected = (0, sizes["padding_idx"], 2, 3, rows - 1)
    if specials != expected:
        raise ValueError(
            f"special symbols <s>, <pad>, </s>, <unk>, <mask> have ids {specials} in the dictionary, but {expected} in "
            f"--pretrained-mlm {path}"
        )
    if beside is None:
        logger.warning(
            "--pretrained-mlm %s: no dict.txt beside it, so that of the dictionary only the number of entries and the special "
            "symbols are checked",
            path,
        )
        return
    own = read_dictionary(Path(beside))
    for index in range(min(len(own), rows - 1)):
        if own[index] != dictionary[index]:
            raise ValueError(
                f"dictionary differs from {beside} at entry {index}: {dictionary[index]!r} instead of {own[index]!r}; run "
                "fairseq-preprocess with that dict.txt as --srcdict and --tgtdict"
            )
