"""Sentinels: found by name, added, counted against the worst text; every error names option, value and remedy."""

import pytest

from fairseq_plugins.data.sentinels import Demand, check_sentinels, find_sentinels
from tests import builders
from tests.deltalm_builders import TEMPLATE


def symbols(*names):
    found = builders.dictionary()
    for name in names:
        found.add_symbol(name)
    return found


def test_sentinels_are_counted_from_0_until_one_is_missing():
    found = symbols("<extra_id_1>", "x", "<extra_id_0>", "<extra_id_3>")
    assert find_sentinels(found, TEMPLATE) == [builders.VOCAB + 2, builders.VOCAB]
    assert find_sentinels(found, "[S{}]") == []


def test_added_sentinels_are_the_last_entries():
    found = symbols()
    assert find_sentinels(found, "[S{}]", 3) == [builders.VOCAB, builders.VOCAB + 1, builders.VOCAB + 2]
    assert found.symbols[-3:] == ["[S0]", "[S1]", "[S2]"]


@pytest.mark.parametrize(
    ("names", "template", "add", "words"),
    [
        ([], "<extra>", 5, ["--sentinels", "{}", "'<extra>'"]),
        ([], TEMPLATE, -1, ["--add-sentinels", "0 or more", "-1"]),
        (["<extra_id_0>"], TEMPLATE, 5, ["--add-sentinels must be 0", "<extra_id_0>", "5"]),
    ],
)
def test_wrong_options_are_named(names, template, add, words):
    found = symbols(*names)
    with pytest.raises(ValueError) as error:
        find_sentinels(found, template, add)
    assert all(word in str(error.value) for word in words)
    assert len(found) == builders.VOCAB + len(names)


BLOCKS = Demand("--mask-prob", 0.15, 512, 0)
PAIRS = Demand("--pair-mask-prob", 0.5, 512, 1)


def test_as_many_as_the_worst_text_needs_are_enough():
    check_sentinels(range(26), TEMPLATE, 3.0, [BLOCKS])
    check_sentinels(range(86), TEMPLATE, 3.0, [BLOCKS, PAIRS])
    check_sentinels([], TEMPLATE, 3.0, [])
    check_sentinels(range(1), TEMPLATE, 3.0, [Demand("--mask-prob", 0.15, 31, 0)])  # 30 tokens and </s>: 4.5 corrupted


@pytest.mark.parametrize(
    ("count", "demands", "words"),
    [
        (25, [BLOCKS], ["has 25", "--tokens-per-sample 512", "--mask-prob 0.15", "--mean-span 3.0", "up to 26"]),
        (85, [BLOCKS, PAIRS], ["has 85", "--pair-mask-prob 0.5", "up to 86"]),
        (
            0,
            [BLOCKS],
            ["lacks <extra_id_0>", "--add-sentinels 26", '"<extra_id_0> 0" to "<extra_id_25> 0"', "dict.txt"],
        ),
    ],
)
def test_too_few_are_refused(count, demands, words):
    with pytest.raises(ValueError) as error:
        check_sentinels(range(count), TEMPLATE, 3.0, demands)
    for word in words:
        assert word in str(error.value)
