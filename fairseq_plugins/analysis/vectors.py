"""Sentence vectors: of every layer of an encoder, or of the last token of an encoder-decoder.

Those of an encoder are stored in memory-mapped files. Shape letters of this file: K layers in the
file, N sentences.
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
        layers: numbers of the K layers; 0 is the embedding's output, 1 the first layer's.
        values: (K, N, C) floating-point, mapped from a file: rows are read when they are used, so
            that all layers of all sentences need never lie in memory.
    """

    layers: Tuple[int, ...]
    values: Tensor

    def __len__(self) -> int:
        return self.values.size(1)

    def layer(self, number: int) -> Tensor:
        """Return the vectors (N, C) of a layer. Raises ValueError: that layer is not there."""
        if number not in self.layers:
            valid = ", ".join(map(str, self.layers))
            raise ValueError(f"layer {number} is not there; valid: {valid}")
        return self.values[self.layers.index(number)]

    def limited(self, limit: Optional[int]) -> "LayerVectors":
        """Return the first ``limit`` sentences; all if it is None."""
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

    The mean includes ``<s>``, ``</s>`` and the language's symbol, but no padding. The paper only
    says "pooled".

    Args:
        encoder: tokens (B, S) -> list of L + 1 tensors (B, S, C), with ``layout.padding_idx``, as
            ``TextEncoder``; in evaluation mode, on the device that is to compute.
        rows: (S,) int64 each; batches hold sentences of similar lengths, the vectors come in the
            order of ``rows``.
        path: ``.npy`` file of the vectors, float32; it appears when all of them are there.
        layers: numbers of the layers to write; None = all.
        max_tokens: largest number of tokens of a batch with its padding; a longer sentence is a
            batch by itself.
        name: of the text, for progress.

    Raises:
        ValueError: no such layer, an option out of range, or an empty text.
        OSError: the disk is full; no file is left there.

    Source: Ji et al. 2024, section 3.2.
    """
    device, padding = next(encoder.parameters()).device, encoder.layout.padding_idx
    numbers: Tuple[int, ...] = ()
    values: Any = None
    with atomic_path(path) as temporary:
        for batch in _read_in_batches(rows, max_tokens, name):
            tokens = pad_sequence([rows[row] for row in batch], True, padding).to(device)
            with torch.no_grad():
                states = encoder(tokens)
            if values is None:
                numbers = _check_layers(layers, len(states))
                values = _map_file(str(temporary), (len(numbers), len(rows), states[0].size(2)))
            is_token = tokens.ne(padding)
            for place, layer in enumerate(numbers):
                values[place, batch] = mean_over(states[layer], is_token).float().cpu().numpy()
        values.flush()
    return LayerVectors(numbers, torch.from_numpy(values))


def _check_layers(layers: Optional[Sequence[int]], count: int) -> Tuple[int, ...]:
    """Return the layers to write, of ``count``. Raises ValueError: no such layer."""
    if layers is None:
        return tuple(range(count))
    for layer in layers:
        if not 0 <= layer < count:
            valid = f"0 (the embedding's output) to {count - 1}"
            raise ValueError(f"--layer {layer}: valid: {valid}")
    return tuple(layers)


def _map_file(path: str, shape: Tuple[int, ...]) -> Any:
    """Memory-map a new file, and reserve its space on the disk.

    Without the reservation a full disk would kill the process by SIGBUS when a page is written.
    """
    values = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
    with open(path, "rb+") as file:
        os.posix_fallocate(file.fileno(), 0, os.path.getsize(path))
    return values


def mean_over(states: Tensor, mask: Tensor) -> Tensor:
    """Average ``states`` (B, S, C) over the tokens where ``mask`` (B, S) is True.

    Here True = not padding. Returns (B, C).
    """
    # Not a product: 0 times NaN at padding would be NaN.
    masked = states.masked_fill(~mask[:, :, None], 0.0)
    return masked.sum(1) / mask.sum(1, keepdim=True)


def last_token_vectors(
    model: Any,
    rows: Sequence[Tensor],
    eos: int,
    padding_idx: int,
    max_tokens: int = 4096,
    name: str = "sentences",
) -> Tensor:
    """Compute the decoder's output where it predicts the last ``</s>`` of each sentence.

    The encoder reads the row; the decoder reads it shifted by one, the row's last token first, as
    in training. For mBART's ``A </s> LANG`` that is ``LANG A </s>``, and the output is taken at the
    last piece of A. Stock ``sentence_prediction`` classifies the same output of a BART: its state
    has seen the whole sentence and the language.

    Args:
        model: a ``FairseqEncoderDecoderModel`` in evaluation mode, on the device that is to
            compute.
        rows: (S,) int64 each, with at least one ``</s>``; the vectors come in their order.
        eos, padding_idx: ids of ``</s>`` and ``<pad>``.
        max_tokens, name: as in :func:`sentence_vectors`.

    Returns:
        (N, C) float32, on the CPU; after the decoder's final layer norm if it has one.

    Raises:
        ValueError: an option out of range, or no sentences.

    Source: CSR section V-A, "e_i is the output on the last token from the decoder".
    """
    device = next(model.parameters()).device
    vectors: List[Tensor] = [torch.empty(0)] * len(rows)
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
        outputs = states[torch.arange(len(batch), device=device), places].float().cpu()
        for number, vector in zip(numbers, outputs):
            vectors[number] = vector
    return torch.stack(vectors)


def _read_in_batches(rows: Sequence[Tensor], max_tokens: int, name: str) -> Iterator[List[int]]:
    """Yield the numbers of the rows of each batch, and log progress."""
    if max_tokens < 1:
        raise ValueError(f"--max-tokens must be at least 1; got {max_tokens}")
    if not rows:
        raise ValueError(f"{name}: no sentences")
    count, progress = 0, Progress()
    for numbers in batches([len(row) for row in rows], max_tokens):
        yield numbers
        count += len(numbers)
        if progress.is_due():
            logger.info("%s: %d of %d sentences", name, count, len(rows))


def batches(lengths: Sequence[int], max_tokens: int) -> Iterator[List[int]]:
    """Yield row numbers, sorted by length, in batches of at least one row.

    Larger batches have at most ``max_tokens`` tokens with padding.
    """
    batch: List[int] = []
    for number in sorted(range(len(lengths)), key=lambda number: lengths[number]):
        if batch and (len(batch) + 1) * lengths[number] > max_tokens:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def read_vectors(path: str, option: str = "--vectors") -> LayerVectors:
    """Map a ``.npy`` file: (K, N, C), layers counted from 0, or (N, C), one layer.

    Raises:
        ValueError: no such file, or an array of another kind.
    """
    if not os.path.isfile(path):
        raise ValueError(f"{option} {path}: no such file")
    try:
        array = np.load(path, mmap_mode="c")  # "c": torch warns about arrays that cannot be written
    except ValueError as error:
        raise ValueError(f"{option} {path}: not an array of numbers ({error})") from None
    if not isinstance(array, np.ndarray):
        content = type(array).__name__
    elif array.dtype.kind != "f" or array.ndim not in (2, 3):
        content = f"{array.dtype} {array.shape}"
    else:
        values = torch.from_numpy(array if array.ndim == 3 else array[None])
        return LayerVectors(tuple(range(len(values))), values)
    valid = "floating-point (layers, sentences, width) or (sentences, width)"
    raise ValueError(f"{option} {path}: holds {content}; valid: {valid}")
