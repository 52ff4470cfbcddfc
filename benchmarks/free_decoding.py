"""Compare the speed of free generation: mask-predict beside multi-stage prompts (MSP).

    python -m benchmarks.free_decoding [--device cuda] [--vocab 250002,32002] [--batch 32]

Random weights; every system is forced to the reference length. SGA: one length and 2, 4, 8
iterations of mask-predict, or none (the CTC alignment, as in the paper's Table 4), each without
and with one denoising pass. MSP: the source is read twice, then the target is written from left
to right with key/value caches, beam 1 and 4. Batch 1 (median and 95th percentile over sentences,
one after another) and one large batch. Model only: tokens in, tokens out.
"""

import argparse
from typing import Any, Dict, List, Optional, Sequence

import torch
from fairseq.data import Dictionary

from fairseq_plugins.sga.decoding import IterationOptions
from fairseq_plugins.sga.mask_predict import MaskPredictOptions, SGAMaskPredictGenerator

from . import decoding, report
from .decoding import Decode
from .systems import Sizes, build_dictionary, build_prompted_lm, build_sga

ITERATIONS = (0, 2, 4, 8)
BEAMS = (1, 4)
BASE = "MSP beam 1"
CERTAIN = 1e4
"""Logit of the length that is forced."""


def decode_mask_predict(model: Any, symbols: Dictionary, iterations: int, passes: int) -> Decode:
    """Return a function that decodes by mask-predict and exactly ``passes`` denoising passes."""
    options = IterationOptions(max_iter=passes, adaptive=False)
    mask_predict = MaskPredictOptions(iterations, length_beam=1)
    generator = SGAMaskPredictGenerator(symbols, options, mask_predict)

    def decode(sample: Dict[str, Any], length: int) -> Any:
        force_length(model, length)
        return generator.generate([model], sample)

    return decode


def force_length(model: Any, length: int) -> None:
    """Set a bias by which the length predictor, which still runs, chooses ``length`` tokens."""
    with torch.no_grad():
        model.length_predictor.projection.bias.zero_()[length - 1] = CERTAIN


def build_systems(sizes: Sizes, device: torch.device) -> Dict[str, Decode]:
    """Return name -> decoding of all systems; one SGA model serves both forms of alignment."""
    symbols = build_dictionary(sizes.vocab)
    model = build_sga(sizes, device, alignment="mask_predict")
    systems: Dict[str, Decode] = {}
    for iterations in ITERATIONS:
        for passes in (0, 1):
            name = f"SGA {iterations} iterations{' + denoiser' if passes else ''}"
            if iterations:
                systems[name] = decode_mask_predict(model, symbols, iterations, passes)
            else:
                systems[name] = decoding.decode_sga(model, symbols, passes)
    causal_lm = build_prompted_lm(sizes, symbols, device)
    for beam in BEAMS:
        systems[f"MSP beam {beam}"] = decoding.decode_autoregressive(causal_lm, symbols, beam)
    return systems


def measure(options: argparse.Namespace) -> List[Dict[str, Any]]:
    """Return one row per vocabulary and system."""
    rows: List[Dict[str, Any]] = []
    with torch.no_grad():
        for vocab in map(int, options.vocab.split(",")):
            systems = build_systems(Sizes.of(options, vocab), options.device)
            rows += decoding.time_systems(systems, BASE, vocab, options)
    return rows


def render(content: Dict[str, Any]) -> str:
    """Make the table of one machine."""
    return decoding.render(content, BASE)


def main(argv: Optional[Sequence[str]] = None) -> None:
    """Run the command line."""
    options = decoding.build_parser(__doc__, sentences=8).parse_args(argv)
    report.publish("free_decoding", options, measure(options), render)


if __name__ == "__main__":
    main()
