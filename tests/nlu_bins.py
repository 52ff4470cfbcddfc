"""Tiny data-bins of understanding tasks, as data_prep.nlu writes them, and a tiny tagger to read them with."""

import io
import json
from typing import NamedTuple, Sequence, Tuple

import numpy as np
import sentencepiece
import torch
from fairseq.data import Dictionary, data_utils
from fairseq.models import BaseFairseqModel
from torch import nn

from data_prep import nlu
from data_prep import pieces as data_pieces
from data_prep.io import read_json
from tests import builders

TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
FIRST_LABEL = 4
"""Number of the first label: fairseq's four symbols come before."""

write_rows, write_dictionary, label_dictionary = builders.write_rows, builders.write_symbols, builders.of_symbols


def write_texts(data, folder, name, rows):
    """Pieces of one side; every row gets its ``</s>``, and the dictionary is written beside them."""
    write_rows(data / folder, name, [[*row, builders.EOS] for row in rows])
    write_dictionary(data / folder / "dict.txt", builders.piece_names())


def write_classes(data, name, classes, labels):
    """One class a row, ``</s>`` behind it, as fairseq-preprocess writes it."""
    write_dictionary(data / "label" / "dict.txt", labels)
    symbols = label_dictionary(labels)
    write_rows(data / "label", name, [[symbols.index(label), symbols.eos()] for label in classes])


def tag_row(words, labels):
    """A symbol a piece: the tag where a word (pieces, tag) starts, ``<pad>`` elsewhere; no ``</s>``. Tag None = an unknown one."""
    symbols = label_dictionary(labels)
    row = []
    for pieces, tag in words:
        row += [symbols.unk() if tag is None else symbols.index(tag), *[symbols.pad()] * (len(pieces) - 1)]
    return row


def write_tagged(data, name, sentences, labels=TAGS):
    """input0 and label of one subset, and both dictionaries."""
    write_texts(data, "input0", name, [[piece for pieces, _ in words for piece in pieces] for words in sentences])
    write_dictionary(data / "label" / "dict.txt", labels)
    write_rows(data / "label", name, [[*tag_row(words, labels), builders.EOS] for words in sentences])


def tagged_sentences(count, seed, shift=0):
    """Sentences of at least seven words whose tags follow from their pieces.

    Names of persons begin with one of three pieces, names of places with one of three others; one word in four of a name has a
    second piece. ``shift`` chooses other pieces for the words outside: another language with the same names.
    """
    generator = np.random.default_rng(seed)
    sentences = []
    for _ in range(count):
        sentence = []
        while len(sentence) < 7:
            kind = generator.integers(4)
            if kind < 2:
                sentence.append(([10 + shift + int(generator.integers(5))], "O"))
                continue
            name = ("PER", "LOC")[kind - 2]
            for number in range(int(generator.integers(1, 4))):
                first = builders.FIRST_PIECE + 3 * (kind - 2) + int(generator.integers(3))
                rest = [builders.MASK - 1] * int(generator.integers(4) == 0)
                sentence.append(([int(first), *rest], f"{'B' if number == 0 else 'I'}-{name}"))
        sentences.append(sentence)
    return sentences


class TinyTagger(BaseFairseqModel):
    """An embedding, the piece before and a linear head: all that a task and a criterion ask of a tagging model."""

    def __init__(self, vocab=builders.VOCAB, width=8):
        super().__init__()
        self.embedding = nn.Embedding(vocab, width, padding_idx=builders.PAD)
        self.token_heads = nn.ModuleDict()

    def register_token_head(self, name, num_classes):
        self.token_heads[name] = nn.Linear(self.embedding.embedding_dim, num_classes)

    def forward(
        self, src_tokens, src_lengths=None, features_only=False, classification_head_name=None, select=None, **unused
    ):
        """(B, S) -> (N, classes), the logits of the selected places."""
        x = self.embedding(src_tokens)
        x = x + 0.5 * x.roll(1, dims=1)
        assert features_only and classification_head_name is not None and select is not None
        return self.token_heads[classification_head_name](x[select]), {}


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
    """Runs the verb with one model and reads what it made.

    Args:
        model, dictionary: files.
        out: the data-bin.
    """

    def __init__(self, model, dictionary, out):
        self.options = ["--sentencepiece", str(model), "--dict", str(dictionary)]
        self.out = out

    def __call__(self, verb, *arguments):
        """Make the data-bin; returns the counts of its manifest."""
        nlu.main([verb, str(self.out), *self.options, *map(str, arguments)])
        manifest = read_json(self.out / "manifest.json")
        assert manifest is not None
        return manifest["counts"]

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


# ---- Tiny data-bins for question answering and ranking, with words as pieces; and a stand-in encoder with heads. ----

BOS, PAD, EOS = 0, 1, 2
WORDS = [f"w{number}" for number in range(30)]


class Asked(NamedTuple):
    """A question: its id, its words, the row of its passage, its answers as (text, start)."""

    name: str
    text: str
    passage: int
    answers: Sequence[Tuple[str, int]]


def dictionary(words=WORDS):
    return builders.of_symbols(words)


def pieces(text):
    return [dictionary().index(word) for word in text.split()]


def word_offsets(text):
    """Begin and end of each word, alternating; the space before a word is the word's, as in sentencepiece."""
    found = []
    place = 0
    for word in text.split(" "):
        begin, place = max(place - 1, 0), place + len(word)
        found += [begin, place]
        place += 1
    return found


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
