"""Test models of kind ``encoder``: how inputs are assembled and cut, what heads give, errors."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from fairseq_plugins_runtime import ModelError, Translator, load
from fairseq_plugins_runtime.folder import Folder
from tests.runtime import folders
from tests.runtime.folders import BLANK, EOS, GERMAN, SIZE, SPECIAL, SYMBOLS, UNK

LABELS = ["none", "number", "word"]
SPANS = {"max_question": 2, "window_stride": 2, "max_answer": 2}


def make_scores(classes):
    """Make the logits of each symbol, (V, classes).

    A symbol has one class: German symbols class 1, English ones the last, special ones 0. Its logit
    grows with its number. With two classes, German symbols have class 0, so that an answer begins
    with a German symbol and ends with an English one.
    """
    scores = np.zeros((SIZE, classes), np.float32)
    for number, symbol in enumerate(SYMBOLS):
        column = classes - 1
        if symbol in SPECIAL:
            column = 0
        elif symbol in GERMAN:
            column = 1 if classes > 2 else 0
        scores[number, column] = number / 4
    return scores


def write_encoder(path, head="states", classes=3, **changes):
    """Write a folder whose states are the ids; ``changes`` are entries of ``encoder``.

    The logits of a token come from a table; those of a text are their sum.
    """
    nodes = [
        helper.make_node("Unsqueeze", ["tokens", "axes"], ["wide"]),
        helper.make_node("Cast", ["wide"], ["states"], to=TensorProto.FLOAT),
    ]
    outputs = {"states": (TensorProto.FLOAT, ["B", "S", 1])}
    constants = {"axes": np.array([2]), "table": make_scores(classes), "first": np.array([1])}
    if head in ("classification", "ranking"):
        nodes.append(helper.make_node("Gather", ["table", "tokens"], ["token_logits"]))
        summed = helper.make_node("ReduceSum", ["token_logits", "first"], ["logits"], keepdims=0)
        nodes.append(summed)
        outputs["logits"] = (TensorProto.FLOAT, ["B", classes])
    elif head != "states":
        nodes.append(helper.make_node("Gather", ["table", "tokens"], ["logits"]))
        outputs["logits"] = (TensorProto.FLOAT, ["B", "S", classes])
    section = {
        "head": head,
        "labels": LABELS if head in ("classification", "tokens") else [],
        "languages": [],
        "format": "xlmr",
        "pooling": "mean",
    }
    if head == "spans":
        section.update(SPANS)
    folder = folders.write_folder(
        path,
        kind="encoder",
        encoder={**section, **changes},
        graphs={"encoder": "encoder.onnx"},
        limits={"source_tokens": 9},
        ignored=[],
        pairs=None,
        slots=None,
    )
    (folder / "alignment.onnx").unlink()
    inputs = {"tokens": (TensorProto.INT64, ["B", "S"])}
    folders.write_graph(folder / "encoder.onnx", nodes, inputs, outputs, constants)
    description = folders.read_description(folder)
    del description["files"]["alignment.onnx"]
    digest = folders.sha256((folder / "encoder.onnx").read_bytes())
    description["files"]["encoder.onnx"] = digest
    folders.write_description(folder, description)
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
)
def test_texts_are_assembled_and_cut(tmp_path, text, symbols):
    model = load(write_encoder(tmp_path / "model"))
    states = model.encode([text, "two"], batch_tokens=4)
    rows = [text_states[:, 0].tolist() for text_states in states]
    assert rows == [ids(*symbols), ids("<s>", "two", "</s>")]
    tokens = model.count_tokens(text)
    assert tokens == len(symbols) if len(symbols) < 9 else tokens >= 9
    (vector,) = model.encode([text], pooled=True)
    assert vector[0] == pytest.approx(np.mean(ids(*symbols)))


@pytest.mark.cases(
    "input_format symbols",
    ("mbart", ["one", "</s>", "two", "</s>", "four"]),
    ("mbart50", ["four", "one", "</s>", "two", "</s>"]),
    ("bert", ["<s>", "one", "</s>", "two", "</s>"]),
)
def test_formats_place_languages(tmp_path, input_format, symbols):
    needs_language = input_format != "bert"
    languages = [{"name": "en", "id": SYMBOLS.index("four")}] if needs_language else []
    folder = write_encoder(tmp_path / "model", format=input_format, languages=languages)
    model = load(folder)
    (states,) = model.encode([("one", "two")], "en" if needs_language else None)
    assert states[:, 0].tolist() == ids(*symbols)
    valid = "en" if needs_language else "none"
    with pytest.raises(ModelError, match=f"language de: .*valid: {valid}"):
        model.encode(["one"], "de")
    if needs_language:
        with pytest.raises(ModelError, match="language None"):
            model.encode(["one"])


def test_classes_have_probabilities(tmp_path):
    model = load(write_encoder(tmp_path / "model", "classification"))
    german, english = model.classify(["eins zwei", "one"])
    assert (german.label, english.label) == ("number", "word")
    assert german.probability == max(german.probabilities)
    logits = make_scores(3)[ids("<s>", "eins", "zwei", "</s>")].sum(axis=0)
    expected = np.exp(logits) / np.exp(logits).sum()
    assert np.allclose(german.probabilities, expected, atol=1e-6)
    assert model.classify([]) == []


def test_a_rank_is_an_expected_grade(tmp_path):
    model = load(write_encoder(tmp_path / "model", "ranking", labels=["0", "1", "5"]))
    expected = np.dot(model.classify(["one"])[0].probabilities, [0, 1, 5])
    assert model.rank(["one"]) == [pytest.approx(expected, abs=1e-6)]


def test_words_beyond_the_longest_input_have_no_tag(tmp_path):
    model = load(write_encoder(tmp_path / "model", "tokens"))
    tags = model.tag(["eins two nichts", "", "zwei " * 9])
    assert tags == [["number", "word", "none"], [], ["number"] * 7 + [""] * 2]


def test_the_answer_is_the_best_span_of_all_windows(tmp_path):
    model = load(write_encoder(tmp_path / "model", "spans", 2))
    passage = "eins eins eins vier four eins eins zwei three"
    answers = model.answer([("one", passage), ("one", " zwei "), ("one", "")])
    assert [answer.text for answer in answers] == ["vier four", "zwei", ""]
    expected = SYMBOLS.index("vier") / 4 + SYMBOLS.index("four") / 4
    assert answers[0].score == pytest.approx(expected)


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
def test_invalid_descriptions_are_refused(tmp_path, changes, message):
    folder = write_encoder(tmp_path / "model", "spans", 2)
    description = folders.read_description(folder)
    valid = {"head": "tokens", "labels": [], "languages": [], "format": "bert", "pooling": "first"}
    description["encoder"] = {**valid, **changes}
    folders.write_description(folder, description)
    with pytest.raises(ModelError, match=message):
        load(folder)


def test_a_graph_with_other_classes_than_the_labels_is_refused(tmp_path):
    model = load(write_encoder(tmp_path / "model", "tokens", 4))
    with pytest.raises(ModelError, match="graph has 4 classes, model.json 3"):
        model.tag(["eins"])


def test_calls_of_another_head_and_bad_texts_are_refused(tmp_path):
    model = load(write_encoder(tmp_path / "model"))
    for call in (model.classify, model.rank, model.tag, model.answer):
        with pytest.raises(ModelError, match="head is states"):
            call([])
    with pytest.raises(ModelError, match="text 2: .*surrogate pair"):
        model.encode(["one", "\ud800"])
    with pytest.raises(ModelError, match="3 parts"):
        model.encode([("one", "two", "three")])
    with pytest.raises(ModelError, match="kind encoder"):
        Translator(Folder(tmp_path / "model"))
