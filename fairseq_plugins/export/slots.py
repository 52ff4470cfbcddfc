"""SGA and ``nat_ctc``: an encoder, an alignment and a denoising pass, each a graph."""

from typing import Any, Dict, Sequence, Tuple

import torch
from torch import Tensor

from ..baselines.nat_ctc import NATCTCModel
from ..sga.model import SGAModel
from ..translate import Translator
from . import text
from .folder import Content
from .graphs import Graph
from .slot_graphs import NATDecoder, NATEncoder, SGAEncoder, SGAUnit

MODELS = (SGAModel, NATCTCModel)

SENTENCES, SOURCE, SLOTS = 3, 7, 15  # sizes of the examples that graphs are traced with


def content(translator: Translator, pairs: Sequence[text.Pair]) -> Content:
    """The folder of a model that fills slots. Raises ValueError: a search that the runtime does not have."""
    model, generator = translator.model, translator.generator
    beam = getattr(getattr(generator, "beam", None), "size", 0)
    if beam:
        raise ValueError(f"--iter-decode-ctc-beam {beam}: the runtime takes the best path; leave the option out")
    if model.alignment == "dag":
        raise ValueError(
            "--alignment dag: the runtime has no graph of slots; serve this model with the translate command"
        )
    options, mask_predict = generator.options, getattr(generator, "mask_predict", None)
    search = {"max_iter": options.max_iter, "adaptive": options.adaptive}
    if mask_predict is not None:
        search.update(mask_predict_iterations=mask_predict.iterations, length_beam=mask_predict.length_beam)
    description = {**text.describe(translator, pairs), "search": search, "slots": describe(model)}
    return Content(
        "slots", architecture(model), model, graphs(model, options.blank_penalty), text.files(translator), description
    )


def architecture(model: Any) -> str:
    """The registered name of the model."""
    return "sga" if isinstance(model, SGAModel) else "nat_ctc"


def describe(model: Any) -> Dict[str, Any]:
    """The entry ``slots`` of ``model.json``."""
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
    """The graphs of a model: ``encoder``, ``alignment`` and, where it has one, ``denoising``.

    ``penalty``: nats that CTC takes off the blank, ``--iter-decode-blank-penalty``; it is part of the graphs.
    """
    return sga_graphs(model, penalty) if isinstance(model, SGAModel) else nat_graphs(model, penalty)


def sga_graphs(model: SGAModel, penalty: float) -> Dict[str, Graph]:
    """Graphs of an SGA model, its prompts folded in."""
    source, lengths = examples(model.masked_lm.sizes.padding_idx)
    encoder = SGAEncoder(model)
    with torch.no_grad():
        keys, values, *_ = encoder(source)
    tokens = torch.full((SENTENCES, SLOTS), model.mask)
    inputs = {"tokens": tokens, "lengths": lengths, "source": source, "keys": keys, "values": values}
    varying = {"tokens": (0, 1), "lengths": (0,), "source": (0, 1), "keys": (1, 4), "values": (1, 3)}
    predicted = ["length_log_probs"] if model.alignment == "mask_predict" else []
    found = {"encoder": Graph(encoder, {"source": source}, {"source": (0, 1)}, ["keys", "values", *predicted])}
    for name, prompts in {"alignment": model.alignment_prompts, "denoising": model.denoiser_prompts}.items():
        by_ctc = name == "denoising" or model.alignment == "ctc"
        read = model.has_denoiser and model.fill_blanks and by_ctc
        bias = model.ctc_projection(penalty)[1] if by_ctc else model.projection[1]
        outputs = ["best", *(["pieces"] if read else []), "log_probs"]  # an output has no name of an input
        if prompts is not None:
            found[name] = Graph(SGAUnit(model, prompts, bias, read), inputs, varying, outputs)
    return found


def nat_graphs(model: NATCTCModel, penalty: float) -> Dict[str, Graph]:
    """Graphs of a ``nat_ctc`` model."""
    source, lengths = examples(model.encoder.padding_idx)
    encoder = NATEncoder(model)
    with torch.no_grad():
        inputs = {"lengths": lengths, "source": source, "states": encoder(source)}
    varying = {"lengths": (0,), "source": (0, 1), "states": (0, 1)}
    return {
        "encoder": Graph(encoder, {"source": source}, {"source": (0, 1)}, ["states"]),
        "alignment": Graph(NATDecoder(model, model.ctc_projection(penalty)[1]), inputs, varying, ["best", "log_probs"]),
    }


def examples(pad: int) -> Tuple[Tensor, Tensor]:
    """A source (B, S) with padding, and slots (B,)."""
    source = torch.full((SENTENCES, SOURCE), pad + 1)
    source[1, SOURCE - 2 :] = pad
    return source, source.ne(pad).sum(dim=1) * 2
