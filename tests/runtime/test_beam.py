"""Beam search in numpy finds what fairseq's SequenceGenerator finds, over a model that is a table."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator

from fairseq_plugins_runtime.beam import Beams, Search
from fairseq_plugins_runtime.folder import Pair
from fairseq_plugins_runtime.model_json import ModelError
from tests import builders

SENTENCES, LENGTH, TAG = 6, 5, 7
DEFAULTS = {"beam": 3, "lenpen": 1.0, "unkpen": 0.0, "max_len_a": 0.0, "max_len_b": 12, "min_len": 1, "normalize": True}


class Table:
    """A model whose next token depends on the sentence and the last two tokens: logits (sentences, V, V, V)."""

    def __init__(self, size, seed):
        generator = torch.Generator().manual_seed(seed)
        self.logits = torch.randn(SENTENCES, size, size, size, generator=generator) * 2
        self.logits[..., builders.EOS] += 1.0
        self.encoder, self.decoder = self, SimpleNamespace(forward=self.decode)

    # ---- As a model of fairseq's. ----

    def eval(self):
        return self

    def max_decoder_positions(self):
        return 40

    def forward_torchscript(self, net_input):
        return net_input["src_tokens"][:, 0]

    def reorder_encoder_out(self, sentences, order):
        return sentences[order]

    def decode(self, tokens, encoder_out):
        before = tokens[:, -2] if tokens.size(1) > 1 else torch.zeros_like(tokens[:, -1])
        return self.logits[encoder_out, before, tokens[:, -1]][:, None], None

    def get_normalized_probs(self, net_output, log_probs, sample):
        return net_output[0].log_softmax(-1)

    # ---- As a graph of the runtime. ----

    def step(self, beams, sentences, caches):
        tokens, order, forced, penalty, width = (torch.from_numpy(part) for part in beams.inputs())
        before = caches[order.reshape(-1)].reshape(tokens.shape)
        scores = self.logits[sentences[:, None], before, tokens].log_softmax(-1) + penalty
        best, ids = scores.topk(len(width))
        return [part.numpy() for part in (best, ids, scores.gather(2, forced[..., None])[..., 0])], tokens.reshape(-1)


def with_fairseq(table, size, prefix, options):
    symbols = builders.dictionary(size - 5)
    assert len(symbols) == size
    names = {"beam": "beam_size", "lenpen": "len_penalty", "unkpen": "unk_penalty", "normalize": "normalize_scores"}
    model = torch.nn.Module()
    model.__dict__.update(table=table, encoder=table, decoder=table.decoder)
    for name in ("max_decoder_positions", "get_normalized_probs"):
        setattr(model, name, getattr(table, name))
    given = {names.get(name, name): value for name, value in options.items()}
    generator = SequenceGenerator([model], symbols, eos=options.get("eos"), **given)
    sources = torch.arange(SENTENCES)[:, None].repeat(1, LENGTH)
    forced = torch.tensor([prefix[1:]] * SENTENCES) if len(prefix) > 1 else None
    net_input = {"src_tokens": sources, "src_lengths": torch.full((SENTENCES,), LENGTH)}
    return generator.generate([model], {"net_input": net_input}, prefix_tokens=forced, bos_token=prefix[0])


def in_numpy(table, size, prefix, options, lengths=None):
    search = Search(**options)
    lengths = np.full(SENTENCES, LENGTH) if lengths is None else lengths
    limits = np.minimum(np.trunc(search.max_len_a * lengths + search.max_len_b), 39).astype(np.int64)
    pair = Pair("de", "en", [], [builders.EOS], list(prefix), builders.EOS)
    beams = Beams(search, builders.UNK, size, pair, builders.PAD, limits)
    sentences, caches = torch.arange(len(lengths)), torch.zeros(len(lengths), dtype=torch.int64)
    batches = []
    while len(sentences):
        found, caches = table.step(beams, sentences, caches)
        batches.append(len(sentences))
        staying = beams.advance(*found)
        sentences = sentences if staying is None else sentences[staying]
    return beams.ranked(), batches


@pytest.mark.cases(
    "size prefix options",
    (20, [2], {}),
    (20, [2], {"beam": 1}),
    (20, [2], {"beam": 5, "lenpen": 0.0}),
    (20, [2], {"beam": 5, "lenpen": 2.5, "max_len_b": 20}),
    (20, [2], {"normalize": False}),
    (20, [2], {"unkpen": 3.0, "beam": 4}),
    (20, [2], {"unkpen": -3.0, "beam": 4}),
    (20, [2], {"min_len": 7}),
    (20, [2], {"max_len_b": 2, "beam": 6}),
    (20, [2], {"max_len_a": 0.5, "max_len_b": 1}),
    (20, [2], {"max_len_b": 0, "min_len": 0}),
    (20, [2, TAG], {"beam": 5, "min_len": 3}),
    (20, [TAG, 9, 8], {"max_len_b": 2}),
    (20, [TAG, 9, 8], {"max_len_b": 1}),
    (6, [2], {"beam": 4}),
    (6, [2, 3], {"beam": 9}),
    (6, [2], {"beam": 9, "min_len": 0}),
    (7, [2], {"beam": 5, "min_len": 0}),
)
def test_finds_the_hypotheses_of_fairseq(size, prefix, options):
    options = {**DEFAULTS, **options}
    leaving = 0
    for seed in range(4):
        table = Table(size, seed)
        expected = with_fairseq(table, size, prefix, options)
        found, batches = in_numpy(table, size, prefix, options)
        leaving += len(set(batches)) > 1
        for ours, theirs in zip(found, expected):
            assert [one.tokens for one in ours] == [one["tokens"].tolist() for one in theirs]
            np.testing.assert_allclose([one.score for one in ours], [float(one["score"]) for one in theirs], atol=1e-5)
            assert [one.passes for one in ours] == [len(one.tokens) for one in ours]
    assert leaving or options["max_len_b"] < 3, "some sentences end before others"


def test_each_sentence_has_the_limit_of_its_own_source():
    table, options = Table(20, 3), {**DEFAULTS, "max_len_a": 1.0, "max_len_b": 0, "min_len": 0, "normalize": False}
    table.logits[..., builders.EOS] = -20.0
    lengths = np.array([1, 4, 2, 3, 6, 5])
    found, _ = in_numpy(table, 20, [2], options, lengths)
    assert [len(best[0].tokens) for best in found] == (lengths + 1).tolist()
    for number, length in enumerate(lengths):
        other = Table(20, 3)
        other.logits = table.logits[number : number + 1]
        alone, _ = in_numpy(other, 20, [2], options, np.array([length]))
        assert [one.tokens for one in alone[0]] == [one.tokens for one in found[number]]


def test_refuses_scores_that_are_no_numbers():
    table = Table(20, 3)
    table.logits[2] = float("nan")
    with pytest.raises(ModelError, match="step.*no numbers"):
        in_numpy(table, 20, [2], DEFAULTS)
