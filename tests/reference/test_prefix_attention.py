"""PrefixEncoder against attention over [prefix, own tokens] written as loops (SGA Eq. 1 and 3)."""

import pytest
import torch

from tests import builders
from tests.reference import loops


def random_prefix(length, rows, layers=builders.LAYERS, seed=8):
    """(keys, values) a layer, each (rows, H, P, C / H)."""
    generator = torch.Generator().manual_seed(seed)
    shape = (rows, builders.HEADS, length, builders.WIDTH // builders.HEADS)
    return [tuple(torch.randn(2, *shape, generator=generator, dtype=torch.float64)) for _ in range(layers)]


def _as_vectors(prefix, row, keep=None):
    """Undo the split into heads: one list of (C,) key and value vectors a layer."""
    result = []
    for keys, values in prefix:
        row = min(row, keys.size(0) - 1)
        entries = zip(keys[row].transpose(0, 1).flatten(1), values[row].transpose(0, 1).flatten(1))
        result.append([entry for place, entry in enumerate(entries) if keep is None or bool(keep[place])])
    return result


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("masked", [False, True])
def test_prefix_encoder_equals_the_loops(rows, masked):
    """Every layer's output of every real token, in a padded batch, against each sentence alone without any mask."""
    encoder = builders.masked_lm().double().sentence_encoder
    prefix = random_prefix(4, rows)
    sources = builders.source_rows([5, 3, 6])
    hidden_entries = torch.zeros(3, 4, dtype=torch.bool)
    if masked:
        hidden_entries[0, 3], hidden_entries[1, 0], hidden_entries[2] = True, True, torch.tensor([1, 0, 1, 0]).bool()
    found = encoder(builders.pad(sources), prefix=prefix, prefix_padding_mask=hidden_entries if masked else None)
    assert len(found) == builders.LAYERS
    for row, source in enumerate(sources):
        vectors = _as_vectors(prefix, row, keep=~hidden_entries[row])
        positions = [builders.PAD + 1 + place for place in range(len(source))]
        expected = loops.encode(encoder, source.tolist(), positions, vectors, builders.HEADS)
        for layer in range(builders.LAYERS):
            torch.testing.assert_close(
                found[layer][row, : len(source)], torch.stack(expected[layer]), rtol=1e-10, atol=1e-10
            )
