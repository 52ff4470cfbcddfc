"""Test entity spans: every tagging style by hand, a slow loop, and the numbers of a Perl script."""

import random

import pytest
import torch

from fairseq_plugins.understanding import entities
from tests.reference import span_loops

PREFIXES, TYPES = "BIES", ("PER", "LOC", "")
LABELS = ["O", *(f"{prefix}-{name}" if name else prefix for prefix in PREFIXES for name in TYPES)]


def classes(rows, device):
    """(N,) classes of tags; None is a tag that training has not seen."""
    numbers = [-1 if tag is None else LABELS.index(tag) for row in rows for tag in row]
    return torch.tensor(numbers, dtype=torch.int64, device=device)


def count_spans(predicted, gold, device):
    """Count correct, predicted and gold spans by the package."""
    words = torch.tensor([len(row) for row in gold], dtype=torch.int64, device=device)
    starts = entities.sequence_starts(words, int(words.sum()))
    rows = classes(predicted, device), classes(gold, device)
    return tuple(map(int, entities.span_counts(entities.tag_scheme(LABELS), *rows, starts)))


# Tags of a sentence and its entities (first word, last word, type), by the rules of the script.
SENTENCES = [
    ("B-PER I-PER O B-LOC", [(0, 1, "PER"), (3, 3, "LOC")]),  # IOB2
    ("I-PER I-PER O I-LOC", [(0, 1, "PER"), (3, 3, "LOC")]),  # IOB1: no B where nothing touches
    ("I-PER B-PER I-PER", [(0, 0, "PER"), (1, 2, "PER")]),  # IOB1: B where two of a type touch
    ("I-PER E-PER I-PER I-PER O", [(0, 1, "PER"), (2, 3, "PER")]),  # IOE1
    ("I-PER E-PER E-PER O", [(0, 1, "PER"), (2, 2, "PER")]),  # IOE2
    ("O E-LOC", [(1, 1, "LOC")]),  # E after O is an entity of one word
    ("B-PER I-PER E-PER S-PER B-PER E-PER", [(0, 2, "PER"), (3, 3, "PER"), (4, 5, "PER")]),
    ("S-PER I-PER", [(0, 0, "PER"), (1, 1, "PER")]),
    ("B-PER O I-PER", [(0, 0, "PER"), (2, 2, "PER")]),  # a hole ends it
    ("B I O I", [(0, 1, ""), (3, 3, "")]),  # tags without a type
    ("B-PER I", [(0, 0, "PER"), (1, 1, "")]),  # no type is a type of its own
]


def test_spans_by_hand(device):
    for text, expected in SENTENCES:
        tags, count = text.split(), len(expected)
        assert span_loops.entities(tags) == set(expected)
        assert count_spans([tags], [tags], device) == (count, count, count), text


def test_counts_equal_a_loop_over_the_words(device):
    """Try every prefix and type, all lengths, and predictions near and far from the tags."""
    for _ in range(150):
        labels = random.choice([LABELS, LABELS[: random.randint(3, 7)]])
        gold = [random.choices(labels, k=random.randint(0, 6)) for _ in range(random.randint(1, 4))]
        predicted = [
            [random.choice([tag, tag, tag, random.choice(labels)]) for tag in row] for row in gold
        ]
        if random.random() < 0.3:
            gold = [[random.choice([tag] * 3 + [None]) for tag in row] for row in gold]
        counts = span_loops.counts(predicted, gold).values()
        expected = tuple(map(sum, zip((0, 0, 0), *counts)))
        assert count_spans(predicted, gold, device) == expected


NAMES = {"P": "PER", "L": "LOC"}
# Random tags of 24 sentences, P = PER, L = LOC; the Perl script of 2004-01-26 scored them.
SCRIPT_GOLD = """
EL EL IP BP EL / O EP EL BP O O O / O IP / EP EP O IP BL / O O O / EL IP BP / O BL BL / EL O EP O O
/ O O BL EP EL IP O / BP O O EL IL BL O / O BP IL IL / EL O EP EP O O O O / O BL O EL O IP / IP BP
IL EL EL IP IL / IL BL O BP / O O EL / O IP IP EL / IL BP EP IP / O EP IL EL IL IP O / IL O / BL EL
O IP O / EL EL O / BP BL BL EP IP BL BP / EP O
"""
SCRIPT_PREDICTED = """
EL O IP BP EL / O O IL BP IP O O / O EL / EP EP O IP BP / O O O / EL IP BP / O BL BL / EL O EP O O /
O O BL O EL IL O / BP O O EL IL O O / O BP IL O / EL EP EP EP O O O O / O BL O BL IL IP / IP BP IL
IP EP IP IP / IL BL BL BP / O O EL / O IP O EL / IL EP EP IP / O O IL O IL IP O / IL O / BL EL O IP
EL / EL EL O / BL BL BL EP IP BL BP / EP O
"""


def parse_tags(text):
    rows = [row.split() for row in text.split("/")]
    return [[f"{tag[0]}-{NAMES[tag[1]]}" if tag[1:] else tag for tag in row] for row in rows]


def test_the_numbers_of_the_perl_script(device):
    gold, predicted = parse_tags(SCRIPT_GOLD), parse_tags(SCRIPT_PREDICTED)
    assert sum(map(len, gold)) == 113
    assert count_spans(predicted, gold, device) == (49, 66, 68)
    expected = {"accuracy": 79.65, "precision": 74.24, "recall": 72.06, "f1": 73.13}
    assert span_loops.scores(predicted, gold) == pytest.approx(expected, abs=0.005)


def test_labels_make_a_scheme_only_if_each_is_a_tag():
    for labels in (["NOUN", "X"], ["O"], [], ["O", "B-PER", "MISC"], ["O-PER", "B-PER"]):
        assert entities.tag_scheme(labels) is None, labels
    tags = entities.tags_of_spans(["O", "B-PER", "MISC", "I", "O-PER", "BI-X"])
    assert tags == ["B-PER", "I"]
    scheme = entities.tag_scheme(["B-PER", "O", "I-LOC", "I-PER"])
    assert scheme.names == ("PER", "LOC")
    assert scheme.prefixes.tolist() == [1, 0, 2, 2, 2]
    assert scheme.types.tolist() == [0, 0, 1, 0, 2]
    assert entities.split_tag("B-geo-political") == (1, "geo-political")
    assert (entities.split_tag("O"), entities.split_tag("noun")) == ((0, ""), None)
