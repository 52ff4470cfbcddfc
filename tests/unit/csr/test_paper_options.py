"""Test the paper's options: one language per batch (I), neighbours by dot product (III-B)."""

import numpy as np
import pytest
import torch

from data_prep.io import read_json
from data_prep.lexicon.induce import LexiconOptions, induce
from data_prep.lexicon.vectors import WordVectors, write_vectors
from fairseq_plugins.ops.csls import Products
from tests import csr_builders as csr
from tests.unit.data_prep.files import assert_refused, read_lines

# ---- One language per batch. ----

LIMITS = {"max_tokens": 120, "required_batch_size_multiple": 2}


def batches(data):
    return [np.asarray(batch) for batch in data.batch_by_size(data.ordered_indices(), **LIMITS)]


def restore_data(tmp_path, **options):
    return csr.load(csr.setup(csr.write(tmp_path), **options))


def languages(data, batch):
    """Names of the languages of a batch: the last token of a target."""
    return {data.dictionary[int(item["target"][-1])] for item in data.__getitems__(batch.tolist())}


def test_a_batch_has_one_language_and_every_sentence_is_in_one(tmp_path):
    data = restore_data(tmp_path, one_language_per_batch=True)
    found = batches(data)
    assert {len(languages(data, batch)) for batch in found} == {1}
    counts = [sum(languages(data, batch) == {tag} for batch in found) for tag in ("[en]", "[de]")]
    assert min(counts) > 1
    assert sorted(np.concatenate(found).tolist()) == list(range(len(data)))
    assert all(data.sizes[batch].max() * len(batch) <= 120 for batch in found)


def test_items_and_the_default_are_as_before(tmp_path):
    mixed = restore_data(tmp_path / "mixed")
    one = restore_data(tmp_path / "one", one_language_per_batch=True)
    assert any(len(languages(mixed, batch)) == 2 for batch in batches(mixed))
    for index in range(len(mixed)):
        assert torch.equal(mixed[index]["source"], one[index]["source"])
    for data in (mixed, one):
        data.most_batches = 3
        assert len(batches(data)) == 3


# ---- Neighbours. ----


def slow_ranks(x, y, top):
    """Places of the largest dot products of each row, pair by pair."""
    products = [
        [sum(float(a) * float(b) for a, b in zip(first, second)) for second in y] for first in x
    ]
    return [
        sorted(range(len(y)), key=lambda place, row=row: -row[place])[:top] for row in products
    ], products


@pytest.mark.parametrize("block", [3, 100])
def test_products_in_blocks_equal_a_loop(block):
    generator = torch.Generator().manual_seed(4)
    x, y = (torch.randn(n, 5, generator=generator, dtype=torch.float64) for n in (11, 8))
    for (first, second), ranked in zip(((x, y), (y, x)), Products(x, y, block).ranked(3)):
        places, products = slow_ranks(first, second, 3)
        assert ranked.places.tolist() == places
        for row, scores in enumerate(ranked.scores.tolist()):
            assert scores == pytest.approx([products[row][place] for place in places[row]])
    with pytest.raises(ValueError, match="--top must be at least 1; got 0"):
        Products(x, y).ranked(0)


@pytest.fixture
def mapped(tmp_path):
    """Two sides in one space; the vectors of side b have unequal lengths."""
    first = csr.vectors("a", words=60)
    lengths = np.linspace(0.2, 3.0, 60, dtype=np.float32)[:, None]
    second = WordVectors([f"b{number}" for number in range(60)], first.vectors * lengths)
    paths = [tmp_path / "a.vec", tmp_path / "b.vec"]
    write_vectors(paths, "--output", [first, second])
    return paths, torch.from_numpy(first.vectors), torch.from_numpy(second.vectors)


@pytest.mark.parametrize("nearest_by", ["cosine", "dot-product"])
def test_lexicons_list_the_nearest_words(mapped, tmp_path, nearest_by):
    paths, x, y = mapped
    outputs = [tmp_path / "ab.tsv", tmp_path / "ba.tsv"]
    induce(*paths, outputs, tmp_path / "m.json", LexiconOptions(top=3, nearest_by=nearest_by))
    if nearest_by == "cosine":
        x, y = (torch.nn.functional.normalize(side, dim=1) for side in (x, y))
    for output, (first, second), other in zip(outputs, ((x, y), (y, x)), "ba"):
        places, products = slow_ranks(first, second, 3)
        rows = [line.split("\t") for line in read_lines(output)]
        for number, (_, target, score, rank) in enumerate(rows):
            word, place = divmod(number, 3)
            assert float(score) == pytest.approx(products[word][int(target[1:])], abs=2e-3)
            assert target[0] == other and int(rank) == place + 1
    assert read_json(tmp_path / "m.json")["options"]["nearest_by"] == nearest_by


def test_the_three_scores_differ_and_others_are_refused(mapped, tmp_path):
    paths, *_ = mapped
    texts = []
    for nearest_by in ("csls", "cosine", "dot-product"):
        options = LexiconOptions(top=3, nearest_by=nearest_by)
        induce(*paths, [tmp_path / "ab.tsv"], tmp_path / "m.json", options)
        texts.append([line.split("\t")[1] for line in read_lines(tmp_path / "ab.tsv")])
        assert ("nearest_by" in options.as_json()) == (nearest_by != "csls"), (
            "old lexicons stay unchanged"
        )
    assert texts[0] != texts[2] != texts[1]
    assert_refused(
        "--nearest-by euclidean: valid: csls, cosine, dot-product",
        LexiconOptions,
        nearest_by="euclidean",
    )
