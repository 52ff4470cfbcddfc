"""Tiny VECOs on disk in every layout: made by stock fairseq and by hand, not by the package's tables."""

import argparse
import json

import safetensors.torch
import torch

from tests import nlu_builders
from tests.nlu_builders import FFN, HEADS, LAYERS, PIECES, POSITIONS, WIDTH
from tests.unit.checkpoints import builders as masked_lms

SYMBOLS = [*PIECES, "<mask>"]
ROWS = 4 + len(SYMBOLS)
SHAPE = {
    "activation_fn": "gelu",
    "layernorm_embedding": True,
    "encoder_learned_pos": True,
    "decoder_learned_pos": True,
    "decoder_layers": LAYERS,
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
    nlu_builders.write_dict(folder / "dict.txt", PIECES)
    return model


def head(words, seed=3):
    """Of a masked LM, tied to the embedding."""
    generator = torch.Generator().manual_seed(seed)

    def random(*shape):
        return 0.3 * torch.randn(*shape, generator=generator)

    return {
        "lm_head.dense.weight": random(WIDTH, WIDTH),
        "lm_head.dense.bias": random(WIDTH),
        "lm_head.layer_norm.weight": 1 + random(WIDTH),
        "lm_head.layer_norm.bias": random(WIDTH),
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
    state.update(cross_attention(range(LAYERS), WIDTH))
    (folder / "model.safetensors").unlink()
    torch.save(state, folder / "pytorch_model.bin")
    config = json.loads((folder / "config.json").read_text())
    nlu_builders.write_json(folder / "config.json", {**config, "is_decoder": True, "add_cross_attention": True})
    return list(state)


def sizes_of_tiny():
    """What the fairseq files made here have, by the names of a layout."""
    return dict(vocab_size=ROWS, layers=LAYERS, embed_dim=WIDTH, ffn_dim=FFN, heads=HEADS, max_positions=POSITIONS)
