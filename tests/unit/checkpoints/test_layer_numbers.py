"""A checkpoint with layers 0 and 2 and none between is refused by every reader, whatever its options state."""

import json
import re
from argparse import Namespace

import pytest
import safetensors.torch
import torch

from fairseq_plugins.checkpoints import CheckpointError, read_masked_lm
from fairseq_plugins.checkpoints.causal_lm import read_causal_lm
from fairseq_plugins.checkpoints.encoders import read_encoder
from fairseq_plugins.checkpoints.pipeline import DELTALM, open_file
from fairseq_plugins.checkpoints.veco import veco_state_from_folder
from tests import deltalm_builders, gpt_builders, nlu_builders, veco_builders

LAST = re.compile(r"(?<=\.)(layers?|h)\.1\.")
COUNTS = ("num_hidden_layers", "n_layer", "encoder_layers", "decoder_layers")


def family(name):
    return lambda folder: nlu_builders.write_any(name, folder)[0]


def veco_folder(folder):
    deltalm_builders.write_mlm(folder, layers=2, vocab_size=25)
    veco_builders.add_cross_attention(folder)
    return folder


def deltalm(folder):
    return deltalm_builders.write_released(folder / "deltalm.pt", deltalm_builders.released_tensors(layers=2, blocks=2))


CASES = {
    **{name: (family(name), read_encoder, "") for name in ("mbart", "nllb", "xlmr", "bert")},
    "masked_lm": (family("xlmr"), read_masked_lm, ""),
    "deltalm_encoder": (deltalm, lambda path: open_file(path, DELTALM), "encoder."),
    "deltalm_decoder": (deltalm, lambda path: open_file(path, DELTALM), "decoder."),
    "deltalm_as_encoder": (deltalm, lambda path: read_encoder(path, heads=2), "encoder."),
    "gpt": (lambda folder: gpt_builders.write(folder), read_causal_lm, ""),
    "veco": (lambda folder: veco_builders.released(folder) and folder, read_encoder, "encoder."),
    "veco_folder": (veco_folder, veco_state_from_folder, ""),
}
"""Name -> how it is written, how it is read, how the names begin in which the hole is made."""


def renumbered(node, start):
    """Layer 1 becomes layer 2, and where a number of layers is stated, it is 3."""
    if isinstance(node, Namespace):
        return Namespace(**renumbered(vars(node), start))
    if not isinstance(node, dict):
        return node
    found = {}
    for name, value in node.items():
        if isinstance(value, torch.Tensor) and name.startswith(start):
            name = LAST.sub(r"\1.2.", name)
        found[name] = 3 if name in COUNTS and value == 2 else renumbered(value, start)
    return found


@pytest.mark.parametrize("case", list(CASES))
def test_a_hole_is_refused(tmp_path, case):
    write, read, start = CASES[case]
    path = write(tmp_path)
    read(path)
    for file in sorted(tmp_path.iterdir()):
        if file.suffix == ".safetensors":
            safetensors.torch.save_file(renumbered(safetensors.torch.load_file(file), start), file)
        elif file.suffix in (".pt", ".bin"):
            torch.save(renumbered(torch.load(file, weights_only=False), start), file)
        elif file.name == "config.json":
            file.write_text(json.dumps(renumbered(json.loads(file.read_text()), start)))
    with pytest.raises(CheckpointError, match=r"layers?\W.*1\W|layers \[0, 2\]|h\.1\."):
        read(path)
