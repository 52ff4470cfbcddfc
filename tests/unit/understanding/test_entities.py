"""Entity spans: hand-worked sequences of every tagging style, and equality with a slow loop."""

import random

import torch

from fairseq_plugins.understanding import entities as ops
from tests.reference import span_loops

PREFIXES, TYPES = "BIES", ("PER", "LOC", "")
LABELS = ["O", *(f"{prefix}-{name}" if name else prefix for prefix in PREFIXES for name in TYPES)]


def classes(rows, labels, device):
    """Tags -> (N,) classes; None is a tag that training has not seen."""
    numbers = [-1 if tag is None else list(labels).index(tag) for row in rows for tag in row]
    return torch.tensor(numbers, dtype=torch.int64, device=device)


def counted(predicted, gold, device):
    """Correct, predicted and gold spans, by the package."""
    words = torch.tensor([len(row) for row in gold], dtype=torch.int64, device=device)
    rows = (classes(side, LABELS, device) for side in (predicted, gold))
    counts = ops.span_counts(ops.tag_scheme(LABELS), *rows, ops.sequence_starts(words, int(words.sum())))
    return tuple(map(int, counts))


def totals(predicted, gold):
    """The same, by the slow loop."""
    return tuple(map(sum, zip((0, 0, 0), *span_loops.counts(predicted, gold).values())))


# Tags of a sentence -> its entities as (first word, last word, type), worked out by hand from the rules of the script.
SENTENCES = [
    ("B-PER I-PER O B-LOC", [(0, 1, "PER"), (3, 3, "LOC")]),  # IOB2
    ("I-PER I-PER O I-LOC", [(0, 1, "PER"), (3, 3, "LOC")]),  # IOB1: no B where nothing touches
    ("I-PER B-PER I-PER", [(0, 0, "PER"), (1, 2, "PER")]),  # IOB1: B where two of a type touch
    ("I-PER E-PER I-PER I-PER O", [(0, 1, "PER"), (2, 3, "PER")]),  # IOE1
    ("I-PER E-PER E-PER O", [(0, 1, "PER"), (2, 2, "PER")]),  # IOE2
    ("O E-LOC", [(1, 1, "LOC")]),  # E after O is an entity of one word
    ("B-PER I-PER E-PER S-PER B-PER E-PER", [(0, 2, "PER"), (3, 3, "PER"), (4, 5, "PER")]),  # BIOES
    ("S-PER I-PER", [(0, 0, "PER"), (1, 1, "PER")]),
    ("B-PER O I-PER", [(0, 0, "PER"), (2, 2, "PER")]),  # a hole ends it
    ("B I O I", [(0, 1, ""), (3, 3, "")]),  # tags without a type
    ("B-PER I", [(0, 0, "PER"), (1, 1, "")]),  # none is a type of its own
]


def test_spans_by_hand(device):
    scheme = ops.tag_scheme(LABELS)
    for text, wanted in SENTENCES:
        tags = text.split()
        tables = [table.to(device)[classes([tags], LABELS, device)] for table in scheme[:2]]
        ends = ops.span_ends(*tables, ops.sequence_starts(torch.tensor([len(tags)], device=device), len(tags))).tolist()
        spans = [(place, end, scheme.names[tables[1][place]]) for place, end in enumerate(ends) if end != ops.NO_SPAN]
        assert spans == wanted, text
        assert span_loops.entities(tags) == set(wanted)


def test_it_equals_a_loop_over_the_words(device):
    """Every prefix and type, sentences of all lengths, predictions near and far from the gold tags."""
    for _ in range(150):
        labels = random.choice([LABELS, LABELS[: random.randint(3, 7)]])
        gold = [random.choices(labels, k=random.randint(0, 6)) for _ in range(random.randint(1, 4))]
        predicted = [[random.choice([tag, tag, tag, random.choice(labels)]) for tag in row] for row in gold]
        if random.random() < 0.3:
            gold = [[random.choice([tag] * 3 + [None]) for tag in row] for row in gold]
        assert counted(predicted, gold, device) == totals(predicted, gold)


NAMES = {"P": "PER", "L": "LOC"}
# Random tags of 24 sentences, P = PER, L = LOC, and what the script of 2004-01-26 (in Perl) prints for them.
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


def test_the_scripts_own_numbers(device):
    """113 words, 68 entities, 66 predicted, 49 correct, accuracy 79.65, precision 74.24, recall 72.06, F1 73.13."""
    gold, predicted = (
        [[f"{tag[0]}-{NAMES[tag[1]]}" if tag[1:] else tag for tag in row.split()] for row in text.split("/")]
        for text in (SCRIPT_GOLD, SCRIPT_PREDICTED)
    )
    assert sum(len(row) for row in gold) == 113
    assert counted(predicted, gold, device) == (49, 66, 68)
    scores = {name: round(score, 2) for name, score in span_loops.scores(predicted, gold).items()}
    assert scores == {"accuracy": 79.65, "precision": 74.24, "recall": 72.06, "f1": 73.13}


def test_what_the_labels_write():
    for labels in (["NOUN", "X"], ["O"], [], ["O", "B-PER", "MISC"], ["O-PER", "B-PER"]):
        assert ops.tag_scheme(labels) is None, labels
    assert ops.tags_of_spans(["O", "B-PER", "MISC", "I", "O-PER", "BI-X"]) == ["B-PER", "I"]
    scheme = ops.tag_scheme(["B-PER", "O", "I-LOC", "I-PER"])
    assert scheme.names == ("PER", "LOC")
    assert (scheme.prefixes.tolist(), scheme.types.tolist()) == ([1, 0, 2, 2, 2], [0, 0, 1, 0, 2])
    assert ops.split_tag("B-geo-political") == (1, "geo-political"), "the first hyphen parts"
    assert (ops.split_tag("O"), ops.split_tag("noun")) == ((0, ""), None)
