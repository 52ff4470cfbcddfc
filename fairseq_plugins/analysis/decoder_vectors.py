"""The embedding of a sentence that an encoder-decoder gives: the decoder's output at its last token."""

import logging
import time
from typing import List, Sequence

import torch
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from .vectors import SECONDS, batches

logger = logging.getLogger(__name__)


def last_token_vectors(
    model: FairseqEncoderDecoderModel,
    rows: Sequence[Tensor],
    eos: int,
    padding_idx: int,
    max_tokens: int = 4096,
    name: str = "sentences",
) -> Tensor:
    """Feed each sentence to encoder and decoder and take the decoder's output where it predicts the last ``</s>``.

    The encoder reads the row; the decoder reads it shifted by one, the row's last token first, as in training. For mBART's
    ``A </s> LANG`` that is ``LANG A </s>``, and the output is taken at the last piece of A. It is the place whose output stock
    ``sentence_prediction`` classifies with a BART: the state has seen the whole sentence and the language.

    Args:
        model: in evaluation mode, on the device that is to compute.
        rows: (S,) int64 each, with one ``</s>`` at least; the vectors come in their order.
        eos, padding_idx: ids of ``</s>`` and ``<pad>``.
        max_tokens: tokens of a batch with its padding, at most; a longer sentence is a batch of its own.
        name: of the text, for progress.

    Returns:
        (N, C) float32, on the CPU; after the decoder's final layer norm where it has one.

    Raises:
        ValueError: an option out of range, no sentences.

    Source: CSR section V-A, "e_i is the output on the last token from the decoder".
    """
    if max_tokens < 1:
        raise ValueError(f"--max-tokens must be at least 1; got {max_tokens}")
    if not rows:
        raise ValueError(f"{name}: no sentences")
    device = next(model.parameters()).device
    found: List[Tensor] = [torch.empty(0)] * len(rows)
    done, said = 0, time.monotonic()
    for numbers in batches([len(row) for row in rows], max_tokens):
        batch = [rows[number] for number in numbers]
        source = pad_sequence(batch, True, padding_idx).to(device)
        previous = pad_sequence([row.roll(1) for row in batch], True, padding_idx).to(device)
        lengths = torch.tensor([len(row) for row in batch], device=device)
        places = torch.tensor([last_place(row, eos) for row in batch], device=device)
        with torch.no_grad():
            encoded = model.encoder(source, src_lengths=lengths)
            states = model.decoder(previous, encoder_out=encoded, features_only=True)[0]
        picked = states[torch.arange(len(batch), device=device), places].float().cpu()
        for number, vector in zip(numbers, picked):
            found[number] = vector
        done += len(numbers)
        if time.monotonic() - said > SECONDS:
            said = time.monotonic()
            logger.info("%s: %d of %d sentences", name, done, len(rows))
    return torch.stack(found)


def last_place(row: Tensor, eos: int) -> int:
    """Place of the last ``</s>`` of a row (S,); in the shifted row that of the token before it."""
    return int(row.eq(eos).nonzero()[-1])
