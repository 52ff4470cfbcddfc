"""Generators of one model disturb neither its training nor each other, whatever their beam sizes."""

import pytest
import torch
from fairseq.sequence_generator import EnsembleModel, SequenceGenerator, SequenceGeneratorWithAlignment

from tests import builders
from tests.gpt_builders import mbart


def batch(sentences=6):
    rows = builders.source_rows([7, 5, 7, 5, 7, 5][:sentences])
    sample = builders.batch(rows)
    sample["net_input"]["prev_output_tokens"] = sample["net_input"]["src_tokens"].flip(0)
    return sample


def forced(model):
    """Outputs of batches as in training; 5 is no multiple of the beam size."""
    return [model(**batch(sentences)["net_input"])[0].detach() for sentences in (6, 5)]


def outputs(made, model):
    found = made.generate([model], batch())
    return [[(beam["tokens"].tolist(), round(float(beam["score"]), 4)) for beam in sentence] for sentence in found]


def generator(models, beam, kind=SequenceGenerator):
    return kind(models, builders.dictionary(), beam_size=beam, max_len_b=8)


@pytest.mark.parametrize(("count", "fails"), [(1, False), (2, False), (1, True)])
@pytest.mark.parametrize("kind", [SequenceGenerator, SequenceGeneratorWithAlignment])
def test_training_reads_its_batches_as_before(monkeypatch, count, fails, kind):
    models = [mbart() for _ in range(count)]
    before = [one for model in models for one in forced(model)]
    made = generator(models, 3, kind)
    after_making = [one for model in models for one in forced(model)]
    with monkeypatch.context() as patch:
        if fails:
            patch.setattr(EnsembleModel, "forward_decoder", lambda *_, **__: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                made.generate(models, batch())
        else:
            made.generate(models, batch())
    after_generating = [one for model in models for one in forced(model)]
    for found in (after_making, after_generating):
        assert all(torch.equal(one, other) for one, other in zip(before, found))


def test_generators_with_other_beam_sizes_do_not_disturb_each_other():
    alone = {beam: outputs(generator([model], beam), model) for beam in (1, 2, 3) for model in [mbart()]}
    model = mbart()
    made = {beam: generator([model], beam) for beam in (3, 1, 2)}
    for beam in (1, 3, 2, 1, 2, 3):
        assert outputs(made[beam], model) == alone[beam]


def test_the_copies_of_a_beam_are_read_as_such(monkeypatch):
    """Stock's faster way is taken while something is generated, with the values of the plain one."""
    model, told = mbart(), []
    stock = type(model).set_beam_size
    monkeypatch.setattr(type(model), "set_beam_size", lambda self, beam: (told.append(beam), stock(self, beam))[1])
    fast = outputs(generator([model], 3), model)
    assert told == [3]
    monkeypatch.setattr(type(model), "set_beam_size", lambda self, beam: None)
    assert outputs(generator([model], 3), model) == fast
