"""The benchmark of the mapping maps, and its table holds every part of every size."""

import pytest
import torch

from benchmarks import results, word_mapping
from fairseq_plugins.ops.csls import Csls
from fairseq_plugins.ops.neighbours import unit_rows
from fairseq_plugins.ops.word_mapping import orthogonal_maps


def test_the_sides_belong_together() -> None:
    x, y = word_mapping.make_sides(400, 350, 20)
    assert (x.shape, y.shape) == ((400, 20), (350, 20))
    maps = orthogonal_maps(x[:350], y)
    backward = Csls(unit_rows(x @ maps.source), unit_rows(y)).partners()[1]
    assert float((backward == torch.arange(350)).float().mean()) > 0.9


def test_the_table_and_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_mapping, "peak_rates", lambda device: {"gflops": 50.0})
    rows = word_mapping.measure_size((300, 250, 16), 1, torch.device("cpu"))
    assert [row["part"] for row in rows] == [
        "unsupervised seed", "iteration, a tenth seen", "iteration, all seen", "maps of all words", "floor of an iteration",
        "memory of a mapping",
    ]  # fmt: skip
    assert rows[4]["seconds"] == round(2e-9 * 300 * 250 * 16 / 50, 3)
    assert word_mapping.render({"results": rows}).count("\n") == 7
    held = {"results": [{"size": word_mapping.BAR_SIZE, "part": "memory of a mapping", "bytes": 5e9}, *rows]}
    assert results.mapping_memory(held) == [5.0]


def test_sizes() -> None:
    assert word_mapping.parse_sizes("3x4x5,20x30x40") == [(3, 4, 5), (20, 30, 40)]
    for text in ("3x4", "3x4x1", "axbxc", ""):
        with pytest.raises(ValueError, match=f"--sizes {text}: valid: WORDSxWORDSxDIMENSIONS"):
            word_mapping.parse_sizes(text)
