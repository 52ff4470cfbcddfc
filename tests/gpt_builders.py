"""Tiny causal language models on disk, with names written out by hand (not with the package's tables)."""

import argparse
import json
from argparse import Namespace
from types import SimpleNamespace

import safetensors.torch
import torch
from fairseq.data import Dictionary
from fairseq.models.bart import BARTModel
from fairseq.models.bart.model import mbart_base_architecture

from fairseq_plugins.models.baselines import GPTMSPConfig, GPTMSPModel
from tests import builders

LAYERS, WIDTH, INNER, HEADS, POSITIONS = 3, 16, 24, 2, 20
ROWS = 4 + builders.PIECES


def dictionary(pieces=builders.PIECES):
    """4 symbols and the pieces p0 p1 …: what stock tasks read from ``dict.txt``."""
    result = Dictionary()
    for number in range(pieces):
        result.add_symbol(f"p{number}")
    return result


def task(pieces=builders.PIECES):
    """What building a model needs of a task: one dictionary for both sides."""
    return SimpleNamespace(source_dictionary=dictionary(pieces), target_dictionary=dictionary(pieces))


def config(layers=LAYERS, rows=ROWS, **changes):
    """``config.json`` of a GPT-2."""
    sizes = {"n_layer": layers, "n_embd": WIDTH, "n_inner": INNER, "n_head": HEADS, "n_positions": POSITIONS}
    return {"model_type": "gpt2", "vocab_size": rows, **sizes, "activation_function": "gelu_new", **changes}


def tensors(layers=LAYERS, rows=ROWS, seed=1):
    """Random tensors of a GPT-2 in Hugging Face's names, no two alike; matrices are (in, out)."""
    generator = torch.Generator().manual_seed(seed)

    def random(*shape, scale=0.4):
        return scale * torch.randn(*shape, generator=generator)

    found = {
        "transformer.wte.weight": random(rows, WIDTH, scale=0.7),
        "transformer.wpe.weight": random(POSITIONS, WIDTH),
    }
    for layer in range(layers):
        start = f"transformer.h.{layer}."
        for norm in ("ln_1", "ln_2"):
            found[f"{start}{norm}.weight"], found[f"{start}{norm}.bias"] = 1 + random(WIDTH), random(WIDTH)
        shapes = {"attn.c_attn": (WIDTH, 3 * WIDTH), "attn.c_proj": (WIDTH, WIDTH)}
        shapes.update({"mlp.c_fc": (WIDTH, INNER), "mlp.c_proj": (INNER, WIDTH)})
        for name, shape in shapes.items():
            found[f"{start}{name}.weight"], found[f"{start}{name}.bias"] = random(*shape), random(shape[1])
        found[f"{start}attn.bias"] = torch.ones(1, 1, POSITIONS, POSITIONS).tril()
    found["transformer.ln_f.weight"], found["transformer.ln_f.bias"] = 1 + random(WIDTH), random(WIDTH)
    return found


def write(folder, found=None, pieces=builders.PIECES, **changes):
    """A Hugging Face folder with a ``dict.txt``; ``pieces`` 0 leaves it out, ``changes`` are entries of the configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    found = tensors() if found is None else found
    safetensors.torch.save_file(found, str(folder / "model.safetensors"), {"format": "pt"})
    layers = len({name.split(".")[2] for name in found if ".h." in name})
    stated = config(layers, found["transformer.wte.weight"].size(0), **changes)
    (folder / "config.json").write_text(json.dumps(stated), encoding="utf-8")
    if pieces:
        (folder / "dict.txt").write_text("".join(f"p{n} 1\n" for n in range(pieces)), encoding="utf-8")
    return folder


def stock_settings(**changes):
    """Options of a ``transformer_lm`` with GPT-2's wiring."""
    values = dict(
        arch="transformer_lm",
        decoder_layers=LAYERS,
        decoder_embed_dim=WIDTH,
        decoder_ffn_embed_dim=INNER,
        decoder_attention_heads=HEADS,
        decoder_normalize_before=True,
        decoder_learned_pos=True,
        activation_fn="gelu",
        no_scale_embedding=True,
        layernorm_embedding=False,
        share_decoder_input_output_embed=True,
        tokens_per_sample=POSITIONS,
        max_target_positions=POSITIONS,
    )
    return argparse.Namespace(**{**values, **changes})


def msp(path, seed=2, pieces=builders.PIECES, **options):
    """A model with P = 3 and random prompts, in evaluation mode."""
    cfg = GPTMSPConfig(**{"pretrained_gpt": str(path), "prompt_length": 3, **options})
    model = GPTMSPModel.build_model(cfg, task(pieces))
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and not name.endswith("scale"):
            parameter.data.copy_(0.8 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def pieces_rows(lengths, seed=3):
    """Random rows ``pieces </s>``; ``lengths`` count the symbol."""
    generator = torch.Generator().manual_seed(seed)
    end = torch.tensor([builders.EOS])
    return [torch.cat([torch.randint(4, ROWS, (n - 1,), generator=generator), end]) for n in lengths]


def net_input(left_pad=False, extra=0):
    """Three ragged pairs as the stock translation task gives them; ``extra`` columns of padding more than needed."""
    sources, targets = pieces_rows([6, 3, 5]), pieces_rows([4, 6, 2], seed=4)
    source = builders.pad(sources, extra=extra)
    if left_pad:
        source = torch.stack([row.roll(int(row.eq(builders.PAD).sum())) for row in source])
    shifted = builders.pad([torch.cat([row[-1:], row[:-1]]) for row in targets])
    return {"src_tokens": source, "src_lengths": torch.tensor([6, 3, 5]), "prev_output_tokens": shifted}


# ---- A tiny mBART with large random weights, built in memory. ----

SIZES = {"embed_dim": 16, "ffn_embed_dim": 24, "layers": 2, "attention_heads": 2}


def mbart(symbols=None):
    """In evaluation mode, with an embedding of its own a side."""
    args = Namespace(max_source_positions=40, max_target_positions=40)
    for side in ("encoder", "decoder"):
        vars(args).update({f"{side}_{name}": value for name, value in SIZES.items()})
    mbart_base_architecture(args)
    symbols = symbols or builders.dictionary()
    model = BARTModel.build_model(args, Namespace(source_dictionary=symbols, target_dictionary=symbols))
    builders.randomise(model, seed=1)
    return model.eval()
