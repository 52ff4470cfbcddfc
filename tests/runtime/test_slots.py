"""Test the decoding loops of the runtime against those of ``fairseq_plugins.sga``."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fairseq_plugins.ops.ctc import BestPath
from fairseq_plugins.sga.decoding import IterationOptions, SGAGenerator
from fairseq_plugins.sga.mask_predict import MaskPredictOptions, SGAMaskPredictGenerator
from fairseq_plugins_runtime import slots
from fairseq_plugins_runtime.folder import Graph, Symbols
from fairseq_plugins_runtime.model_json import ModelError, Values
from fairseq_plugins_runtime.slots import SlotDecoder

SIZE, SENTENCES, LENGTHS, TABLES = 9, 40, 12, 16
BLANK, PAD, EOS, UNK = range(4)
MASK = SIZE - 1


class TableModel:
    """A model that maps each slot by a random table that its source chooses.

    Outputs settle after some passes, or repeat in cycles.

    Attributes:
        runs: number of passes.
        widest: sentences of the largest pass.
    """

    upsample, blank, mask = 2, BLANK, MASK

    def __init__(self, alignment="ctc", fill_blanks=False, denoiser=True):
        rng = np.random.default_rng(5)
        self.alignment, self.fill_blanks, self.has_denoiser = alignment, fill_blanks, denoiser
        shape = (TABLES, SIZE)
        self.tables = {name: rng.integers(0, SIZE, shape) for name in ("alignment", "denoising")}
        self.filling = rng.integers(1, SIZE, shape)
        self.scores = -rng.random(shape).astype(np.float32)
        # Rounded, so that some lengths are equally likely.
        self.lengths = -rng.random((TABLES, LENGTHS)).round(1).astype(np.float32)
        self.runs = self.widest = 0

    def choose(self, source):
        """Return the number of the table of each sentence."""
        return np.where(source == PAD, 0, source).sum(axis=1) % TABLES

    def run_unit(self, name, tokens, lengths, source):
        """Return best, pieces and log_probs; they are arbitrary in padding."""
        self.runs += 1
        self.widest = max(self.widest, len(tokens))
        shift = np.zeros_like(tokens)
        if name == "alignment":  # it depends on the complete sentence
            places = np.arange(tokens.shape[1])[None]
            inside = np.where(places < lengths[:, None], tokens, 0)
            shift = places + inside.sum(axis=1, keepdims=True)
        row = self.choose(source)[:, None]
        best = self.tables[name][row, (tokens + shift) % SIZE]
        return {
            "best": best,
            "pieces": np.where(best == BLANK, self.filling[row, tokens], best),
            "log_probs": self.scores[row, best] - np.float32(0.1) * (tokens == MASK),
        }

    # ---- Methods that the generators call. ----

    def eval(self):
        return self

    def encode(self, src_tokens):
        lengths = self.lengths[self.choose(src_tokens.numpy())]
        return Guidance(src_tokens, torch.from_numpy(lengths))

    def slot_lengths(self, lengths):
        return lengths * self.upsample

    denoiser_slots = slot_lengths

    def blank_sentence(self, lengths):
        return lengths.new_full((len(lengths), int(lengths.max())), MASK)

    def _path(self, name, tokens, guidance, lengths):
        outputs = self.run_unit(name, tokens.numpy(), lengths.numpy(), guidance.source.numpy())
        outside = torch.arange(tokens.size(1)) >= lengths[:, None]
        padding = {"best": BLANK, "pieces": BLANK, "log_probs": 0.0}
        return BestPath(
            *(torch.from_numpy(outputs[key]).masked_fill(outside, padding[key]) for key in padding)
        )

    def align(self, guidance, lengths):
        return self._path("alignment", self.blank_sentence(lengths), guidance, lengths)

    def denoise(self, tokens, guidance, lengths):
        return self._path("denoising", tokens, guidance, lengths)

    def best_path(self, hidden, lengths, penalty=0.0):
        return hidden

    def denoiser_input(self, path):
        return path.pieces if self.fill_blanks else path.tokens

    def fill_masks(self, tokens, masked, guidance, lengths):
        path = self._path("alignment", tokens, guidance, lengths)
        return path.tokens[masked], path.log_probs[masked]

    def duplicate(self, tokens):
        return tokens.repeat_interleave(self.upsample, dim=1)


class Guidance:
    """Sources in place of the guidance of a batch."""

    def __init__(self, source, length_log_probs):
        self.source, self.length_log_probs = source, length_log_probs

    def select(self, rows):
        return Guidance(self.source[rows], self.length_log_probs[rows])


class TableGraph(Graph):
    """A graph of a :class:`TableModel`, for the runtime."""

    def __init__(self, model, name):
        self.model, self.name, self.path = model, name, f"{name}.onnx"
        if name == "encoder":
            self.inputs, self.outputs = ["source"], ["keys", "values"]
            if model.alignment == "mask_predict":
                self.outputs.append("length_log_probs")
        else:
            self.inputs = ["tokens", "lengths", "source", "keys", "values"]
            self.outputs = ["best", "pieces", "log_probs"]

    def run(self, names, inputs):
        assert sorted(inputs) == sorted(self.inputs)
        source = inputs["source"]
        if self.name == "encoder":
            keys = source[None, :, None, :, None].astype(np.float32)
            log_probs = self.model.lengths[self.model.choose(source)]
            outputs = {"keys": keys, "values": -keys, "length_log_probs": log_probs}
        else:
            # Sources and states of a sentence must arrive in the same row.
            np.testing.assert_array_equal(inputs["keys"][0, :, 0, :, 0], source)
            tokens, lengths = inputs["tokens"], inputs["lengths"]
            outputs = self.model.run_unit(self.name, tokens, lengths, source)
        return [outputs[name] for name in names]


def make_decoder(model, max_iter=10, adaptive=True, iterations=4, length_beam=1, **changes):
    """Make the runtime's decoder of a model; ``changes`` are entries of ``slots``."""
    description = {
        "slots": {
            "upsample": 2,
            "blank": BLANK,
            "mask": MASK,
            "lengths": LENGTHS,
            "alignment": model.alignment,
            "denoiser": model.has_denoiser,
            "fill_blanks": model.fill_blanks,
            **changes,
        },
        "search": {
            "max_iter": max_iter,
            "adaptive": adaptive,
            "mask_predict_iterations": iterations,
            "length_beam": length_beam,
        },
    }
    folder = SimpleNamespace(
        model=Values(description, "model.json"),
        text=SimpleNamespace(target=range(SIZE), symbol=str),
        symbols=Symbols(BLANK, PAD, EOS, UNK),
        graphs=lambda *names: {name: TableGraph(model, name) for name in names},
    )
    return SlotDecoder(folder)


@pytest.fixture
def sources():
    """Sentences of 3 to 9 tokens, (SENTENCES, 9)."""
    rng = np.random.default_rng(2)
    rows = rng.integers(UNK + 1, 2**20, (SENTENCES, 9))
    return np.where(np.arange(9)[None] < rng.integers(3, 10, SENTENCES)[:, None], rows, PAD)


def generate(model, sources, max_iter, adaptive, mask_predict=None):
    """Return the hypotheses of the generator of ``fairseq_plugins.sga``."""
    dictionary = SimpleNamespace(
        pad=lambda: PAD, eos=lambda: EOS, bos=lambda: BLANK, index=lambda symbol: MASK
    )
    options = IterationOptions(max_iter, adaptive, retain_history=True)
    if mask_predict is None:
        generator = SGAGenerator(dictionary, options)
    else:
        generator = SGAMaskPredictGenerator(dictionary, options, mask_predict)
    tokens = torch.from_numpy(sources)
    sample = {"net_input": {"src_tokens": tokens, "src_lengths": tokens.ne(PAD).sum(dim=1)}}
    return [hypotheses[0] for hypotheses in generator.generate([model], sample)]


def assert_same_hypotheses(actual, expected):
    """Compare tokens, scores and passes of the runtime with those of the generator."""
    for hypothesis, reference in zip(actual, expected):
        assert (hypothesis.tokens or [EOS]) == reference["tokens"].tolist()
        assert hypothesis.score == pytest.approx(float(reference["score"]), abs=1e-6)
        assert hypothesis.passes == reference["steps"]


@pytest.mark.cases(
    "max_iter adaptive fill_blanks denoiser",
    (10, True, False, True),
    (10, True, True, True),
    (4, False, True, True),
    (1, True, False, True),
    (0, True, False, True),
    (10, True, False, False),
)
def test_ctc_decoding_equals_the_generator(sources, max_iter, adaptive, fill_blanks, denoiser):
    model = TableModel(fill_blanks=fill_blanks, denoiser=denoiser)
    reference = TableModel(fill_blanks=fill_blanks, denoiser=denoiser)
    hypotheses = make_decoder(model, max_iter, adaptive).decode(sources, None)
    assert_same_hypotheses(hypotheses, generate(reference, sources, max_iter, adaptive))
    assert model.runs == reference.runs
    if adaptive and denoiser and max_iter == 10:  # sentences end after different passes
        assert len({hypothesis.passes for hypothesis in hypotheses}) > 3


@pytest.mark.cases(
    "iterations length_beam max_iter denoiser",
    (4, 1, 10, True),
    (4, 3, 10, True),
    (1, 2, 3, True),
    (3, 12, 0, True),
    (4, 3, 10, False),
)
def test_mask_predict_equals_the_generator(sources, iterations, length_beam, max_iter, denoiser):
    model = TableModel("mask_predict", denoiser=denoiser)
    decoder = make_decoder(model, max_iter, iterations=iterations, length_beam=length_beam)
    options = MaskPredictOptions(iterations, length_beam)
    expected = generate(model, sources, max_iter, True, options)
    assert_same_hypotheses(decoder.decode(sources, None), expected)


@pytest.mark.parametrize("alignment", ["ctc", "mask_predict"])
def test_a_batch_gives_what_single_sentences_give(sources, alignment):
    decoder = make_decoder(TableModel(alignment), length_beam=2)
    for row, hypothesis in zip(sources, decoder.decode(sources, None)):
        (single,) = decoder.decode(row[None, row != PAD], None)
        assert single.tokens == hypothesis.tokens
        assert single.passes == hypothesis.passes
        assert single.score == pytest.approx(hypothesis.score, abs=1e-6)


@pytest.mark.cases("alignment length_beam", ("ctc", 1), ("mask_predict", 3))
def test_large_batches_are_decoded_in_parts(sources, monkeypatch, alignment, length_beam):
    model = TableModel(alignment)
    decoder = make_decoder(model, length_beam=length_beam)

    def decode():
        return [(result.tokens, result.passes) for result in decoder.decode(sources, None)]

    expected = decode()
    assert model.widest == SENTENCES * length_beam
    sentence_logits = SIZE * 2 * sources.shape[1] * length_beam
    monkeypatch.setattr(slots, "MOST_LOGITS", 3 * sentence_logits)
    model.widest = 0
    assert decode() == expected
    assert model.widest == 3 * length_beam
    monkeypatch.setattr(slots, "MOST_LOGITS", 1)
    assert decode() == expected


def test_a_trace_has_the_slots_of_every_pass(sources):
    decoder = make_decoder(TableModel())
    hypotheses = generate(TableModel(), sources, 10, True)
    for row, hypothesis in zip(sources, hypotheses):
        trace = decoder.trace(row[None, row != PAD])
        assert len(trace) == hypothesis["steps"] + 1
        assert {len(pieces) for pieces in trace} == {2 * int((row != PAD).sum())}
        for pieces, step in zip(trace, hypothesis["history"]):
            collapsed = [
                piece
                for piece, previous in zip(pieces, [None, *pieces])
                if piece not in ("", previous)
            ]
            assert collapsed == [str(token) for token in step["tokens"].tolist()]


@pytest.mark.cases(
    "changes search message",
    ({"blank": SIZE}, {}, "blank 9"),
    ({"upsample": 0}, {}, "upsample 0"),
    ({"upsample": True}, {}, "upsample True"),
    ({"alignment": "monotonic"}, {}, "alignment 'monotonic'"),
    ({"denoiser": 1}, {}, "denoiser 1"),
    ({"alignment": "mask_predict", "lengths": 2}, {"length_beam": 3}, "length_beam 3"),
    ({}, {"max_iter": -1}, "max_iter -1"),
    ({"alignment": "mask_predict"}, {}, r"encoder\.onnx: has no output length_log_probs"),
)
def test_invalid_entries_are_refused(changes, search, message):
    with pytest.raises(ModelError, match=message):
        make_decoder(TableModel(), **search, **changes)
