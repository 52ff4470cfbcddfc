"""Run ``python -m fairseq_plugins_runtime serve MODEL``: LibreTranslate's interface, and a page."""

import argparse
import ipaddress
import logging
from contextlib import suppress
from typing import Sequence

from ..folder import Folder
from ..translator import Translator
from .limits import HELP, Limits

logger = logging.getLogger(__name__)

NEEDED = "fastapi uvicorn python-multipart"
MODULES = ("fastapi", "starlette", "uvicorn", "python_multipart")


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of ``serve``."""
    parser = argparse.ArgumentParser(
        prog="python -m fairseq_plugins_runtime serve",
        description="Serve translations over HTTP, as LibreTranslate does, and a page at /.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    folders = "a folder that `export --format onnx` wrote; one or more"
    add("model", metavar="MODEL", nargs="+", help=folders)
    host = "address to listen at; default: %(default)s, this machine only"
    add("--host", default="127.0.0.1", help=host)
    port = "port; default: %(default)s; 0: a free port"
    add("--port", type=_port, default=5000, metavar="N", help=port)
    threads = "threads of each pass; default: one per core"
    add("--threads", type=_positive, metavar="N", help=threads)
    for name, value in Limits()._asdict().items():
        option, limit = "--" + name.replace("_", "-"), f"{HELP[name]}; default: %(default)s"
        add(option, type=_positive, default=value, metavar="N", help=limit)
    return parser


def main(argv: Sequence[str]) -> int:
    """Run ``serve``; return 0 at its end, or exit with status 2 and a message."""
    parser = build_parser()
    args = parser.parse_args(argv)
    try:
        from .server import bind, build
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in MODULES:
            raise
        remedy = f"run: python -m pip install {NEEDED}"
        parser.exit(2, f"{parser.prog}: error: {error.name} is missing; {remedy}\n")
    try:
        listener = bind(args.host, args.port)
    except OSError as error:
        address = f"--host {args.host} --port {args.port}"
        parser.exit(2, f"{parser.prog}: error: {address}: {error.strerror or error}\n")
    try:
        with listener:
            if not _is_loopback(listener.getsockname()[0]):
                logger.warning(
                    "--host %s: whoever reaches this address can use the service", args.host
                )
            models = [Translator(Folder(folder, args.threads)) for folder in args.model]
            build(models, Limits(*(getattr(args, name) for name in Limits._fields))).run([listener])
    except KeyboardInterrupt:
        pass
    except (ValueError, OSError) as error:
        parser.exit(2, f"{parser.prog}: error: {error}\n")
    return 0


def _is_loopback(address: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(address).is_loopback
    return False


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}; valid: an integer, at least 1")
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r}; valid: 0 to 65535")
    return int(text)
