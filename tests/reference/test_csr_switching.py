"""Test the batched noise of code-switching restore against loops with the same random numbers.

Poisson(3.5) word spans are drawn until 35 % of the words are replaced. Each replaced word gets one
of its k neighbours at random; words without an entry stay and do not count. CSR section 3.2: "we
sample a text span ... whose length is determined by a Poisson distribution ... Such sampling will
be repeated until the total percentage of substituted words reaches 35%".
"""

import math
import re

import numpy as np
import pytest

from fairseq_plugins.csr.noise import epoch_address, streams, uniforms
from tests import csr_builders as csr
from tests.csr_builders import LANGUAGES, dictionary, lexicon, sentences

BUDGET, LENGTHS, PLACES, CANDIDATE = range(4)


def poisson_length(mean, chance):
    """Draw a length > 0 by inversion of its cumulative probability."""
    nonzero, cumulative, length = 1.0 - math.exp(-mean), 0.0, 0
    while True:
        length += 1
        probability = math.exp(length * math.log(mean) - mean - math.lgamma(length + 1))
        cumulative += probability / nonzero
        if chance < cumulative:
            return length


def choose_words(words, covered, ratio, mean, chance):
    """List the replaced words, as numbers among the ``covered`` words that have an entry."""
    budget = min(int(ratio * words + 1e-9 + chance(BUDGET, 0)), covered)
    gaps = covered - budget + 1
    spans = []
    while sum(spans) < budget:
        spans.append(poisson_length(mean, chance(LENGTHS, len(spans))))
        if len(spans) == gaps or sum(spans) > budget:
            spans[-1] = budget - sum(spans[:-1])
    order = sorted(range(gaps), key=lambda gap: chance(PLACES, gap))
    span_at = dict(zip(order, spans))
    numbers, word = [], 0
    for gap in range(gaps):
        for _ in range(span_at.get(gap, 0)):
            numbers.append(word)
            word += 1
        word += 1  # a word that stays separates the gaps
    return numbers


def find_words(pieces):
    """List the places of the pieces of each word: words are runs of letters of the text."""
    owners = [place for place, piece in enumerate(pieces) for _ in piece]
    text = "".join(pieces)
    return [
        sorted({owners[place] for place in range(*run.span())})
        for run in re.finditer(r"[^\W_▁]+", text)
    ]


def switch(pieces, entries, ratio, mean, chance, split):
    """Replace words of a row of pieces; ``split(word, marked)`` splits a candidate into pieces."""
    words = find_words(pieces)
    texts = ["".join(pieces[place] for place in word).replace("▁", "") for word in words]
    covered = [number for number, text in enumerate(texts) if text in entries]
    changes = {}
    for number in choose_words(len(words), len(covered), ratio, mean, chance):
        candidates = entries[texts[covered[number]]]
        word = words[covered[number]]
        candidate = candidates[int(chance(CANDIDATE, number) * len(candidates))]
        changes[word[0]] = split(candidate, pieces[word[0]].startswith("▁"))
        changes.update({place: [] for place in word[1:]})
    return [piece for place, old in enumerate(pieces) for piece in changes.get(place, [old])]


SYMBOLS = dictionary()


@pytest.mark.cases("ratio mean words", (0.35, 3.5, 15), (0.8, 1.0, 40), (1.0, 6.0, 30))
def test_batches_equal_the_loops(ratio, mean, words):
    rows = {name: sentences(SYMBOLS, name, 30, 7 + place) for place, name in enumerate(LANGUAGES)}
    data = csr.build(rows, SYMBOLS, words, ratio=ratio, mean_span=mean, seed=11)
    data.set_epoch(4)
    encoder, changed = csr.KnownPieces(SYMBOLS), 0

    def split(word, marked):
        return [SYMBOLS[piece] for piece in encoder.encode([word], marked)[0] or []]

    for item in data.__getitems__(range(len(data))):
        source, target = LANGUAGES if item["id"] % 2 == 0 else [*LANGUAGES][::-1]
        stream = streams(epoch_address(11, 4), np.array([item["id"]]))

        def chance(purpose, place, stream=stream):
            return float(uniforms(stream, purpose, np.array([place]))[0])

        pieces = [SYMBOLS[token] for token in item["target"].tolist()[:-2]]
        entries = lexicon(source, target, words)
        expected = switch(pieces, entries, ratio, mean, chance, split)
        noisy = [SYMBOLS[token] for token in item["source"].tolist()[:-2]]
        assert noisy == expected, item["id"]
        changed += expected != pieces
    assert changed > 45
