"""Build models of paper size on the meta device from commands and config.json files."""

import functools
import json
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

import torch
from fairseq import options, tasks
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models.bart import model as stock_bart

import fairseq_plugins  # noqa: F401  (registers the tasks and architectures)
from fairseq_plugins.baselines import gpt_msp, prefix_decoder
from fairseq_plugins.checkpoints import bart, gpt, masked_lm
from fairseq_plugins.checkpoints.layouts import CausalLMLayout
from fairseq_plugins.common.frozen import Frozen
from fairseq_plugins.common.options import check_sizes
from fairseq_plugins.sga import state
from fairseq_plugins.understanding import model as understanding

FOLDER = Path(__file__).parent / "models"
"""config.json of released models: sizes alone, no weights."""
LAST_PARTS = [path.name for path in FOLDER.iterdir()]
XLMR_ENTRIES = 249_997
"""Entries of XLM-R's dict.txt; four symbols stand before them, <mask> behind."""
MGPT_ENTRIES = 250_096


def read_config(path):
    """Read the config.json of a released model by its folder's name, in any study folder."""
    name = next(
        name for name in sorted(LAST_PARTS, reverse=True) if Path(path).name.startswith(name)
    )
    return json.loads((FOLDER / name / "config.json").read_text())


@functools.cache
def list_entries(entries):
    """Return symbols and numbers of a dictionary of this size, with ▁ and language tags."""
    symbols = Dictionary()
    for piece in ["▁", "[de]", "[en]", *map(str, range(entries - 3))]:
        symbols.add_symbol(piece)
    return symbols


def generate_dictionary(entries=XLMR_ENTRIES):
    """A dictionary of fairseq that a task may extend."""
    symbols, template = Dictionary(), list_entries(entries)
    symbols.symbols, symbols.count = list(template.symbols), list(template.count)
    symbols.indices = dict(template.indices)
    return symbols


def sizes_of(config, table):
    """Return sizes by this package's names; ``table`` maps them to the names of the config."""
    return {size: config[name] for size, name in table.items() if config.get(name) is not None}


def read_masked_lm(path, *_, **__):
    """Stands for the reader: the file's sizes, and no values."""
    sizes = sizes_of(read_config(path), masked_lm.FOLDER_SIZES)
    sizes.update(max_positions=sizes["max_positions"] - 2, padding_idx=1, epsilon=1e-5)
    return SimpleNamespace(
        sizes=sizes,
        entries=(),
        tensors={"lm_head.bias": None},
        fingerprint="0" * 32,
        mask_row=sizes["vocab_size"] - 1,
    )


def build_frozen_gpt(cfg, dictionary):
    """Stands for the reader of GPT + MSP: checks the sizes of the file, and has no values."""
    sizes = sizes_of(read_config(cfg.pretrained_gpt), gpt.FOLDER_SIZES)
    layout = CausalLMLayout(**{**sizes, "ffn_dim": 4 * sizes["embed_dim"], "padding_idx": -1})
    check_sizes(
        {name: getattr(layout, size) for name, size in prefix_decoder.SIZES.items()},
        cfg,
        cfg.pretrained_gpt,
        "",
    )
    return Frozen(prefix_decoder.PrefixDecoder(layout, dictionary), "0" * 32, "meta")


def encoder_options(path):
    """Options of an encoder of the sizes in its config.json, without a file."""
    config = read_config(path)
    family = {"xlm-roberta": "xlmr", "bert": "bert", "mbart": "mbart", "m2m_100": "nllb"}[
        config["model_type"]
    ]
    sizes = sizes_of(
        config, bart.FOLDER_SIZES if family in ("mbart", "nllb") else masked_lm.FOLDER_SIZES
    )
    names = dict(layers="layers", embed_dim="embed-dim", ffn_dim="ffn-embed-dim", heads="heads")
    return [
        f"--encoder-family={family}",
        *(f"--encoder-{option}={sizes[size]}" for size, option in names.items()),
    ]


def prepare(monkeypatch, folder, languages, entries=XLMR_ENTRIES):
    """Let tasks and models find a generated dictionary and sizes in place of files.

    Args:
        folder: gets empty dictionaries, and becomes the working folder.
        languages: of the data-bins.
        entries: of the dictionary.
    """
    monkeypatch.chdir(folder)
    names = [
        f"{place}/dict.{language}.txt" for place in ("bin", "mgpt_bin") for language in languages
    ]
    for name in [
        *names,
        *(f"{task}/{part}/dict.txt" for task in languages for part in ("input0", "label")),
    ]:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    labels = 3
    monkeypatch.setattr(
        Dictionary,
        "load",
        lambda path, *_, **__: generate_dictionary(labels if "label" in str(path) else entries),
    )
    monkeypatch.setattr(state, "frozen_path", lambda cfg, name, _: getattr(cfg, name))
    monkeypatch.setattr(state, "read_masked_lm", read_masked_lm)
    monkeypatch.setattr(state, "fit_masked_lm", lambda *_: None)
    monkeypatch.setattr(state, "load", lambda *_: None)
    monkeypatch.setattr(gpt_msp, "build_frozen", build_frozen_gpt)
    for module in (stock_bart, understanding):
        monkeypatch.setattr(
            module, "init_bert_params", lambda *_: None
        )  # it copies values to the CPU


def words_of(command):
    """Words of a stock command behind the programs that start it."""
    words = shlex.split(command.replace("\\\n", " "))
    start = next(number for number, word in enumerate(words) if word.startswith("fairseq-"))
    return words[start:]


def parse(command):
    """fairseq's own reading of a training or a decoding."""
    program, *words = words_of(command)
    parsers = {
        "fairseq-train": options.get_training_parser,
        "fairseq-generate": options.get_generation_parser,
        "fairseq-validate": options.get_validation_parser,
    }
    if "polynomial_decay" in words and "--total-num-update" not in words:
        words = [*words, "--total-num-update", "1"]  # recipes.epochs counts it
    return options.parse_args_and_arch(parsers[program](), words)


def build(command, monkeypatch):
    """Build the model of a training on the meta device."""
    words = words_of(command)
    if "--pretrained-encoder" in words:
        place = words.index("--pretrained-encoder")
        words[place : place + 2] = encoder_options(words[place + 1])
    monkeypatch.setattr(sys, "argv", words)
    cfg = convert_namespace_to_omegaconf(parse(shlex.join(words)))
    task = tasks.setup_task(cfg.task)
    with torch.device("meta"):
        return task.build_model(cfg.model)


def count(model):
    """Numbers of parameters: all, and those that train."""
    parameters = list(model.parameters())
    return sum(map(torch.numel, parameters)), sum(
        one.numel() for one in parameters if one.requires_grad
    )
