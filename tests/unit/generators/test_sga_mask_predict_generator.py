"""Free generation: lengths, schedule, per-sentence stopping, batch = single, options, errors."""

from typing import Any, Dict, List, Sequence

import pytest
import torch
from torch import Tensor

from fairseq_plugins.generators.sga_denoising import IterationOptions
from fairseq_plugins.generators.sga_generator import SGAGenerator
from fairseq_plugins.generators.sga_mask_predict_generator import (
    MaskPredictOptions,
    SGAMaskPredictGenerator,
    mask_predict_options,
)
from fairseq_plugins.models.sga import SGAModel
from tests import builders

LENGTHS = [7, 4, 6, 5, 9, 3]


def sga_model(device: torch.device, **options: Any) -> SGAModel:
    """Random, float64; the blank is likely enough that sentences converge after different numbers of passes."""
    lm = builders.masked_lm(6)
    lm.lm_head.bias.data[builders.BOS] += 4.0
    return builders.sga_model(lm, seed=7, alignment="mask_predict", **options).double().to(device)


def decode(
    model: SGAModel, rows: Sequence[Tensor], extra: int = 0, iterations: int = 4, length_beam: int = 1, **options: Any
) -> List[Dict[str, Any]]:
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
def test_a_sentence_decodes_the_same_alone_and_in_any_batch(
    options: Dict[str, Any], model_options: Dict[str, Any], device: torch.device
) -> None:
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

    def reset(self, sureness: Any) -> None:
        """Forget what was seen."""
        self.sureness, self.seen, self.projected = sureness, [], []
        log_probs = torch.full((self.length_predictor.max_length,), -9.0)
        log_probs[[2, 4, 1]] = torch.tensor([-0.5, -1.0, -2.0])
        self.lengths_found = log_probs

    def encode(self, src_tokens: Tensor) -> Any:
        """The scripted lengths for every sentence."""
        guidance = super().encode(src_tokens)
        return guidance._replace(length_log_probs=self.lengths_found.repeat(len(src_tokens), 1))

    def fill_masks(self, tokens: Tensor, masked: Tensor, guidance: Any, lengths: Tensor) -> Any:
        """Scripted tokens and log-probabilities of the masked places."""
        assert len(guidance.padding_mask) == len(tokens), "guidance of each candidate"
        self.seen.append(tokens.tolist())
        places = torch.arange(tokens.size(1)).expand_as(tokens)
        scores = torch.tensor(
            [[self.sureness(int(size), place) for place in range(tokens.size(1))] for size in lengths]
        )
        return (10 * (len(self.seen) - 1) + places + 4)[masked], scores[masked]


def scripted(sureness: Any) -> Scripted:
    """A scripted model on the CPU."""
    model = builders.sga_model(alignment="mask_predict")
    model.__class__ = Scripted
    model.reset(sureness)
    return model


def test_the_least_sure_tokens_are_masked_again_by_a_linear_decay() -> None:
    """N = 3, T = 3: 3, 2, 1 masks; what is not masked keeps token and probability."""
    mask = builders.MASK
    model = scripted(lambda size, place: [-0.1, -0.3, -0.2][place])
    found = decode(model, builders.source_rows([4]), iterations=3, max_iter=0)
    assert model.seen == [[[mask] * 3], [[4, mask, mask]], [[4, mask, 16]]]
    assert found[0]["tokens"].tolist() == [4, 25, 16]
    assert found[0]["positional_scores"].tolist() == pytest.approx([-0.1, -0.3, -0.2])
    assert float(found[0]["score"]) == pytest.approx(-0.2)


def test_iterations_without_a_mask_left_are_not_run() -> None:
    model = scripted(lambda size, place: -0.1)
    decode(model, builders.source_rows([4]), iterations=12, max_iter=0)
    assert len(model.seen) == 9  # 3 (12 - t) / 12 >= 1 up to t = 8


@pytest.mark.parametrize(
    ("length_beam", "scores", "chosen"),
    [
        (1, {3: -0.5, 5: -0.1, 2: -0.1}, 3),  # the most probable length alone
        (2, {3: -0.5, 5: -0.4, 2: -0.1}, 5),  # the mean, not the sum, which is -2.0 against -1.5
        (3, {3: -0.5, 5: -0.4, 2: -0.1}, 2),
        (3, {3: -0.5, 5: -0.5, 2: -0.5}, 3),
    ],
)
def test_the_length_with_the_best_mean_log_probability_wins(
    length_beam: int, scores: Dict[int, float], chosen: int
) -> None:
    model = scripted(lambda size, place: scores[size])
    found = decode(model, builders.source_rows([4, 7]), iterations=1, length_beam=length_beam, max_iter=0)
    assert [len(row["tokens"]) for row in found] == [chosen] * 2
    assert [float(row["score"]) for row in found] == pytest.approx([scores[chosen]] * 2)
    assert len(model.seen[0]) == 2 * length_beam


def test_each_sentence_takes_its_own_best_candidate() -> None:
    """Candidates of a sentence lie side by side: sentence 0 is surer of length 5, sentence 1 of length 3."""
    model = scripted(lambda size, place: -0.5)
    calls: List[int] = []

    def sureness(size: int, place: int) -> float:
        calls.append(size)
        row = (len(calls) - 1) // 5  # candidates 3, 5 of sentence 0, then of sentence 1; five places each
        return [-0.5, -0.1, -0.1, -0.5][row]

    model.sureness = sureness
    found = decode(model, builders.source_rows([4, 7]), iterations=1, length_beam=2, max_iter=0)
    assert [len(row["tokens"]) for row in found] == [5, 3]


def test_only_masked_places_are_projected(device: torch.device) -> None:
    """At XLM-R's vocabulary the projection costs as much as the layers."""
    model, sizes = sga_model(device), []
    original = model.best_path

    def best_path(hidden: Tensor, lengths: Tensor) -> Any:
        sizes.append(hidden.size(0) * hidden.size(1))
        return original(hidden, lengths)

    model.best_path = best_path
    tokens = torch.full((2, 5), builders.MASK, device=device)
    masked = torch.tensor([[1, 0, 1, 0, 0], [0, 0, 0, 1, 0]], device=device).bool()
    guidance = model.encode(builders.batch(builders.source_rows([5, 3]))["net_input"]["src_tokens"].to(device))
    best, scores = model.fill_masks(tokens, masked, guidance, torch.tensor([5, 4], device=device))
    assert sizes == [3]
    assert best.shape == scores.shape == (3,)


# ---- After mask-predict. ----


def test_without_denoising_repeats_stay_and_nothing_is_collapsed(device: torch.device) -> None:
    """Mask-predict has no blank: two equal tokens are two tokens."""
    model = scripted(lambda size, place: -0.1)
    model.fill_masks = lambda tokens, masked, guidance, lengths: (
        torch.tensor([7, 7, model.blank]),
        torch.tensor([-0.1, -0.1, -0.1]),
    )
    found = decode(model, builders.source_rows([4]), iterations=1, max_iter=0)[0]
    assert found["tokens"].tolist() == [7, 7, model.blank]
    assert found["steps"] == 0


@pytest.mark.parametrize("max_iter", [0, 9])
def test_a_model_without_denoiser_is_mask_predict_alone(max_iter: int, device: torch.device) -> None:
    rows = builders.source_rows(LENGTHS)
    full, alone = sga_model(device), sga_model(device, no_denoising=True)
    alone.load_state_dict(
        {**alone.state_dict(), **{k: v for k, v in full.state_dict().items() if "_prompts" in k and "denois" not in k}}
    )
    with torch.no_grad():
        alone.semantic.load_state_dict(full.semantic.state_dict())
        alone.length_predictor.projection.bias.fill_(-99.0)[:20] = full.length_predictor.projection.bias
        alone.length_predictor.projection.weight[:20] = full.length_predictor.projection.weight
    expected = decode(full, rows, max_iter=0)
    for found, row in zip(decode(alone, rows, max_iter=max_iter), expected):
        assert found["tokens"].tolist() == row["tokens"].tolist()
        assert found["steps"] == 0


def test_converged_sentences_leave_the_batch_and_history_is_kept(device: torch.device) -> None:
    model, rows = sga_model(device), builders.source_rows(LENGTHS)
    alone = decode(model, rows, max_iter=0, retain_history=True)
    sizes: List[int] = []
    original = model.denoise

    def denoise(tokens: Tensor, guidance: Any, lengths: Tensor) -> Tensor:
        sizes.append(len(tokens))
        return original(tokens, guidance, lengths)

    model.denoise = denoise
    found = decode(model, rows, retain_history=True)
    steps = [row["steps"] for row in found]
    assert sizes == [sum(step > number for step in steps) for number in range(max(steps))]
    for row, first in zip(found, alone):
        history = [entry["tokens"].tolist() for entry in row["history"]]
        assert len(history) == row["steps"] + 1
        assert history[0] == first["tokens"].tolist() == first["history"][0]["tokens"].tolist()
        assert history[-1] == row["tokens"].tolist()
        assert len(first["history"]) == 1
    assert "history" not in decode(model, rows)[0]


def test_decoding_is_in_evaluation_mode_and_without_gradient(device: torch.device) -> None:
    lm = builders.masked_lm(5, dropout=0.5, attention_dropout=0.5)
    model = builders.sga_model(lm, alignment="mask_predict", frozen_options={"train_dropout": True}).to(device)
    results = []
    for _ in range(2):
        model.train()
        results.append(decode(model, builders.source_rows([7, 5])))
    assert results[0][0]["tokens"].tolist() == results[1][0]["tokens"].tolist()
    assert not results[0][0]["score"].requires_grad


# ---- Which generator, and what is refused. ----


def _built(model: Any, **options: Any) -> Any:
    task = builders.task()
    for name, value in options.items():
        setattr(task.cfg, name, value)
    return task.build_generator([] if model is None else [model], type("Args", (), {"iter_decode_max_iter": 2}))


def test_the_task_builds_the_generator_that_fits_the_model() -> None:
    free, ctc = builders.sga_model(alignment="mask_predict"), builders.sga_model()
    assert _built(free).mask_predict == MaskPredictOptions(iterations=4, length_beam=1)
    found = _built(free, mask_predict_iterations=7, length_beam=20)
    assert found.mask_predict == MaskPredictOptions(7, 20)
    assert found.options.max_iter == 2
    for model in (ctc, None):
        assert type(_built(model)) is type(_built(model, mask_predict_iterations=0)) is SGAGenerator


@pytest.mark.parametrize(
    ("alignment", "options", "words"),
    [
        (
            "mask_predict",
            {"mask_predict_iterations": 0},
            ["at least 1", "got 0", "--alignment ctc --criterion sga_ctc"],
        ),
        ("mask_predict", {"mask_predict_iterations": -1}, ["--mask-predict-iterations", "got -1"]),
        ("mask_predict", {"length_beam": 0}, ["--length-beam", "[1, 20]", "got 0"]),
        ("mask_predict", {"length_beam": 21}, ["--length-beam", "[1, 20]", "got 21"]),
        ("ctc", {"mask_predict_iterations": 4}, ["--mask-predict-iterations 4", "--alignment ctc"]),
        ("ctc", {"length_beam": 1}, ["--length-beam 1", "--alignment ctc"]),
    ],
)
def test_wrong_options_are_named(alignment: str, options: Dict[str, Any], words: List[str]) -> None:
    with pytest.raises(ValueError) as error:
        _built(builders.sga_model(alignment=alignment), **options)
    for word in words:
        assert word in str(error.value)


def test_prefixes_and_ensembles_are_refused(device: torch.device) -> None:
    model = sga_model(device)
    generator = SGAMaskPredictGenerator(
        builders.dictionary(), IterationOptions(1), mask_predict_options(model, None, None)
    )
    sample = builders.to_device(builders.batch(builders.source_rows([4])), device)
    with pytest.raises(ValueError, match="one model"):
        generator.generate([model, model], sample)
    with pytest.raises(ValueError, match="prefix"):
        generator.generate([model], sample, prefix_tokens=torch.zeros(1, 1, dtype=torch.int64, device=device))
