"""A tiny world for command-line tests: a toy corpus with words as pieces, its data-bin and a random masked LM."""

from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from data_prep.toy.corpus import generate
from fairseq_plugins.checkpoints import write_masked_lm
from fairseq_plugins.modules.prefix_masked_lm import MaskedLM, MaskedLMSizes

COUNTS = {"train": 96, "valid": 12, "test": 12}


class World(NamedTuple):
    """Paths of the tiny world.

    Attributes:
        root: folder of the text files.
        data: data-bin of the pair en-de.
        masked_lm: Hugging Face folder of a random masked LM with matching dictionary.
        pieces: number of pieces in the dictionary.
    """

    root: Path
    data: Path
    masked_lm: Path
    pieces: int


def write_random_masked_lm(folder, vocab_size, seed, dictionary, embed_dim=16):
    """Write a random masked LM of 2 layers and its dict.txt."""
    torch.manual_seed(seed)
    sizes = MaskedLMSizes(vocab_size, 2, embed_dim, 2 * embed_dim, 2, max_positions=96)
    model = MaskedLM(sizes)
    model.reset_parameters()
    tensors = {key: value for key, value in model.state_dict().items() if key != "lm_head.weight"}
    write_masked_lm(folder, vars(sizes), tensors, dtype=torch.float32)
    (folder / "dict.txt").write_bytes(dictionary.read_bytes())
    return folder


@pytest.fixture(scope="session")
def world(tmp_path_factory, run_cli):
    """Build the tiny world once a session."""
    root = tmp_path_factory.mktemp("world")
    lines = {(split, lang): [] for split in COUNTS for lang in ("en", "de")}
    for example in generate(3, COUNTS):
        for lang in ("en", "de"):
            lines[example.split, lang].append(example.texts[lang])
    words = sorted({word for text in lines.values() for line in text for word in line.split()})
    for (split, lang), text in lines.items():
        (root / f"{split}.{lang}").write_text("\n".join(text) + "\n", encoding="utf-8")
    dictionary = root / "dict.txt"
    dictionary.write_text("".join(f"{word} 1\n" for word in words), encoding="utf-8")
    masked_lm = write_random_masked_lm(root / "masked_lm", len(words) + 5, 1, dictionary)
    prefixes = [part for s in COUNTS for part in (f"--{s}pref", root / s)]
    run_cli(
        "preprocess", "-s", "en", "-t", "de", *prefixes, "--srcdict", dictionary, "--tgtdict", dictionary, "--destdir", root / "bin"
    )  # fmt: skip
    return World(root, root / "bin", masked_lm, len(words))
