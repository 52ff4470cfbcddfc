"""Build models whose sentences stop after different passes, decode, and compare hypotheses."""

import torch

from fairseq_plugins.sga.decoding import IterationOptions, SGAGenerator
from fairseq_plugins.sga.extensions.prefix_beam import PrefixBeamGenerator
from tests import builders

ROWS = builders.source_rows([7, 4, 6, 5, 9, 3])


def likely_blank(device, bias=2.0, **options):
    """Build a random float64 model whose blank is more probable by ``bias``."""
    masked_lm = builders.masked_lm(5)
    masked_lm.lm_head.bias.data[builders.BOS] += bias
    return builders.sga_model(masked_lm, seed=6, **options).double().to(device)


def generate(generator, model, rows, extra=0):
    """Return the hypotheses of each sentence."""
    device = next(model.parameters()).device
    return generator.generate(
        [model], builders.to_device(builders.batch(rows, extra=extra), device)
    )


def decode(model, rows=ROWS, extra=0, max_iter=9, beam=None, **options):
    iterations = IterationOptions(max_iter, **options)
    if beam is None:
        generator = SGAGenerator(builders.dictionary(), iterations)
    else:
        generator = PrefixBeamGenerator(builders.dictionary(), iterations, beam)
    return generate(generator, model, rows, extra)


def output_tokens(sentences):
    """Return the tokens of the best hypothesis of each sentence."""
    return [hypotheses[0]["tokens"].tolist() for hypotheses in sentences]


def history_tokens(hypothesis):
    return [entry["tokens"].tolist() for entry in hypothesis["history"]]


def check_batch_equals_single(decode_rows):
    """Decode all rows in two batches and each row alone; return the hypotheses of a batch.

    Args:
        decode_rows: (rows, extra columns of padding) -> hypotheses of each sentence.
    """
    batch, padded = decode_rows(ROWS, 0), decode_rows(ROWS[::-1], 3)[::-1]
    for row, source in enumerate(ROWS):
        ((single,),) = decode_rows([source], 0)
        for (hypothesis,) in (batch[row], padded[row]):
            assert hypothesis["tokens"].tolist() == single["tokens"].tolist()
            assert hypothesis["steps"] == single["steps"]
            for key in ("score", "positional_scores"):
                torch.testing.assert_close(hypothesis[key], single[key], rtol=1e-9, atol=1e-9)
            if "history" in single:
                assert history_tokens(hypothesis) == history_tokens(single)
    return batch
