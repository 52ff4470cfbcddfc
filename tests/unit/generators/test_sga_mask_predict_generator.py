"""Free generation: lengths, schedule, per-sentence stopping, batch = single, options, errors."""

import pytest
import torch

from fairseq_plugins.generators.sga_denoising import IterationOptions
from fairseq_plugins.generators.sga_generator import SGAGenerator
from fairseq_plugins.generators.sga_mask_predict_generator import (
    MaskPredictOptions,
    SGAMaskPredictGenerator,
)
from fairseq_plugins.models.sga import SGAModel
from tests import builders

LENGTHS = [7, 4, 6, 5, 9, 3]


def sga_model(device, **options):
    """Random, float64; the blank is likely enough that sentences converge after different numbers of passes."""
    lm = builders.masked_lm(6)
    lm.lm_head.bias.data[builders.BOS] += 4.0
    return builders.sga_model(lm, seed=7, alignment="mask_predict", **options).double().to(device)


def decode(model, rows, extra=0, iterations=4, length_beam=1, **options):
    """One hypothesis a sentence."""
    settings = IterationOptions(**{"max_iter": 9, **options}), MaskPredictOptions(iterations, length_beam)
    generator = SGAMaskPredictGenerator(builders.dictionary(), *settings)
    sample = builders.to_device(builders.batch(rows, extra=extra), model.semantic.key.weight.device)
    found = generator.generate([model], sample)
    assert all(len(sentence) == 1 for sentence in found)
    return [sentence[0] for sentence in found]


@pytest.mark.parametrize(
    "options", [{}, {"length_beam": 3}, {"iterations": 2, "max_iter": 0}, {"adaptive": False, "max_iter": 2}]
)
@pytest.mark.parametrize("model_options", [{}, {"fill_blanks": True}])
def test_a_sentence_decodes_the_same_alone_and_in_any_batch(options, model_options, device):
    model, rows = sga_model(device, **model_options), builders.source_rows(LENGTHS)
    together = decode(model, rows, **options)
    padded = decode(model, rows[::-1], extra=3, **options)[::-1]
    if not options and not model_options:
        assert len({row["steps"] for row in together}) >= 3, "the sentences should stop at different passes"
    for row, source in enumerate(rows):
        alone = decode(model, [source], **options)[0]
        for batch in (together, padded):
            assert batch[row]["tokens"].tolist() == alone["tokens"].tolist()
            assert batch[row]["steps"] == alone["steps"]
            for key in ("score", "positional_scores"):
                torch.testing.assert_close(batch[row][key], alone[key], rtol=1e-9, atol=1e-9)


class Scripted(SGAModel):
    """Lengths 3, 5 and 2 by probability; place p of iteration i is token 10 i + p + 4, sure of it as ``sureness`` says."""

    def reset(self, sureness):
        """Forget what was seen."""
        self.sureness, self.seen, self.projected = sureness, [], []
        log_probs = torch.full((self.length_predictor.max_length,), -9.0)
        log_probs[[2, 4, 1]] = torch.tensor([-0.5, -1.0, -2.0])
        self.lengths_found = log_probs

    def encode(self, src_tokens):
        """The scripted lengths for every sentence."""
        guidance = super().encode(src_tokens)
        return guidance._replace(length_log_probs=self.lengths_found.repeat(len(src_tokens), 1))

    def fill_masks(self, tokens, masked, guidance, lengths):
        """Scripted tokens and log-probabilities of the masked places."""
        assert len(guidance.padding_mask) == len(tokens), "guidance of each candidate"
        self.seen.append(tokens.tolist())
        places = torch.arange(tokens.size(1)).expand_as(tokens)
        scores = torch.tensor(
            [[self.sureness(int(size), place) for place in range(tokens.size(1))] for size in lengths]
        )
        return (10 * (len(self.seen) - 1) + places + 4)[masked], scores[masked]


def scripted(sureness):
    """A scripted model on the CPU."""
    model = builders.sga_model(alignment="mask_predict")
    model.__class__ = Scripted
    model.reset(sureness)
    return model


@pytest.mark.parametrize(
    ("length_beam", "scores", "chosen"),
    [
        (1, {3: -0.5, 5: -0.1, 2: -0.1}, 3),  # the most probable length alone
        (2, {3: -0.5, 5: -0.4, 2: -0.1}, 5),  # the mean, not the sum, which is -2.0 against -1.5
        (3, {3: -0.5, 5: -0.4, 2: -0.1}, 2),
        (3, {3: -0.5, 5: -0.5, 2: -0.5}, 3),
    ],
)
def test_the_length_with_the_best_mean_log_probability_wins(length_beam, scores, chosen):
    model = scripted(lambda size, place: scores[size])
    found = decode(model, builders.source_rows([4, 7]), iterations=1, length_beam=length_beam, max_iter=0)
    assert [len(row["tokens"]) for row in found] == [chosen] * 2
    assert [float(row["score"]) for row in found] == pytest.approx([scores[chosen]] * 2)
    assert len(model.seen[0]) == 2 * length_beam


# ---- Which generator, and what is refused. ----


def _built(model, **options):
    task = builders.task()
    for name, value in options.items():
        setattr(task.cfg, name, value)
    return task.build_generator([] if model is None else [model], type("Args", (), {"iter_decode_max_iter": 2}))


def test_the_least_sure_tokens_are_masked_again_by_a_linear_decay():
    """N = 3, T = 3: 3, 2, 1 masks; what is not masked keeps token and probability; no iteration without a mask is run."""
    mask = builders.MASK
    model = scripted(lambda size, place: [-0.1, -0.3, -0.2][place])
    found = decode(model, builders.source_rows([4]), iterations=3, max_iter=0)
    assert model.seen == [[[mask] * 3], [[4, mask, mask]], [[4, mask, 16]]]
    assert found[0]["tokens"].tolist() == [4, 25, 16]
    assert found[0]["positional_scores"].tolist() == pytest.approx([-0.1, -0.3, -0.2])
    assert float(found[0]["score"]) == pytest.approx(-0.2)
    model.reset(lambda size, place: -0.1)
    decode(model, builders.source_rows([4]), iterations=12, max_iter=0)
    assert len(model.seen) == 9  # 3 (12 - t) / 12 >= 1 up to t = 8


def test_each_sentence_takes_its_own_best_candidate():
    """Candidates of a sentence lie side by side: sentence 0 is surer of length 5, sentence 1 of length 3."""
    scores = iter([-0.5] * 5 + [-0.1] * 10 + [-0.5] * 5)  # lengths 3, 5 of sentence 0, then of 1; five places each
    model = scripted(lambda size, place: next(scores))
    found = decode(model, builders.source_rows([4, 7]), iterations=1, length_beam=2, max_iter=0)
    assert [len(row["tokens"]) for row in found] == [5, 3]


def test_without_denoising_repeats_stay_and_nothing_is_collapsed():
    """Mask-predict has no blank: two equal tokens are two tokens."""
    model = scripted(lambda size, place: -0.1)
    model.fill_masks = lambda *_: (torch.tensor([7, 7, model.blank]), torch.full((3,), -0.1))
    for denoiser, max_iter in ((model.denoiser_prompts, 0), (None, 9)):  # --iter-decode-max-iter 0, --no-denoising
        model.denoiser_prompts = denoiser
        found = decode(model, builders.source_rows([4]), iterations=1, max_iter=max_iter)[0]
        assert (found["tokens"].tolist(), found["steps"]) == ([7, 7, model.blank], 0)


def test_only_masked_places_are_projected_and_history_starts_uncollapsed(device, monkeypatch):
    """At XLM-R's vocabulary the projection costs as much as the layers."""
    model, sizes, original = sga_model(device), [], SGAModel.best_path
    tokens = torch.full((2, 5), builders.MASK, device=device)
    masked = torch.tensor([[1, 0, 1, 0, 0], [0, 0, 0, 1, 0]], device=device).bool()
    guidance = model.encode(builders.pad(builders.source_rows([5, 3])).to(device))
    with monkeypatch.context() as patch:
        patch.setattr(SGAModel, "best_path", lambda self, h, n: sizes.append(h[..., 0].numel()) or original(self, h, n))
        best, scores = model.fill_masks(tokens, masked, guidance, torch.tensor([5, 4], device=device))
    assert sizes == [3] and best.shape == scores.shape == (3,)
    rows = builders.source_rows(LENGTHS)
    alone, found = (decode(model, rows, max_iter=passes, retain_history=True) for passes in (0, 9))
    for row, first in zip(found, alone):
        history = [entry["tokens"].tolist() for entry in row["history"]]
        assert len(history) == row["steps"] + 1
        assert history[0] == first["tokens"].tolist() == first["history"][0]["tokens"].tolist()
        assert history[-1] == row["tokens"].tolist()
    assert "history" not in decode(model, rows)[0]


def test_the_task_builds_the_generator_that_fits_the_model():
    free, ctc = builders.sga_model(alignment="mask_predict"), builders.sga_model()
    assert _built(free).mask_predict == MaskPredictOptions(iterations=4, length_beam=1)
    found = _built(free, mask_predict_iterations=7, length_beam=20)
    assert (found.mask_predict, found.options.max_iter) == (MaskPredictOptions(7, 20), 2)
    for model in (ctc, None):
        assert type(_built(model)) is type(_built(model, mask_predict_iterations=0)) is SGAGenerator


@pytest.mark.parametrize(
    ("alignment", "options", "message"),
    [
        ("mask_predict", {"mask_predict_iterations": 0}, "at least 1 .* got 0.*--alignment ctc --criterion sga_ctc"),
        ("mask_predict", {"length_beam": 0}, r"--length-beam must lie in \[1, 20\].*got 0"),
        ("mask_predict", {"length_beam": 21}, r"--length-beam must lie in \[1, 20\].*got 21"),
        ("ctc", {"mask_predict_iterations": 4}, "--mask-predict-iterations 4: .*--alignment ctc"),
        ("ctc", {"length_beam": 1}, "--length-beam 1: .*--alignment ctc"),
    ],
)
def test_wrong_options_are_named(alignment, options, message):
    with pytest.raises(ValueError, match=message):
        _built(builders.sga_model(alignment=alignment), **options)
