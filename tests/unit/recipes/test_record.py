"""Test what is recorded of a run: trained parameters, CPU time, earlier stages, the machine."""

import pytest
import torch

from examples.recipes import record
from fairseq_plugins import checkpoints  # noqa: F401  (its import counts for no test)

MODEL = "x | INFO | fairseq_cli.train | num. {} model params: {} (num. trained: {})\n"


def test_trained_parameters_are_those_of_the_last_start(tmp_path):
    log = tmp_path / "train.log"
    first = MODEL.format("shared", "5,424,754", "1,000") + MODEL.format("expert", 9, 9)
    log.write_text(first)
    assert record.trained_parameters(log) == 1_009
    second = MODEL.format("shared", "5,424,754", "1,524,800") + MODEL.format("expert", 0, 0)
    log.write_text(f"{first}epoch 1\n{second}")
    assert record.trained_parameters(log) == 1_524_800
    log.write_text("epoch 1\n")
    with pytest.raises(ValueError, match="train.log: no line 'num. shared model params"):
        record.trained_parameters(log)


def test_cpu_time_is_that_of_completed_starts(tmp_path):
    log = tmp_path / "train.log"
    log.write_text("epoch 1\n")
    assert record.cores(log) is None
    times = ["epoch 1", "times: real 10.0 user 15.0 sys 1.0", "x"]
    log.write_text("\n".join([*times, "times: real 30.0 user 40.0 sys 4.0\n"]))
    assert record.cores(log) == 1.5


def state(updates, seconds):
    history = [{"num_updates": 3}, {"num_updates": updates}]
    extra_state = {"previous_training_time": seconds}
    return {"optimizer_history": history, "extra_state": extra_state}


def test_a_run_counts_its_earlier_stages(tmp_path):
    assert record.updates_and_seconds(state(400, 30.0)) == (400, 30.0)
    assert record.earlier_stages(tmp_path) == (0, 0.0)
    (tmp_path / "stage1").mkdir()
    torch.save(state(200, 12.5), tmp_path / "stage1" / "checkpoint_last.pt")
    assert record.earlier_stages(tmp_path) == (200, 12.5)


def test_a_run_names_the_gpu_that_it_used(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    assert record.machine(cpu=False).startswith("NVIDIA H200, ")
    assert "NVIDIA" not in record.machine(cpu=True)
