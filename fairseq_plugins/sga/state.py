"""State of SGA: the frozen model's file, the trained part of a checkpoint, and the trained pairs.

A checkpoint holds the trained part and the fingerprint of the frozen masked LM (``common.frozen``
writes and compares it), the sizes of that model among its options, and the language pairs that the
prompts were trained on. With ``--save-full-model`` it holds the frozen weights too.

What does not fit is refused: a pretrained file with other entries than the dictionary
(:func:`check_dictionary`) or, without ``--embedding-mismatch truncate``, with more rows; a
checkpoint of another frozen model (by its fingerprint), and frozen weights of other shapes in a
checkpoint (both ``common.frozen``).
"""

import logging
from typing import Any, Dict, List, Optional

import torch
from fairseq.data import Dictionary

from ..checkpoints.fitting import fit_masked_lm
from ..checkpoints.layouts import EPSILON_OPTION, PADDING_IDX
from ..checkpoints.loading import load
from ..checkpoints.masked_lm import FAIRSEQ_EPSILON, has_head, read_masked_lm
from ..checkpoints.pretrained import PretrainedFile
from ..checkpoints.vocabulary import MASK, check_entries
from ..common.fit_options import fit_options
from ..common.frozen import Frozen
from ..common.options import USE_ITS_DICTIONARY, check_sizes, frozen_path, writable
from ..masked_lm.model import MaskedLM, MaskedLMSizes
from .config import SIZE_OPTIONS, SGAConfig

logger = logging.getLogger(__name__)

PAIRS = "trained_pairs"
"""Key of the trained pairs in the task's state."""


# ---- The frozen masked LM. ----


def build_frozen(cfg: SGAConfig, dictionary: Dictionary) -> Frozen:
    """Read the frozen masked LM, on the CPU in float32; see :func:`read_pretrained`."""
    pretrained = read_pretrained(cfg, dictionary)
    sizes = MaskedLMSizes(**{**pretrained.sizes, "vocab_size": len(dictionary)})
    module = MaskedLM(sizes, cfg.frozen_dropout, cfg.frozen_dropout)
    fit_masked_lm(pretrained, module, fit_options(cfg), f"--pretrained-mlm {cfg.pretrained_mlm}")
    load(module, pretrained.tensors)
    logger.info(
        "frozen masked LM %s: %s, fingerprint %s",
        cfg.pretrained_mlm,
        module.sizes,
        pretrained.fingerprint,
    )
    return Frozen(
        module,
        fingerprint=pretrained.fingerprint,
        source=str(cfg.pretrained_mlm),
        save_weights=cfg.save_full_model,
        train_dropout=cfg.frozen_dropout > 0,
    )


def build_empty(cfg: SGAConfig, dictionary: Dictionary) -> Frozen:
    """Build a frozen masked LM of zeros, for a checkpoint that holds the weights.

    Its rows are those of the dictionary. A checkpoint with other rows is refused when it is loaded
    (``common.frozen``); its entries are not compared, because it does not hold them.

    Raises:
        ValueError: the checkpoint does not record a size.
    """
    sizes = {name: getattr(cfg, option) for name, option in SIZE_OPTIONS.items()}
    missing = [option for name, option in SIZE_OPTIONS.items() if sizes[name] is None]
    if missing:
        raise ValueError(
            f"--save-full-model checkpoint without {', '.join(missing)}: it was not written by "
            "this package"
        )
    epsilon = cfg.layer_norm_epsilon or FAIRSEQ_EPSILON  # which older checkpoints do not record
    module = MaskedLM(
        MaskedLMSizes(len(dictionary), padding_idx=dictionary.pad(), epsilon=epsilon, **sizes)
    )
    for parameter in module.parameters():
        torch.nn.init.zeros_(parameter)
    return Frozen(
        module, "", "the checkpoint itself", save_weights=True, train_dropout=cfg.frozen_dropout > 0
    )


def record_sizes(cfg: SGAConfig, frozen: Frozen) -> Dict[str, Any]:
    """Write the sizes into the options, so that a checkpoint tells which model it needs.

    Returns:
        option -> value of what was written.
    """
    fields = {**SIZE_OPTIONS, "epsilon": EPSILON_OPTION}
    recorded = {name: getattr(frozen.module.sizes, field) for field, name in fields.items()}
    with writable(cfg):
        for name, setting in recorded.items():
            setattr(cfg, name, setting)
    return recorded


def read_pretrained(cfg: Any, dictionary: Dictionary) -> PretrainedFile:
    """Read ``cfg.pretrained_mlm`` and check it.

    Args:
        cfg: options; sizes that are set must be those of the file.
        dictionary: of the task, with ``<mask>`` as its last entry.

    Raises:
        ValueError: no file, or its sizes or dictionary do not match.
    """
    path = frozen_path(
        cfg, "pretrained_mlm", "a fairseq XLM-R model.pt or the Hugging Face folder of a masked LM"
    )
    origin = f"--pretrained-mlm {path}"
    pretrained = read_masked_lm(
        path, cfg.encoder_attention_heads, "--encoder-attention-heads", needs_head=False
    )
    if not has_head(pretrained):
        raise ValueError(
            f"{origin} is an encoder without the head of a masked LM, which SGA needs; train one "
            "with fairseq-train DATA --task tlm_pretraining --criterion masked_lm --arch xlmr_mlm "
            f"--init-from-mlm {path} …, and give its checkpoint"
        )
    sizes = {option: pretrained.sizes[name] for name, option in SIZE_OPTIONS.items()}
    sizes[EPSILON_OPTION] = pretrained.sizes["epsilon"]
    check_sizes(
        sizes,
        cfg,
        origin,
        "; use the --arch that fits, or sga_tiny, which takes every size from the file",
    )
    check_dictionary(pretrained, dictionary, origin)
    return pretrained


def check_dictionary(pretrained: PretrainedFile, dictionary: Dictionary, origin: str) -> None:
    """Raise ValueError if special symbols or entries differ from the dictionary's, or rows lack."""
    rows = pretrained.sizes["vocab_size"]
    if len(dictionary) > rows:
        raise ValueError(
            f"dictionary has {len(dictionary)} entries (<s>, <pad>, </s>, <unk> and <mask> "
            f"counted), but {origin} has {rows} rows; run fairseq-preprocess with the model's own "
            "dict.txt as --srcdict and --tgtdict"
        )
    specials = (
        dictionary.bos(),
        dictionary.pad(),
        dictionary.eos(),
        dictionary.unk(),
        dictionary.index(MASK),
    )
    expected = (0, PADDING_IDX, 2, 3, pretrained.mask_row)
    if specials != expected:
        raise ValueError(
            f"special symbols <s>, <pad>, </s>, <unk>, <mask> have ids {specials} in the "
            f"dictionary, but {expected} in {origin}"
        )
    if not pretrained.entries:
        logger.warning(
            "%s: no vocabulary beside it: only the number of entries and the special symbols are "
            "checked",
            origin,
        )
    check_entries(
        pretrained.entries,
        dictionary.symbols,
        origin,
        "the vocabulary beside it",
        USE_ITS_DICTIONARY,
    )


# ---- The pairs that the prompts were trained on. ----


def check_same_pairs(pairs: List[str], trained: Optional[List[str]], origin: str) -> None:
    """Raise ValueError if command line and checkpoint name different pairs; it may name none."""
    if trained and sorted(pairs) != sorted(trained):
        raise ValueError(
            f"{origin} has prompts trained on {', '.join(trained)}, this command line names "
            f"{', '.join(pairs)}; name the same pairs (a new training may start from it with "
            "--finetune-from-model, and any source language may be decoded with --source-lang and "
            "--target-lang alone)"
        )


def check_decoded_pairs(pairs: List[str], target: Optional[str], state: Dict[str, Any]) -> None:
    """Compare the decoded pairs with the checkpoint's, and log those never trained as zero-shot.

    Raises:
        ValueError: the prompts were never trained to write the target language.
    """
    trained = state.get(PAIRS) or pairs
    for pair in set(pairs) - set(trained):
        if not any(name.endswith(f"-{target}") for name in trained):
            raise ValueError(
                f"--target-lang {target}: the prompts of this checkpoint were trained on "
                f"{', '.join(trained)} alone, nothing tells them to write another language (any "
                "source may be decoded); if it is the same language, give the data's files the "
                "name that it had in training"
            )
        logger.info(
            f"zero-shot: {pair} is none of the pairs that the prompts were trained on: "
            f"{', '.join(trained)}"
        )
