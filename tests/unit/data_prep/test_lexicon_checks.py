"""What looks random: unmapped vectors, learned maps of unrelated ones; what does not."""

import pytest
import torch

from data_prep.lexicon_checks import look
from fairseq_plugins.ops.word_mapping import SelfLearning, learn_maps, normalise, similarity_seed


def related(noise, seed=1):
    """Clustered vectors and their noisy copies, in one space."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(30, 20, generator=generator)[torch.arange(400) % 30]
    x = centres + 0.8 * torch.randn(400, 20, generator=generator)
    return x, x + noise * torch.randn(400, 20, generator=generator)


WORDS = [f"a{number}" for number in range(400)], [f"b{number}" for number in range(400)]


def test_related_vectors_do_not_look_random_and_turned_ones_do():
    x, y = related(0.5)
    verdict = look(x, y, WORDS, 10, 4096)
    assert verdict.alike == {"words": 0, "found": 0.0}
    assert verdict.warnings == []
    assert not verdict.as_json()["looks_random"]
    unseen = "identical words: both sides have 0 among their 5,000 most frequent ones, and 20 are needed; a map that is consistent "
    assert verdict.as_json()["not_checked"] == [unseen + "but wrong would not be noticed"]
    assert verdict.found["mutual"] > 1.5 * verdict.chance["mutual"]
    turn = torch.linalg.qr(torch.randn(20, 20, generator=torch.Generator().manual_seed(3)))[0]
    bad = look(x @ turn, y, WORDS, 10, 4096)
    assert len(bad.warnings) == 3
    assert bad.as_json()["looks_random"]
    for name, text in zip(("mutual", "margin", "objective"), bad.warnings):
        assert f"{bad.found[name]:.3f}, and {bad.chance[name]:.3f} after a random rotation" in text


@pytest.mark.parametrize("seed", [1, 2])
def test_a_learned_map_of_unrelated_vectors_looks_random(seed):
    x, _ = related(0.5, seed)
    y = torch.randn(400, 20, generator=torch.Generator().manual_seed(seed + 10))
    x, y = normalise(x), normalise(y)
    learned = learn_maps(x, y, similarity_seed(x, y), SelfLearning(patience=3))
    verdict = look(x @ learned.maps.source, y @ learned.maps.target, WORDS, 10, 4096)
    assert any("mutual neighbours" in warning for warning in verdict.warnings)


def test_words_that_both_sides_have_should_find_themselves():
    x, y = related(0.3)
    right = look(x, y, (WORDS[0], WORDS[0][:30] + WORDS[1][30:]), 10, 4096)
    assert right.alike["words"] == 30
    assert right.alike["found"] > 0.8
    assert right.warnings == right.not_checked == []
    moved = WORDS[0][1:31] + WORDS[1][30:]  # every word beside its place
    wrong = look(x, y, (WORDS[0], moved), 10, 4096)
    assert wrong.alike == {"words": 30, "found": 0.0}
    assert wrong.warnings == [
        "of 30 words that both sides have, 0.0% are their own partner: the lexicon looks random, or the two only look alike; "
        "try --seed-from identical"
    ]
    few = look(x, y, (WORDS[0], WORDS[0][1:20] + WORDS[1][19:]), 10, 4096)
    assert few.warnings == [], "too few to tell"
    assert "both sides have 19 among" in few.not_checked[0]
