"""Blocks of tokens under numpy 2, which stays as it is."""

import numpy as np
import torch
from fairseq.data import TokenBlockDataset

import fairseq_plugins  # noqa: F401  patches the stock module


def test_every_sentence_can_be_a_block():
    rows, sizes = [torch.tensor([5, 2]), torch.tensor([6, 7, 2])], np.array([2, 3])
    blocks = TokenBlockDataset(rows, sizes, None, pad=1, eos=2, break_mode="eos")
    assert [block.tolist() for block in blocks] == [[5, 2], [6, 7, 2]]
    assert "compat" not in vars(np) or np.__version__ < "2"
