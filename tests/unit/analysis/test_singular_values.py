"""Singular values and their distances: equal to numpy, and checkpoints of different shapes are refused."""

import numpy as np
import pytest
import torch

from fairseq_plugins.analysis.singular_values import MATRICES, compare, layer_matrices, singular_values
from fairseq_plugins.checkpoints.layouts import expected_shapes, family_layout

SIZES = {"vocab_size": 9, "layers": 3, "embed_dim": 6, "ffn_dim": 10, "heads": 2, "max_positions": 5}


def tensors(seed=1, **changes):
    """Random tensors of an encoder."""
    generator = torch.Generator().manual_seed(seed)
    shapes = expected_shapes(family_layout("mbart", **{**SIZES, **changes}))
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def layers(seed=1, **changes):
    """The matrices of a random encoder."""
    return layer_matrices(tensors(seed, **changes), f"model {seed}")


@pytest.mark.parametrize("shape", [(6, 6), (10, 6), (6, 10), (1, 5)])
def test_singular_values_equal_numpy(shape):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(2))
    found = singular_values(matrix, "x")
    expected = np.linalg.svd(matrix.double().numpy(), compute_uv=False)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10)
    assert float(found.norm()) == pytest.approx(float(matrix.norm()), rel=1e-6)
    torch.testing.assert_close(singular_values(matrix.T, "x"), found)


def test_norms_and_distances_of_two_models_equal_numpy():
    first, second = tensors(1), tensors(2)
    found = {(one.layer, one.matrix): one for one in compare(layers(1), layers(2), ["A", "B"])}
    assert len(found) == 3 * 6
    for (layer, matrix), one in found.items():
        name = f"layers.{layer - 1}.{MATRICES[matrix]}.weight"
        a, b = (np.linalg.svd(side[name].double().numpy(), compute_uv=False) for side in (first, second))
        assert one.first == pytest.approx(np.sqrt((a**2).sum()), rel=1e-9)
        assert one.second == pytest.approx(np.linalg.norm(second[name].numpy()), rel=1e-6)
        assert one.distance == pytest.approx(np.sqrt(((a - b) ** 2).sum()), rel=1e-9)


def test_each_name_is_its_own_matrix():
    """One matrix at a time is doubled: that one's norm doubles, and no other one moves."""
    base = tensors()
    for name, inner in MATRICES.items():
        changed = dict(base)
        changed[f"layers.1.{inner}.weight"] = 2 * base[f"layers.1.{inner}.weight"]
        moved = [
            one for one in compare(layer_matrices(base, "A"), layer_matrices(changed, "B"), ["A", "B"]) if one.distance
        ]
        assert [(one.layer, one.matrix) for one in moved] == [(2, name)]
        assert moved[0].second == pytest.approx(2 * moved[0].first)
        assert moved[0].distance == pytest.approx(moved[0].first), "σ of twice a matrix is twice its σ"


def test_layers_are_in_their_order_beyond_nine():
    base = tensors(layers=11)
    for number in range(11):
        base[f"layers.{number}.fc1.weight"] = torch.full((2, 2), float(number))
    assert [float(layer["FC1"][0, 0]) for layer in layer_matrices(base, "A")] == list(range(11))


def test_what_is_refused(monkeypatch):
    other = tensors(2)
    other["layers.2.fc1.weight"] = torch.zeros(11, 6)
    with pytest.raises(ValueError, match=r"layer 3, FC1 \(fc1.weight\): A has the shape \(10, 6\), B \(11, 6\)"):
        compare(layers(1), layer_matrices(other, "B"), ["A", "B"])
    with pytest.raises(ValueError, match="A has 3 layers, B 2; valid: two models of one shape"):
        compare(layers(1), layers(2, layers=2), ["A", "B"])
    del other["layers.2.fc1.weight"]
    with pytest.raises(ValueError, match=r"B: layer 3 lacks layers\.2\.fc1\.weight"):
        layer_matrices(other, "B")
    with pytest.raises(ValueError, match="C: has no encoder layers"):
        layer_matrices({"embed_tokens.weight": torch.zeros(2, 2)}, "C")
    bad = layers(2)
    bad[1]["V"][0, 0] = float("inf")
    with pytest.raises(ValueError, match="B, layer 2, V: holds numbers that are not finite"):
        compare(layers(1), bad, ["A", "B"])
    original = torch.linalg.svdvals
    monkeypatch.setattr(torch.linalg, "svdvals", lambda matrix: 1.001 * original(matrix))
    with pytest.raises(ValueError, match="A, layer 1, K: ‖σ‖ is .*, the Frobenius norm"):
        compare(layers(1), layers(2), ["A", "B"])
