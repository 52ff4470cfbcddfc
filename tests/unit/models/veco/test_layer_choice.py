"""Choices of layers: lists, the last n, every k-th, and what is refused."""

import pytest

from fairseq_plugins.models.veco.layer_choice import parse_layers

OPTION = "--keep-decoder-layers"


@pytest.mark.parametrize(
    ("text", "stack", "expected"),
    [
        ("18,19,20,21,22,23", 24, [18, 19, 20, 21, 22, 23]),
        ("last:6", 24, [18, 19, 20, 21, 22, 23]),
        ("every:4", 24, [3, 7, 11, 15, 19, 23]),
        ("every:3", 4, [0, 3]),
        ("every:1", 3, [0, 1, 2]),
        ("last:1", 1, [0]),
        ("0,5,11", 12, [0, 5, 11]),
    ],
)
def test_choices_by_hand(text, stack, expected):
    assert parse_layers(text, stack, OPTION) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("18,24", "layer 24 is out of range; valid: 0 to 23"),
        ("1,1", "layer 1 twice"),
        ("2,1", "layer 1 behind layer 2"),
        ("last:0", "from 1 to the 24 layers"),
        ("every:0", "from 1 to the 24 layers"),
        ("every:25", "from 1 to the 24 layers"),
        ("first:3", "valid: a list"),
        ("-1", "valid: a list"),
    ],
)
def test_bad_choices_name_option_and_value(text, message):
    with pytest.raises(ValueError, match=message) as caught:
        parse_layers(text, 24, OPTION)
    assert OPTION in str(caught.value) and text in str(caught.value)
