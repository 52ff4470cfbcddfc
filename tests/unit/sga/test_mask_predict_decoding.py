"""Free generation: lengths, schedule, batch = single, options, errors; tests/reference has the loop over one sentence."""

from argparse import Namespace

import pytest
import torch

from fairseq_plugins.ops.masks import Places
from fairseq_plugins.sga import free
from fairseq_plugins.sga.decoding import IterationOptions, SGAGenerator
from fairseq_plugins.sga.mask_predict import MaskPredictOptions, SGAMaskPredictGenerator
from tests import builders

LENGTHS = [7, 4, 6, 5, 9, 3]


def sga_model(device, **options):
    """Random, float64; the blank is likely enough that sentences converge after different numbers of passes."""
    lm = builders.masked_lm(6)
    lm.lm_head.bias.data[builders.BOS] += 4.0
    return builders.sga_model(lm, seed=7, alignment="mask_predict", **options).double().to(device)


def decode(model, rows, extra=0, iterations=4, length_beam=1, **options):
    settings = (
        IterationOptions(**{"max_iter": 9, **options}),
        MaskPredictOptions(iterations, length_beam),
    )
    generator = SGAMaskPredictGenerator(builders.dictionary(), *settings)
    sample = builders.to_device(builders.batch(rows, extra=extra), model.semantic.key.weight.device)
    return [hypothesis for (hypothesis,) in generator.generate([model], sample)]


FEW = [{"iterations": 2, "max_iter": 0}, {"adaptive": False, "max_iter": 2}]


@pytest.mark.parametrize("options", [{}, {"length_beam": 3}, *FEW])
@pytest.mark.parametrize("model_options", [{}, {"fill_blanks": True}])
def test_a_sentence_decodes_the_same_alone_and_in_any_batch(options, model_options, device):
    model, rows = sga_model(device, **model_options), builders.source_rows(LENGTHS)
    together = decode(model, rows, **options)
    padded = decode(model, rows[::-1], extra=3, **options)[::-1]
    if not options and not model_options:
        assert len({row["steps"] for row in together}) >= 3, (
            "the sentences should stop at different passes"
        )
    for row, source in enumerate(rows):
        alone = decode(model, [source], **options)[0]
        for batch in (together, padded):
            assert batch[row]["tokens"].tolist() == alone["tokens"].tolist()
            assert batch[row]["steps"] == alone["steps"]
            for key in ("score", "positional_scores"):
                torch.testing.assert_close(batch[row][key], alone[key], rtol=1e-9, atol=1e-9)


def test_only_masked_places_are_projected_and_history_starts_uncollapsed(device, monkeypatch):
    """At XLM-R's vocabulary the projection costs as much as the layers. Mask-predict's own tokens are not collapsed."""
    model, sizes, original = sga_model(device), [], free.linear_best_path
    tokens = torch.full((2, 5), builders.MASK, device=device)
    masked = Places.where(torch.tensor([[1, 0, 1, 0, 0], [0, 0, 0, 1, 0]], device=device).bool())
    guidance = model.encode(builders.pad(builders.source_rows([5, 3])).to(device))
    with monkeypatch.context() as patch:
        patch.setattr(
            free,
            "linear_best_path",
            lambda h, *rest: sizes.append(h[..., 0].numel()) or original(h, *rest),
        )
        best, scores = model.fill_masks(
            tokens, masked, guidance, torch.tensor([5, 4], device=device)
        )
    assert sizes == [3] and best.shape == scores.shape == (3,)
    rows = builders.source_rows(LENGTHS)
    alone, found = (decode(model, rows, max_iter=passes, retain_history=True) for passes in (0, 9))
    for row, first in zip(found, alone):
        history = [entry["tokens"].tolist() for entry in row["history"]]
        assert len(history) == row["steps"] + 1
        assert history[0] == first["tokens"].tolist() == first["history"][0]["tokens"].tolist()
        assert history[-1] == row["tokens"].tolist()
    model.denoiser_prompts = None  # --no-denoising
    for row, first in zip(decode(model, rows), alone):
        assert (row["tokens"].tolist(), row["steps"], "history" in row) == (
            first["tokens"].tolist(),
            0,
            False,
        )


def built(model, **options):
    task = builders.task()
    for name, value in options.items():
        setattr(task.cfg, name, value)
    return task.build_generator([] if model is None else [model], Namespace(iter_decode_max_iter=2))


def test_the_task_builds_the_generator_that_fits_the_model():
    free, ctc = builders.sga_model(alignment="mask_predict"), builders.sga_model()
    assert built(free).mask_predict == MaskPredictOptions(iterations=4, length_beam=1)
    found = built(free, mask_predict_iterations=7, length_beam=20)
    assert (found.mask_predict, found.options.max_iter) == (MaskPredictOptions(7, 20), 2)
    for model in (ctc, None):
        assert type(built(model)) is type(built(model, mask_predict_iterations=0)) is SGAGenerator


def test_wrong_options_are_named():
    for alignment, options, message in (
        (
            "mask_predict",
            {"mask_predict_iterations": 0},
            "at least 1 .* got 0.*--alignment ctc --criterion sga_ctc",
        ),
        ("mask_predict", {"length_beam": 21}, r"--length-beam must lie in \[1, 20\].*got 21"),
        ("ctc", {"length_beam": 1}, "--length-beam 1: .*--alignment ctc"),
    ):
        with pytest.raises(ValueError, match=message):
            built(builders.sga_model(alignment=alignment), **options)
