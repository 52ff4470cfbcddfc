"""Training on CPU with several processes, as a user starts it: torchrun, then a resume with torchrun."""

import sys
from pathlib import Path

import pytest

from tests import builders

from .commands import checkpoint, transformer


@pytest.mark.slow
def test_torchrun_trains_and_resumes_one_model(run_cli, user_dir, tmp_path):
    (tmp_path / "bin").mkdir()
    for split in ("train", "valid"):
        builders.write_pair(tmp_path / "bin", split, "de", "en", count=20)

    def torchrun(*options):
        line = f"""{tmp_path / "bin"} --user-dir {user_dir} --arch transformer -s de -t en --optimizer adam --lr 0.01
            --batch-size 4 --num-workers 0 --log-format simple --save-dir {tmp_path / "run"} --cpu"""
        train = [Path(sys.executable).with_name("fairseq-train"), *line.split(), *transformer(1, 8, 8, 1), *options]
        done = run_cli("torch.distributed.run", "--standalone", "--nproc_per_node", 2, *train)
        return (done.stdout + done.stderr).splitlines()

    first = torchrun("--max-epoch", 1, "--ddp-backend", "no_c10d")
    assert sum("training on 2 devices" in line for line in first) == 1  # only the master writes its log
    assert any("done training" in line for line in first)
    second = torchrun("--max-epoch", 2)  # the state reaches rank 1 as an object broadcast by rank 0
    assert any("Loaded checkpoint" in line and "(epoch 2 @ 3 updates)" in line for line in second)
    state = checkpoint(tmp_path / "run")
    assert state["optimizer_history"][-1]["num_updates"] == 6
    assert state["cfg"]["distributed_training"]["distributed_world_size"] == 2
    assert state["cfg"]["distributed_training"]["distributed_backend"] == "gloo"
