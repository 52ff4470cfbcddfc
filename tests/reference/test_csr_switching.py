"""The batched noise of code-switching restore against slow loops that draw the same random numbers one at a time.

SPEC section 2: Poisson(3.5) word spans until 35 % of the words are replaced; each replaced word gets one of its k neighbours at
random; words without an entry stay and do not count. CSR section 3.2: "we sample a text span ... whose length is determined by a
Poisson distribution ... Such sampling will be repeated until the total percentage of substituted words reaches 35%".
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
    """A length by inversion: the least one whose probability not to be exceeded, zero left out, is above ``chance``."""
    whole, below, length = 1.0 - math.exp(-mean), 0.0, 0
    while True:
        length += 1
        below += math.exp(length * math.log(mean) - mean - math.lgamma(length + 1)) / whole
        if chance < below:
            return length


def switched_words(words, covered, ratio, mean, chance):
    """Which of the words with an entry are replaced."""
    budget = min(int(ratio * words + 1e-9 + chance(BUDGET, 0)), covered)
    gaps = covered - budget + 1
    spans = []
    while sum(spans) < budget:
        spans.append(poisson_length(mean, chance(LENGTHS, len(spans))))
        if len(spans) == gaps or sum(spans) > budget:
            spans[-1] = budget - sum(spans[:-1])
    order = sorted(range(gaps), key=lambda gap: chance(PLACES, gap))
    at = dict(zip(order, spans))
    chosen, word = [], 0
    for gap in range(gaps):
        for _ in range(at.get(gap, 0)):
            chosen.append(word)
            word += 1
        word += 1  # the one that stays behind this gap
    return chosen


def words_of(pieces):
    """Places of the pieces of each word of a row without mixed pieces: runs of letters of the text, a mark being a blank."""
    owners = [place for place, piece in enumerate(pieces) for _ in piece]
    text = "".join(pieces)
    return [sorted({owners[at] for at in range(*run.span())}) for run in re.finditer(r"[^\W_▁]+", text)]


def switched(pieces, entries, ratio, mean, chance, cut):
    """A row of pieces after its words were replaced; ``cut(word, marked)`` gives the pieces of a candidate."""
    words = words_of(pieces)
    texts = ["".join(pieces[place] for place in word).replace("▁", "") for word in words]
    having = [number for number, text in enumerate(texts) if text in entries]
    new = {}
    for number in switched_words(len(words), len(having), ratio, mean, chance):
        candidates = entries[texts[having[number]]]
        word = words[having[number]]
        candidate = candidates[int(chance(CANDIDATE, number) * len(candidates))]
        new[word[0]] = cut(candidate, pieces[word[0]].startswith("▁"))
        new.update({place: [] for place in word[1:]})
    return [piece for place, old in enumerate(pieces) for piece in new.get(place, [old])]


SYMBOLS = dictionary()


@pytest.mark.parametrize(("ratio", "mean", "words"), [(0.35, 3.5, 40), (0.35, 3.5, 15), (0.8, 1.0, 40), (1.0, 6.0, 30)])
def test_batches_are_the_loops(ratio, mean, words):
    rows = {name: sentences(SYMBOLS, name, 30, 7 + place) for place, name in enumerate(LANGUAGES)}
    data = csr.build(rows, SYMBOLS, words, ratio=ratio, mean_span=mean, seed=11)
    data.set_epoch(4)
    encoder, changed = csr.KnownPieces(SYMBOLS), 0

    def cut(word, marked):
        return [SYMBOLS[piece] for piece in encoder.encode([word], marked)[0] or []]

    for item in data.__getitems__(range(len(data))):
        source, target = LANGUAGES if item["id"] % 2 == 0 else [*LANGUAGES][::-1]
        stream = streams(epoch_address(11, 4), np.array([item["id"]]))

        def chance(purpose, place, stream=stream):
            return float(uniforms(stream, purpose, np.array([place]))[0])

        pieces = [SYMBOLS[token] for token in item["target"].tolist()[:-2]]
        wanted = switched(pieces, lexicon(source, target, words), ratio, mean, chance, cut)
        assert [SYMBOLS[token] for token in item["source"].tolist()[:-2]] == wanted, item["id"]
        changed += wanted != pieces
    assert changed > 45
