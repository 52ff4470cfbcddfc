"""Several processes: the job that a training on CPU joins and leaves, and the objects that it is sent."""

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


def start_by_torchrun(monkeypatch, size):
    for name, text in {"MASTER_ADDR": "here", "MASTER_PORT": "1", "WORLD_SIZE": size, "RANK": "1"}.items():
        monkeypatch.setenv(name, text)


def test_processes_of_torchrun_train_one_model_on_cpu(monkeypatch, cfg):
    jobs, alone = [], []
    monkeypatch.setattr(utils, "distributed_main", lambda device, main, cfg, kwargs: jobs.append(cfg))
    single, many, manual = (copy.deepcopy(cfg) for _ in range(3))
    start_by_torchrun(monkeypatch, "1")
    utils.call_main(single, alone.append)
    assert alone == [cfg]
    start_by_torchrun(monkeypatch, "3")
    utils.call_main(many, alone.append)
    (job,) = (joined.distributed_training for joined in jobs)
    assert (job.distributed_init_method, job.distributed_world_size, job.distributed_rank) == ("env://", 3, 1)
    assert (job.distributed_no_spawn, job.device_id, job.distributed_backend) == (True, 0, "gloo")
    manual.distributed_training.distributed_init_method = "tcp://here:1"
    with pytest.raises(ValueError, match="--distributed-init-method tcp://here:1 starts one process"):
        utils.call_main(manual, alone.append)


def test_a_process_of_a_job_does_not_train_alone(monkeypatch, cfg):
    """Unless torchrun started one process, the trainer is refused before it looks at its task, here None."""
    start_by_torchrun(monkeypatch, "2")
    with pytest.raises(ValueError, match="WORLD_SIZE=2 .*--distributed-world-size 2 .*init_method=env://"):
        Trainer(cfg, None, None, None)
    start_by_torchrun(monkeypatch, "1")
    with pytest.raises(AttributeError):
        Trainer(cfg, None, None, None)


def test_a_training_leaves_the_job_that_it_joined_and_no_other(tmp_path, cfg):
    joined = []

    def main(cfg):
        if not dist.is_initialized():
            dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
        joined.append(dist.is_initialized())

    utils.call_main(cfg, main)
    assert joined == [True] and not dist.is_initialized()

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/outer", rank=0, world_size=1)
    try:
        utils.call_main(cfg, main)
        assert dist.is_initialized()
    finally:
        dist.destroy_process_group()


def test_the_state_that_rank_0_sends_is_read_but_no_file(monkeypatch, tmp_path):
    state, buffer = OmegaConf.create({"task": {"_name": "translation"}}), io.BytesIO()
    torch.save(state, buffer)
    sent = iter([torch.tensor([len(buffer.getvalue())]), torch.frombuffer(buffer.getvalue(), dtype=torch.uint8)])
    monkeypatch.setattr(utils, "get_rank", lambda group: 1)
    monkeypatch.setattr(utils, "broadcast", lambda tensor, src, group: tensor.copy_(next(sent)))
    assert utils._broadcast_object_slow(None, 0, None, torch.device("cpu")) == state
    with pytest.raises(ValueError, match="only objects of this job's processes"):
        utils.torch.load(tmp_path / "model.pt")
