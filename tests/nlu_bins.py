"""Tiny data-bins of understanding tasks, as data_prep.nlu writes them, and a tiny encoder."""

import io
import json
from collections import namedtuple

import numpy as np
import sentencepiece
import torch
from fairseq.data import Dictionary, data_utils
from fairseq.models import BaseFairseqModel
from torch import nn

from data_prep.io import read_json
from data_prep.pieces import segmenters as data_pieces
from data_prep.understanding import nlu
from tests import builders

TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")

write_rows = builders.write_rows
write_dictionary = builders.write_symbols
label_dictionary = builders.of_symbols


def write_texts(data, folder, name, rows):
    """Write the pieces of one side, each row with ``</s>``, and the dictionary."""
    write_rows(data / folder, name, [[*row, builders.EOS] for row in rows])
    write_dictionary(data / folder / "dict.txt", builders.piece_names())


def write_classes(data, name, classes, labels):
    """Write one class per row, followed by ``</s>``, and the dictionary of the labels."""
    write_dictionary(data / "label" / "dict.txt", labels)
    symbols = label_dictionary(labels)
    write_rows(data / "label", name, [[symbols.index(label), symbols.eos()] for label in classes])


def tag_row(words, labels):
    """List one class per piece: the tag at the first piece of a word, ``<pad>`` at the others.

    ``words`` are pairs (pieces, tag); tag None is one that the dictionary lacks.
    """
    symbols, row = label_dictionary(labels), []
    for word, tag in words:
        row += [symbols.index(tag or ""), *[PAD] * (len(word) - 1)]
    return row


def write_tagged(data, name, sentences, labels=TAGS):
    """Write input0 and label of one subset, and both dictionaries."""
    texts = [[piece for word, _ in words for piece in word] for words in sentences]
    write_texts(data, "input0", name, texts)
    write_dictionary(data / "label" / "dict.txt", labels)
    rows = [[*tag_row(words, labels), builders.EOS] for words in sentences]
    write_rows(data / "label", name, rows)


def tagged_sentences(count, seed, shift=0):
    """Sentences of at least seven words whose tags follow from their pieces.

    One word in four of a name has a second piece. ``shift`` changes the pieces outside of names,
    as in another language with the same names.
    """
    generator = np.random.default_rng(seed)
    sentences = [[] for _ in range(count)]
    for sentence in sentences:
        while len(sentence) < 7:
            kind = int(generator.integers(4)) - 2
            if kind < 0:
                sentence.append(([10 + shift + int(generator.integers(5))], "O"))
                continue
            for number in range(int(generator.integers(1, 4))):
                first = builders.FIRST_PIECE + 3 * kind + int(generator.integers(3))
                suffix = [builders.MASK - 1] * int(generator.integers(4) == 0)
                tag = f"{'I' if number else 'B'}-{('PER', 'LOC')[kind]}"
                sentence.append(([first, *suffix], tag))
    return sentences


def without_tag(sentences, tag):
    """Sentences whose words with this tag have one that the dictionary lacks."""
    return [
        [(pieces, None if label == tag else label) for pieces, label in words]
        for words in sentences
    ]


class Rows(list):
    """Rows of numbers as fairseq's indexed datasets return them."""

    @property
    def sizes(self):
        return np.array([len(row) for row in self], dtype=np.int32)

    def __getitem__(self, index):
        return torch.tensor(super().__getitem__(index))


# ---- Raw sets for data_prep.nlu, a sentencepiece model, and data-bins read by stock fairseq. ----

TEXT = [
    "the cat saw a dog",
    "der Hund sah die Katze",
    "ﬁnal file of 12 cafés",
    "日本語の文 ½ ㌔ ｶﾞ",
    "naïve e\u0301tude 3",
]


def train_model(path, text=tuple(TEXT), **options):
    defaults = {"vocab_size": 90, "hard_vocab_limit": False, "minloglevel": 2, "num_threads": 1}
    buffer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(list(text) * 20), model_writer=buffer, **{**defaults, **options}
    )
    path.write_bytes(buffer.getvalue())
    return path


def model_and_dictionary(folder):
    folder.mkdir(parents=True, exist_ok=True)
    model = train_model(folder / "m.model")
    data_pieces.write_dictionary(data_pieces.load_model(model), folder / "dict.txt")
    return model, folder / "dict.txt"


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(f"{line}\n" for line in lines).encode("utf-8"))
    return path


def squad(path, *paragraphs, **more):
    """Write (passage, [(id, question, [(answer, start)])]) as SQuAD; ``more``: per question."""
    rows = []
    for context, questions in paragraphs:
        entries = []
        for name, text, answers in questions:
            answers = [{"text": answer, "answer_start": start} for answer, start in answers]
            entries.append({"id": name, "question": text, "answers": answers, **more})
        rows.append({"context": context, "qas": entries})
    content = {"data": [{"title": "T", "paragraphs": rows}]}
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


class Run:
    """Runs a verb of data_prep.nlu with one sentencepiece model, and reads the data-bin."""

    def __init__(self, model, dictionary, out):
        self.options = ["--sentencepiece", str(model), "--dict", str(dictionary)]
        self.out = out

    def __call__(self, verb, *arguments):
        nlu.main([verb, str(self.out), *self.options, *map(str, arguments)])
        return read_json(self.out / "manifest.json")["counts"]

    def rows(self, folder, name):
        """Read the symbols of every row, with ``</s>``, by stock fairseq."""
        dictionary = Dictionary.load(str(self.out / folder / "dict.txt"))
        data = data_utils.load_indexed_dataset(str(self.out / folder / name), dictionary)
        return [[dictionary[int(index)] for index in data[row]] for row in range(len(data))]

    def numbers(self, folder, name):
        data = data_utils.load_indexed_dataset(str(self.out / folder / name), None)
        return [data[row].tolist() for row in range(len(data))]

    def lines(self, name):
        text = (self.out / name).read_text(encoding="utf-8")
        assert text.endswith("\n")
        assert text.splitlines() == text[:-1].split("\n")
        return [json.loads(line) for line in text.splitlines()]


# ---- Data-bins for question answering and ranking, with words as pieces. ----

BOS, PAD, EOS = 0, 1, 2
WORDS = [f"w{number}" for number in range(30)]

Question = namedtuple("Question", "name text passage answers")
"""Its id, its words, the row of its passage, its answers as (text, start)."""


def dictionary(words=WORDS):
    return builders.of_symbols(words)


def pieces(text):
    return [dictionary().index(word) for word in text.split()]


def word_offsets(text):
    """List begin and end of each word; the space before it is part of it, as in sentencepiece."""
    ends = np.cumsum([len(word) + 1 for word in text.split(" ")]) - 1
    return [0, *np.repeat(ends, 2).tolist()][:-1]


def write_question_rows(prefix, rows, eos=True):
    write_rows(prefix.parent, prefix.name, [[*row, EOS] if eos else row for row in rows])


def write_question_dictionary(folder):
    for part in (".", "input0", "input1"):
        write_dictionary(folder / part / "dict.txt", WORDS)


def write_questions(folder, name, passages, questions):
    write_question_dictionary(folder)
    write_question_rows(folder / "input0" / name, [pieces(question.text) for question in questions])
    write_question_rows(folder / "input1" / name, [pieces(text) for text in passages])
    offsets = [word_offsets(text) for text in passages]
    write_question_rows(folder / "offsets" / name, offsets, eos=False)
    entries = []
    for question in questions:
        answers = [{"text": text, "start": start} for text, start in question.answers]
        entries.append({"id": question.name, "passage": question.passage, "answers": answers})
    for part, rows in (("passages", passages), ("qa", entries)):
        write(folder / part / f"{name}.jsonl", *map(json.dumps, rows))


def random_text(rng, low, high):
    return " ".join(rng.choice(WORDS, size=int(rng.integers(low, high + 1))))


def random_questions(count, seed, low=4, high=40):
    """Passages and questions, every second with two answers; answers have 1 to 3 words."""
    rng = np.random.default_rng(seed)
    passages = [random_text(rng, low, high) for _ in range(max(count // 2, 1))]
    questions = []
    for number in range(count):
        row = int(rng.integers(len(passages)))
        words, answers = passages[row].split(), []
        for _ in range(1 + number % 2):
            first, length = int(rng.integers(len(words))), int(rng.integers(1, 4))
            start = sum(len(word) + 1 for word in words[:first])
            answers.append((" ".join(words[first : first + length]), start))
        questions.append(Question(f"q{seed}-{number}", random_text(rng, 2, 7), row, answers))
    return passages, questions


def write_ranking(folder, name, rows, grades):
    """Write the files of one subset of rows (id of the query, query, document, grade)."""
    write_question_dictionary(folder)
    symbols = dictionary(grades)
    write_dictionary(folder / "label" / "dict.txt", grades)
    write_question_rows(folder / "input0" / name, [pieces(query) for _, query, _, _ in rows])
    write_question_rows(folder / "input1" / name, [pieces(document) for _, _, document, _ in rows])
    write_question_rows(folder / "label" / name, [[symbols.index(grade)] for *_, grade in rows])
    write(folder / "group" / f"{name}.txt", *[query_id for query_id, *_ in rows])


def random_ranking(queries, seed, grades):
    """Rows of queries with one to six documents each; the first query has no relevant document."""
    rng, rows = np.random.default_rng(seed), []
    for number in range(queries):
        query = random_text(rng, 1, 4)
        for _ in range(int(rng.integers(1, 7))):
            grade = str(rng.choice(grades)) if number else "0"
            rows.append((f"q{number}", query, random_text(rng, 2, 12), grade))
    return rows


class StandIn(BaseFairseqModel):
    """A tiny encoder with heads, for tasks and criterions; each token sees the one before it."""

    def __init__(self, symbols=builders.VOCAB, width=8, seed=1):
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)
        self.embedding = nn.Embedding(symbols, width)
        self.positions = nn.Parameter(torch.randn(512, width, generator=self.generator))
        self.embedding.weight.data.normal_(generator=self.generator)
        self.token_heads, self.sentence_heads = nn.ModuleDict(), nn.ModuleDict()

    def register_token_head(self, name, num_classes, heads=None):
        head = nn.Linear(self.embedding.embedding_dim, num_classes)
        head.weight.data.normal_(generator=self.generator)
        (self.token_heads if heads is None else heads)[name] = head

    def register_classification_head(self, name, num_classes):
        self.register_token_head(name, num_classes, self.sentence_heads)

    def forward(
        self,
        src_tokens,
        src_lengths=None,
        features_only=False,
        classification_head_name=None,
        select=None,
    ):
        """Right-padded (B, S) tokens -> logits per sentence, per token, or per selected token."""
        assert features_only and classification_head_name is not None
        x = self.embedding(src_tokens) + self.positions[: src_tokens.size(1)]
        x = torch.tanh(x + torch.cat([x[:, :1], x[:, :-1]], dim=1))
        if classification_head_name in self.token_heads:
            return self.token_heads[classification_head_name](
                x if select is None else x[select]
            ), {}
        is_token = src_tokens.ne(PAD)[..., None]
        mean = (x * is_token).sum(1) / is_token.sum(1)
        return self.sentence_heads[classification_head_name](mean), {}

    def max_positions(self):
        return 512
