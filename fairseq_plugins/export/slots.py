"""SGA and ``nat_ctc``: an encoder, an alignment and a denoising pass, each a graph."""

from typing import Any, Dict, Sequence

import torch
from torch import Tensor

from ..baselines.nat_ctc import NATCTCModel
from ..sga.model import SGAModel
from ..translate import Translator
from . import text
from .folder import Content
from .graphs import SENTENCES, Graph, make_source
from .slot_graphs import NATDecoder, NATEncoder, SGAEncoder, SGAUnit

MODELS = (SGAModel, NATCTCModel)

SLOTS = 15  # of the example that graphs are traced with


def content(translator: Translator, pairs: Sequence[text.Pair]) -> Content:
    """Make the content of the folder of a model that fills slots.

    Raises:
        ValueError: an alignment or a search that the runtime does not have.
    """
    model, generator = translator.model, translator.generator
    beam = getattr(getattr(generator, "beam", None), "size", 0)
    if beam:
        raise ValueError(
            f"--iter-decode-ctc-beam {beam}: the runtime takes the best path; leave the option out"
        )
    if model.alignment == "dag":
        raise ValueError(
            "--alignment dag: the runtime has no graph of slots; serve this model with the "
            "translate command"
        )
    options, mask_predict = generator.options, getattr(generator, "mask_predict", None)
    search = {"max_iter": options.max_iter, "adaptive": options.adaptive}
    if mask_predict is not None:
        search["mask_predict_iterations"] = mask_predict.iterations
        search["length_beam"] = mask_predict.length_beam
    return Content(
        kind="slots",
        architecture=architecture(model),
        model=model,
        graphs=graphs(model, options.blank_penalty),
        files=text.files(translator),
        description={
            **text.describe(translator, pairs),
            "search": search,
            "slots": describe(model),
        },
    )


def architecture(model: Any) -> str:
    """Return the registered name of the model."""
    return "sga" if isinstance(model, SGAModel) else "nat_ctc"


def describe(model: Any) -> Dict[str, Any]:
    """Make the entry ``slots`` of ``model.json``."""
    predictor = getattr(model, "length_predictor", None)
    return {
        "upsample": model.upsample,
        "blank": model.blank,
        "mask": getattr(model, "mask", None),
        "denoiser": model.has_denoiser,
        "fill_blanks": model.has_denoiser and model.fill_blanks,
        "alignment": model.alignment,
        "lengths": None if predictor is None else predictor.max_length,
    }


def graphs(model: Any, penalty: float = 0.0) -> Dict[str, Graph]:
    """Make the graphs ``encoder``, ``alignment`` and, for a model with a denoiser, ``denoising``.

    Args:
        penalty: nats that CTC subtracts from the blank, ``--iter-decode-blank-penalty``; it is part
            of the graphs.
    """
    if isinstance(model, SGAModel):
        return sga_graphs(model, penalty)
    return nat_graphs(model, penalty)


def sga_graphs(model: SGAModel, penalty: float) -> Dict[str, Graph]:
    """Make the graphs of an SGA model, with its prompts folded in."""
    pad = model.masked_lm.sizes.padding_idx
    source, encoder = make_source(pad), SGAEncoder(model)
    with torch.no_grad():
        keys, values, *_ = encoder(source)
    encoder_outputs = ["keys", "values"]
    if model.alignment == "mask_predict":
        encoder_outputs.append("length_log_probs")
    results = {"encoder": Graph(encoder, {"source": source}, {"source": (0, 1)}, encoder_outputs)}
    inputs = {
        "tokens": torch.full((SENTENCES, SLOTS), model.mask),
        "lengths": count_slots(source, pad),
        "source": source,
        "keys": keys,
        "values": values,
    }
    varying = {
        "tokens": (0, 1),
        "lengths": (0,),
        "source": (0, 1),
        "keys": (1, 4),
        "values": (1, 3),
    }
    units = {"alignment": model.alignment_prompts, "denoising": model.denoiser_prompts}
    for name, prompts in units.items():
        if prompts is None:
            continue
        by_ctc = name == "denoising" or model.alignment == "ctc"
        pieces = model.has_denoiser and model.fill_blanks and by_ctc
        _, bias = model.ctc_projection(penalty) if by_ctc else model.projection
        # Outputs must not have the names of inputs.
        outputs = ["best", "pieces", "log_probs"] if pieces else ["best", "log_probs"]
        results[name] = Graph(SGAUnit(model, prompts, bias, pieces), inputs, varying, outputs)
    return results


def nat_graphs(model: NATCTCModel, penalty: float) -> Dict[str, Graph]:
    """Make the graphs of a ``nat_ctc`` model."""
    pad = model.encoder.padding_idx
    source, encoder = make_source(pad), NATEncoder(model)
    with torch.no_grad():
        states = encoder(source)
    inputs = {"lengths": count_slots(source, pad), "source": source, "states": states}
    varying = {"lengths": (0,), "source": (0, 1), "states": (0, 1)}
    _, bias = model.ctc_projection(penalty)
    return {
        "encoder": Graph(encoder, {"source": source}, {"source": (0, 1)}, ["states"]),
        "alignment": Graph(NATDecoder(model, bias), inputs, varying, ["best", "log_probs"]),
    }


def count_slots(source: Tensor, pad: int) -> Tensor:
    """Count two slots (B,) for each token of the example."""
    return source.ne(pad).sum(dim=1) * 2
