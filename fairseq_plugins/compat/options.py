"""Let ``--bf16`` mean bfloat16 on any device, and refuse options that join pieces twice."""

import sys
from argparse import ArgumentParser, Namespace
from typing import Any, Optional, Sequence

from .patch import Harm, Patch

PIECES = "sentencepiece"

BF16 = Patch(
    name="bf16",
    harm=Harm.PAPER_BLOCKED,
    defect="--bf16 on the command line switches to TPU, so a paper's training in bfloat16 fails "
    "without torch_xla (xla_device)",
    upstream="facebookresearch/fairseq#4696",
)
TWICE_JOINED = Patch(
    name="twice_joined",
    harm=Harm.WRONG_RESULT,
    defect="--bpe sentencepiece beside --remove-bpe sentencepiece, as in fairseq's own command for "
    "mBART, joins pieces to words and then all words to one",
)


@BF16.probe
def _bf16_means_tpu() -> bool:
    """Return True if parsing ``--bf16`` alone sets ``tpu``."""
    from fairseq import options

    parser = ArgumentParser()
    for flag in ("--bf16", "--fp16", "--tpu"):
        parser.add_argument(flag, action="store_true")
    parser.set_defaults(batch_size=None)
    return bool(options.parse_args_and_arch(parser, ["--bf16"]).tpu)


@BF16.replace("fairseq.options:parse_args_and_arch")
def keep_bf16_off_tpu(
    stock: Any,
    parser: ArgumentParser,
    input_args: Optional[Sequence[str]] = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Parse the options, and unset ``tpu`` if only ``--bf16`` has made stock set it."""
    parsed = stock(parser, input_args, *args, **kwargs)
    namespace = _namespace(parsed)
    words = sys.argv[1:] if input_args is None else input_args
    if getattr(namespace, "bf16", False) and "--tpu" not in words:
        namespace.tpu = False
    return parsed


@TWICE_JOINED.replace("fairseq.options:parse_args_and_arch")
def refuse_two_joins(stock: Any, *args: Any, **kwargs: Any) -> Any:
    """Parse the options.

    Raises:
        ValueError: both ``--bpe`` and ``--remove-bpe`` join the pieces of sentencepiece.
    """
    parsed = stock(*args, **kwargs)
    namespace = _namespace(parsed)
    if getattr(namespace, "bpe", None) == getattr(namespace, "post_process", None) == PIECES:
        raise ValueError(
            f"--bpe {PIECES} and --remove-bpe {PIECES} (--post-process) both join the pieces, "
            "and the second would join the words; valid: one of them"
        )
    return parsed


def _namespace(parsed: Any) -> Namespace:
    """Return the options; with ``parse_known`` fairseq returns them in a pair with other words."""
    return parsed[0] if isinstance(parsed, tuple) else parsed
