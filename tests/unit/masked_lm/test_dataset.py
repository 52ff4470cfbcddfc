"""Test TLMDataset: which tokens are masked, by what, positions, padding."""

import numpy as np
import pytest
import torch

from fairseq_plugins.masked_lm.dataset import MaskingConfig, TLMDataset
from tests import builders
from tests.builders import BOS, EOS, MASK, PAD
from tests.deltalm_builders import sizes, tensors


def make_dataset(count=40, low=2, high=12, seeds=(1, 2), languages=(), **masking):
    """Build a dataset of one side per seed, and return its sentences, too."""
    sides = [builders.sentences(count, seed, low, high) for seed in seeds]
    config = MaskingConfig(**{"mask_prob": 0.15, "one_side_prob": 0.0, "seed": 7, **masking})
    dictionary = builders.dictionary()
    for language in languages:
        dictionary.add_symbol(language)
    rows, lengths = [tensors(side) for side in sides], [sizes(side) for side in sides]
    return TLMDataset(rows, lengths, dictionary, config), sides


def as_lists(item):
    return {key: value.tolist() for key, value in item.items() if isinstance(value, torch.Tensor)}


@pytest.mark.parametrize("one_side_prob", [0.0, 1.0])
@pytest.mark.parametrize("seeds", [(1, 2), (1,)])
def test_targets_are_the_original_tokens_and_special_symbols_stay(one_side_prob, seeds):
    data, sides = make_dataset(one_side_prob=one_side_prob, mask_prob=0.5, seeds=seeds)
    for epoch in range(1, 6):
        data.set_epoch(epoch)
        for index in range(len(data)):
            item = as_lists(data[index])
            text = [token for side in sides for token in (BOS, *side[index], EOS)]
            assert data.sizes[index] == len(item["positions"]) == len(text)
            for token, target, original in zip(item["tokens"], item["target"], text):
                if target == PAD:
                    assert token == original
                else:
                    assert target == original not in (BOS, EOS)
                    assert builders.FIRST_PIECE <= token <= MASK


def test_random_pieces_are_those_before_mask():
    """Symbols of languages may follow <mask> in the dictionary."""
    data, _ = make_dataset(count=200, languages=["[en]", "[de]"], mask_prob=0.9)
    tokens = {token for index in range(len(data)) for token in as_lists(data[index])["tokens"]}
    assert max(tokens) == MASK and MASK - 1 in tokens


def test_one_side_is_masked_and_the_other_stays():
    """The ratio follows U(0.15, 1): mean 0.575, standard deviation 0.245."""
    data, sides = make_dataset(count=400, low=20, high=20, one_side_prob=1.0)
    counts, ratios = [0, 0], []
    for index in range(len(data)):
        item = as_lists(data[index])
        tokens = item["tokens"][:22], item["tokens"][22:]
        is_target = np.array(item["target"]).reshape(2, 22) != PAD
        masked = int(is_target[1].any())
        counts[masked] += 1
        assert not is_target[1 - masked].any()
        assert tokens[1 - masked] == [BOS, *sides[1 - masked][index], EOS]
        is_mask = np.array(tokens[masked]) == MASK
        assert (is_mask == is_target[masked]).all(), "always <mask>, never a random piece"
        ratios.append(is_target.sum() / 20)
    assert min(counts) > 150
    assert np.mean(ratios) == pytest.approx(0.575, abs=0.04)
    assert np.std(ratios) == pytest.approx(0.245, abs=0.03)


def test_positions_restart_and_padding_is_on_the_right():
    data, sides = make_dataset()
    items = [data[index] for index in (4, 0, 7)]
    for index, item in zip((4, 0, 7), items):
        positions = []
        for side in sides:
            positions += range(PAD + 1, PAD + 3 + len(side[index]))
        assert item["positions"].tolist() == positions
    batch = data.collater(items)
    inputs, width = batch["net_input"], max(len(item["tokens"]) for item in items)
    assert (batch["id"].tolist(), batch["nsentences"]) == ([4, 0, 7], 3)
    assert inputs["src_lengths"].tolist() == [len(item["tokens"]) for item in items]
    assert batch["ntokens"] == int(inputs["src_lengths"].sum())
    for key, rows in (
        ("tokens", inputs["src_tokens"]),
        ("positions", inputs["positions"]),
        ("target", batch["target"]),
    ):
        expected = [item[key].tolist() + [PAD] * (width - len(item[key])) for item in items]
        assert rows.tolist() == expected
    assert data.collater([]) == {}


def test_streams_have_noise_of_their_own():
    first, second = (make_dataset(stream=stream)[0] for stream in (0, 1))
    differences = [as_lists(first[index]) != as_lists(second[index]) for index in range(40)]
    assert sum(differences) > 20
