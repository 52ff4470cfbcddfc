"""Tiny DeltaLM models, released files and masked LMs, with names written out by hand (not with the package's tables)."""

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
    """4 symbols, the pieces p0 p1 …, ``<mask>`` (stock tasks have none), and language tags t0 t1 … at the end."""
    return builders.of_symbols([*builders.piece_names(pieces), *["<mask>"] * mask, *(f"t{n}" for n in range(tags))])


def task(**symbols):
    return builders.task_of(dictionary(**symbols))


def arguments(kind="argparse", arch="deltalm_tiny", **options):
    return builders.options_of(kind, arch, {"share_all_embeddings": True, **SIZES, **options})


def with_defaults(args):
    """The same options after the architecture has set those that were not given."""
    models.ARCH_CONFIG_REGISTRY[args.arch](args)
    return args


def build(args=None, symbols=None, **options):
    """What a task's build_model does, with the values of the initialisation or of a pretrained file."""
    return models.build_model(arguments(**options) if args is None else args, task(**(symbols or {})))


def randomise(module, seed, spared="embed_|output_projection|q_proj|k_proj"):
    """Random weights under which every path matters and the positions stay apart (larger ones make them alike)."""
    builders.randomise(module, seed)
    for name, parameter in module.named_parameters():
        if parameter.dim() == 2 and not re.search(spared, name):
            parameter.data.mul_(0.3)


def random_model(seed=5, **options):
    model = build(**options)
    randomise(model, seed)
    return model.eval()


def in_double(monkeypatch):
    """fairseq takes the softmax of its attention and GELU in float32 whatever the dtype; now in that of the input."""
    monkeypatch.setattr("fairseq.utils.softmax", lambda x, dim, onnx_trace=False: x.softmax(dim))
    monkeypatch.setattr("fairseq.modules.gelu", nn.functional.gelu)


def state_of(model):
    """The weights: the state dict without fairseq's version buffers."""
    return {name: tensor for name, tensor in model.state_dict().items() if not name.endswith(".version")}


def _block_shapes(norms, attentions, ffns):
    width, inner = builders.WIDTH, builders.FFN
    matrices = {f"{name}.{projection}": (width, width) for name in attentions for projection in ATTENTION}
    matrices.update({f"{name}.fc1": (inner, width) for name in ffns})
    matrices.update({f"{name}.fc2": (width, inner) for name in ffns})
    shapes = {f"{name}.weight": shape for name, shape in {**matrices, **dict.fromkeys(norms, (width,))}.items()}
    return {**shapes, **{name.replace(".weight", ".bias"): shape[:1] for name, shape in shapes.items()}}


def released_tensors(rows=builders.VOCAB, layers=LAYERS, blocks=BLOCKS, embedding_norm=True):
    """Random tensors, no two alike but the two token embeddings, under the names of the authors' release."""
    shapes = {}
    for side in ("src_embedding", "tgt_embedding"):
        shapes[f"{side}.embed_tokens.weight"] = (rows, builders.WIDTH)
        shapes[f"{side}.embed_positions.weight"] = (builders.POSITIONS + 2, builders.WIDTH)
        if embedding_norm:
            shapes[f"{side}.emb_layer_norm.weight"] = shapes[f"{side}.emb_layer_norm.bias"] = (builders.WIDTH,)
    norms = ("self_attn_layer_norm", "final_layer_norm")
    layer = _block_shapes(norms, ("self_attn",), ("ffn",))
    norms += ("ffn_layer_norm", "encoder_attn_layer_norm")
    block = _block_shapes(norms, ("self_attn", "encoder_attn"), ("ffn_1", "ffn_2"))
    for side, count, names in (("encoder", layers, layer), ("decoder", blocks, block)):
        shapes.update({f"{side}.layers.{n}.{name}": shape for n in range(count) for name, shape in names.items()})
    random = builders.drawing(1, 0.5)
    tensors = {name: random(*shape) for name, shape in shapes.items()}
    tensors["tgt_embedding.embed_tokens.weight"] = tensors["src_embedding.embed_tokens.weight"].clone()
    return tensors


def in_names_of_the_model(released):
    """The state that a released file stands for: ``ffn_1`` is the bottom FFN (fc3, fc4), ``ffn_2`` the top one."""
    sides = {"src_embedding": "encoder", "tgt_embedding": "decoder", "encoder": "encoder", "decoder": "decoder"}
    inside = {"ffn_1.fc1": "fc3", "ffn_1.fc2": "fc4", "ffn_2.": "", "ffn.": "", "emb_layer_norm": "layernorm_embedding"}
    state = {}
    for name, tensor in released.items():
        side, _, rest = name.partition(".")
        for theirs, ours in inside.items():
            rest = rest.replace(theirs, ours)
        state[f"{sides[side]}.{rest}"] = tensor
    state["decoder.output_projection.weight"] = released["tgt_embedding.embed_tokens.weight"]
    return state


def write_released(path, tensors=None):
    torch.save({"weights": released_tensors() if tensors is None else tensors}, path)
    return path


def write_mlm(folder, layers=LAYERS, **changes):
    """A random masked LM as a Hugging Face folder. Returns its tensors without the part before the layer's number."""
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
    """The model's input of ``builders.sample``, shifted as the translation task does: ``</s>`` first, padding last."""
    shifted = builders.pad([row.roll(1) for row in builders.target_rows(builders.TARGETS)], extra=extra)
    return {**builders.sample(extra=extra)["net_input"], "prev_output_tokens": shifted}


# ---- Tiny streams of texts for span corruption, and the way back from source and target to the text. ----

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


def pairs(left, right, ratio=0.5):
    return SentencePairs([tensors(left), tensors(right)], [sizes(left), sizes(right)], ratio)


def pair_rows(count, low=2, high=12):
    return builders.sentences(count, 1, low, high), builders.sentences(count, 2, low, high)


def corruption(**changes):
    options = {"mean_span": 3.0, "sentinels": range(FIRST_SENTINEL, FIRST_SENTINEL + SENTINELS), "seed": 7, **changes}
    return SpanCorruption(**options)


def dataset(streams, probabilities=None, **changes):
    return SpanCorruptionDataset(streams, corruption_dictionary(), corruption(**changes), probabilities)


def spans(target):
    """The tokens behind each sentinel of a target, without its last </s>; the sentinels must be in order."""
    found = []
    for token in target[:-1]:
        if token >= FIRST_SENTINEL:
            assert token == FIRST_SENTINEL + len(found), "sentinels count up"
            found.append([])
        else:
            found[-1].append(token)
    return found


def restored(source, target):
    """The text: each sentinel of the source replaced by what the target has for it."""
    parts = spans(target)
    used = [token for token in source if token >= FIRST_SENTINEL]
    assert used == list(range(FIRST_SENTINEL, FIRST_SENTINEL + len(parts))), "sentinels count up"
    return [piece for token in source for piece in (parts[used.index(token)] if token in used else [token])]


def plain(item):
    return item["source"].tolist(), item["target"].tolist()
