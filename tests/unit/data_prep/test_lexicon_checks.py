"""What looks random: unmapped vectors, learned maps of unrelated ones; what does not."""

import pytest
import torch

from data_prep.lexicon_checks import look
from fairseq_plugins.ops.word_mapping import SelfLearning, learn_maps, normalise, similarity_seed


def related(noise: float, seed: int = 1) -> "tuple[torch.Tensor, torch.Tensor]":
    """Clustered vectors and their noisy copies, in one space."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(30, 20, generator=generator)[torch.arange(400) % 30]
    x = centres + 0.8 * torch.randn(400, 20, generator=generator)
    return x, x + noise * torch.randn(400, 20, generator=generator)


def test_related_vectors_do_not_look_random_and_turned_ones_do() -> None:
    x, y = related(0.5)
    verdict = look(x, y, 10, 4096)
    assert verdict.warnings == []
    assert not verdict.as_json()["looks_random"]
    assert verdict.found["mutual"] > 1.5 * verdict.chance["mutual"]
    turn = torch.linalg.qr(torch.randn(20, 20, generator=torch.Generator().manual_seed(3)))[0]
    bad = look(x @ turn, y, 10, 4096)
    assert len(bad.warnings) == 3
    assert bad.as_json()["looks_random"]
    for name, text in zip(("mutual", "margin", "objective"), bad.warnings):
        assert f"{bad.found[name]:.3f}, and {bad.chance[name]:.3f} after a random rotation" in text


@pytest.mark.parametrize("seed", [1, 2])
def test_a_learned_map_of_unrelated_vectors_looks_random(seed: int) -> None:
    x, _ = related(0.5, seed)
    y = torch.randn(400, 20, generator=torch.Generator().manual_seed(seed + 10))
    x, y = normalise(x), normalise(y)
    learned = learn_maps(x, y, similarity_seed(x, y), SelfLearning(patience=3))
    verdict = look(x @ learned.maps.source, y @ learned.maps.target, 10, 4096)
    assert any("mutual neighbours" in warning for warning in verdict.warnings)


def test_only_the_most_frequent_words_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = related(0.5)
    monkeypatch.setattr("data_prep.lexicon_checks.SAMPLE_WORDS", 100)
    assert look(x, y, 10, 4096) == look(x[:100], y[:100], 10, 4096)
