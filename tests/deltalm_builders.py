"""Tiny DeltaLM models, released files, masked LMs and texts; names are written out by hand."""

import re

import numpy as np
import torch
from fairseq import models
from torch import nn

from fairseq_plugins import checkpoints
from fairseq_plugins.deltalm.span_corruption import (
    SentenceBlocks,
    SentencePairs,
    SpanCorruption,
    SpanCorruptionDataset,
)
from fairseq_plugins.deltalm.spans import find_sentinels
from tests import builders

LAYERS, BLOCKS = 4, 2
SIZES = {**builders.SIDES, "encoder_layers": LAYERS, "decoder_layers": BLOCKS}
KINDS = ("argparse", "omegaconf")
ATTENTION = ("q_proj", "k_proj", "v_proj", "out_proj")


def dictionary(pieces=builders.PIECES, mask=True, tags=0):
    """4 symbols, pieces p0 p1 …, ``<mask>`` (stock tasks have none), language tags t0 t1 …."""
    symbols = builders.piece_names(pieces)
    if mask:
        symbols.append("<mask>")
    return builders.of_symbols([*symbols, *(f"t{number}" for number in range(tags))])


def task(**symbols):
    return builders.task_of(dictionary(**symbols))


def arguments(kind="argparse", arch="deltalm_tiny", **options):
    values = {"share_all_embeddings": True, **SIZES, **options}
    return builders.options_of(kind, arch, values)


def with_defaults(args):
    """Let the architecture set the options that are open."""
    models.ARCH_CONFIG_REGISTRY[args.arch](args)
    return args


def build(args=None, symbols=None, **options):
    """Build a model as a task does, with initial values or those of a pretrained file."""
    if args is None:
        args = arguments(**options)
    return models.build_model(args, task(**(symbols or {})))


def randomise(module, seed, spared="embed_|output_projection|q_proj|k_proj"):
    """Set random weights: every path matters, and positions differ (larger weights blur them)."""
    builders.randomise(module, seed)
    for name, parameter in module.named_parameters():
        if parameter.dim() == 2 and not re.search(spared, name):
            parameter.data.mul_(0.3)


def random_model(seed=5, **options):
    model = build(**options)
    randomise(model, seed)
    return model.eval()


def in_double(monkeypatch):
    """Compute softmax and GELU in the dtype of their input, where fairseq takes float32."""
    monkeypatch.setattr("fairseq.utils.softmax", lambda x, dim, onnx_trace=False: x.softmax(dim))
    monkeypatch.setattr("fairseq.modules.gelu", nn.functional.gelu)


def state_of(model):
    """The weights: the state dict without fairseq's version buffers."""
    state = model.state_dict()
    return {name: state[name] for name in state if not name.endswith(".version")}


def _block_shapes(norms, attentions, ffns):
    width, inner = builders.WIDTH, builders.FFN
    weights = dict.fromkeys(norms, (width,))
    for name in attentions:
        weights.update({f"{name}.{projection}": (width, width) for projection in ATTENTION})
    for name in ffns:
        weights.update({f"{name}.fc1": (inner, width), f"{name}.fc2": (width, inner)})
    shapes = {f"{name}.weight": shape for name, shape in weights.items()}
    return {**shapes, **{f"{name}.bias": shape[:1] for name, shape in weights.items()}}


def released_tensors(rows=builders.VOCAB, layers=LAYERS, blocks=BLOCKS, embedding_norm=True):
    """Draw tensors under the names of the authors' release; both token embeddings are equal."""
    shapes = {}
    for side in ("src_embedding", "tgt_embedding"):
        shapes[f"{side}.embed_tokens.weight"] = (rows, builders.WIDTH)
        shapes[f"{side}.embed_positions.weight"] = (builders.POSITIONS + 2, builders.WIDTH)
        if embedding_norm:
            norm = f"{side}.emb_layer_norm"
            shapes[f"{norm}.weight"] = shapes[f"{norm}.bias"] = (builders.WIDTH,)
    norms = ("self_attn_layer_norm", "final_layer_norm")
    layer = _block_shapes(norms, ("self_attn",), ("ffn",))
    norms += ("ffn_layer_norm", "encoder_attn_layer_norm")
    block = _block_shapes(norms, ("self_attn", "encoder_attn"), ("ffn_1", "ffn_2"))
    for side, count, names in (("encoder", layers, layer), ("decoder", blocks, block)):
        for number in range(count):
            shapes.update({f"{side}.layers.{number}.{name}": names[name] for name in names})
    random = builders.drawing(1, 0.5)
    tensors = {name: random(*shape) for name, shape in shapes.items()}
    words = tensors["src_embedding.embed_tokens.weight"]
    tensors["tgt_embedding.embed_tokens.weight"] = words.clone()
    return tensors


def in_names_of_the_model(released):
    """Rename a release: ``ffn_1`` is the bottom FFN (fc3, fc4), ``ffn_2`` the top one."""
    sides = {"src_embedding": "encoder", "tgt_embedding": "decoder"}
    inside = {"ffn_1.fc1": "fc3", "ffn_1.fc2": "fc4", "ffn_2.": "", "ffn.": ""}
    inside["emb_layer_norm"] = "layernorm_embedding"
    state = {}
    for name, tensor in released.items():
        side, _, suffix = name.partition(".")
        for theirs, ours in inside.items():
            suffix = suffix.replace(theirs, ours)
        state[f"{sides.get(side, side)}.{suffix}"] = tensor
    state["decoder.output_projection.weight"] = released["tgt_embedding.embed_tokens.weight"]
    return state


def write_released(path, tensors=None):
    torch.save({"weights": released_tensors() if tensors is None else tensors}, path)
    return path


def write_mlm(folder, layers=LAYERS, **changes):
    """Write a random masked LM as a Hugging Face folder. Returns the tensors of its encoder."""
    module = builders.masked_lm(layers=layers, **changes)
    checkpoints.write_masked_lm(folder, module.sizes, module.state_dict(), dtype=torch.float32)
    return {name: tensor.detach() for name, tensor in module.sentence_encoder.state_dict().items()}


def write_dictionary(path, pieces=builders.PIECES, swapped=False):
    """``dict.txt``, without ``<mask>``; ``swapped``: two entries change places."""
    symbols = builders.piece_names(pieces)
    if swapped:
        symbols[3], symbols[4] = symbols[4], symbols[3]
    builders.write_symbols(path, symbols)


def net_input(extra=0):
    """Make the model's input of ``builders.sample``: ``</s>`` first, padding last."""
    rows = [row.roll(1) for row in builders.target_rows(builders.TARGETS)]
    shifted = builders.pad(rows, extra=extra)
    return {**builders.sample(extra=extra)["net_input"], "prev_output_tokens": shifted}


# ---- Tiny streams of texts for span corruption, and the way back to the text. ----

PAD, EOS = builders.PAD, builders.EOS
TEMPLATE = "<extra_id_{}>"
SENTINELS = 60
FIRST_SENTINEL = builders.VOCAB


def corruption_dictionary():
    symbols = builders.dictionary()
    find_sentinels(symbols, TEMPLATE, SENTINELS)
    return symbols


def tensors(rows):
    return [torch.tensor([*row, EOS]) for row in rows]


def sizes(rows):
    return np.array([len(row) + 1 for row in rows], dtype=np.int32)


def blocks(rows, block=20, mode="complete", ratio=0.15):
    return SentenceBlocks(tensors(rows), sizes(rows), block, mode, PAD, EOS, ratio)


def pairs(sources, targets, ratio=0.5):
    sides = (sources, targets)
    return SentencePairs([tensors(side) for side in sides], [sizes(side) for side in sides], ratio)


def pair_rows(count, low=2, high=12):
    return builders.sentences(count, 1, low, high), builders.sentences(count, 2, low, high)


def corruption(**changes):
    sentinels = range(FIRST_SENTINEL, FIRST_SENTINEL + SENTINELS)
    return SpanCorruption(**{"mean_span": 3.0, "sentinels": sentinels, "seed": 7, **changes})


def dataset(streams, probabilities=None, **changes):
    symbols = corruption_dictionary()
    return SpanCorruptionDataset(streams, symbols, corruption(**changes), probabilities)


def spans(target):
    """Split a target, without its last </s>, at its sentinels."""
    parts = []
    for token in target[:-1]:
        if token >= FIRST_SENTINEL:
            assert token == FIRST_SENTINEL + len(parts), "sentinels count up"
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def restored(source, target):
    """Replace each sentinel of the source by the target's span."""
    parts = spans(target)
    sentinels = [token for token in source if token >= FIRST_SENTINEL]
    assert sentinels == list(range(FIRST_SENTINEL, FIRST_SENTINEL + len(parts)))
    text = []
    for token in source:
        text += parts[token - FIRST_SENTINEL] if token >= FIRST_SENTINEL else [token]
    return text


def plain(item):
    return item["source"].tolist(), item["target"].tolist()
