"""Test self-learning: seeds, stages, and that it recovers a known map."""

import numpy as np
import pytest
import torch

from fairseq_plugins.ops import word_mapping
from fairseq_plugins.ops.csls import Csls
from fairseq_plugins.ops.neighbours import unit_rows
from fairseq_plugins.ops.word_mapping import Iteration, SelfLearning, learn_maps, normalise
from tests.reference import lexicon_loops as loops


def draw_vectors(words=300, width=12, seed=1):
    """Draw vectors in clusters, as words have them."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(20, width, generator=generator)
    noise = 0.8 * torch.randn(words, width, generator=generator)
    return (centres[torch.arange(words) % 20] + noise) * torch.linspace(2.0, 0.3, width)


def rotate(x, seed=2):
    """Return normalised vectors, their rotated and reordered twins, and each word's partner."""
    generator = torch.Generator().manual_seed(seed)
    rotation = torch.linalg.qr(torch.randn(x.size(1), x.size(1), generator=generator))[0]
    order = torch.randperm(len(x), generator=generator)
    return normalise(x), normalise((x @ rotation)[order]), order.argsort()


def first_pairs(partners, count=40):
    return torch.arange(count), partners[:count]


def mapped_partners(x, y, maps):
    return Csls(unit_rows(x @ maps.source), unit_rows(y @ maps.target)).partners()[0]


def test_the_seed_is_that_of_the_loops():
    vectors = draw_vectors(30).double(), draw_vectors(24, seed=4).double()
    x, y = (normalise(side) for side in vectors)
    signatures = []
    for side, unnormalised in zip((x, y), vectors):
        expected = loops.normalise(unnormalised.numpy())
        np.testing.assert_allclose(side.numpy(), expected, atol=1e-12)
        # As many words as the smaller side has.
        rows = np.sort(loops.root_similarities(side[:24].numpy()), axis=1)
        signatures.append(loops.normalise(rows))
    scores = loops.csls(*signatures, 3)
    forward = [loops.by_rank(row)[0] for row in scores]
    backward = [loops.by_rank(column)[0] for column in zip(*scores)]
    pairs = word_mapping.similarity_seed(x, y, 26, 3)
    assert pairs[0].tolist() == [*range(24), *backward]
    assert pairs[1].tolist() == [*forward, *range(24)]
    assert len(word_mapping.similarity_seed(x, y, 20, 3)[0]) == 40


def test_induced_pairs_are_partners_of_random_ranks():
    sides = (30, 1), (25, 2)
    x, y = (normalise(draw_vectors(count, seed=seed)).double() for count, seed in sides)
    generator = torch.Generator().manual_seed(8)
    pairs, objective = word_mapping.induced_pairs(x, y, 0.3, SelfLearning(neighbours=3), generator)
    generator = torch.Generator().manual_seed(8)
    x_ranks, y_ranks = (
        word_mapping.drawn_ranks(count, 0.3, generator).tolist() for count in (30, 25)
    )
    assert max(x_ranks) > 2
    scores, expected = loops.csls(x.numpy(), y.numpy(), 3), set()
    for i, (row, rank) in enumerate(zip(scores, x_ranks)):
        expected.add((i, loops.by_rank(row)[rank]))
    for j, (column, rank) in enumerate(zip(zip(*scores), y_ranks)):
        expected.add((loops.by_rank(column)[rank], j))
    assert set(zip(*(side.tolist() for side in pairs))) == expected
    assert len(pairs[0]) == 55
    assert objective == pytest.approx(Csls(x, y).certainty().objective)


@pytest.mark.parametrize("reweight", [False, True])
def test_a_known_rotation_is_recovered_without_a_dictionary(reweight):
    for seed in (1, 2, 3):
        x, y, partners = rotate(draw_vectors(seed=seed), seed + 1)
        pairs = word_mapping.similarity_seed(x, y)
        learning = learn_maps(x, y, pairs, SelfLearning(reweight=reweight))
        assert learning.converged
        assert torch.equal(mapped_partners(x, y, learning.maps), partners)
        assert learning.history[-1].objective == pytest.approx(1.0, abs=1e-5)
        first, second = unit_rows(x @ learning.maps.source), unit_rows(y @ learning.maps.target)
        close = {"atol": 2e-3 if reweight else 1e-5, "rtol": 0}
        torch.testing.assert_close(first, second[partners], **close)


def test_stages_rise_when_the_objective_stays(monkeypatch):
    """0.6004 is no improvement by the threshold: the first stage ends two iterations after 0.6."""
    values = iter([0.5, 0.6, 0.6, 0.6004, *[0.7] * 9])
    stages, reports = [], []

    def induce(x, y, keep, options, generator, workspace):
        stages.append(keep)
        places = torch.randint(30, (30,), generator=torch.Generator().manual_seed(len(stages)))
        return (torch.arange(30), places), next(values)

    monkeypatch.setattr(word_mapping, "induced_pairs", induce)
    x = normalise(draw_vectors(30))
    options = SelfLearning(keep=0.3, factor=2.0, patience=2, threshold=1e-3)
    learning = learn_maps(x, x, (torch.arange(30), torch.arange(30)), options, reports.append)
    assert stages == [0.3, 0.3, 0.3, 0.3, 0.6, 0.6, 0.6, 1.0, 1.0]
    assert learning.converged
    assert reports == learning.history
    assert learning.history[1] == Iteration(2, 0.6, 0.3)


def test_iterations_are_limited_and_rare_words_take_no_part():
    x, y, partners = rotate(draw_vectors())
    seed_pairs = first_pairs(partners)

    def learn(**options):
        return learn_maps(x, y, seed_pairs, SelfLearning(**options))

    limited = learn(iterations=3, words=50, neighbours=5)
    assert len(limited.history) == 3 and not limited.converged
    assert len(limited.pairs[0]) == 100
    assert int(limited.pairs[0].max()) == int(limited.pairs[1].max()) == 49
    default, first, second = (
        learn(iterations=3, words=50, **seed) for seed in ({}, {"seed": 1}, {"seed": 2})
    )
    assert torch.equal(first.maps.source, default.maps.source)
    assert first.history != second.history, "the seed must matter"
    seed_only = learn(iterations=0, reweight=False)
    assert seed_only.history == []
    assert torch.equal(mapped_partners(x, y, seed_only.maps), partners)


def test_options_out_of_range_are_refused():
    SelfLearning(words=2, neighbours=1, keep=1.0, patience=1, threshold=0.0, iterations=0, block=1)
    for name, option, value in (
        ("words", "--cutoff", 1),
        ("keep", "--keep", 0.0),
        ("keep", "--keep", 1.5),
        ("factor", "--keep-factor", 1.0),
    ):
        with pytest.raises(ValueError, match=f"{option} {value}: valid: "):
            SelfLearning(**{name: value})
