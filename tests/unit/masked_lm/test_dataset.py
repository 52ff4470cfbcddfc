"""TLMDataset: what is masked and how, positions, padding."""

import numpy as np
import pytest
import torch

from fairseq_plugins.masked_lm.dataset import MaskingConfig, TLMDataset
from tests import builders
from tests.deltalm_builders import sizes, tensors

BOS, PAD, EOS, MASK = builders.BOS, builders.PAD, builders.EOS, builders.MASK


def dataset(count=40, low=2, high=12, pair=True, languages=(), **masking):
    rows = [builders.sentences(count, seed, low, high) for seed in ((1, 2) if pair else (1,))]
    config = MaskingConfig(**{"mask_prob": 0.15, "one_side_prob": 0.0, "seed": 7, **masking})
    dictionary = builders.dictionary()
    for language in languages:
        dictionary.add_symbol(language)
    data = TLMDataset([tensors(side) for side in rows], [sizes(side) for side in rows], dictionary, config)
    return data, rows


def plain(item):
    return {key: value.tolist() for key, value in item.items() if isinstance(value, torch.Tensor)}


@pytest.mark.parametrize("one_side_prob", [0.0, 1.0])
@pytest.mark.parametrize("pair", [True, False])
def test_targets_are_the_original_tokens_and_special_symbols_stay(one_side_prob, pair):
    data, rows = dataset(one_side_prob=one_side_prob, mask_prob=0.5, pair=pair)
    for epoch in range(1, 6):
        data.set_epoch(epoch)
        for index in range(len(data)):
            item = plain(data[index])
            expected = [token for side in rows for token in (BOS, *side[index], EOS)]  # <s> x </s> <s> y </s>
            assert [old if new == PAD else new for old, new in zip(item["tokens"], item["target"])] == expected
            assert data.sizes[index] == len(item["positions"]) == len(expected)
            for token, target, original in zip(item["tokens"], item["target"], expected):
                assert original not in (BOS, EOS) or (token == original and target == PAD)
                if target != PAD and token != MASK:
                    assert builders.FIRST_PIECE <= token < MASK, "replaced by a special symbol"


def test_random_pieces_are_those_before_mask():
    """Symbols of languages may stand behind it."""
    data, _ = dataset(count=200, languages=["[en]", "[de]"], mask_prob=0.9)
    written = {token for index in range(len(data)) for token in plain(data[index])["tokens"]}
    assert max(written) == MASK and MASK - 1 in written


def test_one_side_is_masked_and_the_other_stays_whole():
    data, rows = dataset(count=400, low=20, high=20, one_side_prob=1.0)
    sides, ratios = [0, 0], []
    for index in range(len(data)):
        item, parts = plain(data[index]), [slice(0, 22), slice(22, None)]
        hit = [any(target != PAD for target in item["target"][part]) for part in parts]
        assert sum(hit) == 1
        side = hit.index(True)
        sides[side] += 1
        for token, target in zip(item["tokens"][parts[side]], item["target"][parts[side]]):
            assert (token == MASK) == (target != PAD), "always <mask>, never a random piece"
        ratios.append(sum(target != PAD for target in item["target"]) / 20)
        assert item["tokens"][parts[1 - side]] == [BOS, *rows[1 - side][index], EOS]
    assert min(sides) > 150
    # U(0.15, 1): mean 0.575, standard deviation 0.245.
    assert np.mean(ratios) == pytest.approx(0.575, abs=0.04)
    assert np.std(ratios) == pytest.approx(0.245, abs=0.03)


def test_positions_restart_and_the_collater_pads_on_the_right():
    data, rows = dataset()
    other = dataset(stream=1)[0]
    assert sum(plain(data[index]) != plain(other[index]) for index in range(40)) > 20, "noise of its own"
    items = [data[index] for index in (4, 0, 7)]
    for index, item in zip((4, 0, 7), items):
        lengths = [len(side[index]) + 2 for side in rows]
        assert item["positions"].tolist() == [PAD + 1 + place for length in lengths for place in range(length)]
    batch = data.collater(items)
    inputs, width = batch["net_input"], max(len(item["tokens"]) for item in items)
    assert (batch["id"].tolist(), batch["nsentences"]) == ([4, 0, 7], 3)
    assert batch["ntokens"] == int(inputs["src_lengths"].sum())
    assert inputs["src_lengths"].tolist() == [len(item["tokens"]) for item in items]
    found = {"tokens": inputs["src_tokens"], "positions": inputs["positions"], "target": batch["target"]}
    for key, value in found.items():
        assert value.tolist() == [item[key].tolist() + [PAD] * (width - len(item[key])) for item in items]
    assert data.collater([]) == {}
