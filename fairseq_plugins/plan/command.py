"""``python -m fairseq_plugins plan DATA ...``: the options of ``fairseq-train``, and a table of what that needs of memory."""

import sys
from argparse import ArgumentParser
from typing import Any, Optional, Sequence

from fairseq import options, utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from ..own_commands import run
from .rehearsal import rehearse
from .replicas import replicas
from .table import render

PROGRAM = "python -m fairseq_plugins plan"
UNPLANNED = (
    ("common", "amp"),
    ("common", "tpu"),
    ("common", "quantization_config_path"),
    ("distributed_training", "pipeline_model_parallel"),
    ("distributed_training", "cpu_offload"),
    ("optimization", "use_bmuf"),
)
"""Options with which a training holds something else than a rehearsal of one device shows, by their part of the configuration."""


def build_parser() -> ArgumentParser:
    """fairseq's own parser of a training, and what is read here."""
    parser: ArgumentParser = options.get_training_parser()
    parser.prog, parser.usage = PROGRAM, f"{PROGRAM} DATA [the options of fairseq-train] [--devices N]"
    parser.description = (
        "Print what a training with these options needs of memory, without running it: parameters, weights, gradients, "
        "optimizer and activations by component, the largest temporary, and the peak. Without --cpu: on a GPU, which need "
        "not be here."
    )
    parser.add_argument(
        "--devices", type=int, metavar="N", help="data-parallel training; default: --distributed-world-size"
    )
    return parser


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the command; exit status 0, or 2 with a message."""
    parser = build_parser()
    args = options.parse_args_and_arch(parser, list(sys.argv[1:] if argv is None else argv))
    return run(parser, lambda: work(args))


def work(args: Any) -> None:
    """Plan and print. Raises ValueError: options that a training refuses, or that are not planned."""
    utils.import_user_module(args)
    cfg = convert_namespace_to_omegaconf(args)
    check(cfg)
    device = "CPU" if cfg.common.cpu else "GPU"
    count = cfg.distributed_training.distributed_world_size if args.devices is None else args.devices
    plan = rehearse(cfg)
    sys.stdout.write(render(plan, replicas(plan, count, cfg.distributed_training), device))


def check(cfg: Any) -> None:
    """Raise ValueError for options that are not planned, or that a training would refuse."""
    if cfg.dataset.max_tokens is None and cfg.dataset.batch_size is None:
        raise ValueError("--max-tokens or --batch-size is needed: it says how large a batch is")
    if cfg.common.cpu and cfg.common.fp16:
        raise ValueError("--fp16 trains on a GPU; valid on CPU: --bf16, or neither")
    given = [(part, name, getattr(cfg[part], name)) for part, name in UNPLANNED]
    given += [("", "model_parallel_size", cfg.common.model_parallel_size != 1)]
    given += [("", "zero_sharding", cfg.distributed_training.zero_sharding != "none")]
    for _, name, value in given:
        if value:
            raise ValueError(
                f"--{name.replace('_', '-')}: is not planned; leave it out to see what is needed without it"
            )
