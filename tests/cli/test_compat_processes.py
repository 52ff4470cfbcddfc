"""Training on CPU with several processes, as a user starts it: torchrun, then a resume with torchrun."""

import sys
from pathlib import Path
from typing import Any, Callable, List

import pytest
import torch
from fairseq.data import Dictionary, indexed_dataset

TINY = "--encoder-layers 1 --decoder-layers 1 --encoder-embed-dim 8 --decoder-embed-dim 8 --encoder-ffn-embed-dim 8"
TINY += " --decoder-ffn-embed-dim 8 --encoder-attention-heads 1 --decoder-attention-heads 1"


@pytest.fixture
def data_bin(tmp_path: Path) -> Path:
    """Twenty pairs of random sentences, as fairseq-preprocess writes them."""
    folder = tmp_path / "bin"
    folder.mkdir()
    dictionary = Dictionary()
    for letter in "abcdefgh":
        dictionary.add_symbol(letter)
    for lang in ("de", "en"):
        dictionary.save(str(folder / f"dict.{lang}.txt"))
        for split in ("train", "valid"):
            prefix = str(folder / f"{split}.de-en.{lang}")
            builder = indexed_dataset.make_builder(f"{prefix}.bin", impl="mmap", vocab_size=len(dictionary))
            for _ in range(20):
                words = torch.randint(4, len(dictionary), (int(torch.randint(2, 9, ())),))
                builder.add_item(torch.cat([words, torch.tensor([dictionary.eos()])]).int())
            builder.finalize(f"{prefix}.idx")
    return folder


@pytest.mark.slow
def test_torchrun_trains_and_resumes_one_model(
    run_cli: Callable[..., Any], data_bin: Path, user_dir: str, tmp_path: Path
) -> None:
    save_dir = tmp_path / "run"

    def torchrun(*options: Any) -> List[str]:
        command = [Path(sys.executable).with_name("fairseq-train"), data_bin, "--user-dir", user_dir]
        command += ["--arch", "transformer", *TINY.split(), "--source-lang", "de", "--target-lang", "en"]
        command += [
            "--optimizer",
            "adam",
            "--lr",
            0.01,
            "--batch-size",
            4,
            "--num-workers",
            0,
            "--log-format",
            "simple",
        ]
        command += ["--save-dir", save_dir, "--cpu", *options]
        done = run_cli("torch.distributed.run", "--standalone", "--nproc_per_node", 2, *command)
        return (done.stdout + done.stderr).splitlines()

    first = torchrun("--max-epoch", 1, "--ddp-backend", "no_c10d")
    assert sum("training on 2 devices" in line for line in first) == 1  # only the master writes its log
    assert any("done training" in line for line in first)

    second = torchrun("--max-epoch", 2)  # the state reaches rank 1 as an object broadcast by rank 0
    assert any("Loaded checkpoint" in line and "(epoch 2 @ 3 updates)" in line for line in second)
    state = torch.load(save_dir / "checkpoint_last.pt", weights_only=False)
    assert state["optimizer_history"][-1]["num_updates"] == 6
    assert state["cfg"]["distributed_training"]["distributed_world_size"] == 2
    assert state["cfg"]["distributed_training"]["distributed_backend"] == "gloo"
