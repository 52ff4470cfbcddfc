"""What looks random: unmapped vectors, and words that are not their own partners."""

import torch

from data_prep.lexicon_checks import look

WORDS = [f"a{number}" for number in range(400)], [f"b{number}" for number in range(400)]


def related(noise):
    """Clustered vectors and their noisy copies, in one space."""
    generator = torch.Generator().manual_seed(1)
    centres = torch.randn(30, 20, generator=generator)[torch.arange(400) % 30]
    x = centres + 0.8 * torch.randn(400, 20, generator=generator)
    return x, x + noise * torch.randn(400, 20, generator=generator)


def test_related_vectors_do_not_look_random_and_turned_ones_do():
    x, y = related(0.5)
    verdict = look(x, y, WORDS, 10, 4096)
    assert verdict.alike == {"words": 0, "found": 0.0} and verdict.warnings == []
    assert not verdict.as_json()["looks_random"] and len(verdict.as_json()["not_checked"]) == 1
    assert verdict.found["mutual"] > 1.5 * verdict.chance["mutual"]
    turn = torch.linalg.qr(torch.randn(20, 20, generator=torch.Generator().manual_seed(3)))[0]
    bad = look(x @ turn, y, WORDS, 10, 4096)
    assert bad.as_json()["looks_random"] and len(bad.warnings) == 3
    for name, text in zip(("mutual", "margin", "objective"), bad.warnings):
        assert f"{bad.found[name]:.3f}, and {bad.chance[name]:.3f} after a random rotation" in text


def test_words_that_both_sides_have_should_find_themselves():
    x, y = related(0.3)
    right = look(x, y, (WORDS[0], WORDS[0][:30] + WORDS[1][30:]), 10, 4096)
    assert right.alike["words"] == 30 and right.alike["found"] > 0.8
    assert right.warnings == right.not_checked == []
    wrong = look(x, y, (WORDS[0], WORDS[0][1:31] + WORDS[1][30:]), 10, 4096)  # every word beside its place
    assert wrong.alike == {"words": 30, "found": 0.0} and len(wrong.warnings) == 1
    few = look(x, y, (WORDS[0], WORDS[0][1:20] + WORDS[1][19:]), 10, 4096)
    assert few.warnings == [], "too few to tell"
    assert "both sides have 19 among" in few.not_checked[0]
