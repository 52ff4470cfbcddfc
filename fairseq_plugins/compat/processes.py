"""Several training processes: torchrun without a GPU, and what the processes send each other.

fairseq-hydra-train joins the job before it imports the user dir, so there the job is only refused, with what to write.
"""

import io
import os
from typing import Any, List

import torch
import torch.distributed as dist
from omegaconf import open_dict

from .patch import ModuleProxy, Patch, source_has

TORCHRUN = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")

CPU_PROCESSES = Patch(
    name="cpu_processes",
    reason="on CPU torchrun trains as many independent models into one folder, and --distributed-init-method trains "
    "nothing and exits 0; makes torchrun --nproc_per_node N $(which fairseq-train) ... --cpu train one model",
    upstream="facebookresearch/fairseq#2879, #4302",
)
DISTRIBUTED_OBJECTS = Patch(
    name="distributed_objects",
    reason="with several processes a resumed run fails on rank > 0: torch >= 2.6 refuses the state broadcast by rank 0",
    upstream="facebookresearch/fairseq#5611",
)
EMPTY_BATCHES = Patch(
    name="empty_batches",
    reason="fairseq-validate with several processes fails where the batches are no multiple of them: some get an empty one",
)


def _started_by_torchrun() -> bool:
    return all(key in os.environ for key in TORCHRUN) and int(os.environ["WORLD_SIZE"]) > 1


def _join_job(training: Any) -> None:
    """Set up one of several processes on CPU: gloo, no device, torchrun's rank.

    Raises ValueError: an init method with which fairseq would start no process at all.
    """
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


@CPU_PROCESSES.probe
def _needs_gpus() -> bool:
    from fairseq.models import distributed_fairseq_model

    return source_has(distributed_fairseq_model.DistributedFairseqModel, "device_ids=[args.device_id]")


@CPU_PROCESSES.replace("fairseq.distributed.utils:call_main")
def call_main(stock: Any, cfg: Any, main: Any, **kwargs: Any) -> Any:
    """Join a job on CPU, and leave it in the end. Stock leaves it to the exit, where a finished process was once aborted."""
    on_cpu = not cfg.common.tpu and (cfg.common.cpu or not torch.cuda.is_available())
    joined_before = dist.is_initialized()
    if on_cpu:
        _join_job(cfg.distributed_training)
    result = stock(cfg, main, **kwargs)
    if on_cpu and dist.is_initialized() and not joined_before:
        dist.destroy_process_group()
    return result


@CPU_PROCESSES.replace("fairseq.distributed.utils:all_gather_list")
def all_gather_list(stock: Any, data: Any, group: Any = None, max_size: int = 16384) -> List[Any]:
    """Stock gathers through CUDA buffers."""
    from fairseq.distributed import utils

    group = utils.get_global_group() if group is None else group
    if utils.use_xla() or dist.get_backend(group) != "gloo":
        return list(stock(data, group=group, max_size=max_size))
    gathered: List[Any] = [None] * utils.get_world_size(group)
    dist.all_gather_object(gathered, data, group=group)
    return gathered


@CPU_PROCESSES.replace("fairseq.trainer:Trainer.__init__")
def start_trainer(stock: Any, trainer: Any, cfg: Any, *args: Any, **kwargs: Any) -> None:
    """Refuse one of several processes that would each train a model of its own into the same folder (ValueError)."""
    training = getattr(cfg, "distributed_training", cfg)  # the trainer still takes an argparse namespace
    if _started_by_torchrun() and training.distributed_world_size <= 1 and not dist.is_initialized():
        size = os.environ["WORLD_SIZE"]
        raise ValueError(
            f"WORLD_SIZE={size} in the environment, but this process would train alone, as the others would: give "
            f"--distributed-world-size {size} to fairseq-train; fairseq-hydra-train needs distributed_training."
            f"{{distributed_init_method=env://,distributed_world_size={size},distributed_rank='${{oc.env:RANK}}',"
            "distributed_no_spawn=true} and on CPU distributed_training.distributed_backend=gloo. Unset WORLD_SIZE to "
            "train with one process"
        )
    stock(trainer, cfg, *args, **kwargs)


@CPU_PROCESSES.replace("fairseq.models.distributed_fairseq_model:DistributedDataParallel")
def distributed_data_parallel(stock: Any, module: torch.nn.Module, **kwargs: Any) -> torch.nn.Module:
    """A model on CPU has no device."""
    if all(parameter.device.type == "cpu" for parameter in module.parameters()):
        kwargs.update(device_ids=None, output_device=None)
    return stock(module=module, **kwargs)


@DISTRIBUTED_OBJECTS.probe
def _cannot_broadcast() -> bool:
    from fairseq.distributed import utils

    return not isinstance(utils.torch, ModuleProxy) and not source_has(
        utils._broadcast_object_slow, "weights_only=False"
    )


@DISTRIBUTED_OBJECTS.step
def trust_broadcast() -> None:
    """Read what another process of the same job has just sent."""
    from fairseq.distributed import utils

    def load(buffer: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(buffer, io.BytesIO):  # never a file
            raise ValueError(f"only objects sent by a process of this job are read here, not {buffer!r}")
        return torch.load(buffer, *args, **{**kwargs, "weights_only": False})

    utils.torch = ModuleProxy(torch, load=load)


@EMPTY_BATCHES.replace("fairseq.tasks:setup_task")
def setup_task(stock: Any, cfg: Any, **kwargs: Any) -> Any:
    """Let the task of a checkpoint skip empty batches; the trainer has them replaced."""
    task = stock(cfg, **kwargs)
    if kwargs.get("from_checkpoint"):
        step = task.valid_step  # of the instance: many tasks have one of their own
        task.valid_step = lambda sample, *args, **more: step(sample, *args, **more) if sample else (0.0, 0, {})
    return task
