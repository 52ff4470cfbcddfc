"""--bf16 on CPU and GPU."""

import argparse
import sys
from typing import Any, Optional, Sequence

from .patch import Patch, instead_of


def _bf16_means_tpu() -> bool:
    from fairseq import options

    parser = argparse.ArgumentParser()
    for flag in ("--bf16", "--fp16", "--tpu"):
        parser.add_argument(flag, action="store_true")
    parser.set_defaults(batch_size=None)
    return bool(options.parse_args_and_arch(parser, ["--bf16"]).tpu)


def _free_bf16() -> None:
    from fairseq import options

    stock = options.parse_args_and_arch

    @instead_of(stock, "bf16")
    def parse_args_and_arch(
        parser: argparse.ArgumentParser, input_args: Optional[Sequence[str]] = None, *args: Any, **kwargs: Any
    ) -> Any:
        parsed = stock(parser, input_args, *args, **kwargs)
        namespace = parsed[0] if isinstance(parsed, tuple) else parsed
        asked_for = "--tpu" in (sys.argv[1:] if input_args is None else input_args)
        if getattr(namespace, "bf16", False) and not asked_for:
            namespace.tpu = False
        return parsed

    options.parse_args_and_arch = parse_args_and_arch


BF16 = Patch(
    name="bf16",
    reason="the argument parser switches to TPU whenever --bf16 is given, which fails without torch_xla (xla_device)",
    upstream="facebookresearch/fairseq#4696",
    needed=_bf16_means_tpu,
    apply=_free_bf16,
)
