"""Words from pieces: by hand, against the text, and the longest matches of scripts without spaces."""

import numpy as np
import pytest

from fairseq_plugins.data.csr_words import SourceWords, find_words, piece_table, text_of

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
PIECES = "▁the ▁dog s ▁ ▁( ( ) . , ▁don ' t 't house ▁(the ▁2 0 日 本 日本 語 ▁日 。 本。 NBA球 ing x. -".split(" ")
SYMBOLS = [*SPECIAL, *PIECES]
TABLE = piece_table(SYMBOLS, 3, [0, 1, 2])


def found(*rows, lexicon=(), end=("</s>",)):
    """(text, pieces, whole) of the words of rows of pieces, each of which gets a ``</s>``."""
    numbers = [[SYMBOLS.index(piece) for piece in [*row.split(" "), *end] if piece] for row in rows]
    tokens = np.array(sum(numbers, []))
    ends = np.cumsum([0, *map(len, numbers)])

    beginnings = {word[:end] for word in lexicon for end in range(1, len(word))}
    words = find_words(tokens, ends, TABLE, SYMBOLS, SourceWords(set(lexicon), beginnings))
    runs = [tokens[start : start + pieces] for start, pieces in zip(words.starts, words.pieces)]
    return [(text_of(run, SYMBOLS), len(run), bool(whole)) for run, whole in zip(runs, words.whole)]


@pytest.mark.cases(
    "row words",
    ("▁the ▁dog s .", [("the", 1, True), ("dogs", 2, True)]),
    ("▁the ▁ dog".replace("dog", "house"), [("the", 1, True), ("house", 2, True)]),
    ("▁( house s ) .", [("houses", 2, True)]),
    ("▁the - house , s", [("the", 1, True), ("house", 1, True), ("s", 1, True)]),
    ("▁don ' t", [("don", 1, True), ("t", 1, True)]),
    ("▁2 0 , 0", [("20", 2, True), ("0", 1, True)]),
    ("▁", []),
    ("▁ ( ▁ ) .", []),
    # Pieces with letters and punctuation: one word with what they touch, and never whole.
    ("▁(the s ▁dog", [("(thes", 2, False), ("dog", 1, True)]),
    ("▁don 't ing", [("don", 1, True), ("'ting", 2, False)]),
    ("▁dog x. s", [("dogx.", 2, False), ("s", 1, True)]),
    # What is unknown belongs to the word around it.
    ("▁dog <unk> s ▁the", [("dog<unk>s", 3, False), ("the", 1, True)]),
    ("▁the ▁ <unk> ▁dog", [("the", 1, True), ("<unk>", 2, False), ("dog", 1, True)]),
)
def test_words_by_hand(row, words):
    assert found(row) == words


def test_the_longest_entry_of_a_script_without_spaces():
    row = "日 本 語 本 。"
    assert found(row) == [(piece, 1, True) for piece in ("日", "本", "語", "本")]
    assert found(row, lexicon=["日本"]) == [("日本", 2, True), ("語", 1, True), ("本", 1, True)]
    assert found(row, lexicon=["日本", "日本語", "語本"]) == [("日本語", 3, True), ("本", 1, True)]
    assert found(row, lexicon=["日本語本語"]) == [(piece, 1, True) for piece in ("日", "本", "語", "本")]
    assert found("日本 語 日 本", lexicon=["日本語", "本"]) == [("日本語", 2, True), ("日", 1, True), ("本", 1, True)]
    # A text may end within an entry, or with one.
    assert found("日", "日 本 語", lexicon=["日本語"], end=()) == [("日", 1, True), ("日本語", 3, True)]
    assert found("語 日 本", lexicon=["日本"], end=()) == [("語", 1, True), ("日本", 2, True)]
    assert found("本", lexicon=["本日"], end=()) == [("本", 1, True)]
    # A match crosses neither a mark, nor a sentence, nor punctuation, nor another script.
    assert found("日 ▁日 本", lexicon=["日日", "日本"]) == [("日", 1, True), ("日本", 2, True)]
    assert found("日", "本", lexicon=["日本"]) == [("日", 1, True), ("本", 1, True)]
    assert found("日 本。", lexicon=["日本"]) == [("日", 1, True), ("本。", 1, False)]
    assert found("▁dog 日 s", lexicon=["dog日"]) == [("dog", 1, True), ("日", 1, True), ("s", 1, True)]
    assert found("日 NBA球 本", lexicon=["NBA球本"]) == [("日", 1, True), ("NBA球本", 2, True)]
