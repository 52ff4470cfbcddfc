"""Self-learning: seeds, stages, and that it recovers what is known."""

import numpy as np
import pytest
import torch

from fairseq_plugins.ops import word_mapping
from fairseq_plugins.ops.csls import Csls
from fairseq_plugins.ops.neighbours import unit_rows
from fairseq_plugins.ops.word_mapping import Iteration, SelfLearning, learn_maps, normalise
from tests.reference import lexicon_loops as loops


def vocabulary(words=300, width=12, seed=1):
    """Vectors in clusters, as words have them."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(20, width, generator=generator)
    scale = torch.linspace(2.0, 0.3, width)
    return (centres[torch.arange(words) % 20] + 0.8 * torch.randn(words, width, generator=generator)) * scale


def turned(x, seed=2):
    """Both sides normalised, the second one turned and in another order; and where each word of the first is."""
    generator = torch.Generator().manual_seed(seed)
    turn = torch.linalg.qr(torch.randn(x.size(1), x.size(1), generator=generator))[0]
    order = torch.randperm(len(x), generator=generator)
    return normalise(x), normalise((x @ turn)[order]), order.argsort()


def few(places, count=40):
    return torch.arange(count), places[:count]


def best_of(scores):
    """The best partner of each row and of each column, by the loops."""
    return [loops.by_rank(row)[0] for row in scores], [loops.by_rank(row)[0] for row in zip(*scores)]


def test_the_seed_is_that_of_the_loops():
    vectors = vocabulary(30).double(), vocabulary(24, seed=4).double()
    x, y = (normalise(side) for side in vectors)
    signatures = []
    for side, plain in zip((x, y), vectors):
        np.testing.assert_allclose(side.numpy(), loops.normalise(plain.numpy()), atol=1e-12)
        rows = np.sort(loops.root_similarities(side[:24].numpy()), axis=1)  # as many words as the smaller side has
        signatures.append(loops.normalise(rows))
    forward, backward = best_of(loops.csls(*signatures, 3))
    pairs = word_mapping.similarity_seed(x, y, 26, 3)
    assert pairs[0].tolist() == [*range(24), *backward]
    assert pairs[1].tolist() == [*forward, *range(24)]
    assert len(word_mapping.similarity_seed(x, y, 20, 3)[0]) == 40


def test_induced_pairs_are_partners_of_the_drawn_ranks():
    x, y = (normalise(vocabulary(count, seed=seed)).double() for count, seed in ((30, 1), (25, 2)))
    options = SelfLearning(neighbours=3)
    (first, second), objective = word_mapping.induced_pairs(x, y, 0.3, options, torch.Generator().manual_seed(8))
    generator = torch.Generator().manual_seed(8)
    ranks = [word_mapping.drawn_ranks(count, 0.3, generator).tolist() for count in (30, 25)]
    assert max(ranks[0]) > 2
    scores = loops.csls(x.numpy(), y.numpy(), 3)
    forward = {(i, loops.by_rank(row)[rank]) for i, (row, rank) in enumerate(zip(scores, ranks[0]))}
    backward = {(loops.by_rank(row)[rank], j) for j, (row, rank) in enumerate(zip(zip(*scores), ranks[1]))}
    assert set(zip(first.tolist(), second.tolist())) == forward | backward
    assert len(first) == 55
    assert objective == pytest.approx(Csls(x, y).certainty().objective)


@pytest.mark.parametrize("reweight", [False, True])
def test_a_known_rotation_is_found_without_a_dictionary(reweight):
    for seed in (1, 2, 3):
        x, y, places = turned(vocabulary(seed=seed), seed + 1)
        learned = learn_maps(x, y, word_mapping.similarity_seed(x, y), SelfLearning(reweight=reweight))
        assert learned.converged
        mapped = unit_rows(x @ learned.maps.source), unit_rows(y @ learned.maps.target)
        assert torch.equal(Csls(*mapped).partners()[0], places)
        assert learned.history[-1].objective == pytest.approx(1.0, abs=1e-5)
        torch.testing.assert_close(mapped[0], mapped[1][places], atol=2e-3 if reweight else 1e-5, rtol=0)


def test_stages_rise_when_the_objective_stays(monkeypatch):
    values = iter([0.5, 0.6, 0.6, 0.6004, 0.7, 0.7, 0.7, 0.7, 0.7, 0.7, 0.7, 0.7, 0.7])
    seen = []

    def induced(x, y, keep, *rest):
        seen.append(keep)
        draw = torch.randint(30, (30,), generator=torch.Generator().manual_seed(len(seen)))
        return (torch.arange(30), draw), next(values)

    monkeypatch.setattr(word_mapping, "induced_pairs", induced)
    x = normalise(vocabulary(30))
    reported = []
    options = SelfLearning(keep=0.3, factor=2.0, patience=2, threshold=1e-3)
    learned = learn_maps(x, x, (torch.arange(30), torch.arange(30)), options, reported.append)
    # 0.6004 is no improvement by the threshold: the first stage ends with it, two iterations after 0.6.
    assert seen == [0.3, 0.3, 0.3, 0.3, 0.6, 0.6, 0.6, 1.0, 1.0]
    assert learned.converged
    assert reported == learned.history
    assert learned.history[1] == Iteration(2, 0.6, 0.3)


def test_the_iterations_end_none_means_the_seed_alone_and_rare_words_do_not_take_part():
    x, y, places = turned(vocabulary())
    cut = learn_maps(x, y, few(places), SelfLearning(iterations=3, words=50, neighbours=5))
    assert len(cut.history) == 3 and not cut.converged
    assert len(cut.pairs[0]) == 100
    assert int(cut.pairs[0].max()) == int(cut.pairs[1].max()) == 49
    again, other = (learn_maps(x, y, few(places), SelfLearning(iterations=3, words=50, seed=seed)) for seed in (1, 2))
    default = learn_maps(x, y, few(places), SelfLearning(iterations=3, words=50))
    assert torch.equal(again.maps.source, default.maps.source)
    assert again.history != other.history, "the seed decides"
    alone = learn_maps(x, y, few(places), SelfLearning(iterations=0, reweight=False))
    assert alone.history == []
    assert torch.equal(Csls(unit_rows(x @ alone.maps.source), y).partners()[0], places)


def test_options_out_of_range_are_refused():
    SelfLearning(words=2, neighbours=1, keep=1.0, patience=1, threshold=0.0, iterations=0, block=1)
    wrong = ("words", "--cutoff", 1), ("keep", "--keep", 0.0), ("keep", "--keep", 1.5), ("factor", "--keep-factor", 1.0)
    for name, option, value in wrong:
        with pytest.raises(ValueError, match=f"{option} {value}: valid: "):
            SelfLearning(**{name: value})
