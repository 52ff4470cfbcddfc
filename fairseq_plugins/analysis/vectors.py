"""Sentence vectors: of every layer of an encoder, kept in memory-mapped files; of the last token of an encoder-decoder.

Shape letters of this file: K layers that are kept, N sentences.
"""

import logging
import os
from dataclasses import dataclass
from typing import Any, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from data_prep.files import atomic_path

from .report import Progress

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class LayerVectors:
    """Vectors of one text.

    Attributes:
        layers: numbers of the layers that are there; 0 is the embedding's output, 1 the first layer's.
        values: (K, N, C) floating-point, mapped from a file: rows are read when they are used, so that all layers of all
            sentences need never lie in memory.
    """

    layers: Tuple[int, ...]
    values: Tensor

    def __len__(self) -> int:
        return self.values.size(1)

    def layer(self, number: int) -> Tensor:
        """(N, C) of one layer. Raises ValueError: that layer is not there."""
        if number not in self.layers:
            raise ValueError(f"layer {number} is not there; valid: {', '.join(map(str, self.layers))}")
        return self.values[self.layers.index(number)]

    def limited(self, limit: Optional[int]) -> "LayerVectors":
        """The first ``limit`` sentences."""
        return self if limit is None else LayerVectors(self.layers, self.values[:, :limit])


def sentence_vectors(
    encoder: Any,
    rows: Sequence[Tensor],
    path: str,
    layers: Optional[Sequence[int]] = None,
    max_tokens: int = 4096,
    name: str = "sentences",
) -> LayerVectors:
    """Average each layer's output over the tokens of each sentence.

    The mean is over all tokens that are not padding, ``<s>``, ``</s>`` and the language's symbol included. The paper says
    "pooled" and no more.

    Args:
        encoder: tokens (B, S) -> list of L + 1 tensors (B, S, C), with ``layout.padding_idx``, as
            ``understanding.encoder.TextEncoder``; in evaluation mode, on the device that is to compute.
        rows: (S,) int64 each; batches hold sentences of similar lengths, the vectors come in the order of ``rows``.
        path: ``.npy`` file that the vectors are written to, float32; it appears when all of them are there.
        layers: which to keep; all when None.
        max_tokens: tokens of a batch with its padding, at most; a longer sentence is a batch of its own.
        name: of the text, for progress.

    Raises:
        ValueError: no such layer, an option out of range, an empty text.
        OSError: the disk is full; nothing is left there.

    Source: Ji et al. 2024, section 3.2.
    """
    device, padding = next(encoder.parameters()).device, encoder.layout.padding_idx
    kept: Tuple[int, ...] = ()
    values: Any = None
    with atomic_path(path) as temporary:
        for numbers in _read_in_batches(rows, max_tokens, name):
            tokens = pad_sequence([rows[number] for number in numbers], True, padding).to(device)
            with torch.no_grad():
                states = encoder(tokens)
            if values is None:
                kept = tuple(range(len(states))) if layers is None else tuple(layers)
                wrong = [layer for layer in kept if not 0 <= layer < len(states)]
                if wrong:
                    raise ValueError(f"--layer {wrong[0]}: valid: 0 (the embedding's output) to {len(states) - 1}")
                values = _reserved(str(temporary), (len(kept), len(rows), states[0].size(2)))
            keep = tokens.ne(padding)
            for place, layer in enumerate(kept):
                values[place, numbers] = mean_over(states[layer], keep).float().cpu().numpy()
        values.flush()
    return LayerVectors(kept, torch.from_numpy(values))


def _reserved(path: str, shape: Tuple[int, ...]) -> Any:
    """A mapped file that has its place on the disk: a page that finds none when it is written ends the process (SIGBUS)."""
    values = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
    with open(path, "rb+") as file:
        os.posix_fallocate(file.fileno(), 0, os.path.getsize(path))
    return values


def mean_over(states: Tensor, keep: Tensor) -> Tensor:
    """(B, S, C) -> (B, C): mean over the tokens where ``keep`` (B, S) is True; here True = not padding."""
    kept = states.masked_fill(~keep[:, :, None], 0.0)  # not a product: 0 times NaN at padding would be NaN
    return kept.sum(1) / keep.sum(1, keepdim=True)


def last_token_vectors(
    model: Any, rows: Sequence[Tensor], eos: int, padding_idx: int, max_tokens: int = 4096, name: str = "sentences"
) -> Tensor:
    """Feed each sentence to encoder and decoder and take the decoder's output where it predicts the last ``</s>``.

    The encoder reads the row; the decoder reads it shifted by one, the row's last token first, as in training. For mBART's
    ``A </s> LANG`` that is ``LANG A </s>``, and the output is taken at the last piece of A. It is the place whose output stock
    ``sentence_prediction`` classifies with a BART: the state has seen the whole sentence and the language.

    Args:
        model: a ``FairseqEncoderDecoderModel`` in evaluation mode, on the device that is to compute.
        rows: (S,) int64 each, with one ``</s>`` at least; the vectors come in their order.
        eos, padding_idx: ids of ``</s>`` and ``<pad>``.
        max_tokens, name: as in :func:`sentence_vectors`.

    Returns:
        (N, C) float32, on the CPU; after the decoder's final layer norm where it has one.

    Raises:
        ValueError: an option out of range, no sentences.

    Source: CSR section V-A, "e_i is the output on the last token from the decoder".
    """
    device = next(model.parameters()).device
    found: List[Tensor] = [torch.empty(0)] * len(rows)
    for numbers in _read_in_batches(rows, max_tokens, name):
        batch = [rows[number] for number in numbers]
        source = pad_sequence(batch, True, padding_idx).to(device)
        previous = pad_sequence([row.roll(1) for row in batch], True, padding_idx).to(device)
        lengths = torch.tensor([len(row) for row in batch], device=device)
        # The last </s> of a row is, in the shifted row, the place of the token before it.
        places = torch.tensor([int(row.eq(eos).nonzero()[-1]) for row in batch], device=device)
        with torch.no_grad():
            encoded = model.encoder(source, src_lengths=lengths)
            states = model.decoder(previous, encoder_out=encoded, features_only=True)[0]
        picked = states[torch.arange(len(batch), device=device), places].float().cpu()
        for number, vector in zip(numbers, picked):
            found[number] = vector
    return torch.stack(found)


def _read_in_batches(rows: Sequence[Tensor], max_tokens: int, name: str) -> Iterator[List[int]]:
    """Numbers of the rows of each batch; logs progress."""
    if max_tokens < 1:
        raise ValueError(f"--max-tokens must be at least 1; got {max_tokens}")
    if not rows:
        raise ValueError(f"{name}: no sentences")
    done, progress = 0, Progress()
    for numbers in batches([len(row) for row in rows], max_tokens):
        yield numbers
        done += len(numbers)
        if progress.is_due():
            logger.info("%s: %d of %d sentences", name, done, len(rows))


def batches(lengths: Sequence[int], max_tokens: int) -> Iterator[List[int]]:
    """Numbers of rows, sorted by length, in batches of at most ``max_tokens`` tokens with padding, and of one row at least."""
    batch: List[int] = []
    for number in sorted(range(len(lengths)), key=lambda number: lengths[number]):
        if batch and (len(batch) + 1) * lengths[number] > max_tokens:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def read_vectors(path: str, option: str = "--vectors") -> LayerVectors:
    """Vectors of a ``.npy`` file: (K, N, C), layers counted from 0, or (N, C), one layer.

    Raises ValueError: no such file, or an array of another kind.
    """
    if not os.path.isfile(path):
        raise ValueError(f"{option} {path}: no such file")
    try:
        array = np.load(path, mmap_mode="c")  # "c": torch warns about arrays that cannot be written
    except ValueError as error:
        raise ValueError(f"{option} {path}: not an array of numbers ({error})") from None
    if not isinstance(array, np.ndarray) or array.dtype.kind != "f" or array.ndim not in (2, 3):
        found = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
        raise ValueError(
            f"{option} {path}: holds {found}; valid: floating-point (layers, sentences, width) or (sentences, width)"
        )
    values = torch.from_numpy(array if array.ndim == 3 else array[None])
    return LayerVectors(tuple(range(len(values))), values)
