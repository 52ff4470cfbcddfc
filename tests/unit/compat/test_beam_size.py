"""Generators of one model disturb neither its training nor each other, whatever their beam sizes."""

import pytest
import torch
from fairseq.sequence_generator import EnsembleModel, SequenceGenerator, SequenceGeneratorWithAlignment

from tests import builders
from tests.gpt_builders import mbart

SENTENCES = 6


def batch(sentences=SENTENCES):
    """Sources of different lengths, padded on the right, and targets."""
    generator = torch.Generator().manual_seed(3)
    tokens = torch.randint(builders.FIRST_PIECE, builders.MASK, (sentences, 7), generator=generator)
    tokens[:, -1] = builders.EOS
    for row in range(0, sentences, 2):
        tokens[row, 4], tokens[row, 5:] = builders.EOS, builders.PAD
    lengths = tokens.ne(builders.PAD).sum(dim=1)
    return {"net_input": {"src_tokens": tokens, "src_lengths": lengths, "prev_output_tokens": tokens.flip(0)}}


def generator(models, beam, kind=SequenceGenerator):
    return kind(models, builders.dictionary(), beam_size=beam, max_len_b=8)


def forced(model, sentences=SENTENCES):
    """Output of a batch as in training."""
    return model(**batch(sentences)["net_input"])[0].detach()


def outputs(made, models):
    found = made.generate(models, batch())
    return [[(beam["tokens"].tolist(), round(float(beam["score"]), 4)) for beam in sentence] for sentence in found]


@pytest.mark.parametrize("count", [1, 2], ids=["one model", "an ensemble"])
@pytest.mark.parametrize("kind", [SequenceGenerator, SequenceGeneratorWithAlignment])
def test_training_reads_its_batches_as_before(count, kind):
    models = [mbart() for _ in range(count)]
    before = [(forced(model), forced(model, 5)) for model in models]  # 5 is no multiple of the beam size
    made = generator(models, 3, kind)
    after_making = [(forced(model), forced(model, 5)) for model in models]
    made.generate(models, batch())
    after_generating = [(forced(model), forced(model, 5)) for model in models]
    for found in (after_making, after_generating):
        assert all(torch.equal(one, other) for pair, same in zip(before, found) for one, other in zip(pair, same))


def test_generators_with_other_beam_sizes_do_not_disturb_each_other():
    alone = {beam: outputs(generator([model], beam), [model]) for beam in (1, 2, 3) for model in [mbart()]}
    model = mbart()
    made = {beam: generator([model], beam) for beam in (3, 1, 2)}
    for beam in (1, 3, 2, 1, 2, 3):
        assert outputs(made[beam], [model]) == alone[beam]


def test_the_copies_of_a_beam_are_read_as_such(monkeypatch):
    """Stock's faster way is taken while something is generated, with the values of the plain one."""
    model = mbart()
    told = []
    stock = type(model).set_beam_size
    monkeypatch.setattr(type(model), "set_beam_size", lambda self, beam: (told.append(beam), stock(self, beam))[1])
    fast = outputs(generator([model], 3), [model])
    assert told == [3]
    monkeypatch.setattr(type(model), "set_beam_size", lambda self, beam: None)
    assert outputs(generator([model], 3), [model]) == fast


def test_an_error_while_generating_leaves_nothing_behind(monkeypatch):
    model = mbart()
    before, made = forced(model), generator([model], 3)

    def fail(*_, **__):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(EnsembleModel, "forward_decoder", fail)
    with pytest.raises(RuntimeError, match="out of memory"):
        made.generate([model], batch())
    assert torch.equal(forced(model), before)
