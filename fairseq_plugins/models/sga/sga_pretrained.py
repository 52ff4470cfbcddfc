"""Read the masked LM that a config names, and check it against the config and the dictionary."""

import logging
from typing import Any, Mapping

from fairseq.data import Dictionary

from ...checkpoints.pretrained import PretrainedFile
from ...checkpoints.readers import read_masked_lm
from ...checkpoints.vocabulary import MASK, check_entries
from ...common.fit_options import check_sizes
from ...modules.option_checks import USE_ITS_DICTIONARY, frozen_path

logger = logging.getLogger(__name__)


def read_pretrained(cfg: Any, size_options: Mapping[str, str], dictionary: Dictionary) -> PretrainedFile:
    """Read ``cfg.pretrained_mlm``; sizes that ``cfg`` sets (``size_options``: name of a size in the file -> option) must agree.

    ``dictionary``: the task's, with ``<mask>`` as last entry. Raises ValueError: no file, or sizes or dictionary that do not match.
    """
    path = frozen_path(cfg, "pretrained_mlm", "a fairseq XLM-R model.pt or a Hugging Face XLM-RoBERTa folder")
    origin = f"--pretrained-mlm {path}"
    found = read_masked_lm(path, heads=cfg.encoder_attention_heads, label="--encoder-attention-heads")
    sizes, rows = {option: found.sizes[name] for name, option in size_options.items()}, found.sizes["vocab_size"]
    check_sizes(sizes, cfg, origin, "; use the --arch that fits, or sga_tiny, which takes every size from the file")
    if len(dictionary) != rows:
        raise ValueError(
            f"dictionary has {len(dictionary)} entries (<s>, <pad>, </s>, <unk> and <mask> counted), but {origin} "
            f"has {rows} rows; run fairseq-preprocess with the model's own dict.txt as --srcdict and --tgtdict"
        )
    specials = (dictionary.bos(), dictionary.pad(), dictionary.eos(), dictionary.unk(), dictionary.index(MASK))
    expected = (0, found.padding_idx, 2, 3, found.mask_row)
    if specials != expected:
        raise ValueError(
            f"special symbols <s>, <pad>, </s>, <unk>, <mask> have ids {specials} in the dictionary, but {expected} in {origin}"
        )
    if not found.entries:
        logger.warning(
            "%s: no dict.txt beside it: only the number of entries and the special symbols are checked", origin
        )
    check_entries(found.entries, dictionary.symbols, origin, "the dict.txt beside it", USE_ITS_DICTIONARY)
    return found
