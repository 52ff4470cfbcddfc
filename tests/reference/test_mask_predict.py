"""The batched generator for free generation equals a loop over sentences, iterations and tokens."""

from typing import Any, Dict, List

import pytest
import torch

from fairseq_plugins.generators.denoising import IterationOptions
from fairseq_plugins.generators.sga_mask_predict_generator import MaskPredictOptions, SGAMaskPredictGenerator
from tests import builders
from tests.reference.mask_predict_loops import MaskPredictLoops

SOURCES = [4, 3, 5]


def _model(upsample: int = 2) -> Any:
    lm = builders.masked_lm(5, max_positions=8 * upsample)
    lm.lm_head.bias.data[builders.BOS] += 1.5  # some blanks, so that sentences converge after different passes
    model = builders.sga_model(lm, seed=7, alignment="mask_predict", ctc_upsample=upsample).double()
    with torch.no_grad():
        model.length_predictor.projection.bias[:3] -= 3.0  # lengths of 4 to 8: several are masked in every iteration
    return model


def _generated(model: Any, iterations: int, length_beam: int, passes: int) -> List[Dict[str, Any]]:
    options = IterationOptions(max_iter=passes), MaskPredictOptions(iterations, length_beam)
    sample = builders.batch(builders.source_rows(SOURCES), extra=2)
    return [row[0] for row in SGAMaskPredictGenerator(builders.dictionary(), *options).generate([model], sample)]


@pytest.mark.parametrize(
    ("iterations", "length_beam", "passes", "upsample"),
    [(1, 1, 0, 2), (4, 2, 0, 2), (10, 1, 0, 2), (3, 2, 3, 2), (2, 1, 1, 3)],
)
def test_generation_equals_the_loop(iterations: int, length_beam: int, passes: int, upsample: int) -> None:
    model = _model(upsample)
    loops = MaskPredictLoops(model, builders.HEADS, upsample, builders.PAD)
    found = _generated(model, iterations, length_beam, passes)
    for source, hypothesis in zip(builders.source_rows(SOURCES), found):
        expected = loops.generate(source.tolist(), iterations, length_beam, passes)
        assert hypothesis["tokens"].tolist() == (expected["tokens"] or [builders.EOS])
        assert hypothesis["steps"] == expected["steps"]
        assert float(hypothesis["score"]) == pytest.approx(expected["score"], abs=1e-9)


def test_the_comparison_sees_iterations_lengths_and_passes() -> None:
    """Guards the test above: each of them changes some sentence."""
    model = _model()
    results = [
        [row["tokens"].tolist() for row in _generated(model, *options)]
        for options in ((1, 1, 0), (2, 1, 0), (4, 1, 0), (4, 3, 0), (4, 3, 1), (4, 3, 2))
    ]
    assert all(before != after for before, after in zip(results, results[1:]))
    assert len({len(row) for row in results[0]}) > 1


def test_length_log_probabilities_equal_the_loop() -> None:
    model = _model()
    loops = MaskPredictLoops(model, builders.HEADS, 2, builders.PAD)
    sources = builders.source_rows(SOURCES)
    found = model.encode(builders.batch(sources, extra=2)["net_input"]["src_tokens"]).length_log_probs
    assert found.shape == (len(SOURCES), 8)
    for row, source in zip(found.tolist(), sources):
        assert row == pytest.approx(loops.length_log_probs(source.tolist()), abs=1e-10)
