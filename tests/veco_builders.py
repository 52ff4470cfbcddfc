"""Tiny VECOs, their options, batches and pretrained states, built in memory."""

import argparse
import re
from types import SimpleNamespace

import torch
from fairseq import models
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerModel
from omegaconf import OmegaConf

import fairseq_plugins.models.veco  # noqa: F401 registers the architectures
from tests import builders

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
