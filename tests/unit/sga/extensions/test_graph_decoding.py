"""Decoding of a graph of slots: batch = single, the paths, denoising of its tokens; tests/unit/ops has the paths written out."""

from argparse import Namespace

import pytest
import torch

from fairseq_plugins.sga.decoding import IterationOptions
from fairseq_plugins.sga.extensions.graph import GraphOptions, SGADAGGenerator
from tests import builders

LENGTHS = [7, 4, 6, 5, 9, 3]


def sga_model(device, **options):
    """Random, float64, with links that prefer some way off the nearest slot."""
    model = builders.sga_model(builders.masked_lm(6), seed=7, alignment="dag", ctc_upsample=4, **options).double()
    return model.to(device)


def decode(model, rows, extra=0, path="lookahead", length_penalty=1.0, **options):
    settings = IterationOptions(**{"max_iter": 9, **options}), GraphOptions(path, length_penalty)
    generator = SGADAGGenerator(builders.dictionary(), *settings)
    sample = builders.to_device(builders.batch(rows, extra=extra), model.semantic.key.weight.device)
    return [hypothesis for (hypothesis,) in generator.generate([model], sample)]


@pytest.mark.parametrize("path", ["lookahead", "greedy", "viterbi"])
@pytest.mark.parametrize("passes", [0, 3])
def test_a_sentence_decodes_the_same_alone_and_in_any_batch(path, passes, device):
    model, rows = sga_model(device), builders.source_rows(LENGTHS)
    together = decode(model, rows, path=path, max_iter=passes, retain_history=True)
    padded = decode(model, rows[::-1], extra=3, path=path, max_iter=passes, retain_history=True)[::-1]
    assert len({len(row["tokens"]) for row in together}) > 1
    for row, source in enumerate(rows):
        alone = decode(model, [source], path=path, max_iter=passes, retain_history=True)[0]
        for batch in (together, padded):
            assert batch[row]["tokens"].tolist() == alone["tokens"].tolist()
            assert len(batch[row]["history"]) == batch[row]["steps"] + 1 == alone["steps"] + 1
            torch.testing.assert_close(
                batch[row]["positional_scores"], alone["positional_scores"], rtol=1e-9, atol=1e-9
            )


def test_longer_outputs_have_a_smaller_penalty_for_their_length(device):
    model, rows = sga_model(device), builders.source_rows(LENGTHS)
    lengths = [
        sum(len(row["tokens"]) for row in decode(model, rows, path="viterbi", length_penalty=penalty, max_iter=0))
        for penalty in (0.0, 1.0, 3.0)
    ]
    assert lengths == sorted(lengths) and lengths[0] < lengths[-1]


def test_the_denoiser_reads_each_token_twice_and_at_most_its_positions(device, monkeypatch):
    model, rows, seen = sga_model(device), builders.source_rows(LENGTHS), []
    original = type(model).denoise
    monkeypatch.setattr(type(model), "denoise", lambda self, *given: seen.append(given) or original(self, *given))
    aligned = decode(model, rows, max_iter=0)
    decode(model, rows, max_iter=1)
    tokens, _, slots = seen[0]
    for row, first in enumerate(aligned):
        once = first["tokens"].tolist()
        assert int(slots[row]) == 2 * len(once)
        assert tokens[row, : 2 * len(once)].tolist() == [token for token in once for _ in range(2)]
    longest = model.masked_lm.sizes.max_positions // 2
    assert model.duplicate(torch.zeros(1, 99)).shape == (1, 2 * longest)
    assert model.denoiser_slots(torch.tensor([3, 99])).tolist() == [6, 2 * longest]


def test_the_task_builds_it():
    task, model = builders.task(), builders.sga_model(alignment="dag")
    task.cfg.dag_decoding = "viterbi"
    found = task.build_generator([model], Namespace(iter_decode_max_iter=2, lenpen=0.5))
    assert isinstance(found, SGADAGGenerator) and found.graph == GraphOptions("viterbi", 0.5)
    found = task.build_generator([model], Namespace(dag_decoding="greedy"))  # as --eval-bleu-args give it
    assert found.graph == GraphOptions("greedy", 1.0)
