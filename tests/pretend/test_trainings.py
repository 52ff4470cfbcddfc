"""Trainings that no command of the other tiers starts, in full and in half precision; what they trained decodes."""

import pytest

from tests.cli.commands import hypotheses
from tests.cli.conftest import train, world
from tests.cli.test_sga_commands import sga
from tests.pretend import commands

__all__ = ["train", "world"]

pytestmark = pytest.mark.pretend
TLM = """--task tlm_pretraining --pairs en-de --monolingual en --criterion masked_lm --arch xlmr_mlm_tiny --encoder-layers 1
    --encoder-embed-dim 16 --encoder-ffn-embed-dim 16 --max-positions 90"""


def generate(run_cli, user_dir, data, folder, more):
    line = (
        f"{data} --user-dir {user_dir} --task sga_translation -s en -t de --path {folder / 'checkpoint_last.pt'} {more}"
    )
    return hypotheses(run_cli("generate", *line.split()))


def test_a_masked_lm(world, train, tmp_path):
    train(world.data, tmp_path, f"{TLM} --max-epoch 1")
    assert (tmp_path / "checkpoint_last.pt").is_file()


def test_a_transformer_with_ctc(world, train, run_cli, user_dir, tmp_path):
    line = "--task sga_translation -s en -t de --arch nat_ctc_tiny --criterion sga_ctc --max-epoch 1"
    train(world.data, tmp_path, line)
    assert len(generate(run_cli, user_dir, world.data, tmp_path, "--iter-decode-ctc-beam 3 --nbest 2")) == 12


def test_more_than_one_denoising_step(world, train, run_cli, user_dir, tmp_path, monkeypatch):
    """Each step finds its own mistakes: one wait more."""
    monkeypatch.setattr(commands, "AT_MOST", commands.AT_MOST + 1)
    train(world.data, tmp_path, sga(world, "--denoise-unroll 2 --max-epoch 1"))
    assert len(generate(run_cli, user_dir, world.data, tmp_path, "--iter-decode-max-iter 2")) == 12
