"""The batched noise of code-switching restore against slow loops that draw the same random numbers one at a time."""

import numpy as np
import pytest

from fairseq_plugins.ops.counter_noise import epoch_address, streams, uniforms
from tests import csr_builders as csr
from tests.csr_builders import LANGUAGES, dictionary, lexicon, sentences
from tests.reference.csr_loops import switched

SYMBOLS = dictionary()


@pytest.mark.parametrize(("ratio", "mean", "words"), [(0.35, 3.5, 40), (0.35, 3.5, 15), (0.8, 1.0, 40), (1.0, 6.0, 30)])
def test_batches_are_the_loops(ratio, mean, words):
    rows = {name: sentences(SYMBOLS, name, 30, 7 + place) for place, name in enumerate(LANGUAGES)}
    data = csr.build(rows, SYMBOLS, words, ratio=ratio, mean_span=mean, seed=11)[0]
    data.set_epoch(4)
    encoder, changed = csr.KnownPieces(SYMBOLS), 0

    def cut(word, marked):
        return [SYMBOLS[piece] for piece in encoder.encode([word], marked)[0] or []]

    for item in data.__getitems__(range(len(data))):
        source, target = LANGUAGES if item["id"] % 2 == 0 else [*LANGUAGES][::-1]
        stream = streams(epoch_address(11, 4), np.array([item["id"]]))
        pieces = [SYMBOLS[token] for token in item["target"].tolist()[:-2]]
        wanted = switched(
            pieces,
            lexicon(source, target, words),
            ratio,
            mean,
            lambda purpose, place, stream=stream: float(uniforms(stream, purpose, np.array([place]))[0]),
            cut,
        )
        assert [SYMBOLS[token] for token in item["source"].tolist()[:-2]] == wanted, item["id"]
        changed += wanted != pieces
    assert changed > 45
