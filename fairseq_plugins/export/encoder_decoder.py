"""Models that write from left to right: an encoder and one decoding step as graphs.

They are transformers of the stock shape, and DeltaLM.
"""

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
from ..deltalm.layer import InterleavedDecoderLayer
from ..deltalm.model import InterleavedDecoder
from ..translate import Translator
from . import text
from .folder import Content
from .graphs import SENTENCES, Graph, make_source
from .stock_graphs import EncoderGraph, StepGraph

MODELS = (TransformerModelBase,)

SUPPORTED = {
    "encoder": (TransformerEncoderBase, TransformerEncoder, XLMREncoder),
    "decoder": (TransformerDecoderBase, TransformerDecoder, InterleavedDecoder),
    "encoder layer": (TransformerEncoderLayerBase, TransformerEncoderLayer),
    "decoder layer": (
        TransformerDecoderLayerBase,
        TransformerDecoderLayer,
        InterleavedDecoderLayer,
    ),
}
"""Classes whose computation the graphs repeat; a subclass may compute something else."""

# Sizes of the examples that graphs are traced with: rows and tokens of the caches, candidates.
BEAMS, ROWS, WRITTEN, WIDTH = 2, 5, 6, 4


def content(translator: Translator, pairs: Sequence[text.Pair]) -> Content:
    """Describe the folder of a model that writes from left to right.

    Raises:
        ValueError: parts of the model or options of the search that the runtime does not have.
    """
    model, generator = translator.model, translator.generator
    check(model)
    description = text.describe(translator, pairs)
    description["search"] = search(generator)
    limits = description["limits"]
    limits["target_tokens"] = int(generator.max_len)
    if isinstance(model.encoder, XLMREncoder):  # it adds <s> to a source, and leaves room for it
        limits["source_tokens"] += 1
    ignored = set(description["ignored"])
    for pair in description["pairs"]:
        ignored.update(complete_pair(translator, pair))
    description["ignored"] = sorted(ignored)
    return Content(
        kind="encoder_decoder",
        architecture=architecture(model),
        model=model,
        graphs=graphs(model, limits["source_tokens"], limits["target_tokens"]),
        files=text.files(translator),
        description=description,
    )


def architecture(model: nn.Module) -> str:
    """Return the registered name of the model."""
    kind = type(model)
    names = (name for name, registered in MODEL_REGISTRY.items() if registered is kind)
    return next(names, kind.__name__)


# ---- Models that can be exported. ----


def check(model: Any) -> None:
    """Raise ValueError, naming all unsupported parts, unless the graphs have a model's parts."""
    parts = list(dict.fromkeys(_unsupported(model)))
    if parts:
        raise ValueError(
            f"MODEL: a {type(model).__name__} cannot be exported with {', '.join(parts)}; valid: "
            "encoders and decoders of the stock transformer's or DeltaLM's shape"
        )


def _unsupported(model: Any) -> Iterator[str]:
    """Yield the name of each part of a model that the graphs do not have; names may repeat."""
    for side in ("encoder", "decoder"):
        part = getattr(model, side)
        if type(part) not in SUPPORTED[side]:
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
    if type(layer) not in SUPPORTED[kind]:
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
        scales = {
            "scale_attn": layer.attn_ln,
            "scale_heads": layer.c_attn,
            "scale_fc": layer.ffn_layernorm,
            "scale_resids": layer.w_resid,
        }
        yield from (name for name, part in scales.items() if part is not None)
    for attention in attentions:
        if attention.use_xformers or attention.bias_k is not None or attention.add_zero_attn:
            yield "an attention of another kind (xformers, added keys)"


def search(generator: Any) -> Dict[str, Any]:
    """Make the entry ``search`` of ``model.json``.

    Raises:
        ValueError: a search that the runtime does not have.
    """
    kind = type(getattr(generator, "search", None))
    unsupported = {
        f"generator {type(generator).__name__}": type(generator) is not SequenceGenerator,
        f"search {kind.__name__}": kind is not BeamSearch,
        "--temperature": getattr(generator, "temperature", 1.0) != 1.0,
        "--no-repeat-ngram-size": getattr(generator, "repeat_ngram_blocker", None) is not None,
        "--match-source-len": getattr(generator, "match_source_len", False),
        "--lm-path": getattr(generator, "lm_model", None) is not None,
        "suppressed tokens": getattr(generator, "token_indices_to_suppress", None) is not None,
    }
    names = [name for name, is_set in unsupported.items() if is_set]
    if names:
        raise ValueError(f"{', '.join(names)}: the runtime has beam search alone; valid: without")
    return {
        "beam": int(generator.beam_size),
        "lenpen": float(generator.len_penalty),
        "unkpen": float(generator.unk_penalty),
        "max_len_a": float(generator.max_len_a),
        "max_len_b": int(generator.max_len_b),
        "min_len": int(generator.min_len),
        "normalize": bool(generator.normalize_scores),
    }


# ---- Symbols around the text. ----


class _Recorder:
    """Stand-in for a generator that records what a task asks of it."""

    def __init__(self) -> None:
        self.prefix: List[int] = []
        self.start: Any = None

    def generate(
        self,
        models: Any,
        sample: Any,
        prefix_tokens: Any = None,
        constraints: Any = None,
        bos_token: Any = None,
    ) -> Any:
        """Record the beginning of a target."""
        if prefix_tokens is not None:
            self.prefix = prefix_tokens[0].tolist()
        self.start = bos_token
        return []


def complete_pair(translator: Translator, pair: Dict[str, Any]) -> List[int]:
    """Add the symbols around a target to an entry of ``pairs``.

    The task tells them: it decodes a source of one piece with a generator that only records how
    the target begins. ``<s>`` is added to the source if the encoder would add it.

    Returns:
        Ids of outputs that are no text.
    """
    model = translator.model
    task = text.task_of(translator.task, (pair["source"], pair["target"]))
    generator = task.build_generator([model], translator.cfg.generation)
    piece = task.source_dictionary.nspecial
    source = torch.tensor([[*pair["source_prefix"], piece, *pair["source_suffix"]]])
    net_input = {"src_tokens": source, "src_lengths": torch.tensor([source.size(1)])}
    recorder = _Recorder()
    task.inference_step(recorder, [model], {"net_input": net_input})
    start = generator.eos if recorder.start is None else recorder.start
    pair["target_prefix"] = [int(start), *recorder.prefix]
    if generator.eos != task.target_dictionary.eos():
        pair["eos"] = int(generator.eos)
    if isinstance(model.encoder, XLMREncoder):
        bos = model.encoder.dictionary.bos()
        if pair["source_prefix"][:1] != [bos]:
            pair["source_prefix"] = [bos, *pair["source_prefix"]]
    return [int(symbol) for symbol in generator.symbols_to_strip_from_output]


# ---- Graphs. ----


def graphs(model: Any, source_tokens: int, target_tokens: int) -> Dict[str, Graph]:
    """Make the graphs ``encoder`` and ``step`` of a model that :func:`check` accepts.

    Args:
        source_tokens, target_tokens: longest source and target.
    """
    encoder, step = EncoderGraph(model, source_tokens), StepGraph(model, target_tokens)
    pad = int(model.encoder.padding_idx)
    source = make_source(pad)
    with torch.no_grad():
        cross = [part.contiguous() for part in encoder(source)]
    layers = len(cross) // 2
    names = [f"{kind}.{layer}" for kind in ("keys", "values") for layer in range(layers)]
    attention = model.decoder.layers[0].self_attn
    caches = [torch.zeros(ROWS, attention.num_heads, WRITTEN, attention.head_dim) for _ in names]
    inputs: Dict[str, Any] = {
        "tokens": torch.zeros((SENTENCES, BEAMS), dtype=torch.int64),
        "order": torch.zeros((SENTENCES, BEAMS), dtype=torch.int64),
        "forced": torch.zeros((SENTENCES, BEAMS), dtype=torch.int64),
        "penalty": torch.zeros(model.decoder.output_projection.out_features),
        "width": torch.zeros(WIDTH),
        "source": source,
        "cross_keys": cross[:layers],
        "cross_values": cross[layers:],
        "self_keys": caches[:layers],
        "self_values": caches[layers:],
    }
    varying = {
        "tokens": (0, 1),
        "order": (0, 1),
        "forced": (0, 1),
        "source": (0, 1),
        "width": (0,),
        "cross_keys": (0, 3),
        "cross_values": (0, 2),
        "self_keys": (0, 2),
        "self_values": (0, 2),
    }
    cross_names = [f"cross_{name}" for name in names]
    outputs = ["scores", "ids", "forced_scores", *(f"new_self_{name}" for name in names)]
    return {
        "encoder": Graph(encoder, {"source": source}, {"source": (0, 1)}, cross_names),
        "step": Graph(step, inputs, varying, outputs),
    }
