"""The benchmark of CKA computes CKA, and counts the products that it needs."""

import argparse
from pathlib import Path

import pytest
import torch

from benchmarks import cka
from fairseq_plugins.analysis.vectors import read_vectors
from fairseq_plugins.ops.cka import CrossMoments, linear_cka


def options(**changes: int) -> argparse.Namespace:
    """A small size."""
    return argparse.Namespace(**{"layers": 2, "sentences": 40, "width": 8, "permutations": 2, "rounds": 1, **changes})


def test_every_layer_is_compared_with_its_twin() -> None:
    first, second = (torch.randn(3, 40, 8, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2))
    found = cka.compare_layers(first, second, 0)
    for layer in range(3):
        assert found[layer][:2] == pytest.approx(linear_cka(first[layer], second[layer])[:2], rel=1e-4)


def test_the_files_are_random_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    cka.write_vectors(path, 2, 40, 8, seed=1)
    values, before = read_vectors(str(path)).values, path.stat().st_mtime_ns
    assert float(values.std()) == pytest.approx(1.0, abs=0.1)
    assert not torch.equal(values[0], values[1])
    cka.write_vectors(path, 2, 40, 8, seed=1)
    assert path.stat().st_mtime_ns == before
    cka.write_vectors(path, 3, 40, 8, seed=1)
    assert len(read_vectors(str(path)).values) == 3


@pytest.mark.parametrize("permutations", [0, 2])
def test_the_operations_are_those_of_the_products(permutations: int, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []
    original = CrossMoments.add

    def add(self: CrossMoments, x: torch.Tensor, y: torch.Tensor) -> None:
        counted.append(2 * len(x) * x.size(1) * y.size(1))
        original(self, x, y)

    monkeypatch.setattr(CrossMoments, "add", add)
    size = options()
    cka.compare_layers(torch.randn(2, 40, 8), torch.randn(2, 40, 8), permutations)
    assert sum(counted) == pytest.approx(1e9 * cka.gigaflops(size, permutations))


def test_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cka, "peak_rates", lambda device: {"gflops": 100.0})
    results = cka.measure_all(options(width=64, sentences=400), tmp_path)
    assert [row["permutations"] for row in results] == [0, 2]
    assert results[1]["gflop"] == pytest.approx(results[0]["gflop"] * 5 / 3, abs=0.1)
    assert cka.render({"results": results}).count("\n") == 3
