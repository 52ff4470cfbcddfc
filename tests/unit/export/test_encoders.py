"""Encoders and their heads: the runtime gives of text what torch gives of the rows that the tasks make of it."""

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

LABELS = {"classification": ["no", "maybe", "yes"], "ranking": ["0", "1", "2", "3"], "tokens": ["O", "B-PER", "I-PER"]}
TASKS = {
    "classification": "cross_lingual_classification",
    "ranking": "relevance_ranking",
    "tokens": "token_classification",
    "spans": "span_qa",
}
LONGEST = 20
NEAR = dict(rtol=0, atol=1e-4)
LANGUAGES = ("de_DE", "en_XX")


class Trained:
    """A checkpoint of an understanding task with random weights, its data folder, and what the task and torch make of text."""

    def __init__(self, folder, head, family="xlmr", input_format="xlmr", **options):
        pieces = nlu_builders.write_sentencepiece(folder / "data")[3:]
        random.Random(1).shuffle(pieces)
        nlu_builders.write_dict(folder / "data" / "dict.txt", pieces)
        nlu_builders.write_dict(folder / "data" / "label" / "dict.txt", LABELS.get(head, []))
        name = TASKS[head]
        config = asdict(tasks.TASK_DATACLASS_REGISTRY[name]())
        config.update(_name=name, data=str(folder / "data"), input_format=input_format, max_positions=LONGEST)
        run = {"seed": 1, "finetune_from_model": None, "restore_file": "", "save_dir": "", "regression_target": False}
        run.update(classification_head_name="head", max_question=5, window_stride=4, max_answer=3)
        config.update({key: value for key, value in run.items() if key in config})
        config["langs"] = ",".join(LANGUAGES) if input_format.startswith("mbart") else ""
        self.task = tasks.setup_task(OmegaConf.create(config))
        sizes = {**nlu_builders.SCRATCH, "encoder_family": family, **options}
        self.model = nlu_builders.build(nlu_builders.arguments(**sizes), self.task.dictionary.symbols[4:])
        self.task.add_head(self.model)
        nlu_builders.randomise(self.model)
        for head in self.model.classification_heads.values():
            head.dense.weight.data.mul_(4), head.out_proj.weight.data.mul_(8)
        self.path = folder / "model.pt"
        entries = {"cfg": {"model": self.model.args, "task": config}, "task_state": self.task.state_dict()}
        save_checkpoint(start_state(self.model.state_dict(), **entries), self.path)
        self.segmenter = SentencePiece(folder / "data" / "sentencepiece.bpe.model")

    def ids(self, text):
        return torch.tensor([self.task.dictionary.index(piece) for piece in next(self.segmenter.encode([text]))])

    def row(self, texts, language=None):
        texts = (texts,) if isinstance(texts, str) else texts
        parts = [self.ids(text).long() for text in texts]
        mark = None if language is None else self.task.dictionary.index(f"[{language}]")
        return self.task.input_format.assemble(parts, LONGEST, mark)

    @torch.no_grad()
    def logits(self, tokens, head=None):
        return self.model(tokens[None], classification_head_name=head)[0][0]


def exported(path, *options):
    """The model as its real graphs compute it; making them takes seconds."""
    folder = path.parent / f"out{''.join(options)}"
    assert main(["export", str(path), str(folder), *options]) == 0
    return load(folder, threads=1)


class InTorch:
    """The module behind a graph in place of the graph."""

    def __init__(self, graph):
        self.graph = graph

    def expect(self, inputs, outputs):
        assert inputs == [*self.graph.inputs] and outputs == [*self.graph.outputs]

    @torch.no_grad()
    def run(self, outputs, inputs):
        found = self.graph.module(**{name: torch.from_numpy(value) for name, value in inputs.items()})
        found = dict(zip(self.graph.outputs, found if isinstance(found, tuple) else (found,)))
        return [found[name].numpy() for name in outputs]


@pytest.fixture
def ready(monkeypatch):
    """Makes a runtime model of a :class:`Trained` without graphs."""

    def write(graphs, place, *rest):
        (place / "encoder.onnx").write_bytes(b"")
        monkeypatch.setattr(Folder, "graphs", lambda self, *names: {"encoder": InTorch(graphs["encoder"])})
        return []

    monkeypatch.setattr(folders, "write_graphs", write)
    return exported


def texts(count=12, longest=30, seed=3):
    draw = random.Random(seed)
    return ["".join(draw.choice("abcdefghijkl  é") for _ in range(draw.randint(0, longest))) for _ in range(count)]


def pairs(count=8):
    return list(zip(texts(count, 40, 4), texts(count, 15, 5)))


@pytest.mark.cases(
    "family input_format language pooling",
    ("xlmr", "xlmr", None, None),
    ("bert", "bert", None, "last"),
    ("mbart", "mbart", "de_DE", None),
    ("nllb", "mbart50", "en_XX", "mean"),
)
def test_classes_are_those_of_torch(tmp_path, ready, family, input_format, language, pooling):
    trained = Trained(tmp_path, "classification", family, input_format, sentence_pooling=pooling)
    model = ready(trained.path)
    inputs = [*texts(), *pairs()]
    found = model.classify(inputs, language, batch_tokens=60)
    states, vectors = model.encode(inputs, language), model.encode(inputs, language, pooled=True)
    assert model.languages == ([*LANGUAGES] if language else [])
    spread = []
    for one, text, state, vector in zip(found, inputs, states, vectors):
        tokens = trained.row(text, language).tokens
        expected = trained.logits(tokens, "head").softmax(-1)
        assert_close(torch.tensor(one.probabilities), expected, **NEAR)
        assert one.label == LABELS["classification"][expected.argmax()]
        assert one.probability == max(one.probabilities)
        assert_close(torch.from_numpy(state), trained.logits(tokens), **NEAR)
        places = {"first": state[0], "last": state[-1], "mean": state.mean(axis=0)}
        assert np.allclose(vector, places[trained.model.pooling])
        assert model.count_tokens(text) >= len(tokens)
        spread.append(one.probability)
    assert max(spread) - min(spread) > 0.02


def test_grades_are_expected_ones(tmp_path, ready):
    trained = Trained(tmp_path, "ranking")
    model, inputs = ready(trained.path), pairs()
    expected = [
        float(trained.logits(trained.row(pair).tokens, "ranking_head").softmax(-1) @ torch.arange(4.0))
        for pair in inputs
    ]
    assert np.allclose(model.rank(inputs), expected, rtol=0, atol=1e-4)
    assert max(expected) - min(expected) > 0.1
    assert {one.label for one in model.classify(inputs)} <= set(LABELS["ranking"])


def test_a_word_has_the_class_of_its_first_piece(tmp_path, ready):
    trained = Trained(tmp_path, "tokens")
    lines = ["abc de fghi", "", "é kl", "abcdefghijkl " * 8]
    found, seen = ready(trained.path).tag(lines), set()
    for line, tags in zip(lines, found):
        words = [trained.ids(word) for word in line.split()]
        made = trained.task.input_format.assemble([torch.cat([*words, torch.zeros(0)]).long()], LONGEST)
        best = trained.logits(made.tokens, "head").argmax(-1)
        places = np.cumsum([0, *map(len, words)])[:-1]
        expected = [LABELS["tokens"][best[1 + at]] if at < made.lengths[0] else "" for at in places]
        assert tags == expected
        seen.update(tags)
    assert len(seen) > 2 and "" in found[-1]


def test_answers_are_the_best_spans_of_all_windows(tmp_path, ready):
    trained = Trained(tmp_path, "spans")
    asked = [("abc de", texts(1, 60, seed)[0]) for seed in range(8)] + [("abcdefghijkl abcdefgh", "ﬁ ½ kl")]
    found = ready(trained.path).answer(asked)
    places = [trained.segmenter.locate(passage) for _, passage in asked]
    rows = [[trained.ids(question).tolist() + [2] for question, _ in asked]]
    rows.append([[trained.task.dictionary.index(piece) for piece in pieces] + [2] for pieces, _ in places])
    offsets = nlu_bins.Rows([[end for span in spans for end in span] for _, spans in places])
    entries = [QuestionEntry(str(number), number, ()) for number in range(len(asked))]
    gold = np.full((len(asked), 2), -1)
    given = QuestionSet(entries, [passage for _, passage in asked], offsets, gold, None)
    options, cfg = trained.task.input_options("test"), trained.task.cfg
    parts = [nlu_bins.Rows(one) for one in rows]
    dataset = QuestionDataset(parts, options, given, cfg.max_question, cfg.window_stride)
    assert dataset.windows.max() > 2
    batch = dataset.collater([dataset[number] for number in range(len(dataset))])
    with torch.no_grad():
        logits = trained.model(batch["net_input"]["src_tokens"], classification_head_name="span_head")[0]
    outside = outside_passage(logits.size(1), batch["passage_start"], batch["passage_length"])
    scores, first, last = best_spans(logits, outside, cfg.max_answer)
    best = best_rows(scores, batch["group"], len(asked))
    shift = batch["first_piece"][best] - batch["passage_start"][best]
    for number, question in enumerate(batch["questions"]):
        place = best[number]
        expected = question.text(int(first[place] + shift[number]), int(last[place] + shift[number]))
        assert found[number].text == expected
        assert found[number].score == pytest.approx(float(scores[place]), abs=1e-4)
    assert len({answer.text for answer in found}) > 5


# ---- Encoders alone. ----


def test_a_veco_in_pre_training_is_exported_as_its_encoder(tmp_path, ready):
    veco_builders.pretrained(tmp_path / "model.pt")
    nlu_builders.write_dict(tmp_path / "dict.txt", [*nlu_builders.PIECES, "<mask>"])
    model, encoder = ready(tmp_path / "model.pt"), load_text_encoder(tmp_path / "model.pt")
    assert model.head == "states" and not model.labels and not encoder.layout.scale_embedding
    with torch.no_grad():
        expected = encoder.features(torch.tensor([[0, 5, 6, 7, 9, 2]]))[0]
    assert_close(torch.from_numpy(model.encode(["p1 p2  p3 p5"])[0]), expected, **NEAR)
    with pytest.raises(ModelError, match="whose head is states does not do that; valid: classification or ranking"):
        model.classify(["p1"])
    with pytest.raises(ModelError, match="language de: not one of the model's; valid: none"):
        model.encode(["p1"], "de")


def test_the_encoder_of_a_model_that_translates_is_asked_for(tmp_path, ready):
    veco_builders.released(tmp_path)
    nlu_builders.write_dict(tmp_path / "dict.txt", [*nlu_builders.PIECES, "<mask>"])
    model, encoder = ready(tmp_path / "model.pt", "--encoder"), load_text_encoder(tmp_path / "model.pt")
    assert encoder.layout.scale_embedding
    with torch.no_grad():
        expected = encoder.features(torch.tensor([[0, 5, 9, 2]]))[0]
    assert_close(torch.from_numpy(model.encode(["p1 p5"])[0]), expected, **NEAR)


# ---- Real graphs. ----


def test_the_graph_of_onnxruntime_is_that_of_torch(tmp_path):
    trained = Trained(tmp_path, "classification", "bert", "bert", sentence_pooling="last")
    model, inputs = exported(trained.path), [*texts(5), "a"]
    for text, states, found in zip(inputs, model.encode(inputs), model.classify(inputs, batch_tokens=50)):
        tokens = trained.row(text).tokens
        assert_close(torch.from_numpy(states), trained.logits(tokens), **NEAR)
        assert_close(torch.tensor(found.probabilities), trained.logits(tokens, "head").softmax(-1), **NEAR)


def test_int8_stays_near_and_names_what_it_rounds(tmp_path):
    if sessions.has_wrong_products():
        pytest.skip(
            f"onnxruntime {onnxruntime.__version__} computes some products of 8 bits wrong on processors with AMX"
        )
    trained = Trained(tmp_path, "tokens", "nllb", "mbart50")
    model, inputs = exported(trained.path, "--int8"), texts(5)
    assert model.precision == "int8"
    found = [torch.from_numpy(states) for states in model.encode(inputs, "en_XX")]
    differences = [one - trained.logits(trained.row(text, "en_XX").tokens) for one, text in zip(found, inputs)]
    assert 1e-4 < max(float(one.abs().max()) for one in differences) < 0.2
    listed = json.loads((tmp_path / "out--int8" / "model.json").read_text())["quantised"]
    assert any("head.out_proj" in name for name in listed) and any("words.tokens" in name for name in listed)


# ---- Refused. ----


def refused(message, path, *options, capsys):
    with pytest.raises(SystemExit):
        main(["export", str(path), str(path.parent / "refused"), *options])
    assert message in capsys.readouterr().err
    assert not (path.parent / "refused").exists()


def test_pieces_that_the_runtime_cannot_make_are_refused(tmp_path, capsys):
    trained = Trained(tmp_path, "classification")
    (tmp_path / "data" / "sentencepiece.bpe.model").rename(tmp_path / "data" / "codes.bpe")
    refused("the runtime has no fastBPE", trained.path, capsys=capsys)


def test_what_is_no_encoder_of_its_own_is_refused(tmp_path, capsys):
    nlu_builders.mbart_cc25(tmp_path)
    refused("an encoder of the family mbart", tmp_path / "model.pt", "--encoder", capsys=capsys)
    path = tmp_path / "model.pt"
    refused("--beam: has no meaning for an encoder", path, "--encoder", "--beam", "4", capsys=capsys)
    refused("--target-lang: has no meaning for an encoder", path, "--encoder", "-t", "de", capsys=capsys)
    refused("--heads: a model that translates tells its own", path, "--heads", "2", capsys=capsys)
    refused("--encoder: has no meaning with --format", path, "--format", "safetensors", "--encoder", capsys=capsys)


def test_rows_without_a_name_are_refused(tmp_path, capsys):
    veco_builders.pretrained(tmp_path / "model.pt")
    refused("nothing tells what its 25 rows mean", tmp_path / "model.pt", capsys=capsys)
