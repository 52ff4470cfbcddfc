"""Tiny raw sets for data_prep.nlu, a sentencepiece model of their pieces, and data-bins read back with stock fairseq."""

import io
import json

import sentencepiece
from fairseq.data import Dictionary, data_utils

from data_prep import nlu
from data_prep.io import read_json
from data_prep.pieces import load_model, write_dictionary

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
    write_dictionary(load_model(model), folder / "dict.txt")
    return model, folder / "dict.txt"


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(f"{line}\n" for line in lines).encode("utf-8"))
    return path


def squad(path, *paragraphs, **more):
    """SQuAD's layout of (passage, [(id, question, [(answer, start)])]); ``more`` goes into every question."""
    rows = [
        {
            "context": passage,
            "qas": [
                {
                    "id": name,
                    "question": question,
                    "answers": [{"text": text, "answer_start": start} for text, start in answers],
                    **more,
                }
                for name, question, answers in questions
            ],
        }
        for passage, questions in paragraphs
    ]
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
