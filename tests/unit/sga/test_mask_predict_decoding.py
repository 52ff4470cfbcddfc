"""Test free generation: batch = single, history, options; tests/reference has the slow loop."""

from argparse import Namespace

import pytest

from fairseq_plugins.sga.decoding import IterationOptions, SGAGenerator
from fairseq_plugins.sga.mask_predict import MaskPredictOptions, SGAMaskPredictGenerator
from tests import builders
from tests.unit.sga.decoding import (
    ROWS,
    check_batch_equals_single,
    generate,
    history_tokens,
    output_tokens,
)


def build_model(device, **options):
    """Build a random float64 model whose blank is likely enough for sentences to converge."""
    masked_lm = builders.masked_lm(6)
    masked_lm.lm_head.bias.data[builders.BOS] += 4.0
    options = {"seed": 7, "alignment": "mask_predict", **options}
    return builders.sga_model(masked_lm, **options).double().to(device)


def decode(model, rows=ROWS, extra=0, iterations=4, length_beam=1, max_iter=9, **options):
    settings = IterationOptions(max_iter, **options), MaskPredictOptions(iterations, length_beam)
    generator = SGAMaskPredictGenerator(builders.dictionary(), *settings)
    return generate(generator, model, rows, extra)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"length_beam": 3},
        {"iterations": 2, "max_iter": 0},
        {"adaptive": False, "max_iter": 2},
    ],
)
@pytest.mark.parametrize("fill_blanks", [False, True])
def test_a_sentence_decodes_the_same_alone_and_in_any_batch(options, fill_blanks, device):
    model = build_model(device, fill_blanks=fill_blanks)
    batch = check_batch_equals_single(lambda rows, extra: decode(model, rows, extra, **options))
    if not options and not fill_blanks:
        steps = {sentence[0]["steps"] for sentence in batch}
        assert len(steps) >= 3, "sentences should stop after different passes"


def test_history_starts_with_the_tokens_of_mask_predict(device):
    """These tokens are not collapsed; without a denoiser they are the output."""
    model = build_model(device)
    first = decode(model, max_iter=0, retain_history=True)
    for (hypothesis,), (start,) in zip(decode(model, retain_history=True), first):
        history = history_tokens(hypothesis)
        assert len(history) == hypothesis["steps"] + 1
        assert history[0] == start["tokens"].tolist() == history_tokens(start)[0]
        assert history[-1] == hypothesis["tokens"].tolist()
    model.denoiser_prompts = None  # --no-denoising
    sentences = decode(model)
    assert output_tokens(sentences) == output_tokens(first)
    for (hypothesis,) in sentences:
        assert hypothesis["steps"] == 0 and "history" not in hypothesis


def build_generator(*models, **options):
    task = builders.task(**options)
    return task.build_generator(list(models), Namespace(iter_decode_max_iter=2))


def test_the_task_builds_the_generator_that_fits_the_model():
    model = builders.sga_model(alignment="mask_predict")
    default = MaskPredictOptions(iterations=4, length_beam=1)
    assert build_generator(model).mask_predict == default
    generator = build_generator(model, mask_predict_iterations=7, length_beam=20)
    assert generator.mask_predict == MaskPredictOptions(7, 20)
    assert generator.options.max_iter == 2
    for models in ([builders.sga_model()], []):
        assert type(build_generator(*models)) is SGAGenerator
        assert type(build_generator(*models, mask_predict_iterations=0)) is SGAGenerator
