"""Test trainings that no other tier starts, in full and in half precision, and decode."""

import pytest

from tests.cli.commands import hypotheses
from tests.cli.conftest import decode, train, world
from tests.cli.test_sga_commands import TASK, sga
from tests.pretend import commands

__all__ = ["decode", "train", "world"]

pytestmark = pytest.mark.pretend
TLM = """--task tlm_pretraining --pairs en-de --monolingual en --criterion masked_lm
    --arch xlmr_mlm_tiny --encoder-layers 1 --encoder-embed-dim 16 --encoder-ffn-embed-dim 16
    --max-positions 90"""


@pytest.fixture
def generate(world, decode, tmp_path):
    """Decode the test set with the checkpoint in the test's folder."""

    def run(more):
        line = f"{TASK} {more}"
        return hypotheses(decode(world.data, tmp_path / "checkpoint_last.pt", line))

    return run


def test_a_masked_lm(world, train, tmp_path):
    train(world.data, tmp_path, f"{TLM} --max-epoch 1")
    assert (tmp_path / "checkpoint_last.pt").is_file()


def test_a_transformer_with_ctc(world, train, generate, tmp_path):
    line = "--task sga_translation -s en -t de --arch nat_ctc_tiny --criterion sga_ctc"
    train(world.data, tmp_path, f"{line} --max-epoch 1")
    assert len(generate("--iter-decode-ctc-beam 3 --nbest 2")) == 12


def test_each_denoising_step_waits_once_more(world, train, generate, tmp_path, monkeypatch):
    monkeypatch.setattr(commands, "AT_MOST", commands.AT_MOST + 1)
    train(world.data, tmp_path, sga(world, "--denoise-unroll 2 --max-epoch 1"))
    assert len(generate("--iter-decode-max-iter 2")) == 12
