"""Reads the frozen language model of a config, and fits its rows to the data's dictionary."""

import logging
import re
from dataclasses import replace
from typing import Any, List, Sequence

import torch
from torch import Tensor

from ...checkpoints.fitting import MARKERS
from ...checkpoints.gpt import OUTPUT, read_causal_lm
from ...checkpoints.layouts import WORDS, size_options
from ...checkpoints.loading import listing, load
from ...checkpoints.pretrained import PretrainedFile
from ...checkpoints.reading import fingerprint
from ...common.frozen import Frozen
from ...common.options import check_sizes, frozen_path
from ...modules.prefix_decoder import PrefixDecoder

logger = logging.getLogger(__name__)

OPTION = "--pretrained-gpt"
SIZES = {option: size for size, option in size_options("decoder", "max_positions").items()}
"""Option -> field of the layout."""
_NEVER_READ = re.compile(r"<s>|<pad>|<unk>|madeupword\d+")
"""Entries of a dictionary that no text holds."""


def build_frozen(cfg: Any, dictionary: Any) -> Frozen:
    """Read ``cfg.pretrained_gpt`` and wrap it: frozen, on the CPU, float32.

    Args:
        dictionary: of both sides; the module gets a row for each of its entries.

    Raises:
        ValueError: no or missing file, or sizes or a dictionary that do not fit it.
    """
    valid = "a Hugging Face GPT-2 folder, or a checkpoint of transformer_lm"
    path = frozen_path(cfg, "pretrained_gpt", valid)
    origin, label = f"{OPTION} {path}", "--decoder-attention-heads"
    pretrained = read_causal_lm(path, heads=cfg.decoder_attention_heads, label=label)
    sizes = {option: getattr(pretrained.layout, size) for option, size in SIZES.items()}
    remedy = "; gpt_msp and gpt_msp_tiny take every size from the file"
    check_sizes(sizes, cfg, origin, remedy)
    rows = matching_rows(pretrained, dictionary, origin)
    tensors = dict(pretrained.tensors)
    for name in (WORDS, OUTPUT):
        if name in tensors:
            tensors[name] = take_rows(tensors[name], rows)
    layout = replace(pretrained.layout, vocab_size=len(dictionary))
    module = PrefixDecoder(layout, dictionary, cfg.frozen_dropout)
    load(module, tensors, allow_missing=MARKERS)
    stamp = fingerprint(tensors)
    logger.info("frozen language model %s: %s, fingerprint %s", path, module.layout, stamp)
    return Frozen(module, stamp, path, train_dropout=cfg.frozen_dropout > 0, option=OPTION)


def matching_rows(pretrained: PretrainedFile, dictionary: Any, origin: str) -> List[int]:
    """Return the row of the file that means the same for each entry of a fairseq dictionary.

    Returns:
        V rows; -1 for an entry that no text holds.

    Raises:
        ValueError: entries that the file does not have, or no vocabulary beside the file.
    """
    if not pretrained.entries:
        rows = pretrained.layout.vocab_size
        remedy = "put its dict.txt or tokenizer there"
        raise ValueError(f"{origin}: nothing beside it tells what its {rows:,} rows mean; {remedy}")
    # The first of several rows with one entry counts.
    row_of = {entry: row for row, entry in reversed(list(enumerate(pretrained.entries)))}
    matches = [row_of.get(entry, -1) for entry in dictionary.symbols]
    pairs = zip(dictionary.symbols, matches)
    unknown = [repr(entry) for entry, row in pairs if row < 0 and not _NEVER_READ.fullmatch(entry)]
    if unknown:
        problem = f"has no row for {len(unknown):,} entries of the data's dictionary"
        remedy = "cut the text with the model's own tokenizer before fairseq-preprocess"
        raise ValueError(f"{origin} {problem}: {listing(unknown)}; {remedy}")
    return matches


def take_rows(tensor: Tensor, rows: Sequence[int]) -> Tensor:
    """Return the rows of an embedding, (V, C), with the mean of all rows in place of row -1.

    The mean has a usual size, and is the same in every run.
    """
    index = torch.tensor(rows)
    mean = tensor.mean(dim=0, keepdim=True, dtype=torch.float64).to(tensor.dtype)  # 1 C
    return torch.cat([tensor, mean])[index.masked_fill(index < 0, tensor.size(0))]
