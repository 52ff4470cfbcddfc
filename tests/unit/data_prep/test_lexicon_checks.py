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
