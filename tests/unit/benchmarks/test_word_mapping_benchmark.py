"""The benchmark of the mapping maps, and its table holds every part of every size."""

import torch

from benchmarks import word_mapping
from fairseq_plugins.ops.csls import Csls
from fairseq_plugins.ops.neighbours import unit_rows
from fairseq_plugins.ops.word_mapping import orthogonal_maps


def test_the_sides_belong_together() -> None:
    x, y = word_mapping.make_sides(400, 350, 20)
    assert (x.shape, y.shape) == ((400, 20), (350, 20))
    maps = orthogonal_maps(x[:350], y)
    backward = Csls(unit_rows(x @ maps.source), unit_rows(y)).partners()[1]
    assert float((backward == torch.arange(350)).float().mean()) > 0.9
