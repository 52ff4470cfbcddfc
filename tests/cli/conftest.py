"""A tiny world for command-line tests: a toy corpus with words as pieces and a random masked LM."""

import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
import yaml

from data_prep.toy.corpus import generate
from fairseq_plugins.checkpoints import write_masked_lm
from fairseq_plugins.masked_lm.model import MaskedLM, MaskedLMSizes

COUNTS = {"train": 96, "valid": 12, "test": 12}


class World(NamedTuple):
    """Files of the toy corpus.

    ``root``: text files; ``data``: data-bin of en-de; ``masked_lm``: Hugging Face folder of a
    random masked LM; ``pieces``: number of pieces in the dictionary.
    """

    root: Path
    data: Path
    masked_lm: Path
    pieces: int


def write_random_masked_lm(folder, vocab_size, seed, dictionary, embed_dim=16):
    torch.manual_seed(seed)
    sizes = MaskedLMSizes(vocab_size, 2, embed_dim, 2 * embed_dim, 2, max_positions=96)
    model = MaskedLM(sizes)
    model.reset_parameters()
    tensors = {key: tensor for key, tensor in model.state_dict().items() if key != "lm_head.weight"}
    write_masked_lm(folder, vars(sizes), tensors, dtype=torch.float32)
    (folder / "dict.txt").write_bytes(dictionary.read_bytes())
    return folder


@pytest.fixture(scope="session")
def train(run_cli, user_dir):
    """Run fairseq-train with Adam on the CPU. ``text`` is split at spaces; later options win."""

    def run(data, save_dir, text, *more, **options):
        line = f"""{data} --user-dir {user_dir} --save-dir {save_dir} --optimizer adam --lr 0.01
            --max-sentences 8 --cpu --seed 5 --num-workers 0 --log-format json --log-interval 1
            {text}"""
        return run_cli("train", *line.split(), *more, **options)

    return run


@pytest.fixture(scope="session")
def torchrun(run_cli):
    """Run fairseq-train on several processes of this machine."""

    def run(processes, *arguments):
        program = Path(sys.executable).with_name("fairseq-train")
        line = ["--standalone", "--nproc_per_node", processes, program, *arguments]
        return run_cli("torch.distributed.run", *line)

    return run


@pytest.fixture(scope="session")
def hydra(run_cli, user_dir):
    """Run fairseq-hydra-train like ``train``, with sections in YAML; return the save dir."""

    def run(folder, sections):
        config = {
            "common": {"user_dir": user_dir, "seed": 5, "log_format": "json", "cpu": True},
            "optimizer": {"_name": "adam"},
            "lr_scheduler": {"_name": "fixed"},
            "optimization": {"lr": [0.01]},
            "dataset": {"batch_size": 8, "num_workers": 0},
            "checkpoint": {"save_dir": str(folder / "hydra")},
        }
        for section, settings in yaml.safe_load(sections).items():
            config.setdefault(section, {}).update(settings)
        (folder / "run.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        run_cli("hydra_train", "--config-dir", folder, "--config-name", "run", cwd=folder)
        return folder / "hydra"

    return run


@pytest.fixture(scope="session")
def decode(run_cli, user_dir):
    """Run fairseq-generate, or another command that reads a checkpoint, on the CPU."""

    def run(data, path, text, *more, command="generate", **options):
        line = f"{data} --user-dir {user_dir} --path {path} --cpu {text}"
        return run_cli(command, *line.split(), *more, **options)

    return run


@pytest.fixture(scope="session")
def world(tmp_path_factory, run_cli):
    root = tmp_path_factory.mktemp("world")
    texts = {(split, lang): [] for split in COUNTS for lang in ("en", "de")}
    for example in generate(3, COUNTS):
        for lang in ("en", "de"):
            texts[example.split, lang].append(example.texts[lang])
    words = sorted({word for text in texts.values() for line in text for word in line.split()})
    for (split, lang), text in texts.items():
        (root / f"{split}.{lang}").write_text("\n".join(text) + "\n", encoding="utf-8")
    dictionary = root / "dict.txt"
    dictionary.write_text("".join(f"{word} 1\n" for word in words), encoding="utf-8")
    masked_lm = write_random_masked_lm(root / "masked_lm", len(words) + 5, 1, dictionary)
    line = f"-s en -t de --srcdict {dictionary} --tgtdict {dictionary} --destdir {root / 'bin'}"
    line += "".join(f" --{split}pref {root / split}" for split in COUNTS)
    run_cli("preprocess", *line.split())
    return World(root, root / "bin", masked_lm, len(words))
