"""Models that write from left to right: stock-shaped transformers and DeltaLM, an encoder and one decoding step as graphs."""

from typing import Any, Dict, Iterator, List, Sequence

import torch
from fairseq.models import MODEL_REGISTRY
from fairseq.models.transformer import (
    TransformerDecoder,
    TransformerDecoderBase,
    TransformerEncoder,
    TransformerEncoderBase,
    TransformerModelBase,
)
from fairseq.modules.transformer_layer import (
    TransformerDecoderLayer,
    TransformerDecoderLayerBase,
    TransformerEncoderLayer,
    TransformerEncoderLayerBase,
)
from fairseq.search import BeamSearch
from fairseq.sequence_generator import SequenceGenerator
from torch import nn

from ..baselines.from_masked_lm import XLMREncoder
from ..models.deltalm import InterleavedDecoder
from ..modules.interleaved_layer import InterleavedDecoderLayer
from ..translate import Translator
from . import text
from .folder import Content
from .graphs import Graph
from .stock_graphs import EncoderGraph, StepGraph

MODELS = (TransformerModelBase,)

KNOWN = {
    "encoder": (TransformerEncoderBase, TransformerEncoder, XLMREncoder),
    "decoder": (TransformerDecoderBase, TransformerDecoder, InterleavedDecoder),
    "encoder layer": (TransformerEncoderLayerBase, TransformerEncoderLayer),
    "decoder layer": (TransformerDecoderLayerBase, TransformerDecoderLayer, InterleavedDecoderLayer),
}
"""Classes whose computation the graphs have; of others, subclasses among them, nobody knows what they compute."""

SENTENCES, SOURCE, BEAMS, ROWS, WRITTEN, WIDTH = 3, 7, 2, 5, 6, 4  # sizes of the examples that graphs are traced with


def content(translator: Translator, pairs: Sequence[text.Pair]) -> Content:
    """The folder of a model that writes from left to right.

    Raises ValueError: parts of the model or options of the search that the runtime does not have.
    """
    model = translator.model
    check(model)
    description = text.describe(translator, pairs)
    description["search"] = search(translator.generator)
    limits = description["limits"]
    limits["target_tokens"] = int(translator.generator.max_len)
    if isinstance(model.encoder, XLMREncoder):  # it puts <s> before a source itself, and leaves room for it
        limits["source_tokens"] += 1
    ignored = set(description["ignored"])
    for pair in description["pairs"]:
        ignored.update(target_side(translator, pair))
    description["ignored"] = sorted(ignored)
    made = graphs(model, limits["source_tokens"], limits["target_tokens"])
    return Content("encoder_decoder", architecture(model), model, made, text.files(translator), description)


def architecture(model: nn.Module) -> str:
    """The registered name of the model."""
    return next((name for name, kind in MODEL_REGISTRY.items() if kind is type(model)), type(model).__name__)


# ---- What can be exported. ----


def check(model: Any) -> None:
    """Raise ValueError, naming all that the graphs do not have, where a model is not of the stock transformer's shape."""
    found = list(dict.fromkeys(_unsupported(model)))
    if found:
        raise ValueError(
            f"MODEL: a {type(model).__name__} cannot be exported with {', '.join(found)}; valid: encoders and decoders of "
            "the stock transformer's or DeltaLM's shape"
        )


def _unsupported(model: Any) -> Iterator[str]:
    for side in ("encoder", "decoder"):
        part = getattr(model, side)
        if type(part) not in KNOWN[side]:
            yield f"{side} {type(part).__name__}"
            continue
        if part.quant_noise is not None:
            yield "quant noise"
        if type(part.embed_tokens) is not nn.Embedding:
            yield f"{side} embedding {type(part.embed_tokens).__name__}"
        for layer in part.layers:
            yield from _unsupported_in_layer(layer, f"{side} layer")
    decoder = model.decoder
    if getattr(model, "alignment_heads", None) or getattr(model, "full_context_alignment", False):
        yield "alignment heads"
    if getattr(decoder, "adaptive_softmax", None) is not None:
        yield "adaptive softmax"
    if getattr(decoder, "cross_self_attention", False):
        yield "cross_self_attention"
    if getattr(decoder, "project_in_dim", None) is not None:
        yield "an embedding of another width than the decoder"


def _unsupported_in_layer(layer: Any, kind: str) -> Iterator[str]:
    if type(layer) not in KNOWN[kind]:
        yield f"{kind} {type(layer).__name__}"
        return
    if layer.quant_noise:
        yield "quant noise"
    attentions = [layer.self_attn]
    if kind == "decoder layer":
        if layer.encoder_attn is None:
            yield "no_cross_attention"
        else:
            attentions.append(layer.encoder_attn)
        names = {"scale_attn": layer.attn_ln, "scale_heads": layer.c_attn, "scale_fc": layer.ffn_layernorm}
        yield from (name for name, part in {**names, "scale_resids": layer.w_resid}.items() if part is not None)
    for attention in attentions:
        if attention.use_xformers or attention.bias_k is not None or attention.add_zero_attn:
            yield "an attention of another kind (xformers, added keys)"


def search(generator: Any) -> Dict[str, Any]:
    """The entry ``search`` of ``model.json``. Raises ValueError: a search that the runtime does not have."""
    kind = type(getattr(generator, "search", None))
    others = {
        f"generator {type(generator).__name__}": type(generator) is not SequenceGenerator,
        f"search {kind.__name__}": kind is not BeamSearch,
        "--temperature": getattr(generator, "temperature", 1.0) != 1.0,
        "--no-repeat-ngram-size": getattr(generator, "repeat_ngram_blocker", None) is not None,
        "--match-source-len": getattr(generator, "match_source_len", False),
        "--lm-path": getattr(generator, "lm_model", None) is not None,
        "suppressed tokens": getattr(generator, "token_indices_to_suppress", None) is not None,
    }
    found = [name for name, there in others.items() if there]
    if found:
        raise ValueError(f"{', '.join(found)}: the runtime has beam search alone; valid: without")
    return {
        "beam": int(generator.beam_size),
        "lenpen": float(generator.len_penalty),
        "unkpen": float(generator.unk_penalty),
        "max_len_a": float(generator.max_len_a),
        "max_len_b": int(generator.max_len_b),
        "min_len": int(generator.min_len),
        "normalize": bool(generator.normalize_scores),
    }


# ---- What stands around the text. ----


class _Recorder:
    """Takes the place of a generator to see what a task asks of it."""

    def generate(
        self, models: Any, sample: Any, prefix_tokens: Any = None, constraints: Any = None, bos_token: Any = None
    ) -> Any:
        self.prefix, self.start = [] if prefix_tokens is None else prefix_tokens[0].tolist(), bos_token
        return []


def target_side(translator: Translator, pair: Dict[str, Any]) -> List[int]:
    """Complete an entry of ``pairs``: what the task lets a target begin and end with. Returns the ids that are no text of it."""
    task, model = text.task_of(translator.task, (pair["source"], pair["target"])), translator.model
    generator = task.build_generator([model], translator.cfg.generation)
    source = torch.tensor([[*pair["source_prefix"], task.source_dictionary.nspecial, *pair["source_suffix"]]])
    recorder = _Recorder()
    task.inference_step(
        recorder, [model], {"net_input": {"src_tokens": source, "src_lengths": torch.tensor([source.size(1)])}}
    )
    start = generator.eos if recorder.start is None else recorder.start
    pair["target_prefix"] = [int(start), *recorder.prefix]
    if generator.eos != task.target_dictionary.eos():
        pair["eos"] = int(generator.eos)
    if isinstance(model.encoder, XLMREncoder) and pair["source_prefix"][:1] != [model.encoder.dictionary.bos()]:
        pair["source_prefix"] = [model.encoder.dictionary.bos(), *pair["source_prefix"]]
    return [int(symbol) for symbol in generator.symbols_to_strip_from_output]


# ---- Graphs. ----


def graphs(model: Any, source_tokens: int, target_tokens: int) -> Dict[str, Graph]:
    """``encoder`` and ``step`` of a model that :func:`check` accepts, for sources and targets of at most so many tokens."""
    encoder, step = EncoderGraph(model, source_tokens), StepGraph(model, target_tokens)
    pad, words = int(model.encoder.padding_idx), model.decoder.output_projection.out_features
    source = torch.full((SENTENCES, SOURCE), pad + 1)
    source[1, SOURCE - 2 :] = pad
    with torch.no_grad():
        cross = [part.contiguous() for part in encoder(source)]
    layers = len(cross) // 2
    both = [f"{side}.{layer}" for side in ("keys", "values") for layer in range(layers)]
    attention = model.decoder.layers[0].self_attn
    caches = [torch.zeros(ROWS, attention.num_heads, WRITTEN, attention.head_dim) for _ in both]
    inputs: Dict[str, Any] = {
        **{name: torch.zeros((SENTENCES, BEAMS), dtype=torch.int64) for name in ("tokens", "order", "forced")},
        "penalty": torch.zeros(words),
        "width": torch.zeros(WIDTH),
        "source": source,
        "cross_keys": cross[:layers],
        "cross_values": cross[layers:],
        "self_keys": caches[:layers],
        "self_values": caches[layers:],
    }
    varying = {
        **dict.fromkeys(("tokens", "order", "forced", "source"), (0, 1)),
        "width": (0,),
        "cross_keys": (0, 3),
        "cross_values": (0, 2),
        **dict.fromkeys(("self_keys", "self_values"), (0, 2)),
    }
    outputs = ["scores", "ids", "forced_scores", *(f"new_self_{name}" for name in both)]
    return {
        "encoder": Graph(encoder, {"source": source}, {"source": (0, 1)}, [f"cross_{name}" for name in both]),
        "step": Graph(step, inputs, varying, outputs),
    }
