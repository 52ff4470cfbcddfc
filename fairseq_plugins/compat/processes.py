"""Train with several processes on CPU, and let processes send each other objects.

fairseq-hydra-train joins the job before it imports the user dir, too early for a patch. A job on
CPU that lacks options is refused there, and the message names them.
"""

import io
import os
from typing import Any, List

import torch
import torch.distributed as dist
from omegaconf import open_dict

from .patch import Harm, ModuleProxy, Patch, source_has

TORCHRUN_VARIABLES = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")

CPU_PROCESSES = Patch(
    name="cpu_processes",
    harm=Harm.WRONG_RESULT,
    defect="on CPU torchrun trains as many independent models into one folder, and "
    "--distributed-init-method trains nothing and exits 0",
    upstream="facebookresearch/fairseq#2879, #4302",
)
DISTRIBUTED_OBJECTS = Patch(
    name="distributed_objects",
    harm=Harm.PAPER_BLOCKED,
    defect="with several processes no run resumes or starts from a checkpoint: torch >= 2.6 "
    "refuses the state that rank 0 sends",
    upstream="facebookresearch/fairseq#5611",
)


def _is_started_by_torchrun() -> bool:
    """Return True if torchrun started this process beside others."""
    is_complete = all(name in os.environ for name in TORCHRUN_VARIABLES)
    return is_complete and int(os.environ["WORLD_SIZE"]) > 1


def _join_job(training: Any) -> None:
    """Set the options with which this process joins a job on CPU: backend gloo, torchrun's rank.

    Does nothing for a process that trains alone.

    Args:
        training: ``distributed_training`` of the configuration, changed in place.

    Raises:
        ValueError: ``--distributed-init-method`` is set without ``--distributed-no-spawn``. fairseq
            would start a process for each GPU, hence none.
    """
    if training.distributed_init_method is None and not _is_started_by_torchrun():
        return
    with open_dict(training):
        if training.distributed_init_method is None:
            training.distributed_init_method = "env://"
            training.distributed_world_size = int(os.environ["WORLD_SIZE"])
            training.distributed_rank = int(os.environ["RANK"])
            training.distributed_no_spawn = True  # torchrun has started the processes
        elif not training.distributed_no_spawn:
            method = training.distributed_init_method
            raise ValueError(
                f"--distributed-init-method {method} starts one process for each GPU, and none is "
                "used: train with torchrun --nproc_per_node N $(which fairseq-train) ..., or start "
                "each rank yourself with --distributed-no-spawn and --distributed-rank"
            )
        training.device_id = 0
        if training.distributed_backend == "nccl":
            training.distributed_backend = "gloo"


@CPU_PROCESSES.probe
def _needs_gpus() -> bool:
    """Return True if fairseq passes device ids for every model that it wraps."""
    from fairseq.models import distributed_fairseq_model

    wrap = distributed_fairseq_model.DistributedFairseqModel
    return source_has(wrap, "device_ids=[args.device_id]")


@CPU_PROCESSES.replace("fairseq.distributed.utils:call_main")
def call_main(stock: Any, cfg: Any, main: Any, **kwargs: Any) -> Any:
    """Join a job on CPU and leave it at the end.

    Stock leaves the job when Python exits, where a finished process has been seen to abort.
    """
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
    """Gather an object of every process. Stock copies them to a GPU, which gloo does not need."""
    from fairseq.distributed import utils

    group = utils.get_global_group() if group is None else group
    if utils.use_xla() or dist.get_backend(group) != "gloo":
        return list(stock(data, group=group, max_size=max_size))
    objects: List[Any] = [None] * utils.get_world_size(group)
    dist.all_gather_object(objects, data, group=group)
    return objects


@CPU_PROCESSES.replace("fairseq.trainer:Trainer.__init__")
def start_trainer(stock: Any, trainer: Any, cfg: Any, *args: Any, **kwargs: Any) -> None:
    """Start the trainer.

    Raises:
        ValueError: torchrun started several processes that did not join a job. Each would train its
            own model into the same folder.
    """
    training = getattr(cfg, "distributed_training", cfg)  # a Namespace has all options in one
    is_alone = training.distributed_world_size <= 1 and not dist.is_initialized()
    if is_alone and _is_started_by_torchrun():
        size = os.environ["WORLD_SIZE"]
        raise ValueError(
            f"WORLD_SIZE={size} in the environment, but this process would train alone, as the "
            f"others would: give --distributed-world-size {size} to fairseq-train; "
            "fairseq-hydra-train needs distributed_training."
            f"{{distributed_init_method=env://,distributed_world_size={size},"
            "distributed_rank='${oc.env:RANK}',distributed_no_spawn=true} and on CPU "
            "distributed_training.distributed_backend=gloo. Unset WORLD_SIZE to train alone"
        )
    stock(trainer, cfg, *args, **kwargs)


@CPU_PROCESSES.replace("fairseq.models.distributed_fairseq_model:DistributedDataParallel")
def wrap_model(stock: Any, module: torch.nn.Module, **kwargs: Any) -> torch.nn.Module:
    """Wrap a model for distributed training, without device ids if it is on CPU."""
    if all(parameter.device.type == "cpu" for parameter in module.parameters()):
        kwargs.update(device_ids=None, output_device=None)
    return stock(module=module, **kwargs)


@DISTRIBUTED_OBJECTS.probe
def _cannot_broadcast() -> bool:
    """Return True if fairseq reads objects by torch's default, which refuses them since 2.6."""
    from fairseq.distributed import utils

    return not source_has(utils._broadcast_object_slow, "weights_only=False")


@DISTRIBUTED_OBJECTS.step
def trust_broadcast() -> None:
    """Let fairseq unpickle objects that another process of the same job has sent."""
    from fairseq.distributed import utils

    utils.torch = ModuleProxy(torch, load=load_broadcast)


def load_broadcast(buffer: Any, *args: Any, **kwargs: Any) -> Any:
    """Load an object from memory. Raises ValueError for a file: only messages are trusted."""
    if not isinstance(buffer, io.BytesIO):
        raise ValueError(f"only objects of this job's processes are read here, not {buffer!r}")
    return torch.load(buffer, *args, **{**kwargs, "weights_only": False})
