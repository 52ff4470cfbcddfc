"""Test encoders and their heads: the runtime gives of text what torch gives of the task's rows."""

import json
import random
from dataclasses import asdict

import numpy as np
import onnxruntime
import pytest
import torch
from fairseq import tasks
from omegaconf import OmegaConf
from torch.testing import assert_close

from data_prep.pieces.segmenters import SentencePiece
from fairseq_plugins.__main__ import main
from fairseq_plugins.checkpoints.writing import save_checkpoint, start_state
from fairseq_plugins.export import folder as folders
from fairseq_plugins.understanding.answers import best_rows, best_spans, outside_passage
from fairseq_plugins.understanding.encoder import load_text_encoder
from fairseq_plugins.understanding.questions import QuestionDataset, QuestionEntry, QuestionSet
from fairseq_plugins_runtime import ModelError, load, sessions
from fairseq_plugins_runtime.folder import Folder
from tests import nlu_bins, nlu_builders, veco_builders

LABELS = {
    "classification": ["no", "maybe", "yes"],
    "ranking": ["0", "1", "2", "3"],
    "tokens": ["O", "B-PER", "I-PER"],
}
TASKS = {
    "classification": "cross_lingual_classification",
    "ranking": "relevance_ranking",
    "tokens": "token_classification",
    "spans": "span_qa",
}
MAX_POSITIONS = 20
TOLERANCE = dict(rtol=0, atol=1e-4)
LANGUAGES = ("de_DE", "en_XX")


class TaskCheckpoint:
    """A random checkpoint of an understanding task, and what the task and torch make of text."""

    def __init__(self, folder, head, family="xlmr", input_format="xlmr", **options):
        pieces = nlu_builders.write_sentencepiece(folder / "data")[3:]
        random.Random(1).shuffle(pieces)
        nlu_builders.write_dict(folder / "data" / "dict.txt", pieces)
        nlu_builders.write_dict(folder / "data" / "label" / "dict.txt", LABELS.get(head, []))
        config = self.task_config(folder, head, input_format)
        self.task = tasks.setup_task(OmegaConf.create(config))
        sizes = {**nlu_builders.SCRATCH, "encoder_family": family, **options}
        symbols = self.task.dictionary.symbols[4:]
        self.model = nlu_builders.build(nlu_builders.arguments(**sizes), symbols)
        self.task.add_head(self.model)
        nlu_builders.randomise(self.model)
        for module in self.model.classification_heads.values():
            module.dense.weight.data.mul_(4)
            module.out_proj.weight.data.mul_(8)
        self.path = folder / "model.pt"
        state = start_state(
            self.model.state_dict(),
            cfg={"model": self.model.args, "task": config},
            task_state=self.task.state_dict(),
        )
        save_checkpoint(state, self.path)
        self.segmenter = SentencePiece(folder / "data" / "sentencepiece.bpe.model")

    @staticmethod
    def task_config(folder, head, input_format):
        config = asdict(tasks.TASK_DATACLASS_REGISTRY[TASKS[head]]())
        config.update(
            _name=TASKS[head],
            data=str(folder / "data"),
            input_format=input_format,
            max_positions=MAX_POSITIONS,
            langs=",".join(LANGUAGES) if input_format.startswith("mbart") else "",
        )
        run_options = {
            "seed": 1,
            "finetune_from_model": None,
            "restore_file": "",
            "save_dir": "",
            "regression_target": False,
            "classification_head_name": "head",
            "max_question": 5,
            "window_stride": 4,
            "max_answer": 3,
        }
        config.update({name: run_options[name] for name in run_options if name in config})
        return config

    def ids(self, text):
        pieces = next(self.segmenter.encode([text]))
        return torch.tensor([self.task.dictionary.index(piece) for piece in pieces]).long()

    def row(self, texts, language=None):
        """Assemble a text, or a pair of texts, as the task does."""
        texts = (texts,) if isinstance(texts, str) else texts
        parts = [self.ids(text) for text in texts]
        mark = None if language is None else self.task.dictionary.index(f"[{language}]")
        return self.task.input_format.assemble(parts, MAX_POSITIONS, mark)

    @torch.no_grad()
    def logits(self, tokens, head=None):
        return self.model(tokens[None], classification_head_name=head)[0][0]


def export(path, *options):
    """Export a checkpoint with its ONNX graphs, which takes seconds, and load it."""
    folder = path.parent / f"out{''.join(options)}"
    assert main(["export", str(path), str(folder), *options]) == 0
    return load(folder, threads=1)


class TorchGraph:
    """The module behind a graph, run by torch in place of onnxruntime."""

    def __init__(self, graph):
        self.graph = graph

    def expect(self, inputs, outputs):
        assert inputs == [*self.graph.inputs] and outputs == [*self.graph.outputs]

    @torch.no_grad()
    def run(self, names, inputs):
        outputs = self.graph.module(**{key: torch.from_numpy(inputs[key]) for key in inputs})
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        by_name = dict(zip(self.graph.outputs, outputs))
        return [by_name[name].numpy() for name in names]


@pytest.fixture
def export_to_torch(monkeypatch):
    """The function :func:`export`, with torch in place of ONNX graphs."""

    def write_graphs(graphs, place, *_):
        (place / "encoder.onnx").write_bytes(b"")
        graph = TorchGraph(graphs["encoder"])
        monkeypatch.setattr(Folder, "graphs", lambda self, *names: {"encoder": graph})
        return []

    monkeypatch.setattr(folders, "write_graphs", write_graphs)
    return export


def random_texts(count=12, longest=30, seed=3):
    draw = random.Random(seed)
    return [
        "".join(draw.choice("abcdefghijkl  é") for _ in range(draw.randint(0, longest)))
        for _ in range(count)
    ]


def random_pairs(count=8):
    return list(zip(random_texts(count, 40, 4), random_texts(count, 15, 5)))


@pytest.mark.cases(
    "family input_format language pooling",
    ("xlmr", "xlmr", None, None),
    ("bert", "bert", None, "last"),
    ("mbart", "mbart", "de_DE", None),
    ("nllb", "mbart50", "en_XX", "mean"),
)
def test_classes_states_and_vectors_equal_those_of_torch(
    tmp_path, export_to_torch, family, input_format, language, pooling
):
    checkpoint = TaskCheckpoint(
        tmp_path, "classification", family, input_format, sentence_pooling=pooling
    )
    model = export_to_torch(checkpoint.path)
    inputs = [*random_texts(), *random_pairs()]
    classes = model.classify(inputs, language, batch_tokens=60)
    states = model.encode(inputs, language)
    vectors = model.encode(inputs, language, pooled=True)
    assert model.languages == ([*LANGUAGES] if language else [])
    for text, text_class, state, vector in zip(inputs, classes, states, vectors):
        tokens = checkpoint.row(text, language).tokens
        expected = checkpoint.logits(tokens, "head").softmax(-1)
        assert_close(torch.tensor(text_class.probabilities), expected, **TOLERANCE)
        assert text_class.label == LABELS["classification"][expected.argmax()]
        assert text_class.probability == max(text_class.probabilities)
        assert_close(torch.from_numpy(state), checkpoint.logits(tokens), **TOLERANCE)
        pooled = {"first": state[0], "last": state[-1], "mean": state.mean(axis=0)}
        assert np.allclose(vector, pooled[checkpoint.model.pooling])
        assert model.count_tokens(text) >= len(tokens)
    probabilities = [text_class.probability for text_class in classes]
    assert max(probabilities) - min(probabilities) > 0.02


def test_ranks_are_expected_grades(tmp_path, export_to_torch):
    checkpoint = TaskCheckpoint(tmp_path, "ranking")
    model, inputs = export_to_torch(checkpoint.path), random_pairs()
    grades = torch.arange(4.0)
    expected = []
    for pair in inputs:
        logits = checkpoint.logits(checkpoint.row(pair).tokens, "ranking_head")
        expected.append(float(logits.softmax(-1) @ grades))
    assert np.allclose(model.rank(inputs), expected, rtol=0, atol=1e-4)
    assert max(expected) - min(expected) > 0.1
    assert {pair_class.label for pair_class in model.classify(inputs)} <= set(LABELS["ranking"])


def test_a_word_has_the_tag_of_its_first_piece(tmp_path, export_to_torch):
    checkpoint = TaskCheckpoint(tmp_path, "tokens")
    lines = ["abc de fghi", "", "é kl", "abcdefghijkl " * 8]
    tags = export_to_torch(checkpoint.path).tag(lines)
    for line, line_tags in zip(lines, tags):
        words = [checkpoint.ids(word) for word in line.split()]
        pieces = torch.cat([*words, torch.zeros(0)]).long()
        row = checkpoint.task.input_format.assemble([pieces], MAX_POSITIONS)
        best = checkpoint.logits(row.tokens, "head").argmax(-1)
        starts = np.cumsum([0, *map(len, words)])[:-1]
        expected = [
            LABELS["tokens"][best[1 + start]] if start < row.lengths[0] else "" for start in starts
        ]
        assert line_tags == expected
    assert len({tag for line_tags in tags for tag in line_tags}) > 2 and "" in tags[-1]


def make_question_dataset(checkpoint, questions):
    """Make the task's data set of pairs (question, passage)."""
    task = checkpoint.task
    passages = [passage for _, passage in questions]
    located = [checkpoint.segmenter.locate(passage) for passage in passages]
    eos = task.dictionary.eos()
    question_rows = [[*checkpoint.ids(question).tolist(), eos] for question, _ in questions]
    passage_rows = [[*map(task.dictionary.index, pieces), eos] for pieces, _ in located]
    offsets = nlu_bins.Rows([[end for span in spans for end in span] for _, spans in located])
    entries = [QuestionEntry(str(number), number, ()) for number in range(len(questions))]
    gold = np.full((len(questions), 2), -1)
    return QuestionDataset(
        [nlu_bins.Rows(question_rows), nlu_bins.Rows(passage_rows)],
        task.input_options("test"),
        QuestionSet(entries, passages, offsets, gold, None),
        task.cfg.max_question,
        task.cfg.window_stride,
    )


def test_answers_are_the_best_spans_of_all_windows(tmp_path, export_to_torch):
    checkpoint = TaskCheckpoint(tmp_path, "spans")
    questions = [("abc de", random_texts(1, 60, seed)[0]) for seed in range(8)]
    questions.append(("abcdefghijkl abcdefgh", "ﬁ ½ kl"))
    answers = export_to_torch(checkpoint.path).answer(questions)
    dataset = make_question_dataset(checkpoint, questions)
    assert dataset.windows.max() > 2
    batch = dataset.collater([dataset[number] for number in range(len(dataset))])
    with torch.no_grad():
        tokens = batch["net_input"]["src_tokens"]
        logits = checkpoint.model(tokens, classification_head_name="span_head")[0]
    outside = outside_passage(logits.size(1), batch["passage_start"], batch["passage_length"])
    scores, first, last = best_spans(logits, outside, checkpoint.task.cfg.max_answer)
    best = best_rows(scores, batch["group"], len(questions))
    shift = batch["first_piece"][best] - batch["passage_start"][best]
    for number, question in enumerate(batch["questions"]):
        row = best[number]
        span = (int(first[row] + shift[number]), int(last[row] + shift[number]))
        assert answers[number].text == question.text(*span)
        assert answers[number].score == pytest.approx(float(scores[row]), abs=1e-4)
    assert len({answer.text for answer in answers}) > 5


# ---- Encoders alone. ----


def write_veco_dictionary(folder):
    nlu_builders.write_dict(folder / "dict.txt", [*nlu_builders.PIECES, "<mask>"])


def check_states(model, path, text, ids):
    """Compare the states of a text with those of the encoder that is read from the checkpoint."""
    with torch.no_grad():
        expected = load_text_encoder(path).features(torch.tensor([ids]))[0]
    assert_close(torch.from_numpy(model.encode([text])[0]), expected, **TOLERANCE)


def test_a_veco_in_pretraining_is_exported_as_its_encoder(tmp_path, export_to_torch):
    path = tmp_path / "model.pt"
    veco_builders.pretrained(path)
    write_veco_dictionary(tmp_path)
    model = export_to_torch(path)
    assert model.head == "states" and not model.labels
    check_states(model, path, "p1 p2  p3 p5", [0, 5, 6, 7, 9, 2])
    with pytest.raises(ModelError, match="head is states"):
        model.classify(["p1"])
    with pytest.raises(ModelError, match="language de: .*valid: none"):
        model.encode(["p1"], "de")


def test_the_encoder_of_a_translating_model_is_exported_on_request(tmp_path, export_to_torch):
    path = tmp_path / "model.pt"
    veco_builders.released(tmp_path)
    write_veco_dictionary(tmp_path)
    assert load_text_encoder(path).layout.scale_embedding
    check_states(export_to_torch(path, "--encoder"), path, "p1 p5", [0, 5, 9, 2])


# ---- ONNX graphs. ----


def test_onnxruntime_computes_what_torch_does(tmp_path):
    checkpoint = TaskCheckpoint(tmp_path, "classification", "bert", "bert", sentence_pooling="last")
    model, inputs = export(checkpoint.path), [*random_texts(5), "a"]
    classes = model.classify(inputs, batch_tokens=50)
    for text, states, text_class in zip(inputs, model.encode(inputs), classes):
        tokens = checkpoint.row(text).tokens
        assert_close(torch.from_numpy(states), checkpoint.logits(tokens), **TOLERANCE)
        expected = checkpoint.logits(tokens, "head").softmax(-1)
        assert_close(torch.tensor(text_class.probabilities), expected, **TOLERANCE)


def test_int8_changes_states_little_and_lists_the_rounded_weights(tmp_path):
    if sessions.has_wrong_products():
        pytest.skip(f"onnxruntime {onnxruntime.__version__} computes wrong products with AMX")
    checkpoint = TaskCheckpoint(tmp_path, "tokens", "nllb", "mbart50")
    model, inputs = export(checkpoint.path, "--int8"), random_texts(5)
    assert model.precision == "int8"
    differences = []
    for text, states in zip(inputs, model.encode(inputs, "en_XX")):
        expected = checkpoint.logits(checkpoint.row(text, "en_XX").tokens)
        differences.append(float((torch.from_numpy(states) - expected).abs().max()))
    assert 1e-4 < max(differences) < 0.2
    description = json.loads((tmp_path / "out--int8" / "model.json").read_text())
    for weight in ("head.out_proj", "words.tokens"):
        assert any(weight in name for name in description["quantised"])


# ---- Refused models and options. ----


@pytest.fixture
def check_refusal(capsys):
    """Check that an export fails with a message and writes nothing."""

    def check(message, path, *options):
        folder = path.parent / "refused"
        with pytest.raises(SystemExit):
            main(["export", str(path), str(folder), *options])
        assert message in capsys.readouterr().err
        assert not folder.exists()

    return check


def test_tokenizers_that_the_runtime_lacks_are_refused(tmp_path, check_refusal):
    checkpoint = TaskCheckpoint(tmp_path, "classification")
    data = tmp_path / "data"
    (data / "sentencepiece.bpe.model").rename(data / "codes.bpe")
    check_refusal("no fastBPE", checkpoint.path)


def test_models_and_options_without_meaning_for_an_encoder_are_refused(tmp_path, check_refusal):
    nlu_builders.mbart_cc25(tmp_path)
    path = tmp_path / "model.pt"
    check_refusal("family mbart", path, "--encoder")
    check_refusal("--beam", path, "--encoder", "--beam", "4")
    check_refusal("--target-lang", path, "--encoder", "-t", "de")
    check_refusal("--heads", path, "--heads", "2")


def test_an_encoder_whose_rows_nothing_names_is_refused(tmp_path, check_refusal):
    veco_builders.pretrained(tmp_path / "model.pt")
    check_refusal("25 rows", tmp_path / "model.pt")
