"""Sentences whose words have tags: a word's first piece carries its tag, its other pieces ``<pad>``."""

import itertools
from collections import Counter
from typing import Iterator, List, Optional, Sequence, Tuple

from .conll import Conll, Sentence
from .counts import Counts
from .data_bin import DataBin
from .labels import Labels
from .sentences import BATCH_ROWS, refuse_nothing
from .sources import TRAIN, Source, file_of

NO_PIECE = "words without a piece"


def labels_of(reader: Conll, sources: Sequence[Source]) -> Iterator[Tuple[str, str]]:
    """Yield the tag of every word of train, and where its sentence stands."""
    for source in sources:
        if source.split == TRAIN:
            for sentence in reader.sentences(source, Counter()):
                for tag in sentence.tags:
                    yield tag, file_of(source, sentence.number)


def write_tags(reader: Conll, data: DataBin, source: Source, labels: Optional[Labels], longest: int) -> Counts:
    """Write the pieces and tags of a source.

    Every word is encoded on its own. One that gives no piece becomes ``<unk>``, so that words and tags stay together.

    Args:
        reader: how sentences are read.
        data: where they go.
        source: one split and language.
        labels: of train.
        longest: ``--max-positions``.

    Returns:
        What was counted.

    Raises:
        InputError: as in :meth:`Conll.sentences`, or no sentence is left.
    """
    assert labels is not None
    counts = Counts()
    pieces, tags = data.texts(0, source), data.labels(labels.dictionary, source)
    unknown, padding = data.dictionary.unk(), labels.dictionary.pad()
    for sentence, words in _encoded(data, reader.sentences(source, counts.notes)):
        ids, row = [], []
        for word, tag in zip(words, sentence.tags):
            counts.notes[NO_PIECE] += not word
            word = word or [unknown]
            ids += word
            row += [labels.index(tag, counts.unknown_labels)] + [padding] * (len(word) - 1)
        counts.read += 1
        counts.kept += 1
        counts.text(len(sentence.words), ids, unknown)
        counts.length(len(ids) + 1, longest)
        pieces.add(data.row(ids))
        tags.add(data.row(row))
    counts.notes = +counts.notes
    refuse_nothing(source, counts)
    pieces.close()
    tags.close()
    return counts


def _encoded(data: DataBin, sentences: Iterator[Sentence]) -> Iterator[Tuple[Sentence, List[List[int]]]]:
    """Sentences with the ids of each word; a word that comes again in a batch is encoded once."""
    while True:
        batch = list(itertools.islice(sentences, BATCH_ROWS))
        if not batch:
            return
        words = list(dict.fromkeys(word for sentence in batch for word in sentence.words))
        ids = dict(zip(words, data.encode(words)))
        for sentence in batch:
            yield sentence, [ids[word] for word in sentence.words]
