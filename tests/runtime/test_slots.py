"""Decoding loops of the runtime against those of ``fairseq_plugins.sga``, over one made-up model."""

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

SIZE, SENTENCES, LENGTHS = 9, 40, 12
BLANK, PAD, EOS, UNK = range(4)
MASK = SIZE - 1


class MadeUp:
    """A model that maps each slot by one of some random tables, which the source chooses: outputs settle, or come in cycles."""

    upsample, blank, mask = 2, BLANK, MASK

    def __init__(self, alignment="ctc", fill_blanks=False, denoiser=True):
        rng = np.random.default_rng(5)
        self.alignment, self.fill_blanks, self.has_denoiser = alignment, fill_blanks, denoiser
        shape = (16, SIZE)
        self.tables = {name: rng.integers(0, SIZE, shape) for name in ("alignment", "denoising")}
        self.filling = rng.integers(1, SIZE, shape)
        self.scores = -rng.random(shape).astype(np.float32)
        self.lengths = -rng.random((16, LENGTHS)).round(1).astype(np.float32)  # with equal ones
        self.runs = self.widest = 0

    def choice(self, source):
        """Which table each sentence has."""
        return np.where(source == PAD, 0, source).sum(axis=1) % 16

    def unit(self, name, tokens, lengths, source):
        """best, pieces, log_probs; nothing sensible in padding."""
        self.runs += 1
        self.widest = max(self.widest, len(tokens))
        shift = np.zeros_like(tokens)
        if name == "alignment":  # reads the whole sentence
            places = np.arange(tokens.shape[1])[None]
            shift = places + np.where(places < lengths[:, None], tokens, 0).sum(axis=1, keepdims=True)
        row = self.choice(source)[:, None]
        best = self.tables[name][row, (tokens + shift) % SIZE]
        pieces = np.where(best == BLANK, self.filling[row, tokens], best)
        return {
            "best": best,
            "pieces": pieces,
            "log_probs": self.scores[row, best] - np.float32(0.1) * (tokens == MASK),
        }

    # ---- As the generators see it. ----

    def eval(self):
        return self

    def encode(self, src_tokens):
        return Guided(src_tokens, torch.from_numpy(self.lengths[self.choice(src_tokens.numpy())]))

    def slot_lengths(self, lengths):
        return lengths * self.upsample

    def denoiser_slots(self, lengths):
        return lengths * self.upsample

    def blank_sentence(self, lengths):
        return lengths.new_full((len(lengths), int(lengths.max())), MASK)

    def _path(self, name, tokens, guidance, lengths):
        found = self.unit(name, tokens.numpy(), lengths.numpy(), guidance.source.numpy())
        inside = torch.arange(tokens.size(1)) < lengths[:, None]
        filled = {"best": BLANK, "pieces": BLANK, "log_probs": 0.0}
        return BestPath(*(torch.from_numpy(found[one]).masked_fill(~inside, rest) for one, rest in filled.items()))

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


class Guided:
    """Sources, as the guidance of a batch."""

    def __init__(self, source, length_log_probs):
        self.source, self.length_log_probs = source, length_log_probs

    def select(self, rows):
        return Guided(self.source[rows], self.length_log_probs[rows])


class Part(Graph):
    """A part of the model, as the runtime sees graphs."""

    def __init__(self, model, name):
        self.model, self.name, self.path = model, name, f"{name}.onnx"
        predicted = ["length_log_probs"] if model.alignment == "mask_predict" else []
        self.inputs = ["source"] if name == "encoder" else ["tokens", "lengths", "source", "keys", "values"]
        self.outputs = ["keys", "values", *predicted] if name == "encoder" else ["best", "pieces", "log_probs"]

    def run(self, names, inputs):
        assert sorted(inputs) == sorted(self.inputs)
        source = inputs["source"]
        if self.name == "encoder":
            states = source[None, :, None, :, None].astype(np.float32)
            log_probs = self.model.lengths[self.model.choice(source)]
            found = {"keys": states, "values": -states, "length_log_probs": log_probs}
        else:
            # Rows that belong together must arrive together.
            np.testing.assert_array_equal(inputs["keys"][0, :, 0, :, 0], source)
            found = self.model.unit(self.name, inputs["tokens"], inputs["lengths"], source)
        return [found[name] for name in names]


def decoder(model, max_iter=10, adaptive=True, iterations=4, length_beam=1, **changes):
    """The runtime's decoder of a made-up model."""
    described = {"upsample": 2, "blank": BLANK, "mask": MASK, "lengths": LENGTHS, "alignment": model.alignment}
    described.update(denoiser=model.has_denoiser, fill_blanks=model.fill_blanks)
    search = {
        "max_iter": max_iter,
        "adaptive": adaptive,
        "mask_predict_iterations": iterations,
        "length_beam": length_beam,
    }
    folder = SimpleNamespace(
        model=Values({"slots": {**described, **changes}, "search": search}, "model.json"),
        text=SimpleNamespace(target=range(SIZE), symbol=str),
        symbols=Symbols(BLANK, PAD, EOS, UNK),
        graphs=lambda *names: {name: Part(model, name) for name in names},
    )
    return SlotDecoder(folder)


def sources():
    """Sentences of 3 to 9 tokens, (SENTENCES, 9)."""
    rng = np.random.default_rng(2)
    rows = rng.integers(UNK + 1, 2**20, (SENTENCES, 9))
    return np.where(np.arange(9)[None] < rng.integers(3, 10, SENTENCES)[:, None], rows, PAD)


def expected(model, source, max_iter, adaptive, mask_predict=None):
    """What the generators give: tokens, scores, passes, and the tokens after each pass."""
    dictionary = SimpleNamespace(pad=lambda: PAD, eos=lambda: EOS, bos=lambda: BLANK, index=lambda symbol: MASK)
    options = IterationOptions(max_iter, adaptive, retain_history=True)
    if mask_predict is None:
        generator = SGAGenerator(dictionary, options)
    else:
        generator = SGAMaskPredictGenerator(dictionary, options, mask_predict)
    tokens = torch.from_numpy(source)
    sample = {"net_input": {"src_tokens": tokens, "src_lengths": tokens.ne(PAD).sum(dim=1)}}
    return [sentence[0] for sentence in generator.generate([model], sample)]


def check(found, wanted):
    """Equal tokens, scores and passes."""
    for hypothesis, other in zip(found, wanted):
        assert (hypothesis.tokens or [EOS]) == other["tokens"].tolist()
        assert hypothesis.score == pytest.approx(float(other["score"]), abs=1e-6)
        assert hypothesis.passes == other["steps"]


@pytest.mark.cases(
    "max_iter adaptive fill_blanks denoiser",
    (10, True, False, True),
    (10, True, True, True),
    (37, True, False, True),
    (4, False, True, True),
    (1, True, False, True),
    (0, True, False, True),
    (10, True, False, False),
)
def test_ctc_as_the_generator(max_iter, adaptive, fill_blanks, denoiser):
    model, reference = (
        MadeUp(fill_blanks=fill_blanks, denoiser=denoiser),
        MadeUp(fill_blanks=fill_blanks, denoiser=denoiser),
    )
    found = decoder(model, max_iter, adaptive).decode(sources(), None)
    wanted = expected(reference, sources(), max_iter, adaptive)
    check(found, wanted)
    assert model.runs == reference.runs
    if adaptive and denoiser and max_iter >= 10:  # some settle, some go round in circles, none need all
        assert len({hypothesis.passes for hypothesis in found}) > 3


@pytest.mark.cases(
    "iterations length_beam max_iter denoiser",
    (4, 1, 10, True),
    (4, 3, 10, True),
    (1, 2, 3, True),
    (3, 12, 0, True),
    (4, 3, 10, False),
)
def test_mask_predict_as_the_generator(iterations, length_beam, max_iter, denoiser):
    model = MadeUp("mask_predict", denoiser=denoiser)
    found = decoder(model, max_iter, iterations=iterations, length_beam=length_beam).decode(sources(), None)
    check(found, expected(model, sources(), max_iter, True, MaskPredictOptions(iterations, length_beam)))


@pytest.mark.parametrize("alignment", ["ctc", "mask_predict"])
def test_a_batch_gives_what_its_sentences_give_alone(alignment):
    one = decoder(MadeUp(alignment), length_beam=2)
    together = one.decode(sources(), None)
    for row, hypothesis in zip(sources(), together):
        (alone,) = one.decode(row[None, row != PAD], None)
        assert alone.tokens == hypothesis.tokens
        assert alone.passes == hypothesis.passes
        assert alone.score == pytest.approx(hypothesis.score, abs=1e-6)


@pytest.mark.cases("alignment length_beam", ("ctc", 1), ("mask_predict", 3))
def test_logits_of_a_pass_are_limited(monkeypatch, alignment, length_beam):
    model, source = MadeUp(alignment), sources()
    one = decoder(model, length_beam=length_beam)
    whole = one.decode(source, None)
    assert model.widest == SENTENCES * length_beam
    monkeypatch.setattr(slots, "MOST_LOGITS", 3 * SIZE * 2 * source.shape[1] * length_beam)
    model.widest = 0
    wanted = [(hypothesis.tokens, hypothesis.passes) for hypothesis in whole]
    assert [(found.tokens, found.passes) for found in one.decode(source, None)] == wanted
    assert model.widest == 3 * length_beam
    monkeypatch.setattr(slots, "MOST_LOGITS", 1)
    assert len(one.decode(source, None)) == SENTENCES


def test_trace_has_the_slots_of_every_pass():
    one, source = decoder(MadeUp()), sources()
    wanted = expected(MadeUp(), source, 10, True)
    for row, hypothesis in zip(source, wanted):
        trace = one.trace(row[None, row != PAD])
        assert len(trace) == hypothesis["steps"] + 1
        assert {len(pieces) for pieces in trace} == {2 * int((row != PAD).sum())}
        for pieces, past in zip(trace, hypothesis["history"]):
            kept = [piece for piece, before in zip(pieces, [None, *pieces]) if piece not in ("", before)]
            assert kept == [str(number) for number in past["tokens"].tolist()]


@pytest.mark.cases(
    "changes search named",
    ({"blank": SIZE}, {}, "blank 9"),
    ({"upsample": 0}, {}, "upsample 0"),
    ({"upsample": True}, {}, "upsample True"),
    ({"alignment": "monotonic"}, {}, "alignment 'monotonic'"),
    ({"denoiser": 1}, {}, "denoiser 1"),
    ({"alignment": "mask_predict", "lengths": 2}, {"length_beam": 3}, "length_beam 3"),
    ({}, {"max_iter": -1}, "max_iter -1"),
)
def test_entries_are_checked(changes, search, named):
    with pytest.raises(ModelError, match=named):
        decoder(MadeUp(), **search, **changes)


def test_a_graph_without_an_output_is_named():
    model = MadeUp()
    with pytest.raises(ModelError, match=r"encoder\.onnx: has no output length_log_probs"):
        decoder(model, alignment="mask_predict")
