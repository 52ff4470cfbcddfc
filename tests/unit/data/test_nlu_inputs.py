"""Inputs of the encoders: the four formats by hand, what is cut, what is refused."""

import pytest
import torch

from fairseq_plugins.data.nlu_inputs import INPUT_FORMATS, InputFormat, cut_lengths
from tests.builders import BOS, EOS

A, B = [11, 12, 13], [21, 22]
LANG = 99


def assemble(name, texts, room=50):
    """The tokens, with the symbol of the language where the format has one."""
    made = InputFormat(name, BOS, EOS)
    language = LANG if made.needs_language else None
    return made.assemble([torch.tensor(text, dtype=torch.int32) for text in texts], room, language).tokens.tolist()


@pytest.mark.parametrize(
    ("name", "one", "two"),
    [
        ("xlmr", [BOS, *A, EOS], [BOS, *A, EOS, EOS, *B, EOS]),
        ("bert", [BOS, *A, EOS], [BOS, *A, EOS, *B, EOS]),
        ("mbart", [*A, EOS, LANG], [*A, EOS, *B, EOS, LANG]),
        ("mbart50", [LANG, *A, EOS], [LANG, *A, EOS, *B, EOS]),
    ],
)
def test_formats_by_hand(name, one, two):
    assert assemble(name, [A]) == one
    assert assemble(name, [A, B]) == two
    made = InputFormat(name, BOS, EOS)
    assert (made.added(1), made.added(2)) == (len(one) - len(A), len(two) - len(A) - len(B))
    assert made.needs_language == (LANG in one)


@pytest.mark.parametrize("name", list(INPUT_FORMATS))
def test_starts_and_kept_point_at_the_pieces(name):
    made = InputFormat(name, BOS, EOS)
    language = LANG if made.needs_language else None
    for room in (50, made.added(2) + 4, made.added(2) + 2):
        found = made.assemble([torch.tensor(A), torch.tensor(B)], room, language)
        assert len(found.tokens) <= room
        for text, start, kept in zip((A, B), found.starts, found.kept):
            assert found.tokens[start : start + kept].tolist() == text[:kept]
        assert sum(found.kept) == min(5, room - made.added(2))
        assert found.tokens.dtype == torch.int64


def test_kept_is_what_taking_from_the_longer_one_leaves():
    """Piece by piece from the longer text; where both are of a length, either may give."""
    for first in range(8):
        for second in range(8):
            for room in range(2, 12):
                kept = cut_lengths([first, second], room)
                left = [first, second]
                while sum(left) > room:
                    left[left.index(max(left))] -= 1
                assert sorted(kept) == sorted(left)
                assert kept[0] <= first and kept[1] <= second
            assert cut_lengths([first], 4) == [min(first, 4)]


@pytest.mark.parametrize(("texts", "room"), [([[1]], 2), ([[1], [2]], 5), ([[1], [2]], 2)])
def test_no_room_for_a_piece_of_each_and_an_unknown_format_are_refused(texts, room):
    with pytest.raises(ValueError, match=r"--max-positions.* texts; valid: one each"):
        assemble("xlmr", texts, room)
    with pytest.raises(ValueError, match="--input-format must be one of xlmr, bert, mbart, mbart50; got 'gpt'"):
        InputFormat("gpt", BOS, EOS)
