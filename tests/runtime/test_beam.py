"""Test that beam search in numpy gives the hypotheses of fairseq's SequenceGenerator."""

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
DEFAULTS = {
    "beam": 3,
    "lenpen": 1.0,
    "unkpen": 0.0,
    "max_len_a": 0.0,
    "max_len_b": 12,
    "min_len": 1,
    "normalize": True,
}
FAIRSEQ_NAMES = {
    "beam": "beam_size",
    "lenpen": "len_penalty",
    "unkpen": "unk_penalty",
    "normalize": "normalize_scores",
}


class Table:
    """A model whose next token depends on the sentence and the last two tokens.

    Its logits are a tensor (sentences, V, V, V). It is a model for both fairseq and the runtime.
    """

    def __init__(self, size, seed):
        generator = torch.Generator().manual_seed(seed)
        self.logits = torch.randn(SENTENCES, size, size, size, generator=generator) * 2
        self.logits[..., builders.EOS] += 1.0
        self.encoder, self.decoder = self, SimpleNamespace(forward=self.decode)

    # ---- Methods that fairseq calls. ----

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

    # ---- The decoding step of the runtime. ----

    def step(self, beams, sentences, caches):
        """Return scores, ids and scores of forced tokens; the caches are the last tokens."""
        tokens, order, forced, penalty, width = map(torch.from_numpy, beams.inputs())
        before = caches[order.reshape(-1)].reshape(tokens.shape)
        scores = self.logits[sentences[:, None], before, tokens].log_softmax(-1) + penalty
        best, ids = scores.topk(len(width))
        forced_scores = scores.gather(2, forced[..., None])[..., 0]
        return [part.numpy() for part in (best, ids, forced_scores)], tokens.reshape(-1)


def search_with_fairseq(table, size, prefix, options):
    """Return the hypotheses of each sentence, best first."""
    model = torch.nn.Module()
    model.__dict__.update(table=table, encoder=table, decoder=table.decoder)
    model.max_decoder_positions = table.max_decoder_positions
    model.get_normalized_probs = table.get_normalized_probs
    options = {FAIRSEQ_NAMES.get(name, name): value for name, value in options.items()}
    generator = SequenceGenerator([model], builders.dictionary(size - 5), **options)
    net_input = {
        "src_tokens": torch.arange(SENTENCES)[:, None].repeat(1, LENGTH),
        "src_lengths": torch.full((SENTENCES,), LENGTH),
    }
    return generator.generate(
        [model],
        {"net_input": net_input},
        prefix_tokens=torch.tensor([prefix[1:]] * SENTENCES) if len(prefix) > 1 else None,
        bos_token=prefix[0],
    )


def search_with_numpy(table, size, prefix, options, lengths=None):
    """Return the hypotheses of each sentence, and the number of sentences in each step."""
    search = Search(**options)
    lengths = np.full(SENTENCES, LENGTH) if lengths is None else lengths
    limits = np.trunc(search.max_len_a * lengths + search.max_len_b)
    limits = np.minimum(limits, table.max_decoder_positions() - 1).astype(np.int64)
    pair = Pair("de", "en", [], [builders.EOS], list(prefix), builders.EOS)
    beams = Beams(search, builders.UNK, size, pair, builders.PAD, limits)
    sentences = torch.arange(len(lengths))
    caches = torch.zeros(len(lengths), dtype=torch.int64)
    batches = []
    while len(sentences):
        outputs, caches = table.step(beams, sentences, caches)
        batches.append(len(sentences))
        staying = beams.advance(*outputs)
        sentences = sentences if staying is None else sentences[staying]
    return beams.ranked(), batches


@pytest.mark.cases(
    "size prefix options",
    (20, [2], {"beam": 1}),
    (20, [2], {"beam": 5, "lenpen": 0.0}),
    (20, [2], {"beam": 5, "lenpen": 2.5, "max_len_b": 20}),
    (20, [2], {"normalize": False}),
    (20, [2], {"unkpen": 3.0, "beam": 4}),
    (20, [2], {"min_len": 7}),
    (20, [2], {"max_len_b": 2, "beam": 6}),
    (20, [2], {"max_len_a": 0.5, "max_len_b": 1}),
    (20, [2], {"max_len_b": 0, "min_len": 0}),
    (20, [2, TAG], {"beam": 5, "min_len": 3}),
    (20, [TAG, 9, 8], {"max_len_b": 2}),
    (20, [TAG, 9, 8], {"max_len_b": 1}),
    (6, [2, 3], {"beam": 9}),
    (6, [2], {"beam": 9, "min_len": 0}),
)
def test_hypotheses_equal_those_of_fairseq(size, prefix, options):
    options = {**DEFAULTS, **options}
    steps_with_fewer_sentences = 0
    for seed in range(4):
        table = Table(size, seed)
        expected = search_with_fairseq(table, size, prefix, options)
        actual, batches = search_with_numpy(table, size, prefix, options)
        steps_with_fewer_sentences += len(set(batches)) > 1
        for ours, theirs in zip(actual, expected):
            tokens = [hypothesis.tokens for hypothesis in ours]
            assert tokens == [hypothesis["tokens"].tolist() for hypothesis in theirs]
            np.testing.assert_allclose(
                [hypothesis.score for hypothesis in ours],
                [float(hypothesis["score"]) for hypothesis in theirs],
                atol=1e-5,
            )
            assert [hypothesis.passes for hypothesis in ours] == [len(row) for row in tokens]
    assert steps_with_fewer_sentences or options["max_len_b"] < 3


def test_the_longest_hypothesis_depends_on_each_source_alone():
    changes = {"max_len_a": 1.0, "max_len_b": 0, "min_len": 0, "normalize": False}
    table, options = Table(20, 3), {**DEFAULTS, **changes}
    table.logits[..., builders.EOS] = -20.0
    lengths = np.array([1, 4, 2, 3, 6, 5])
    batch, _ = search_with_numpy(table, 20, [2], options, lengths)
    assert [len(hypotheses[0].tokens) for hypotheses in batch] == (lengths + 1).tolist()
    logits = table.logits
    for number, length in enumerate(lengths):
        table.logits = logits[number : number + 1]
        (single,), _ = search_with_numpy(table, 20, [2], options, np.array([length]))
        tokens = [hypothesis.tokens for hypothesis in single]
        assert tokens == [hypothesis.tokens for hypothesis in batch[number]]


def test_scores_that_are_not_numbers_are_refused():
    table = Table(20, 3)
    table.logits[2] = float("nan")
    with pytest.raises(ModelError, match="step.*no numbers"):
        search_with_numpy(table, 20, [2], DEFAULTS)
