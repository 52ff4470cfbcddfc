"""How close a decision was is measured where the two sides parted."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from benchmarks.runtime_parity import Differing, render
from fairseq_plugins_runtime.slots import Path, SlotDecoder

ALIGNED = torch.tensor([[[0.0, 1.0, 3.0], [2.0, 1.75, 0.0]]])  # 1 T V: best 2, 0
DENOISED = torch.tensor([[[0.5, 0.0, 0.25], [0.0, 4.0, 4.5]]])  # best 0, 2


class Decoder(SlotDecoder):
    """Gives the slots that it was told, for the second of two sentences."""

    def __init__(self, *passes):
        self.given, self.mask_predict = passes, False

    def passes(self, source):
        np.testing.assert_array_equal(source, [[0, 7, 2, 1], [0, 8, 9, 2]])
        rows = [np.array([[0] * 4, [*tokens, 5, 5]]) for tokens in self.given]
        return [None, SimpleNamespace(passes=len(rows) - 1)], [Path(row, row, row) for row in rows]


def gap(*passes, penalty=0.0):
    """Of the second line; the blank is 2."""
    read = []

    def denoise(tokens, guidance, lengths):
        read.append(tokens.tolist())
        return DENOISED

    model = SimpleNamespace(
        has_denoiser=True,
        fill_blanks=False,
        ctc_projection=lambda penalty: (torch.eye(3), torch.tensor([0.0, 0.0, -penalty])),
        encode=lambda source: source,
        slot_lengths=lambda lengths: lengths // 2,
        align=lambda guidance, lengths: ALIGNED,
        denoise=denoise,
    )
    rows = {"eins": [0, 7, 2], "zwei": [0, 8, 9, 2]}
    runtime = SimpleNamespace(
        _folder=SimpleNamespace(pairs=[None], source_symbols=SimpleNamespace(pad=1)),
        _rows=lambda lines, pair: [rows[line] for line in lines],
        _decoder=Decoder(*passes),
    )
    generator = SimpleNamespace(options=SimpleNamespace(blank_penalty=penalty))
    found = Differing(SimpleNamespace(model=model, generator=generator), runtime, ["eins", "zwei"]).gap(1)
    assert read[:1] in ([], [[list(passes[0])]])
    return found


@pytest.mark.cases(
    "passes expected",
    ([(1, 1)], 2.0),  # the first slot that differs counts
    ([(2, 1)], 0.25),
    ([(2, 0), (2, 2)], 0.25),
    ([(2, 0), (0, 1)], 0.5),
    ([(2, 0), (0, 2)], 0.25),  # nothing differs: the closest call
)
def test_the_gap_is_that_of_the_first_slot_that_differs(passes, expected):
    assert gap(*passes) == pytest.approx(expected)


def test_the_penalty_of_the_blank_counts():
    assert gap((1, 1), penalty=1.5) == pytest.approx(0.5)


def test_gaps_that_are_no_ties_are_counted():
    found = {"case": "toy", "architecture": "sga", "lines": 1000, "identical_int8": 900, "signature": "nrefs:1"}
    found["differing"] = [{"line": 3, "gap": 2e-6}, {"line": 7, "gap": 0.5}]
    found["bleu"] = {"torch": 30.0, "float32": 30.01, "int8": 29.8}
    row = render({"results": [found]}).split("\n")[2]
    assert "| 99.80 % | 5.0e-01 | 1 | 90.0 % | 30.00 | 30.01 | 29.80 | -0.20 |" in row
