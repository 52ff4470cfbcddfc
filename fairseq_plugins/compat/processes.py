"""Several training processes: torchrun without a GPU, and what the processes send each other.

fairseq-hydra-train joins the job before it imports the user dir, so there the job is only refused, with what to write.
"""

import io
import os
from functools import partial
from typing import Any, List

import torch
import torch.distributed as dist
from omegaconf import open_dict

from .patch import ModuleProxy, Patch, instead_of, is_patched, source_has

EMPTY = "empty_batches"
TORCHRUN = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")


def _on_cpu(cfg: Any) -> bool:
    return not cfg.common.tpu and (cfg.common.cpu or not torch.cuda.is_available())


def _started_by_torchrun() -> bool:
    return all(key in os.environ for key in TORCHRUN) and int(os.environ["WORLD_SIZE"]) > 1


def join_job(cfg: Any) -> None:
    """Set up ``cfg.distributed_training`` for one of several processes on CPU: gloo, no device, torchrun's rank.

    Raises ValueError for an init method that fairseq would answer by starting no process at all.
    """
    training = cfg.distributed_training
    if training.distributed_init_method is None and not _started_by_torchrun():
        return
    with open_dict(training):
        if training.distributed_init_method is None:
            training.distributed_init_method = "env://"
            training.distributed_world_size = int(os.environ["WORLD_SIZE"])
            training.distributed_rank = int(os.environ["RANK"])
            training.distributed_no_spawn = True  # torchrun has started the processes
        elif not training.distributed_no_spawn:
            raise ValueError(
                f"--distributed-init-method {training.distributed_init_method} starts one process for each GPU, and "
                "none is used: train with torchrun --nproc_per_node N $(which fairseq-train) ..., or start each rank "
                "yourself with --distributed-no-spawn and --distributed-rank"
            )
        training.device_id = 0
        if training.distributed_backend == "nccl":
            training.distributed_backend = "gloo"


def refuse_to_train_alone(cfg: Any) -> None:
    """Raise ValueError in one of several processes that would each train a model of its own into the same folder."""
    training = getattr(cfg, "distributed_training", cfg)  # the trainer still takes an argparse namespace
    if not _started_by_torchrun() or training.distributed_world_size > 1 or dist.is_initialized():
        return
    size = os.environ["WORLD_SIZE"]
    raise ValueError(
        f"WORLD_SIZE={size} in the environment, but this process would train alone, as the others would: give "
        f"--distributed-world-size {size} to fairseq-train; fairseq-hydra-train needs distributed_training."
        f"{{distributed_init_method=env://,distributed_world_size={size},distributed_rank='${{oc.env:RANK}}',"
        "distributed_no_spawn=true} and on CPU distributed_training.distributed_backend=gloo. Unset WORLD_SIZE to "
        "train with one process"
    )


def _needs_gpus() -> bool:
    from fairseq.distributed import utils
    from fairseq.models import distributed_fairseq_model

    return not is_patched(utils.call_main, "cpu_processes") and source_has(
        distributed_fairseq_model.DistributedFairseqModel, "device_ids=[args.device_id]"
    )


def _allow_cpu() -> None:
    from fairseq.distributed import utils
    from fairseq.models import distributed_fairseq_model
    from fairseq.trainer import Trainer

    stock_main, stock_gather, stock_init = utils.call_main, utils.all_gather_list, Trainer.__init__
    stock_ddp = distributed_fairseq_model.DistributedDataParallel

    @instead_of(stock_main, "cpu_processes")
    def call_main(cfg: Any, main: Any, **kwargs: Any) -> Any:
        if _on_cpu(cfg):
            join_job(cfg)
        return stock_main(cfg, main, **kwargs)

    @instead_of(stock_gather, "cpu_processes")
    def all_gather_list(data: Any, group: Any = None, max_size: int = 16384) -> List[Any]:
        group = utils.get_global_group() if group is None else group
        if utils.use_xla() or dist.get_backend(group) != "gloo":
            return stock_gather(data, group=group, max_size=max_size)
        gathered: List[Any] = [None] * utils.get_world_size(group)  # stock gathers through CUDA buffers
        dist.all_gather_object(gathered, data, group=group)
        return gathered

    @instead_of(stock_init, "cpu_processes")
    def __init__(self: Any, cfg: Any, *args: Any, **kwargs: Any) -> None:
        refuse_to_train_alone(cfg)
        stock_init(self, cfg, *args, **kwargs)

    def distributed_data_parallel(module: torch.nn.Module, **kwargs: Any) -> torch.nn.Module:
        if all(parameter.device.type == "cpu" for parameter in module.parameters()):
            kwargs.update(device_ids=None, output_device=None)
        return stock_ddp(module=module, **kwargs)

    utils.call_main = call_main
    utils.all_gather_list = all_gather_list
    Trainer.__init__ = __init__
    distributed_fairseq_model.DistributedDataParallel = distributed_data_parallel


def _cannot_broadcast() -> bool:
    from fairseq.distributed import utils

    return not isinstance(utils.torch, ModuleProxy) and not source_has(
        utils._broadcast_object_slow, "weights_only=False"
    )


def _load_broadcast(buffer: io.BytesIO, *args: Any, **kwargs: Any) -> Any:
    """``torch.load`` of what another process of the same job has just sent. Never reads a file."""
    if not isinstance(buffer, io.BytesIO):
        raise ValueError(f"only objects sent by a process of this job are read here, not {buffer!r}")
    kwargs["weights_only"] = False
    return torch.load(buffer, *args, **kwargs)


def _trust_broadcast() -> None:
    from fairseq.distributed import utils

    utils.torch = ModuleProxy(torch, load=_load_broadcast)


def _steps_on_nothing() -> bool:
    from fairseq import tasks

    return not is_patched(tasks.setup_task, EMPTY)


def _skip_nothing() -> None:
    from fairseq import tasks

    stock = tasks.setup_task

    @instead_of(stock, EMPTY)
    def setup_task(cfg: Any, **kwargs: Any) -> Any:
        task = stock(cfg, **kwargs)
        if kwargs.get("from_checkpoint"):
            task.valid_step = partial(_valid_step, task.valid_step)  # of the instance: many tasks have one of their own
        return task

    tasks.setup_task = setup_task


def _valid_step(step: Any, sample: Any, *args: Any, **kwargs: Any) -> Any:
    """Loss, size and log of a batch; nothing for an empty one. The trainer has such batches replaced."""
    return step(sample, *args, **kwargs) if sample else (0.0, 0, {})


CPU_PROCESSES = Patch(
    name="cpu_processes",
    reason="on CPU torchrun trains as many independent models into one folder, and --distributed-init-method trains "
    "nothing and exits 0; makes torchrun --nproc_per_node N $(which fairseq-train) ... --cpu train one model",
    upstream="facebookresearch/fairseq#2879, #4302",
    needed=_needs_gpus,
    apply=_allow_cpu,
)
DISTRIBUTED_OBJECTS = Patch(
    name="distributed_objects",
    reason="with several processes a resumed run fails on rank > 0: torch >= 2.6 refuses the state broadcast by rank 0",
    upstream="facebookresearch/fairseq#5611",
    needed=_cannot_broadcast,
    apply=_trust_broadcast,
)
EMPTY_BATCHES = Patch(
    name=EMPTY,
    reason="fairseq-validate with several processes fails where the batches are no multiple of them: some get an empty one",
    upstream="no report found",
    needed=_steps_on_nothing,
    apply=_skip_nothing,
)
