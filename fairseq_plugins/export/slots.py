"""SGA and ``nat_ctc``: an encoder, an alignment and a denoising pass, each a graph."""

from typing import Any, Dict, List, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..models.baselines.nat_ctc import NATCTCModel
from ..models.sga.guidance import Guidance
from ..models.sga.model import SGAModel
from ..modules.prefix_encoder import Prefix
from ..modules.prompts import Prompts
from ..ops.masks import lengths_to_padding_mask
from ..translate import Translator
from . import text
from .folder import Content
from .graphs import Graph

MODELS = (SGAModel, NATCTCModel)

SENTENCES, SOURCE = 3, 7  # sizes of the examples that graphs are traced with


def content(translator: Translator, pairs: Sequence[text.Pair]) -> Content:
    """The folder of a model that fills slots. Raises ValueError: a search that the runtime does not have."""
    model, generator = translator.model, translator.generator
    beam = getattr(getattr(generator, "beam", None), "size", 0)
    if beam:
        raise ValueError(f"--iter-decode-ctc-beam {beam}: the runtime takes the best path; leave the option out")
    options, mask_predict = generator.options, getattr(generator, "mask_predict", None)
    search = {"max_iter": options.max_iter, "adaptive": options.adaptive}
    if mask_predict is not None:
        search.update(mask_predict_iterations=mask_predict.iterations, length_beam=mask_predict.length_beam)
    description = {**text.describe(translator, pairs), "search": search, "slots": describe(model)}
    return Content("slots", architecture(model), model, graphs(model), text.files(translator), description)


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


def graphs(model: Any) -> Dict[str, Graph]:
    """The graphs of a model: ``encoder``, ``alignment`` and, where it has one, ``denoising``."""
    return sga_graphs(model)


# ---- SGA. ----


def sga_graphs(model: SGAModel) -> Dict[str, Graph]:
    """Graphs of an SGA model, its prompts folded in."""
    pad = model.masked_lm.sizes.padding_idx
    source = torch.full((SENTENCES, SOURCE), pad + 1)
    source[1, SOURCE - 2 :] = pad
    lengths = source.ne(pad).sum(dim=1) * 2
    encoder = Encoder(model)
    with torch.no_grad():
        keys, values, *_ = encoder(source)
    tokens = torch.full((SENTENCES, 2 * SOURCE + 1), model.mask)
    inputs = {"tokens": tokens, "lengths": lengths, "source": source, "keys": keys, "values": values}
    batch_and_source = (1, 3)
    varying = {
        "tokens": (0, 1),
        "lengths": (0,),
        "source": (0, 1),
        "keys": batch_and_source,
        "values": batch_and_source,
    }
    pieces = ["pieces"] if model.has_denoiser and model.fill_blanks else []
    outputs = ["best", *pieces, "log_probs"]  # no output may have the name of an input
    predicted = [] if model.length_predictor is None else ["length_log_probs"]
    found = {"encoder": Graph(encoder, {"source": source}, {"source": (0, 1)}, ["keys", "values", *predicted])}
    units = {"alignment": model.alignment_prompts, "denoising": model.denoiser_prompts}
    for name, prompts in units.items():
        if prompts is not None:
            found[name] = Graph(Unit(model, prompts, bool(pieces)), inputs, varying, outputs)
    return found


class FixedPrompts(nn.Module):
    """The prompts of a unit as they are after training, scaled and split into heads."""

    keys: Tensor
    values: Tensor

    def __init__(self, prompts: Prompts):
        super().__init__()
        with torch.no_grad():
            pairs = prompts()
        self.register_buffer("keys", torch.stack([key for key, _ in pairs]))  # L 1 H P D
        self.register_buffer("values", torch.stack([value for _, value in pairs]))

    @property
    def key(self) -> Tensor:
        """(L, P, D): of one head, for the number of prompts."""
        return self.keys[:, 0, 0]

    def forward(self) -> Prefix:
        """One (keys, values) pair per layer, each (1, H, P, D)."""
        return list(zip(self.keys.unbind(), self.values.unbind()))


class Encoder(nn.Module):
    """The encoder unit and the projection of its layers to the semantic guidance."""

    def __init__(self, model: SGAModel):
        super().__init__()
        self.model, self.prompts = model, FixedPrompts(model.encoder_prompts)

    def forward(self, source: Tensor) -> Tuple[Tensor, ...]:
        """(B, S) int64 -> keys and values, (L, B, H, S, D), and log-probabilities of the lengths, (B, N), if predicted."""
        model, encoder = self.model, self.model.masked_lm.sentence_encoder
        layers = encoder(source, prefix=self.prompts())
        keys, values = zip(*(model.semantic(hidden) for hidden in layers))
        found = (torch.stack(keys), torch.stack(values))
        if model.length_predictor is None:
            return found
        return (*found, model.length_predictor(layers[-1], source.eq(encoder.padding_idx)))


class Unit(nn.Module):
    """The alignment or the denoiser unit with the output projection, and the best token of each slot."""

    def __init__(self, model: SGAModel, prompts: Prompts, pieces: bool):
        super().__init__()
        self.model, self.prompts, self.pieces = model, FixedPrompts(prompts), pieces

    def forward(
        self, tokens: Tensor, lengths: Tensor, source: Tensor, keys: Tensor, values: Tensor
    ) -> Tuple[Tensor, ...]:
        """Best tokens (B, T), with ``pieces`` also the best ones beside the blank (B, T), and log-probabilities (B, T)."""
        model = self.model
        padding = source.eq(model.masked_lm.sizes.padding_idx)
        guidance = Guidance(list(zip(keys.unbind(), values.unbind())), padding)
        hidden = model.run_unit(tokens, lengths, self.prompts, guidance)
        logits = F.linear(hidden, *model.projection)
        return best(logits, lengths, model.blank, self.pieces)


def best(logits: Tensor, lengths: Tensor, blank: int, pieces: bool) -> Tuple[Tensor, ...]:
    """The best token of each slot, with ``pieces`` also the best beside the blank, and the log-probability of the best.

    In padding they are the blank and 0.
    """
    outside = lengths_to_padding_mask(lengths, logits.size(1))
    log_probs = logits.amax(dim=-1) - logits.logsumexp(dim=-1)
    found: List[Tensor] = [logits.argmax(dim=-1).masked_fill(outside, blank)]
    if pieces:
        is_blank = torch.arange(logits.size(-1)) == blank
        found.append(logits.masked_fill(is_blank, float("-inf")).argmax(dim=-1).masked_fill(outside, blank))
    return (*found, log_probs.masked_fill(outside, 0.0))
