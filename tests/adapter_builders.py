"""Tiny multilingual transformers with language tokens, and adapters around them."""

import argparse

import torch
from fairseq import models

from tests import builders

LANGS = ["de", "en", "fr"]
PIECES = 12
BOTTLENECK = 6
TAG = {language: 4 + PIECES + number for number, language in enumerate(LANGS)}
SIZES = {**builders.SIDES, "share_all_embeddings": True, "dropout": 0.0}
TAGS = {"encoder_langtok": "src", "decoder_langtok": True, "lang_tok_style": "multilingual"}
SIZES.update(max_source_positions=64, max_target_positions=64)


def dictionary(langs=LANGS):
    """4 symbols, the pieces, the language tokens."""
    tags = [f"__{language}__" for language in langs]
    return builders.of_symbols([*builders.piece_names(PIECES), *tags])


def task(pairs=("de-en", "fr-en"), langs=LANGS, **options):
    """Make a task with all that models read of ``translation_multi_simple_epoch``."""
    values = {"langs": list(langs), "lang_tok_replacing_bos_eos": False, **TAGS, **options}
    args = argparse.Namespace(**values)
    return builders.task_of(dictionary(langs), langs=list(langs), lang_pairs=list(pairs), args=args)


def write_backbone(path, langs=LANGS, **options):
    args = argparse.Namespace(arch="transformer", **{**SIZES, **options})
    model = models.build_model(args, task(langs=langs or LANGS))
    builders.randomise(model, 1)
    values = {**vars(args), **TAGS}
    if langs:
        values["langs"] = list(langs)
    torch.save({"args": argparse.Namespace(**values), "model": model.state_dict()}, path)
    return path


def arguments(path, arch="transformer_adapter_tiny", **options):
    backbone = str(path) if path else None
    values = {**SIZES, "adapter_backbone": backbone, "adapter_width": BOTTLENECK, **options}
    return argparse.Namespace(arch=arch, **values)


def build(path, of=None, **options):
    return models.build_model(arguments(path, **options), of or task())


def randomise_adapters(model, only=""):
    """Make adapters random (those whose name contains ``only``): each changes the output."""
    random = builders.drawing(4, 0.5)
    for name, parameter in model.named_parameters():
        values = random(parameter.shape)
        if parameter.requires_grad and only in name:
            parameter.data.copy_(values)
    return model.eval()


def stock(path):
    content = torch.load(path, weights_only=False)
    model = models.build_model(content["args"], task())
    model.load_state_dict(content["model"])
    return model.eval()


def net_input(sources, targets, lengths=(5, 3, 6, 4)):
    """Make a batch of rows ``__xx__ pieces </s>`` and ``</s> __yy__ pieces``, padded as usual."""
    generator = torch.Generator().manual_seed(3)
    rows, shifted = [], []
    for source, target, length in zip(sources, targets, lengths):
        words = torch.randint(4, 4 + PIECES, (2, length), generator=generator)
        rows.append(torch.tensor([TAG[source], *words[0], builders.EOS]))
        shifted.append(torch.tensor([builders.EOS, TAG[target], *words[1]]))
    return {
        "src_tokens": builders.left_padded(builders.pad(rows)),
        "src_lengths": torch.tensor([len(row) for row in rows]),
        "prev_output_tokens": builders.pad(shifted),
    }


def rows_of(data, rows):
    return {name: tensor[list(rows)] for name, tensor in data.items()}
