"""Test words from pieces: by hand, and the longest matches in scripts without spaces."""

import numpy as np
import pytest

from fairseq_plugins.csr.words import (
    SourceWords,
    classify_pieces,
    find_words,
    is_spaceless,
    is_word,
    spell,
)
from tests import builders

PIECES = (
    "▁the ▁dog s ▁ ▁( ( ) . , ▁don ' t 't house ▁(the ▁2 0 日 本 日本 語 ▁日 。 本。 NBA球 ing x. -"
)
SYMBOLS = builders.of_symbols(PIECES.split(" "))
TABLE = classify_pieces(SYMBOLS)


def cut(*rows, lexicon=(), end=("</s>",)):
    """Return text, pieces and wholeness of each word; every row of pieces gets a ``</s>``."""
    numbers = [[SYMBOLS.index(piece) for piece in [*row.split(" "), *end] if piece] for row in rows]
    tokens = np.array(sum(numbers, []))
    starts = np.cumsum([0, *map(len, numbers)])
    prefixes = {word[:end] for word in lexicon for end in range(1, len(word))}
    words = find_words(tokens, starts, TABLE, SourceWords(set(lexicon), prefixes))
    runs = [tokens[start : start + pieces] for start, pieces in zip(words.starts, words.pieces)]
    return [
        (spell(TABLE, run), len(run), bool(is_whole)) for run, is_whole in zip(runs, words.is_whole)
    ]


@pytest.mark.cases(
    "row words",
    ("▁the ▁dog s .", [("the", 1, True), ("dogs", 2, True)]),
    ("▁the ▁ house", [("the", 1, True), ("house", 2, True)]),
    ("▁( house s ) .", [("houses", 2, True)]),
    ("▁the - house , s", [("the", 1, True), ("house", 1, True), ("s", 1, True)]),
    ("▁don ' t", [("don", 1, True), ("t", 1, True)]),
    ("▁2 0 , 0", [("20", 2, True), ("0", 1, True)]),
    ("▁ ( ▁ ) .", []),
    # Pieces with letters and punctuation make one word with their neighbours, which is not whole.
    ("▁(the s ▁dog", [("(thes", 2, False), ("dog", 1, True)]),
    ("▁don 't ing", [("don", 1, True), ("'ting", 2, False)]),
    ("▁dog x. s", [("dogx.", 2, False), ("s", 1, True)]),
    # An unknown piece belongs to the word around it.
    ("▁dog <unk> s ▁the", [("dog<unk>s", 3, False), ("the", 1, True)]),
    ("▁the ▁ <unk> ▁dog", [("the", 1, True), ("<unk>", 2, False), ("dog", 1, True)]),
)
def test_words_by_hand(row, words):
    assert cut(row) == words


@pytest.mark.cases(
    "row lexicon words",
    ("日 本 語 本 。", "", "日 本 語 本"),
    ("日 本 語 本 。", "日本", "日本 語 本"),
    ("日 本 語 本 。", "日本 日本語 語本", "日本語 本"),
    ("日 本 語 本 。", "日本語本語", "日 本 語 本"),
    ("日本 語 日 本", "日本語 本", "日本語 日 本"),
    # A match crosses neither a mark, nor punctuation, nor another script.
    ("日 ▁日 本", "日日 日本", "日 日本"),
    ("▁dog 日 s", "dog日", "dog 日 s"),
    ("日 NBA球 本", "NBA球本", "日 NBA球本"),
)
def test_the_longest_entry_is_a_word_in_a_script_without_spaces(row, lexicon, words):
    assert [word for word, *_ in cut(row, lexicon=lexicon.split())] == words.split()


def test_a_match_ends_with_its_text_and_after_64_pieces():
    assert cut("日", "本", lexicon=["日本"]) == [("日", 1, True), ("本", 1, True)]
    assert cut("日 本。", lexicon=["日本"]) == [("日", 1, True), ("本。", 1, False)]
    # A text may end within an entry, or with one.
    rows, words = ("日", "日 本 語"), [("日", 1, True), ("日本語", 3, True)]
    assert cut(*rows, lexicon=["日本語"], end=()) == words
    assert cut("語 日 本", lexicon=["日本"], end=()) == [("語", 1, True), ("日本", 2, True)]
    assert cut("本", lexicon=["本日"], end=()) == [("本", 1, True)]
    row = " ".join(["日"] * 70)
    lengths = [
        (pieces, is_whole) for _, pieces, is_whole in cut(row, lexicon=["日" * 70, "日" * 64])
    ]
    assert lengths == [(64, True)] + [(1, True)] * 6
    assert cut("▁the" + " s" * 64) == [("the" + "s" * 64, 65, False)]


def test_words_and_scripts_without_spaces_are_recognized():
    words = "word Straße 2020 e\u0301 नमस्ते 日本 می\u200cخواهم".split()
    mixed = ["", "a b", *"don't ▁a . a. 😀".split()]
    assert all(map(is_word, words)) and not any(map(is_word, mixed))
    assert all(map(is_spaceless, "日 ひら カー ภาษา ລາວ ខ្មែរ မြန်မာ NBA球".split()))
    assert not any(map(is_spaceless, ["word", "한국어", "नमस्ते", "。", ""]))
