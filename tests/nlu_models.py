"""Tiny ``nlu_encoder`` models, built and stored as a task and the trainer do."""

import argparse
import copy

import torch
from fairseq import models
from omegaconf import OmegaConf

from tests import nlu_bins, nlu_builders
from tests.nlu_builders import LANGUAGES, PIECES, tags

KINDS = ("argparse", "omegaconf")
MBART_SYMBOLS = [*PIECES, *tags(LANGUAGES), "<mask>"]
SCRATCH = {
    "encoder_family": "xlmr",
    "encoder_layers": 2,
    "encoder_embed_dim": 16,
    "encoder_ffn_embed_dim": 24,
    "encoder_heads": 2,
    "max_source_positions": 30,
}


def arguments(kind="argparse", **options):
    """Options as the command line (a Namespace) or a YAML (a DictConfig) gives them."""
    if kind == "omegaconf":
        return OmegaConf.create({"_name": "nlu_encoder", **options})
    return argparse.Namespace(arch="nlu_encoder", **options)


def build(args, symbols=PIECES):
    return models.build_model(args, nlu_builders.task_of(symbols))


def scratch(symbols=MBART_SYMBOLS, seed=4, **options):
    model = nlu_builders.randomise(build(arguments(**{**SCRATCH, **options}), symbols), seed)
    return model


def from_file(path, symbols, kind="argparse", **options):
    return build(arguments(kind, pretrained_encoder=str(path), **options), symbols).eval()


def saved(model, path):
    args = model.args
    held = OmegaConf.to_container(args) if OmegaConf.is_config(args) else args
    torch.save({"cfg": {"model": held}, "args": None, "model": model.state_dict()}, path)
    return path


def reloaded(model, symbols, path):
    """What decoding does with a checkpoint: build from its options, load its weights."""
    content = torch.load(saved(model, path), weights_only=False)
    held = content["cfg"]["model"]
    again = build(OmegaConf.create(held) if isinstance(held, dict) else copy.deepcopy(held), symbols)
    again.load_state_dict(content["model"], strict=True)
    return again.eval()


def tokens_for(model, pairs=True):
    return nlu_builders.tokens(model.encoder.layout.vocab_size, pairs=pairs)


def write_sentences(data, symbols, count=12):
    """Sentence pairs of two classes for the stock task: ``SPLIT.en`` and ``valid.de``; the class follows from the first piece."""
    generator = torch.Generator().manual_seed(7)
    for split in ("train.en", "valid.en", "valid.de"):
        rows = torch.randint(6, 4 + len(symbols) - 4, (count, 5), generator=generator)
        rows[:, 0] = 4 + torch.arange(count) % 2
        for side, part in (("input0", rows[:, :3]), ("input1", rows[:, 3:])):
            nlu_bins.write_rows(data / side, split, [[*row, nlu_builders.EOS] for row in part.tolist()])
        nlu_bins.write_classes(data, split, [("no", "yes")[row % 2] for row in range(count)], ["no", "yes"])
    for side in ("input0", "input1"):
        nlu_builders.write_dict(data / side / "dict.txt", symbols)
    return data


def command_line(data):
    return [
        str(data), "--task", "sentence_prediction", "--criterion", "sentence_prediction", "--arch", "nlu_encoder",
        "--num-classes", "2", "--max-positions", "30", "--train-subset", "train.en", "--valid-subset", "valid.en,valid.de",
        "--optimizer", "adam", "--lr", "0.01", "--batch-size", "4", "--seed", "3", "--num-workers", "0", "--cpu",
        "--log-format", "json",
    ]  # fmt: skip
