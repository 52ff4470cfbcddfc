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


def test_sentinels_are_counted_from_0_until_one_is_missing_or_added_at_the_end():
    found = symbols("<extra_id_1>", "x", "<extra_id_0>", "<extra_id_3>")
    assert find_sentinels(found, TEMPLATE) == [builders.VOCAB + 2, builders.VOCAB]
    assert find_sentinels(found, "[S{}]") == []
    assert find_sentinels(found, "[S{}]", 2) == [len(found) - 2, len(found) - 1]
    assert found.symbols[-2:] == ["[S0]", "[S1]"]


@pytest.mark.parametrize(
    ("template", "add", "message"),
    [
        ("<extra>", 5, "--sentinels must have a {} .*'<extra>'"),
        (TEMPLATE, -1, "--add-sentinels must be 0 or more; got -1"),
        ("p{}", 5, "--add-sentinels must be 0 where the dictionary already holds p0; got 5"),
    ],
)
def test_wrong_options_are_named(template, add, message):
    found = symbols()
    with pytest.raises(ValueError, match=message):
        find_sentinels(found, template, add)
    assert len(found) == builders.VOCAB


BLOCKS = Demand("--mask-prob", 0.15, 512, 0)
PAIRS = Demand("--pair-mask-prob", 0.5, 512, 1)


@pytest.mark.parametrize(
    ("need", "demands", "option"), [(26, [BLOCKS], "--mask-prob 0.15"), (86, [BLOCKS, PAIRS], "--pair-mask-prob 0.5")]
)
def test_as_many_as_the_worst_text_needs_are_enough(need, demands, option):
    check_sentinels(range(need), TEMPLATE, 3.0, demands)
    for count, have in ((need - 1, f"has {need - 1}"), (0, "lacks <extra_id_0>")):
        with pytest.raises(ValueError, match=f"{have}, .*--tokens-per-sample 512, {option} .*--add-sentinels {need}"):
            check_sentinels(range(count), TEMPLATE, 3.0, demands)
