"""Tiny data-bins of understanding tasks, as data_prep.nlu writes them, and a stand-in encoder with heads."""

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

write_rows, write_dictionary, label_dictionary = builders.write_rows, builders.write_symbols, builders.of_symbols


def write_texts(data, folder, name, rows):
    """Pieces of one side; every row gets its ``</s>``, and the dictionary is written beside them."""
    write_rows(data / folder, name, [[*row, builders.EOS] for row in rows])
    write_dictionary(data / folder / "dict.txt", builders.piece_names())


def write_classes(data, name, classes, labels):
    """One class per row, ``</s>`` behind it, as fairseq-preprocess writes it."""
    write_dictionary(data / "label" / "dict.txt", labels)
    symbols = label_dictionary(labels)
    write_rows(data / "label", name, [[symbols.index(label), symbols.eos()] for label in classes])


def tag_row(words, labels):
    """A symbol a piece: the tag where a word (pieces, tag) starts, ``<pad>`` elsewhere; no ``</s>``. Tag None = an unknown one."""
    symbols = label_dictionary(labels)
    return [index for pieces, tag in words for index in (symbols.index(tag or ""), *[PAD] * (len(pieces) - 1))]


def write_tagged(data, name, sentences, labels=TAGS):
    """input0 and label of one subset, and both dictionaries."""
    write_texts(data, "input0", name, [[piece for pieces, _ in words for piece in pieces] for words in sentences])
    write_dictionary(data / "label" / "dict.txt", labels)
    write_rows(data / "label", name, [[*tag_row(words, labels), builders.EOS] for words in sentences])


def tagged_sentences(count, seed, shift=0):
    """Sentences of at least seven words whose tags follow from their pieces: names begin with pieces of their own.

    One word in four of a name has a second piece. ``shift``: other pieces outside, as in another language with the same names.
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
                rest = [builders.MASK - 1] * int(generator.integers(4) == 0)
                sentence.append(([first, *rest], f"{'I' if number else 'B'}-{('PER', 'LOC')[kind]}"))
    return sentences


class Rows(list):
    """Rows of numbers as fairseq's indexed datasets return them."""

    @property
    def sizes(self):
        return np.array([len(row) for row in self], dtype=np.int32)

    def __getitem__(self, index):
        return torch.tensor(super().__getitem__(index))


# ---- Tiny raw sets for data_prep.nlu, a sentencepiece model of their pieces, and data-bins read back with stock fairseq. ----

TEXT = [
    "the cat saw a dog",
    "der Hund sah die Katze",
    "ﬁnal file of 12 cafés",
    "日本語の文 ½ ㌔ ｶﾞ",
    "naïve e\u0301tude 3",
]


def train_model(path, text=tuple(TEXT), **options):
    made = io.BytesIO()
    given = {"vocab_size": 90, "hard_vocab_limit": False, "minloglevel": 2, "num_threads": 1, **options}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(list(text) * 20), model_writer=made, **given)
    path.write_bytes(made.getvalue())
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
    """SQuAD's layout of (passage, [(id, question, [(answer, start)])]); ``more`` goes into every question."""

    def question(name, text, answers):
        answers = [{"text": answer, "answer_start": start} for answer, start in answers]
        return {"id": name, "question": text, "answers": answers, **more}

    rows = [{"context": text, "qas": [question(*one) for one in questions]} for text, questions in paragraphs]
    path.write_text(json.dumps({"data": [{"title": "T", "paragraphs": rows}]}), encoding="utf-8")
    return path


class Run:
    """Runs the verb with one sentencepiece model and dictionary, and reads the data-bin that it made."""

    def __init__(self, model, dictionary, out):
        self.options = ["--sentencepiece", str(model), "--dict", str(dictionary)]
        self.out = out

    def __call__(self, verb, *arguments):
        nlu.main([verb, str(self.out), *self.options, *map(str, arguments)])
        return read_json(self.out / "manifest.json")["counts"]

    def rows(self, folder, name):
        """The symbols of every row, with ``</s>``, through stock fairseq."""
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


# ---- Tiny data-bins for question answering and ranking, with words as pieces; and the stand-in. ----

BOS, PAD, EOS = 0, 1, 2
WORDS = [f"w{number}" for number in range(30)]


Asked = namedtuple("Asked", "name text passage answers")
"""A question: its id, its words, the row of its passage, its answers as (text, start)."""


def dictionary(words=WORDS):
    return builders.of_symbols(words)


def pieces(text):
    return [dictionary().index(word) for word in text.split()]


def word_offsets(text):
    """Begin and end of each word, alternating; the space before a word is the word's, as in sentencepiece."""
    ends = np.cumsum([len(word) + 1 for word in text.split(" ")]) - 1
    return [0, *np.repeat(ends, 2).tolist()][:-1]


def write_question_rows(prefix, rows, eos=True):
    write_rows(prefix.parent, prefix.name, [[*row, EOS] if eos else row for row in rows])


def write_question_dictionary(folder):
    for part in (".", "input0", "input1"):
        write_dictionary(folder / part / "dict.txt", WORDS)


def write_questions(folder, name, passages, asked):
    write_question_dictionary(folder)
    write_question_rows(folder / "input0" / name, [pieces(question.text) for question in asked])
    write_question_rows(folder / "input1" / name, [pieces(text) for text in passages])
    write_question_rows(folder / "offsets" / name, [word_offsets(text) for text in passages], eos=False)
    lines = {"passages": list(passages), "qa": []}
    for question in asked:
        answers = [{"text": text, "start": start} for text, start in question.answers]
        lines["qa"].append({"id": question.name, "passage": question.passage, "answers": answers})
    for part, values in lines.items():
        (folder / part).mkdir(exist_ok=True)
        (folder / part / f"{name}.jsonl").write_text("".join(json.dumps(value) + "\n" for value in values), "utf-8")


def random_text(rng, low, high):
    return " ".join(rng.choice(WORDS, size=int(rng.integers(low, high + 1))))


def random_questions(count, seed, low=4, high=40):
    """Passages and questions about them; an answer is one to three words, and half of the questions have a second one."""
    rng = np.random.default_rng(seed)
    passages = [random_text(rng, low, high) for _ in range(max(count // 2, 1))]
    asked = []
    for number in range(count):
        row = int(rng.integers(len(passages)))
        words, answers = passages[row].split(), []
        for _ in range(1 + number % 2):
            first, length = int(rng.integers(len(words))), int(rng.integers(1, 4))
            answers.append((" ".join(words[first : first + length]), sum(len(word) + 1 for word in words[:first])))
        asked.append(Asked(f"q{seed}-{number}", random_text(rng, 2, 7), row, answers))
    return passages, asked


def write_ranking(folder, name, rows, grades):
    """The files of one subset of rows (query's id, query, document, grade)."""
    write_question_dictionary(folder)
    symbols = dictionary(grades)
    (folder / "group").mkdir(exist_ok=True)
    write_dictionary(folder / "label" / "dict.txt", grades)
    write_question_rows(folder / "input0" / name, [pieces(row[1]) for row in rows])
    write_question_rows(folder / "input1" / name, [pieces(row[2]) for row in rows])
    write_question_rows(folder / "label" / name, [[symbols.index(row[3])] for row in rows])
    (folder / "group" / f"{name}.txt").write_text("".join(f"{row[0]}\n" for row in rows), "utf-8")


def random_ranking(queries, seed, grades):
    """Rows of so many queries with one to six documents each; the first query has no relevant document."""
    rng, rows = np.random.default_rng(seed), []
    for number in range(queries):
        query = random_text(rng, 1, 4)
        for _ in range(int(rng.integers(1, 7))):
            grade = str(rng.choice(grades)) if number else "0"
            rows.append((f"q{number}", query, random_text(rng, 2, 12), grade))
    return rows


class StandIn(BaseFairseqModel):
    """What the tasks and criterions expect of an encoder; far smaller, and each token sees the one before it."""

    def __init__(self, symbols=builders.VOCAB, width=8, seed=1):
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)
        self.embedding = nn.Embedding(symbols, width)
        self.places = nn.Parameter(torch.randn(512, width, generator=self.generator))
        self.embedding.weight.data.normal_(generator=self.generator)
        self.token_heads, self.sentence_heads = nn.ModuleDict(), nn.ModuleDict()

    def register_token_head(self, name, num_classes, heads=None):
        head = nn.Linear(self.embedding.embedding_dim, num_classes)
        head.weight.data.normal_(generator=self.generator)
        (self.token_heads if heads is None else heads)[name] = head

    def register_classification_head(self, name, num_classes):
        self.register_token_head(name, num_classes, self.sentence_heads)

    def forward(self, src_tokens, src_lengths=None, features_only=False, classification_head_name=None, select=None):
        """Right-padded (B, S) tokens -> logits of a sentence, of every token, or of the selected ones."""
        assert features_only and classification_head_name is not None
        x = self.embedding(src_tokens) + self.places[: src_tokens.size(1)]
        x = torch.tanh(x + torch.cat([x[:, :1], x[:, :-1]], dim=1))
        if classification_head_name in self.token_heads:
            return self.token_heads[classification_head_name](x if select is None else x[select]), {}
        kept = src_tokens.ne(PAD)[..., None]
        return self.sentence_heads[classification_head_name]((x * kept).sum(1) / kept.sum(1)), {}

    def max_positions(self):
        return 512


TinyTagger = StandIn
