"""Tiny causal language models on disk; names are written by hand, not with the package's tables."""

import json
from argparse import Namespace

import safetensors.torch
import torch
import torch.nn.functional as F
from fairseq.models.bart import BARTModel
from fairseq.models.bart.model import mbart_base_architecture

from fairseq_plugins.baselines.gpt_msp import GPTMSPConfig, GPTMSPModel
from tests import builders

LAYERS, WIDTH, INNER, HEADS, POSITIONS = 3, 16, 24, 2, 20
ROWS = 4 + builders.PIECES


def dictionary(pieces=builders.PIECES):
    """4 symbols and the pieces p0 p1 …: what stock tasks read from ``dict.txt``."""
    return builders.of_symbols(builders.piece_names(pieces))


def task(pieces=builders.PIECES):
    return builders.task_of(dictionary(pieces))


def config(layers=LAYERS, rows=ROWS, **changes):
    return {
        "model_type": "gpt2",
        "vocab_size": rows,
        "n_layer": layers,
        "n_embd": WIDTH,
        "n_inner": INNER,
        "n_head": HEADS,
        "n_positions": POSITIONS,
        "activation_function": "gelu_new",
        **changes,
    }


def tensors(layers=LAYERS, rows=ROWS, seed=1):
    """Random tensors of a GPT-2 in Hugging Face's names, no two alike; matrices are (in, out)."""
    random = builders.drawing(seed, 0.4)
    weights = {"transformer.wte.weight": 1.75 * random(rows, WIDTH)}
    weights["transformer.wpe.weight"] = random(POSITIONS, WIDTH)
    for layer in range(layers):
        start = f"transformer.h.{layer}."
        for norm in ("ln_1", "ln_2"):
            weights[f"{start}{norm}.weight"] = 1 + random(WIDTH)
            weights[f"{start}{norm}.bias"] = random(WIDTH)
        shapes = {"attn.c_attn": (WIDTH, 3 * WIDTH), "attn.c_proj": (WIDTH, WIDTH)}
        shapes.update({"mlp.c_fc": (WIDTH, INNER), "mlp.c_proj": (INNER, WIDTH)})
        for name, shape in shapes.items():
            weights[f"{start}{name}.weight"] = random(*shape)
            weights[f"{start}{name}.bias"] = random(shape[1])
        weights[f"{start}attn.bias"] = torch.ones(1, 1, POSITIONS, POSITIONS).tril()
    weights["transformer.ln_f.weight"] = 1 + random(WIDTH)
    weights["transformer.ln_f.bias"] = random(WIDTH)
    return weights


def write(folder, weights=None, pieces=builders.PIECES, **changes):
    """Write a Hugging Face folder with a ``dict.txt``; ``pieces`` 0 leaves it out.

    ``changes`` are entries of the configuration.
    """
    folder.mkdir(parents=True, exist_ok=True)
    weights = tensors() if weights is None else weights
    safetensors.torch.save_file(weights, str(folder / "model.safetensors"), {"format": "pt"})
    layers = len({name.split(".")[2] for name in weights if ".h." in name})
    values = config(layers, weights["transformer.wte.weight"].size(0), **changes)
    (folder / "config.json").write_text(json.dumps(values), encoding="utf-8")
    if pieces:
        builders.write_symbols(folder / "dict.txt", builders.piece_names(pieces))
    return folder


def stock_settings(**changes):
    """Options of a ``transformer_lm`` with GPT-2's wiring."""
    on = (
        "decoder_normalize_before",
        "decoder_learned_pos",
        "no_scale_embedding",
        "share_decoder_input_output_embed",
    )
    values = {**builders.side("decoder", LAYERS, WIDTH, INNER, HEADS), **dict.fromkeys(on, True)}
    values.update(layernorm_embedding=False, activation_fn="gelu", tokens_per_sample=POSITIONS)
    return Namespace(
        **{**values, "arch": "transformer_lm", "max_target_positions": POSITIONS, **changes}
    )


def msp(path, seed=2, pieces=builders.PIECES, **options):
    """With P = 3 and random prompts, in evaluation mode."""
    cfg = GPTMSPConfig(**{"pretrained_gpt": str(path), "prompt_length": 3, **options})
    model = GPTMSPModel.build_model(cfg, task(pieces))
    random = builders.drawing(seed, 0.8)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and not name.endswith("scale"):
            parameter.data.copy_(random(parameter.shape))
    return model.eval()


def pieces_rows(lengths, seed=3):
    """Random rows ``pieces </s>``; ``lengths`` count the symbol."""
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randint(4, ROWS, (n - 1,), generator=generator) for n in lengths]
    return [F.pad(row, (0, 1), value=builders.EOS) for row in rows]


def net_input(left_pad=False, extra=0):
    """Make three ragged pairs as the stock translation task does.

    ``extra`` is a number of additional columns of padding.
    """
    sources, targets = pieces_rows([6, 3, 5]), pieces_rows([4, 6, 2], seed=4)
    source = builders.pad(sources, extra=extra)
    source = builders.left_padded(source) if left_pad else source
    shifted = builders.pad([row.roll(1) for row in targets])
    return {
        "src_tokens": source,
        "src_lengths": torch.tensor([6, 3, 5]),
        "prev_output_tokens": shifted,
    }


# ---- A tiny mBART with large random weights, built in memory. ----


def mbart(symbols=None):
    """Build it in evaluation mode, with one embedding per side."""
    args = Namespace(**builders.SIDES)
    mbart_base_architecture(args)
    model = BARTModel.build_model(args, builders.task_of(symbols or builders.dictionary()))
    builders.randomise(model, seed=1)
    return model.eval()
