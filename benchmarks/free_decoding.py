"""Free generation at equal width, depth and vocabulary: SGA's mask-predict against a causal model with multi-stage prompts (MSP).

    python -m benchmarks.free_decoding [--device cuda] [--vocab 250002,32002] [--sentences 8] [--batch 32]

Random weights; every system is forced to the reference length. SGA: one length, 2, 4 and 8 iterations of mask-predict, or none
(the CTC alignment, as in the paper's Table 4), each without and with one denoising pass. MSP: the source is read twice, then the
target is written from left to right with key/value caches, beam 1 and 4, and </s> after it. Batch 1 (median and 95th percentile
over sentences, one after another) and one large batch. Model only: tokens in, tokens out. On the CPU one row more: MSP
with beam 1 by torch's own products, as stock layers have them.
"""

import argparse
from functools import partial
from typing import Any, Dict, List, Optional, Sequence

import torch
from fairseq.data import Dictionary

from fairseq_plugins.sga.decoding import IterationOptions
from fairseq_plugins.sga.mask_predict import MaskPredictOptions, SGAMaskPredictGenerator, masked_counts

from . import decoding, floor
from .decoding import TYPICAL, Decode, Systems
from .systems import Sizes, dictionary, prompted_lm, sga

ITERATIONS = (0, 2, 4, 8)
BEAMS = (1, 4)
BASE = "MSP beam 1"
DENOISER = " + denoiser"
STOCK = "MSP by torch's own products, beam 1"
CERTAIN = 1e4
"""Logit of the length that is forced."""


def decode_free(model: Any, symbols: Dictionary, iterations: int, passes: int) -> Decode:
    """Mask-predict over one length, the one asked for, then exactly ``passes`` denoising passes."""
    options = IterationOptions(max_iter=passes, adaptive=False)
    generator = SGAMaskPredictGenerator(symbols, options, MaskPredictOptions(iterations, length_beam=1))

    def decode(sample: Dict[str, Any], length: int) -> Any:
        force_length(model, length)
        return generator.generate([model], sample)

    return decode


def force_length(model: Any, length: int) -> None:
    """Let the length predictor, which runs as ever, choose ``length`` tokens."""
    with torch.no_grad():
        model.length_predictor.projection.bias.zero_()[length - 1] = CERTAIN


def name_of(iterations: int, passes: int) -> str:
    """As in the table."""
    return f"SGA {iterations} iterations{DENOISER if passes else ''}"


def systems(sizes: Sizes, symbols: Dictionary, device: torch.device) -> Systems:
    """The systems of this page. One SGA model serves all: its alignment unit takes masks of either kind."""
    model = sga(sizes, device, alignment="mask_predict")
    found: Systems = {}
    for iterations in ITERATIONS:
        for passes in (0, 1):
            if iterations:
                decode = decode_free(model, symbols, iterations, passes)
            else:
                decode = decoding.decode_sga(model, symbols, passes)
            found[name_of(iterations, passes)] = model, decode
    causal = prompted_lm(sizes, symbols, device)
    for beam in BEAMS:
        found[f"MSP beam {beam}"] = causal, decoding.decode_autoregressive(causal, symbols, beam)
    if device.type == "cpu":
        found[STOCK] = causal, without_one_dnn(decoding.decode_autoregressive(causal, symbols, 1))
    return found


def without_one_dnn(decode: Decode) -> Decode:
    """The same with the products that stock layers use."""

    def decode_plainly(sample: Dict[str, Any], length: int) -> Any:
        with torch.backends.mkldnn.flags(enabled=False):
            return decode(sample, length)

    return decode_plainly


def least_seconds(sizes: Sizes, length: int, name: str, model: Any, rates: Dict[str, float]) -> float:
    """Floor of one sentence as in :func:`.decoding.least_seconds`, source and target of ``length`` tokens."""
    table = sizes.vocab * sizes.width * 4
    token = sizes.layers * 2 * 12 * sizes.width**2
    project = 2 * sizes.vocab * sizes.width
    count = int(name.rsplit(" ", 1)[1]) if name.startswith("MSP") else int(name.split()[1])
    if name.startswith("MSP"):  # two readings, then a step a token and one for </s>
        body, steps = floor.parameter_bytes(*model.decoder.lm.layers), length + 1
        flops = (2 * length + count * steps) * token + count * steps * project
        return floor.floor_seconds((2 + steps) * body + steps * table, flops, rates)
    body = floor.parameter_bytes(*model.masked_lm.sentence_encoder.layers)
    run, projected = unit_tokens(length, count)
    if DENOISER in name:
        run, projected = [*run, 2 * length], [*projected, 2 * length]
    flops = (length + sum(run)) * token + sum(projected) * project
    return floor.floor_seconds((1 + len(run)) * body + len(run) * table, flops, rates)


def unit_tokens(length: int, iterations: int) -> Sequence[List[int]]:
    """Of each run of the alignment unit the tokens that go through it, and those that are projected to the vocabulary."""
    if not iterations:
        return [2 * length], [2 * length]
    masked = [int(masked_counts(torch.tensor(length), step, iterations)) for step in range(1, iterations)]
    return [length] * iterations, [length, *masked]


def compare(sizes: Sizes, options: argparse.Namespace, device: torch.device) -> List[Dict[str, Any]]:
    """One vocabulary: rows of the table."""
    found = systems(sizes, dictionary(sizes.vocab), device)
    least = partial(least_seconds, sizes, TYPICAL)
    return decoding.time_systems(found, BASE, least, sizes.vocab, options, device)


def render(content: Dict[str, Any]) -> str:
    """The table of one machine."""
    return decoding.render(content, BASE)


def main(argv: Optional[Sequence[str]] = None) -> None:
    """Command line."""
    decoding.run("free_decoding", __doc__ or "", compare, render, argv, sentences=8)


if __name__ == "__main__":
    main()
