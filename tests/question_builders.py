"""Tiny data-bins for question answering and ranking, with words as pieces; and a stand-in encoder with heads."""

import json
from typing import NamedTuple, Sequence, Tuple

import numpy as np
import torch
from fairseq.data import Dictionary
from torch import nn

from tests import nlu_bins

BOS, PAD, EOS = 0, 1, 2
WORDS = [f"w{number}" for number in range(30)]
LANGUAGES = "en_XX,de_DE"


class Asked(NamedTuple):
    """A question: its id, its words, the row of its passage, its answers as (text, start)."""

    name: str
    text: str
    passage: int
    answers: Sequence[Tuple[str, int]]


def dictionary(words=WORDS):
    symbols = Dictionary()
    for word in words:
        symbols.add_symbol(word)
    return symbols


def pieces(text, symbols=None):
    symbols = symbols or dictionary()
    return [symbols.index(word) for word in text.split()]


def word_offsets(text):
    """Begin and end of each word, alternating; the space before a word is the word's, as in sentencepiece."""
    found = []
    place = 0
    for word in text.split(" "):
        begin, place = max(place - 1, 0), place + len(word)
        found += [begin, place]
        place += 1
    return found


def write_rows(prefix, rows, eos=True):
    nlu_bins.write_rows(prefix.parent, prefix.name, [[*row, EOS] if eos else row for row in rows])


def write_dictionary(folder, symbols=None):
    for part in (".", "input0", "input1"):
        (folder / part).mkdir(parents=True, exist_ok=True)
        (symbols or dictionary()).save(str(folder / part / "dict.txt"))


def write_questions(folder, name, passages, asked):
    write_dictionary(folder)
    write_rows(folder / "input0" / name, [pieces(question.text) for question in asked])
    write_rows(folder / "input1" / name, [pieces(text) for text in passages])
    write_rows(folder / "offsets" / name, [word_offsets(text) for text in passages], eos=False)
    lines = {"passages": list(passages), "qa": []}
    for question in asked:
        answers = [{"text": text, "start": start} for text, start in question.answers]
        lines["qa"].append({"id": question.name, "passage": question.passage, "answers": answers})
    for part, values in lines.items():
        (folder / part).mkdir(exist_ok=True)
        (folder / part / f"{name}.jsonl").write_text("".join(json.dumps(value) + "\n" for value in values), "utf-8")


def random_text(rng, low, high):
    """Words of :data:`WORDS`, from ``low`` to ``high`` of them."""
    return " ".join(rng.choice(WORDS, size=int(rng.integers(low, high + 1))))


def random_questions(count, seed, low=4, high=40):
    """Passages and questions about them; an answer is one to three words, and half of the questions have a second one."""
    rng = np.random.default_rng(seed)
    passages = [random_text(rng, low, high) for _ in range(max(count // 2, 1))]
    asked = []
    for number in range(count):
        row = int(rng.integers(len(passages)))
        answers = [_random_answer(rng, passages[row]) for _ in range(1 + number % 2)]
        asked.append(Asked(f"q{seed}-{number}", random_text(rng, 2, 7), row, answers))
    return passages, asked


def _random_answer(rng, passage):
    words = passage.split()
    first = int(rng.integers(len(words)))
    count = int(rng.integers(1, 4))
    start = sum(len(word) + 1 for word in words[:first])
    return " ".join(words[first : first + count]), start


def write_ranking(folder, name, rows, grades):
    """The files of one subset of rows (query's id, query, document, grade)."""
    write_dictionary(folder)
    symbols = dictionary(grades)
    (folder / "label").mkdir(exist_ok=True)
    (folder / "group").mkdir(exist_ok=True)
    symbols.save(str(folder / "label" / "dict.txt"))
    write_rows(folder / "input0" / name, [pieces(row[1]) for row in rows])
    write_rows(folder / "input1" / name, [pieces(row[2]) for row in rows])
    write_rows(folder / "label" / name, [[symbols.index(row[3])] for row in rows])
    (folder / "group" / f"{name}.txt").write_text("".join(f"{row[0]}\n" for row in rows), "utf-8")


def random_ranking(queries, seed, grades):
    """Rows of so many queries with one to six documents each; the first query has no relevant document."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(queries):
        query = random_text(rng, 1, 4)
        for _ in range(int(rng.integers(1, 7))):
            grade = str(rng.choice(grades)) if number else "0"
            rows.append((f"q{number}", query, random_text(rng, 2, 12), grade))
    return rows


class StandIn(nn.Module):
    """What the tasks and criterions expect of an encoder; far smaller, and each token sees the one before it."""

    def __init__(self, symbols, width=8, seed=1):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.embedding = nn.Embedding(symbols, width)
        self.embedding.weight.data.normal_(generator=generator)
        self.places = nn.Parameter(torch.randn(64, width, generator=generator))
        self.generator, self.width = generator, width
        self.heads = nn.ModuleDict()

    def register_token_head(self, name, num_classes):
        self.heads[name] = nn.Linear(self.width, num_classes)
        self.heads[name].weight.data.normal_(generator=self.generator)
        self.token_level = True

    def register_classification_head(self, name, num_classes):
        self.register_token_head(name, num_classes)
        self.token_level = False

    def forward(self, src_tokens, src_lengths=None, features_only=False, classification_head_name=None, select=None):
        """As the understanding models: right-padded (B, S) tokens."""
        assert features_only and classification_head_name is not None and select is None
        x = self.embedding(src_tokens) + self.places[: src_tokens.size(1)]
        x = torch.tanh(x + torch.cat([x[:, :1], x[:, :-1]], dim=1))
        head = self.heads[classification_head_name]
        if self.token_level:
            return head(x), {}
        kept = src_tokens.ne(PAD)[..., None]
        return head((x * kept).sum(1) / kept.sum(1)), {}

    def max_positions(self):
        return 64
