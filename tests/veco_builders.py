"""Tiny VECOs, their options, batches and pretrained states, built in memory."""

import argparse
import re
from types import SimpleNamespace
from typing import Any, Dict, List, Optional, Sequence

import torch
from fairseq import models
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerModel
from omegaconf import OmegaConf
from torch import Tensor, nn

import fairseq_plugins.models.veco  # noqa: F401 registers the architectures
from tests import builders

LAYERS = 4
KINDS = ("argparse", "omegaconf")
SIZES: Dict[str, Any] = {
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


def dictionary(pieces: int = builders.PIECES, mask: bool = False, tags: Sequence[str] = ()) -> Dictionary:
    """4 symbols, the pieces p0 p1 ..., ``<mask>`` where asked for, then the tags."""
    result = Dictionary()
    for symbol in [*(f"p{number}" for number in range(pieces)), *(["<mask>"] if mask else []), *tags]:
        result.add_symbol(symbol)
    return result


def task(pretrains: bool = False, kept_rows: Optional[Sequence[bool]] = None, **symbols: Any) -> Any:
    """What building a model needs of a task: pre-training has ``<mask>`` in its dictionary, translation has not."""
    symbols = {"mask": pretrains, **symbols}
    both = dictionary(**symbols)
    return SimpleNamespace(
        source_dictionary=both, target_dictionary=both, pretrains_veco=pretrains, kept_rows=kept_rows
    )


def arguments(kind: str = "argparse", arch: str = "veco_tiny", **options: Any) -> Any:
    """Options as the command line (a Namespace) or a YAML (a DictConfig) gives them, before the architecture's."""
    values = {**SIZES, **options}
    if kind == "omegaconf":
        return OmegaConf.create({"_name": arch, **values})
    return argparse.Namespace(arch=arch, **values)


def translator(args: Any = None, symbols: Optional[Dict[str, Any]] = None, **options: Any) -> Any:
    """A model that translates, as a task builds it."""
    return models.build_model(arguments(**options) if args is None else args, task(**(symbols or {})))


def pretrainer(args: Any = None, symbols: Optional[Dict[str, Any]] = None, **options: Any) -> Any:
    """A model that pre-trains, as a task builds it."""
    return models.build_model(arguments(**options) if args is None else args, task(True, **(symbols or {})))


def random_pretrainer(seed: int = 5, **options: Any) -> Any:
    """In evaluation mode, with weights under which every path matters."""
    model = pretrainer(**options)
    soften(model, seed)
    return model.eval()


def soften(model: nn.Module, seed: int) -> None:
    """Random weights under which every path matters and the positions stay apart (larger ones make them alike)."""
    builders.randomise(model, seed)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2 and not re.search(r"embed_|output_projection|q_proj|k_proj|lm_head", name):
            parameter.data.mul_(0.3)


def stock_state(layers: int = LAYERS, rows: Optional[int] = None, seed: int = 7) -> Dict[str, Tensor]:
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


def stock_model(symbols: Dictionary, layers: int = LAYERS, scaled: bool = True) -> TransformerModel:
    """fairseq's post-norm transformer of the same shape."""
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


def pair_rows(seed: int = 3, lengths: Sequence[int] = (6, 4, 5, 7)) -> List[Tensor]:
    """First segments, then second ones, each ``<s> ... </s>``."""
    return builders.source_rows(lengths, seed)


def batch(
    seed: int = 3, parallel: bool = True, extra: int = 0, lengths: Sequence[int] = (6, 4, 5, 7)
) -> Dict[str, Any]:
    """A batch as the pre-training task's collater makes it; the second token of each segment and every third are masked."""
    rows = pair_rows(seed, lengths)
    tokens = builders.pad(rows, extra=extra)
    masked = torch.zeros_like(tokens, dtype=torch.bool)
    for row, length in zip(masked, map(len, rows)):
        row[1 : length - 1 : 2] = True
    target = tokens.masked_fill(~masked, builders.PAD)
    inputs = tokens.masked_fill(masked & tokens.remainder(3).ne(0), builders.MASK)
    half = len(rows) // 2
    sample: Dict[str, Any] = {
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

        def joined(values: Tensor, between: Tensor, fill: int) -> Tensor:
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
