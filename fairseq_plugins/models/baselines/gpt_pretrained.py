"""Read the frozen language model that a config names, and bring its rows to the data's dictionary."""

import logging
import re
from dataclasses import replace
from typing import Any, List, Sequence

import torch
from torch import Tensor

from ...checkpoints.families.gpt import OUTPUT
from ...checkpoints.fitting import MARKERS
from ...checkpoints.layouts import WORDS, size_options
from ...checkpoints.loading import listing, load
from ...checkpoints.pretrained import PretrainedFile
from ...checkpoints.readers import read_causal_lm
from ...checkpoints.reading import fingerprint
from ...common.fit_options import check_sizes
from ...modules.frozen import Frozen
from ...modules.option_checks import frozen_path
from ...modules.prefix_decoder import PrefixDecoder

logger = logging.getLogger(__name__)

OPTION = "--pretrained-gpt"
SIZES = {option: size for size, option in size_options("decoder", "max_positions").items()}
"""Option -> field of the layout."""
_NEVER_READ = re.compile(r"<s>|<pad>|<unk>|madeupword\d+")


def build_frozen(cfg: Any, dictionary: Any) -> Frozen:
    """Read ``cfg.pretrained_gpt`` and wrap it: frozen, a row for each entry of the dictionary of both sides, on the CPU, float32.

    Raises ValueError: no or missing file, sizes or dictionary that do not match it.
    """
    path = frozen_path(cfg, "pretrained_gpt", "a Hugging Face GPT-2 folder, or a checkpoint of transformer_lm")
    origin = f"{OPTION} {path}"
    found = read_causal_lm(path, heads=cfg.decoder_attention_heads, label="--decoder-attention-heads")
    sizes = {option: getattr(found.layout, size) for option, size in SIZES.items()}
    check_sizes(sizes, cfg, origin, "; gpt_msp and gpt_msp_tiny take every size from the file")
    rows = matching_rows(found, dictionary, origin)
    tensors = dict(found.tensors)
    for name in (WORDS, OUTPUT):
        if name in tensors:
            tensors[name] = take_rows(tensors[name], rows)
    module = PrefixDecoder(replace(found.layout, vocab_size=len(dictionary)), dictionary, cfg.frozen_dropout)
    load(module, tensors, allow_missing=MARKERS)
    made = fingerprint(tensors)
    logger.info("frozen language model %s: %s, fingerprint %s", path, module.layout, made)
    return Frozen(module, made, path, train_dropout=cfg.frozen_dropout > 0, option=OPTION)


def matching_rows(found: PretrainedFile, dictionary: Any, origin: str) -> List[int]:
    """For each entry of the dictionary (fairseq's) the row of the file that means the same; -1 for entries that no text has.

    Raises ValueError: entries that the file does not have, or no vocabulary beside the file.
    """
    rows = found.layout.vocab_size
    if not found.entries:
        raise ValueError(
            f"{origin}: nothing beside it tells what its {rows:,} rows mean; put its dict.txt or tokenizer there"
        )
    known = {entry: row for row, entry in reversed(list(enumerate(found.entries)))}
    chosen = [known.get(entry, -1) for entry in dictionary.symbols]
    unknown = [
        repr(entry) for entry, row in zip(dictionary.symbols, chosen) if row < 0 and not _NEVER_READ.fullmatch(entry)
    ]
    if unknown:
        raise ValueError(
            f"{origin} has no row for {len(unknown):,} entries of the data's dictionary: {listing(unknown)}; cut the text with the "
            "model's own tokenizer before fairseq-preprocess"
        )
    return chosen


def take_rows(tensor: Tensor, rows: Sequence[int]) -> Tensor:
    """The chosen rows, (V, C); -1 gives the mean of all: of a usual size, and the same in every run."""
    index = torch.tensor(rows)
    mean = tensor.mean(dim=0, keepdim=True, dtype=torch.float64).to(tensor.dtype)
    return torch.cat([tensor, mean])[index.masked_fill(index < 0, tensor.size(0))]
