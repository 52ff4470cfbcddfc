"""Test decoding of a graph of slots: batch = single, length penalty, denoising of its tokens."""

from argparse import Namespace

import pytest
import torch

from fairseq_plugins.sga.decoding import IterationOptions
from fairseq_plugins.sga.extensions.graph import GraphOptions, SGADAGGenerator
from tests import builders
from tests.unit.sga.decoding import ROWS, check_batch_equals_single, generate, output_tokens


@pytest.fixture
def model(device):
    """Build a random float64 model whose links skip slots."""
    model = builders.sga_model(builders.masked_lm(6), seed=7, alignment="dag", ctc_upsample=4)
    return model.double().to(device)


def decode(model, rows=ROWS, extra=0, path="lookahead", length_penalty=1.0, max_iter=9, **options):
    settings = IterationOptions(max_iter, **options), GraphOptions(path, length_penalty)
    generator = SGADAGGenerator(builders.dictionary(), *settings)
    return generate(generator, model, rows, extra)


@pytest.mark.parametrize("path", ["lookahead", "greedy", "viterbi"])
@pytest.mark.parametrize("max_iter", [0, 3])
def test_a_sentence_decodes_the_same_alone_and_in_any_batch(model, path, max_iter):
    options = {"path": path, "max_iter": max_iter, "retain_history": True}
    batch = check_batch_equals_single(lambda rows, extra: decode(model, rows, extra, **options))
    assert len(set(map(len, output_tokens(batch)))) > 1
    for (hypothesis,) in batch:
        assert len(hypothesis["history"]) == hypothesis["steps"] + 1


def test_a_higher_length_penalty_gives_longer_outputs(model):
    lengths = []
    for penalty in (0.0, 1.0, 3.0):
        sentences = decode(model, path="viterbi", length_penalty=penalty, max_iter=0)
        lengths.append(sum(map(len, output_tokens(sentences))))
    assert lengths == sorted(lengths) and lengths[0] < lengths[-1]


def test_the_denoiser_reads_each_token_twice_within_its_positions(model, monkeypatch):
    inputs, original = [], type(model).denoise

    def denoise(self, tokens, guidance, slots):
        inputs.append((tokens, slots))
        return original(self, tokens, guidance, slots)

    monkeypatch.setattr(type(model), "denoise", denoise)
    aligned = output_tokens(decode(model, max_iter=0))
    decode(model, max_iter=1)
    tokens, slots = inputs[0]
    for row, output in enumerate(aligned):
        assert int(slots[row]) == 2 * len(output)
        doubled = [token for token in output for _ in range(2)]
        assert tokens[row, : 2 * len(output)].tolist() == doubled
    longest = model.masked_lm.sizes.max_positions // 2
    assert model.duplicate(torch.zeros(1, 99)).shape == (1, 2 * longest)
    assert model.denoiser_slots(torch.tensor([3, 99])).tolist() == [6, 2 * longest]


def test_the_task_builds_the_generator_of_a_graph():
    task, model = builders.task(dag_decoding="viterbi"), builders.sga_model(alignment="dag")
    generator = task.build_generator([model], Namespace(iter_decode_max_iter=2, lenpen=0.5))
    assert isinstance(generator, SGADAGGenerator)
    assert generator.graph == GraphOptions("viterbi", 0.5)
    # --eval-bleu-args may name the path, too.
    generator = task.build_generator([model], Namespace(dag_decoding="greedy"))
    assert generator.graph == GraphOptions("greedy", 1.0)
