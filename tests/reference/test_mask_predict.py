"""The batched generator for free generation equals a loop over sentences, iterations and tokens."""

import pytest
import torch

from fairseq_plugins.criterions.sga_mask_predict import SGAMaskPredictConfig, SGAMaskPredictCriterion
from fairseq_plugins.generators.sga_denoising import IterationOptions
from fairseq_plugins.generators.sga_mask_predict_generator import MaskPredictOptions, SGAMaskPredictGenerator
from tests import builders
from tests.reference.mask_predict_loops import MaskPredictLoops, masks_by_ratio

SOURCES, TARGETS = [4, 3, 5], [4, 2, 3]


def _model(upsample=2, **options):
    lm = builders.masked_lm(5, max_positions=8 * upsample)
    lm.lm_head.bias.data[builders.BOS] += 1.5  # some blanks, so that sentences converge after different passes
    model = builders.sga_model(lm, seed=7, alignment="mask_predict", ctc_upsample=upsample, **options).double()
    with torch.no_grad():
        (layer,) = model.length_predictor.children()
        layer.bias[:3] -= 3.0  # lengths of 4 to 8: several are masked in every iteration
    return model


def _generated(model, iterations, length_beam, passes):
    options = IterationOptions(max_iter=passes), MaskPredictOptions(iterations, length_beam)
    sample = builders.batch(builders.source_rows(SOURCES), extra=2)
    return [row[0] for row in SGAMaskPredictGenerator(builders.dictionary(), *options).generate([model], sample)]


@pytest.mark.parametrize(
    ("iterations", "length_beam", "passes", "upsample", "length_from"),
    [(1, 1, 0, 2, "mean"), (4, 2, 0, 2, "mean"), (10, 1, 0, 2, "mean"), (3, 2, 3, 2, "bos"), (2, 1, 1, 3, "mean")],
)
def test_generation_equals_the_loop(iterations, length_beam, passes, upsample, length_from):
    model = _model(upsample, length_from=length_from)
    loops = MaskPredictLoops(model, builders.HEADS, upsample, builders.PAD)
    found = _generated(model, iterations, length_beam, passes)
    for source, hypothesis in zip(builders.source_rows(SOURCES), found):
        expected = loops.generate(source.tolist(), iterations, length_beam, passes)
        assert hypothesis["tokens"].tolist() == (expected["tokens"] or [builders.EOS])
        assert hypothesis["steps"] == expected["steps"]
        assert float(hypothesis["score"]) == pytest.approx(expected["score"], abs=1e-9)


@pytest.mark.parametrize(
    ("smoothing", "all_positions", "length_from", "least"),
    [
        (0.0, False, "mean", 0.2),
        (0.1, False, "mean", 0.7),
        (0.0, True, "mean", 0.2),
        (0.0, False, "bos", 0.2),
        (0.1, True, "bos", 0.2),
    ],
)
def test_losses_with_the_options_of_the_authors_equal_the_loop(smoothing, all_positions, length_from, least):
    """Value of each loss and gradient of every trained parameter; each option alone and all together."""
    model = _model(length_from=length_from)
    sources, targets = builders.source_rows(SOURCES), builders.target_rows(TARGETS)
    cfg = SGAMaskPredictConfig(
        sentence_avg=False, label_smoothing=smoothing, min_mask_ratio=least, denoise_all_positions=all_positions
    )
    torch.manual_seed(5)
    loss, _, logged = SGAMaskPredictCriterion(builders.task(), cfg)(model, builders.batch(sources, targets, extra=1))
    torch.manual_seed(5)
    masks = masks_by_ratio(TARGETS, max(TARGETS), least)
    assert 0 < sum(map(sum, masks)) == logged["nmasked"] < sum(TARGETS), "the seed should mask some tokens, not all"
    loops = MaskPredictLoops(model, builders.HEADS, 2, builders.PAD)
    rows = zip(sources, targets, masks)
    parts = [
        loops.losses(source.tolist(), target[:-1].tolist(), mask, smoothing, all_positions)
        for source, target, mask in rows
    ]
    sums = torch.stack([torch.stack(row) for row in parts]).sum(dim=0)
    torch.testing.assert_close(loss, sums.sum(), rtol=1e-9, atol=1e-9)
    for name, part in zip(("alignment", "length", "denoising"), sums):
        torch.testing.assert_close(logged[f"{name}_loss"], part.detach(), rtol=1e-9, atol=1e-9)
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    ours, theirs = (torch.autograd.grad(value, list(trained.values())) for value in (loss, sums.sum()))
    for name, left, right in zip(trained, ours, theirs):
        torch.testing.assert_close(left, right, rtol=1e-6, atol=1e-8, msg=name)
