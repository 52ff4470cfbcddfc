"""Test several processes: the job that a training on CPU joins and leaves, objects it receives."""

import copy
import io

import pytest
import torch
import torch.distributed as dist
from fairseq.dataclass.configs import FairseqConfig
from fairseq.distributed import utils
from fairseq.trainer import Trainer
from omegaconf import OmegaConf

import fairseq_plugins  # noqa: F401  patches the stock functions


@pytest.fixture
def cfg(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    configuration = OmegaConf.structured(FairseqConfig)
    configuration.common.cpu = True
    configuration.distributed_training.distributed_world_size = 1
    return configuration


@pytest.fixture
def torchrun(monkeypatch):
    """Return a function that sets the environment of a process of torchrun."""

    def start(size):
        environment = {"MASTER_ADDR": "here", "MASTER_PORT": "1", "WORLD_SIZE": size, "RANK": "1"}
        for name, value in environment.items():
            monkeypatch.setenv(name, value)

    return start


def test_processes_of_torchrun_train_one_model_on_cpu(monkeypatch, cfg, torchrun):
    jobs, single_runs = [], []
    monkeypatch.setattr(
        utils, "distributed_main", lambda device, main, cfg, kwargs: jobs.append(cfg)
    )
    single, many, manual = (copy.deepcopy(cfg) for _ in range(3))
    torchrun("1")
    utils.call_main(single, single_runs.append)
    assert single_runs == [cfg]
    torchrun("3")
    utils.call_main(many, single_runs.append)
    job = jobs[0].distributed_training
    address = (job.distributed_init_method, job.distributed_world_size, job.distributed_rank)
    assert address == ("env://", 3, 1)
    assert (job.distributed_no_spawn, job.device_id, job.distributed_backend) == (True, 0, "gloo")
    manual.distributed_training.distributed_init_method = "tcp://here:1"
    with pytest.raises(ValueError, match="--distributed-init-method tcp://here:1"):
        utils.call_main(manual, single_runs.append)
    assert (len(jobs), len(single_runs)) == (1, 1)


def test_a_process_of_a_job_does_not_train_alone(cfg, torchrun):
    """A trainer that is not refused fails on its task, which is None here."""
    torchrun("2")
    with pytest.raises(ValueError, match="WORLD_SIZE=2 .*--distributed-world-size 2"):
        Trainer(cfg, None, None, None)
    torchrun("1")
    with pytest.raises(AttributeError):
        Trainer(cfg, None, None, None)


def test_a_training_leaves_only_the_job_that_it_joined(tmp_path, cfg):
    def init(name):
        method = f"file://{tmp_path}/{name}"
        dist.init_process_group("gloo", init_method=method, rank=0, world_size=1)

    utils.call_main(cfg, lambda cfg: init("inner"))
    assert not dist.is_initialized()
    init("outer")
    try:
        utils.call_main(cfg, lambda cfg: None)
        assert dist.is_initialized()
    finally:
        dist.destroy_process_group()


def test_a_state_from_rank_0_is_read_but_no_file(monkeypatch, tmp_path):
    state, buffer = OmegaConf.create({"task": {"_name": "translation"}}), io.BytesIO()
    torch.save(state, buffer)
    content = torch.frombuffer(buffer.getvalue(), dtype=torch.uint8)
    messages = iter([torch.tensor([len(content)]), content])
    monkeypatch.setattr(utils, "get_rank", lambda group: 1)
    monkeypatch.setattr(utils, "broadcast", lambda tensor, src, group: tensor.copy_(next(messages)))
    assert utils._broadcast_object_slow(None, 0, None, torch.device("cpu")) == state
    with pytest.raises(ValueError, match="only objects of this job's processes"):
        utils.torch.load(tmp_path / "model.pt")
