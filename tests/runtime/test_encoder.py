"""A model of kind ``encoder`` made by hand: what it is asked for, what is cut, and what is wrong with it."""

import hashlib
import json

import numpy as np
import pytest
from onnx import TensorProto, helper

from fairseq_plugins_runtime import ModelError, Translator, load
from fairseq_plugins_runtime.folder import Folder
from tests.runtime import folders
from tests.runtime.folders import BLANK, EOS, SIZE, SYMBOLS, UNK

LABELS = ["none", "number", "word"]
HEADS = {"classification": 1, "ranking": 1, "tokens": 0, "spans": 0}
SPANS = {"max_question": 2, "window_stride": 2, "max_answer": 2}


def scores(classes):
    """Class 1 for German symbols, the last for English ones, 0 for others, the stronger the later in the vocabulary. (V, classes)

    Of two classes German symbols have the first, so that an answer begins with one and ends with an English one.
    """
    table = np.zeros((SIZE, classes), np.float32)
    for number, symbol in enumerate(SYMBOLS):
        german = symbol in ("eins", "zwei", "drei", "vier")
        column = 0 if number < 4 else (int(classes > 2) if german else classes - 1)
        table[number, column] = number / 4
    return table


def write(path, head="states", classes=3, **changes):
    """States are the ids; the logits of a token come from a table, those of a text are their sum."""
    tokens, shape = (TensorProto.INT64, ["B", "S"]), ["B", "S", 1]
    nodes = [helper.make_node("Unsqueeze", ["tokens", "axes"], ["wide"])]
    nodes.append(helper.make_node("Cast", ["wide"], ["states"], to=TensorProto.FLOAT))
    outputs, constants = {"states": (TensorProto.FLOAT, shape)}, {"axes": np.array([2])}
    if head != "states":
        nodes.append(helper.make_node("Gather", ["table", "tokens"], ["each" if HEADS[head] else "logits"]))
        constants.update(table=scores(classes), first=np.array([1]))
        nodes += [helper.make_node("ReduceSum", ["each", "first"], ["logits"], keepdims=0)] if HEADS[head] else []
        outputs["logits"] = (TensorProto.FLOAT, ["B", classes] if HEADS[head] else ["B", "S", classes])
    section = {"head": head, "labels": LABELS if head in ("classification", "tokens") else [], "languages": []}
    section.update({"format": "xlmr", "pooling": "mean", **(SPANS if head == "spans" else {}), **changes})
    limits = {"source_tokens": 9}
    folder = folders.write_folder(
        path, kind="encoder", encoder=section, limits=limits, ignored=[], pairs=None, slots=None
    )
    for file in ("alignment.onnx", "encoder.onnx"):
        (folder / file).unlink()
    folders._save(folder / "encoder.onnx", folders.FINGERPRINT, nodes, {"tokens": tokens}, outputs, constants)
    described = json.loads((folder / "model.json").read_text())
    digest = hashlib.sha256((folder / "encoder.onnx").read_bytes()).hexdigest()
    del described["files"]["alignment.onnx"]
    described["files"]["encoder.onnx"] = digest
    (folder / "model.json").write_text(json.dumps(described))
    return folder


def ids(*symbols):
    names = {"<s>": BLANK, "</s>": EOS, "?": UNK}
    return [names[symbol] if symbol in names else SYMBOLS.index(symbol) for symbol in symbols]


@pytest.mark.cases(
    "text symbols",
    ("eins  two\n", ["<s>", "eins", "two", "</s>"]),
    ("", ["<s>", "</s>"]),
    ("nichts", ["<s>", "?", "</s>"]),
    ("eins " * 20, ["<s>", *["eins"] * 7, "</s>"]),
    (("eins", "two three"), ["<s>", "eins", "</s>", "</s>", "two", "three", "</s>"]),
    (("eins " * 9, "two"), ["<s>", *["eins"] * 4, "</s>", "</s>", "two", "</s>"]),
    (("eins " * 9, "two " * 9), ["<s>", "eins", "eins", "</s>", "</s>", *["two"] * 3, "</s>"]),
)  # fmt: skip
def test_texts_are_put_together_and_cut(tmp_path, text, symbols):
    model = load(write(tmp_path / "model"))
    found = model.encode([text, "two"], batch_tokens=4)
    assert [states[:, 0].tolist() for states in found] == [ids(*symbols), ids("<s>", "two", "</s>")]
    whole = model.count_tokens(text)
    assert whole == len(symbols) if len(symbols) < 9 else whole >= 9
    assert model.encode([text], pooled=True)[0][0] == pytest.approx(np.mean(ids(*symbols)))


@pytest.mark.cases(
    "format_ expected",
    ("mbart", ["one", "</s>", "two", "</s>", "four"]),
    ("mbart50", ["four", "one", "</s>", "two", "</s>"]),
    ("bert", ["<s>", "one", "</s>", "two", "</s>"]),
)
def test_every_format_has_its_places(tmp_path, format_, expected):
    languages = [{"name": "en", "id": SYMBOLS.index("four")}] if format_ != "bert" else []
    model = load(write(tmp_path / "model", format=format_, languages=languages))
    language = "en" if languages else None
    assert model.encode([("one", "two")], language)[0][:, 0].tolist() == ids(*expected)
    with pytest.raises(
        ModelError, match=f"language de: not one of the model's; valid: {'en' if languages else 'none'}"
    ):
        model.encode(["one"], "de")
    if languages:
        with pytest.raises(ModelError, match="language None"):
            model.encode(["one"])


def test_classes_come_with_their_probabilities(tmp_path):
    model = load(write(tmp_path / "model", "classification"))
    german, english = model.classify(["eins zwei", "one"])
    assert (german.label, english.label) == ("number", "word")
    assert sum(german.probabilities) == pytest.approx(1) and german.probability == max(german.probabilities)
    logits = sum(scores(3)[number] for number in ids("<s>", "eins", "zwei", "</s>"))
    assert np.allclose(german.probabilities, np.exp(logits) / np.exp(logits).sum(), atol=1e-6)
    assert model.classify([]) == []


def test_a_rank_is_an_expected_grade(tmp_path):
    model = load(write(tmp_path / "model", "ranking", labels=["0", "1", "5"]))
    (found,) = model.rank(["one"])
    assert found == pytest.approx(np.dot(model.classify(["one"])[0].probabilities, [0, 1, 5]), abs=1e-6)


def test_words_are_tagged_as_far_as_there_is_room(tmp_path):
    found = load(write(tmp_path / "model", "tokens")).tag(["eins two nichts", "", "zwei " * 9])
    assert found == [["number", "word", "none"], [], ["number"] * 7 + [""] * 2]


def test_the_best_span_of_all_windows_is_the_answer(tmp_path):
    model = load(write(tmp_path / "model", "spans", 2))
    passage = "eins eins eins vier four eins eins zwei three"
    found = model.answer([("one", passage), ("one", " zwei "), ("one", "")])
    assert [answer.text for answer in found] == ["vier four", "zwei", ""]
    assert found[0].score == pytest.approx(SYMBOLS.index("vier") / 4 + SYMBOLS.index("four") / 4)


@pytest.mark.cases(
    "changes message",
    ({"head": "guesses"}, "head 'guesses'; valid: states"),
    ({"format": "plain"}, "format 'plain'"),
    ({"pooling": "max"}, "pooling 'max'"),
    ({"languages": [{"name": "en", "id": SIZE}]}, "id 13"),
    ({"labels": "all"}, "labels 'all'"),
    ({"head": "spans"}, "max_question is missing"),
    ({"head": "spans", **SPANS, "max_question": 9}, "max_question 9; valid: less than"),
)
def test_what_is_wrong_is_named(tmp_path, changes, message):
    folder = write(tmp_path / "model", "spans", 2)
    described = json.loads((folder / "model.json").read_text())
    described["encoder"] = {
        "head": "tokens",
        "labels": [],
        "languages": [],
        "format": "bert",
        "pooling": "first",
        **changes,
    }
    (folder / "model.json").write_text(json.dumps(described))
    with pytest.raises(ModelError, match=message):
        load(folder)


def test_classes_that_are_not_the_labels_are_refused(tmp_path):
    model = load(write(tmp_path / "model", "tokens", 4))
    with pytest.raises(ModelError, match="the graph has 4 classes, model.json 3"):
        model.tag(["eins"])


def test_what_a_head_does_not_do_and_no_text_are_refused(tmp_path):
    model = load(write(tmp_path / "model"))
    for ask in (model.classify, model.rank, model.tag, model.answer):
        with pytest.raises(ModelError, match="whose head is states does not do that"):
            ask([])
    with pytest.raises(ModelError, match="text 2: the text has half of a surrogate pair"):
        model.encode(["one", "\ud800"])
    with pytest.raises(ModelError, match="a text of 3 parts"):
        model.encode([("one", "two", "three")])
    with pytest.raises(ModelError, match="kind encoder does not translate"):
        Translator(Folder(tmp_path / "model"))
