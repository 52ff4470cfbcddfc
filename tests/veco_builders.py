"""Tiny VECOs, their options, batches and pretrained states, built in memory."""

import argparse
import json
import re
from types import SimpleNamespace
from typing import List

import numpy as np
import safetensors.torch
import torch
from fairseq import models
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerModel
from omegaconf import OmegaConf

import fairseq_plugins.models.veco  # noqa: F401 registers the architectures
from fairseq_plugins.data.veco_dataset import VECODataset
from fairseq_plugins.data.veco_segments import AdjacentSegments, ParallelPairs
from tests import builders, nlu_builders
from tests.unit.checkpoints import builders as masked_lms

LAYERS = 4
KINDS = ("argparse", "omegaconf")
SIZES = {
    "encoder_layers": LAYERS,
    "encoder_embed_dim": builders.WIDTH,
    "encoder_ffn_embed_dim": builders.FFN,
    "encoder_attention_heads": builders.HEADS,
    "decoder_embed_dim": builders.WIDTH,
    "decoder_ffn_embed_dim": builders.FFN,
    "decoder_attention_heads": builders.HEADS,
    "max_source_positions": builders.POSITIONS,
    "max_target_positions": builders.POSITIONS,
}


def dictionary(pieces=builders.PIECES, mask=False, tags=()):
    """4 symbols, the pieces p0 p1 ..., ``<mask>`` where asked for, then the tags."""
    result = Dictionary()
    for symbol in [*(f"p{number}" for number in range(pieces)), *(["<mask>"] if mask else []), *tags]:
        result.add_symbol(symbol)
    return result


def task(pretrains=False, kept_rows=None, **symbols):
    """What building a model needs of a task: pre-training has ``<mask>`` in its dictionary, translation has not."""
    symbols = {"mask": pretrains, **symbols}
    both = dictionary(**symbols)
    return SimpleNamespace(
        source_dictionary=both, target_dictionary=both, pretrains_veco=pretrains, kept_rows=kept_rows
    )


def arguments(kind="argparse", arch="veco_tiny", **options):
    """Options as the command line (a Namespace) or a YAML (a DictConfig) gives them, before the architecture's."""
    values = {**SIZES, **options}
    if kind == "omegaconf":
        return OmegaConf.create({"_name": arch, **values})
    return argparse.Namespace(arch=arch, **values)


def translator(args=None, symbols=None, **options):
    return models.build_model(arguments(**options) if args is None else args, task(**(symbols or {})))


def pretrainer(args=None, symbols=None, **options):
    return models.build_model(arguments(**options) if args is None else args, task(True, **(symbols or {})))


def random_pretrainer(seed=5, **options):
    """In evaluation mode, with weights under which every path matters."""
    model = pretrainer(**options)
    soften(model, seed)
    return model.eval()


def soften(model, seed):
    """Random weights under which every path matters and the positions stay apart (larger ones make them alike)."""
    builders.randomise(model, seed)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2 and not re.search(r"embed_|output_projection|q_proj|k_proj|lm_head", name):
            parameter.data.mul_(0.3)


def stock_state(layers=LAYERS, rows=None, seed=7):
    """The released layout: a stock transformer with a decoder of all layers, whose layers are those of the encoder.

    Args:
        layers: of the stack.
        rows: of the embedding; with a last one for ``<mask>`` when None.
        seed: of the weights.
    """
    pieces = builders.PIECES + 1 if rows is None else rows - 4
    model = stock_model(dictionary(pieces), layers=layers)
    soften(model, seed)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for name in list(state):
        if name.startswith("decoder.") and "encoder_attn" not in name:
            state[name] = state[
                name.replace("decoder.output_projection", "encoder.embed_tokens").replace("decoder.", "encoder.")
            ]
    return state


def stock_model(symbols, layers=LAYERS, scaled=True):
    args = argparse.Namespace(
        **{
            **SIZES,
            "encoder_layers": layers,
            "decoder_layers": layers,
            "encoder_learned_pos": True,
            "decoder_learned_pos": True,
            "activation_fn": "gelu",
            "layernorm_embedding": True,
            "share_all_embeddings": True,
            "no_scale_embedding": not scaled,
        }
    )
    both = SimpleNamespace(source_dictionary=symbols, target_dictionary=symbols)
    return TransformerModel.build_model(args, both).eval()


def pair_rows(seed=3, lengths=(6, 4, 5, 7)):
    """First segments, then second ones, each ``<s> ... </s>``."""
    return builders.source_rows(lengths, seed)


def batch(seed=3, parallel=True, extra=0, lengths=(6, 4, 5, 7)):
    """A batch as the pre-training task's collater makes it; the second token of each segment and every third are masked."""
    rows = pair_rows(seed, lengths)
    tokens = builders.pad(rows, extra=extra)
    masked = torch.zeros_like(tokens, dtype=torch.bool)
    for row, length in zip(masked, map(len, rows)):
        row[1 : length - 1 : 2] = True
    target = tokens.masked_fill(~masked, builders.PAD)
    inputs = tokens.masked_fill(masked & tokens.remainder(3).ne(0), builders.MASK)
    half = len(rows) // 2
    sample = {
        "id": torch.arange(half),
        "nsentences": half,
        "ntokens": sum(map(len, rows)),
        "net_input": {
            "src_tokens": inputs,
            "src_lengths": torch.tensor([len(row) for row in rows]),
            "masked": masked,
            "joint_tokens": None,
            "joint_masked": None,
        },
        "target": target,
        "joint_target": None,
    }
    if parallel:
        end = torch.tensor([builders.EOS])

        def joined(values, between, fill):
            lines = []
            for first in range(half):
                left, right = values[first, : len(rows[first])], values[first + half, 1 : len(rows[first + half])]
                lines.append(torch.cat([left, between.to(values.dtype), right]))
            return builders.pad(lines, fill, extra)

        nothing = torch.zeros(1, dtype=torch.int64)
        joint_masked = joined(masked.long(), nothing, 0).bool()
        sample["net_input"].update(joint_tokens=joined(inputs, end, builders.PAD), joint_masked=joint_masked)
        sample["joint_target"] = joined(target, nothing + builders.PAD, builders.PAD).masked_fill(
            ~joint_masked, builders.PAD
        )
    return sample


# ---- Tiny documents and pairs for VECO's pre-training, as streams and as data-bins, and a way to look at batches. ----

BOS, PAD, EOS, MASK = builders.BOS, builders.PAD, builders.EOS, builders.MASK
Rows = List[List[int]]


def documents(counts, seed=1, low=2, high=8):
    """Documents of so many random sentences, without </s>; an empty row ends each."""
    sentences = iter(builders.sentences(sum(counts), seed, low, high))
    rows = []
    for count in counts:
        rows += [next(sentences) for _ in range(count)] + [[]]
    return rows


def _side(rows):
    tensors = [torch.tensor([*row, EOS]) for row in rows]
    return tensors, np.array([len(row) for row in tensors], dtype=np.int32)


def segments(rows, room=12):
    return AdjacentSegments(*_side(rows), room, PAD, EOS)


def pairs(left, right, room=None):
    (x, x_sizes), (y, y_sizes) = _side(left), _side(right)
    return ParallelPairs([x, y], [x_sizes, y_sizes], room)


def streams(documents_=20, sentences=30):
    left, right = builders.sentences(sentences, 11), builders.sentences(sentences, 12)
    return [segments(documents([4] * documents_)), pairs(left, right)]


def dataset(parts, probabilities=None, seed=7, mask_prob=0.15):
    return VECODataset(parts, builders.dictionary(), mask_prob, seed, probabilities)


def plain(item):
    return list(item["lengths"]), item["tokens"].tolist(), item["target"].tolist()


def whole(item):
    (first, _), tokens, target = plain(item)
    row = [old if new == PAD else new for old, new in zip(tokens, target)]
    return [row[:first], row[first:]]


def rows_of(stream, index):
    return [[BOS, *tokens.tolist()] for tokens in stream.read(index)]


def write_documents(folder, split, language, rows):
    """Monolingual documents as ``fairseq-preprocess --only-source`` writes them, and the dictionary."""
    builders.write_side(folder, split, f"{language}-None", language, rows)
    builders.write_dictionary(folder, language)


def is_parallel(batch):
    return batch["net_input"]["joint_tokens"] is not None


# ---- Tiny VECOs on disk in every layout: made by stock fairseq and by hand, not by the package's tables. ----

SYMBOLS = [*nlu_builders.PIECES, "<mask>"]
ROWS = 4 + len(SYMBOLS)
SHAPE = {
    "activation_fn": "gelu",
    "layernorm_embedding": True,
    "encoder_learned_pos": True,
    "decoder_learned_pos": True,
    "decoder_layers": nlu_builders.LAYERS,
}
WORDS = ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection", "lm_head")
STACK = ("self_attn.", "self_attn_layer_norm.", "fc1.", "fc2.", "final_layer_norm.")
CROSS = {
    "cross_attention.self.query.weight": "encoder_attn.q_proj.weight",
    "cross_attention.self.query.bias": "encoder_attn.q_proj.bias",
    "cross_attention.self.key.weight": "encoder_attn.k_proj.weight",
    "cross_attention.self.key.bias": "encoder_attn.k_proj.bias",
    "cross_attention.self.value.weight": "encoder_attn.v_proj.weight",
    "cross_attention.self.value.bias": "encoder_attn.v_proj.bias",
    "cross_attention.output.dense.weight": "encoder_attn.out_proj.weight",
    "cross_attention.output.dense.bias": "encoder_attn.out_proj.bias",
    "cross_attention.output.LayerNorm.gamma": "encoder_attn_layer_norm.weight",
    "cross_attention.output.LayerNorm.beta": "encoder_attn_layer_norm.bias",
}
"""As the authors gave it: name in the folder of a layer's cross-attention -> name in fairseq's layout."""


def stock(symbols=SYMBOLS, scaled=True, **options):
    """A stock transformer whose decoder layers have the encoder layers' values, cross-attention apart."""
    model = nlu_builders.stock_model(symbols, arch="transformer", no_scale_embedding=not scaled, **{**SHAPE, **options})
    model.options["arch"] = "veco_large"
    tie(model)
    return model


def tie(model):
    """The same modules on both sides, as while it is pre-trained; generation begins with copies of them."""
    for part in ("embed_positions", "layernorm_embedding"):
        setattr(model.decoder, part, getattr(model.encoder, part))
    for own, other in zip(model.decoder.layers, model.encoder.layers):
        for part in STACK:
            setattr(own, part[:-1], getattr(other, part[:-1]))


def released_state(model):
    """Every tensor apart, and what an encoder has no use for beside them."""
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state["encoder.output_projection.weight"] = state["encoder.embed_tokens.weight"].clone()
    state["classification_heads.nli.dense.weight"] = torch.ones(2, 2)
    return state


def write(path, model, state, without=(), **changes):
    """A checkpoint with an options namespace, as released; ``without``: options that it lacks."""
    options = {name: value for name, value in {**model.options, **changes}.items() if name not in without}
    path.parent.mkdir(parents=True, exist_ok=True)
    saved = {"args": argparse.Namespace(**options), "model": state}
    saved.update(optimizer_history=[{"num_updates": 3}], extra_state={"epoch": 1})
    torch.save(saved, path)
    return path


def released(folder, **changes):
    """The released layout: ``model.pt``, and ``dict.txt`` without ``<mask>``, which is the last row. Returns the model."""
    model = stock(**changes)
    write(folder / "model.pt", model, released_state(model))
    nlu_builders.write_dict(folder / "dict.txt", nlu_builders.PIECES)
    return model


def head(words, seed=3):
    """Of a masked LM, tied to the embedding."""
    generator = torch.Generator().manual_seed(seed)

    def random(*shape):
        return 0.3 * torch.randn(*shape, generator=generator)

    return {
        "lm_head.dense.weight": random(nlu_builders.WIDTH, nlu_builders.WIDTH),
        "lm_head.dense.bias": random(nlu_builders.WIDTH),
        "lm_head.layer_norm.weight": 1 + random(nlu_builders.WIDTH),
        "lm_head.layer_norm.bias": random(nlu_builders.WIDTH),
        "lm_head.weight": words,
        "lm_head.bias": random(words.size(0)),
    }


def pretrained_state(model):
    """What a VECO that is being pre-trained here has in its state; what is tied shares memory."""
    state = {name: tensor.detach() for name, tensor in model.state_dict().items()}
    words = state["encoder.embed_tokens.weight"]
    return {**state, **head(words), "lm_head.mask_row": torch.empty(len(words) - 1, 0)}


def pretrained(path, seed_model=None, **entries):
    """A checkpoint of the pre-training, as the trainer writes it. Returns the model."""
    model = stock(scaled=False) if seed_model is None else seed_model
    options = {name: value for name, value in model.options.items() if name != "arch"}
    path.parent.mkdir(parents=True, exist_ok=True)
    saved = {
        "args": None,
        "cfg": {"model": {"_name": "veco_tiny", **options}, "task": {"_name": "veco_pretraining"}},
        "model": pretrained_state(model),
        "optimizer_history": [{"num_updates": 3}],
        "extra_state": {"train_iterator": {"epoch": 1}},
    }
    torch.save({**saved, **entries}, path)
    return model


def folder_state(with_head=True, seed=1):
    """Names of the Hugging Face folder: those of XLM-R, with old names of norms, and cross-attention in each of 12 layers."""
    tensors = masked_lms.masked_lm_tensors(seed)
    state = {}
    for name, tensor in masked_lms.huggingface_state(tensors).items():
        old = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        if with_head or not name.startswith("lm_head"):
            state[old] = tensor
    state.update(cross_attention(range(masked_lms.SIZES["layers"]), masked_lms.SIZES["embed_dim"]))
    return state


def cross_attention(layers, width, seed=7):
    """Of these layers, random."""
    generator = torch.Generator().manual_seed(seed)
    state = {}
    for layer in layers:
        for name in CROSS:
            shape = (width, width) if name.endswith("weight") else (width,)
            state[f"roberta.encoder.layer.{layer}.{name}"] = torch.randn(*shape, generator=generator)
    return state


def write_folder(folder, state=None, **changes):
    """A Hugging Face folder of 12 layers, pickled as in the release."""
    return masked_lms.write_huggingface(folder, folder_state() if state is None else state, pickled=True, **changes)


def add_cross_attention(folder):
    """Make a VECO of a folder that transformers has written. Returns the names of all tensors."""
    state = safetensors.torch.load_file(folder / "model.safetensors")
    state = {name.replace("LayerNorm.weight", "LayerNorm.gamma"): tensor for name, tensor in state.items()}
    state = {name.replace("LayerNorm.bias", "LayerNorm.beta"): tensor for name, tensor in state.items()}
    state.update(cross_attention(range(nlu_builders.LAYERS), nlu_builders.WIDTH))
    (folder / "model.safetensors").unlink()
    torch.save(state, folder / "pytorch_model.bin")
    config = json.loads((folder / "config.json").read_text())
    nlu_builders.write_json(folder / "config.json", {**config, "is_decoder": True, "add_cross_attention": True})
    return list(state)


def sizes_of_tiny():
    """What the fairseq files made here have, by the names of a layout."""
    return dict(
        vocab_size=ROWS,
        layers=nlu_builders.LAYERS,
        embed_dim=nlu_builders.WIDTH,
        ffn_dim=nlu_builders.FFN,
        heads=nlu_builders.HEADS,
        max_positions=nlu_builders.POSITIONS,
    )
