"""Test that generation trains a released DeltaLM, mBART or VECO at the size of its file."""

import shlex
import subprocess
import sys
from argparse import Namespace

import pytest
import torch

from examples.recipes import own_size
from examples.recipes.runs import Runs
from examples.recipes.studies import STUDIES, read_study
from fairseq_plugins.deltalm.model import DeltaLMModel
from tests import builders, deltalm_builders, veco_builders
from tests.conftest import ROOT
from tests.unit.recipes.paper_models import parse, words_of

WIDTH, FFN, POSITIONS = builders.WIDTH, builders.FFN, builders.POSITIONS


def write_deltalm(path):
    return deltalm_builders.write_released(path)


def write_stock(path):
    """Write an encoder and a decoder in fairseq's layout, from which sizes are read."""
    torch.save(
        {"model": veco_builders.stock_state(), "args": Namespace(encoder_attention_heads=2)}, path
    )
    return path


def training(name, path):
    """The study's training of its first arm, at the small size, from a file."""
    study = read_study(STUDIES / f"{name}.yaml")
    values = {**study.values, "model": str(path), "pieces": "pieces"}
    study = study._replace(values=values)
    return Runs(study, ROOT, "data", {}).training(study.final()[0], 1)


KINDS = {
    "generation_deltalm": (write_deltalm, (deltalm_builders.LAYERS, deltalm_builders.BLOCKS), 1),
    "generation_mixing": (write_deltalm, (deltalm_builders.LAYERS, deltalm_builders.BLOCKS), 1),
    "generation_mbart": (write_stock, (veco_builders.LAYERS, veco_builders.LAYERS), 2),
    "generation_veco": (write_stock, (veco_builders.LAYERS, None), 2),
}


@pytest.mark.parametrize("name", KINDS)
def test_the_sizes_of_the_file_replace_those_of_the_study(name, tmp_path):
    write, (layers, blocks), heads = KINDS[name]
    path = write(tmp_path / "my model.pt")
    command = training(name, path)
    assert command.startswith(f"python -m recipes.own_size '{path}' fairseq-train bin")
    words = words_of(command)
    arguments = parse_words([*words, *own_size.size_options(own_size.read_sizes(str(path)), words)])
    assert (
        arguments.encoder_layers,
        arguments.encoder_embed_dim,
        arguments.encoder_ffn_embed_dim,
    ) == (
        *(layers, WIDTH),
        FFN,
    )
    assert arguments.encoder_attention_heads == heads
    assert (arguments.max_source_positions, arguments.max_target_positions) == (
        POSITIONS,
        POSITIONS,
    )
    if blocks is not None:
        assert (arguments.decoder_layers, arguments.decoder_embed_dim) == (blocks, WIDTH)
    else:
        assert "--decoder-layers" not in own_size.size_options(
            own_size.read_sizes(str(path)), words
        )


def parse_words(words):
    return parse(shlex.join(words))


def test_a_released_deltalm_is_read_into_a_model_of_its_size(tmp_path):
    path = write_deltalm(tmp_path / "released.pt")
    words = words_of(training("generation_deltalm", path))
    arguments = parse_words([*words, *own_size.size_options(own_size.read_sizes(str(path)), words)])
    model = DeltaLMModel.build_model(arguments, deltalm_builders.task())
    expected = deltalm_builders.in_names_of_the_model(deltalm_builders.released_tensors())
    state = deltalm_builders.state_of(model)
    assert all(torch.equal(state[name], tensor) for name, tensor in expected.items())


def test_the_command_becomes_the_training(tmp_path):
    path = write_deltalm(tmp_path / "released.pt")
    line = [sys.executable, "-m", "examples.recipes.own_size", str(path), "echo", "x y"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True)
    sizes = f"--encoder-layers 4 --encoder-embed-dim {WIDTH} --encoder-ffn-embed-dim {FFN}"
    sizes += " --encoder-attention-heads 1"
    assert done.stdout.startswith(f"x y {sizes} --max-source-positions {POSITIONS} "), done.stderr
    torch.save({"model": {"encoder.layers.0.fc2.weight": torch.zeros(2, 2)}}, path)
    wrong = subprocess.run(line, cwd=ROOT, capture_output=True, text=True)
    assert (
        wrong.returncode == 1
        and "has no encoder.layers.N.fc1.weight; valid: a whole model" in wrong.stderr
    )
    assert not wrong.stdout
