"""Run ``python -m fairseq_plugins_runtime translate MODEL`` and ``serve MODEL``."""

import argparse
import contextlib
import errno
import importlib
import io
import logging
import os
import secrets
import sys
import time
from itertools import islice
from pathlib import Path
from typing import IO, Iterator, Optional, Sequence

from .folder import Folder
from .model_json import ModelError
from .sessions import own_process
from .translator import BATCH_TOKENS, Translator

logger = logging.getLogger(__name__)

PROGRAM = "python -m fairseq_plugins_runtime"
BUFFER_LINES = 1000
REPORT_SECONDS = 5.0


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of ``translate``."""
    parser = argparse.ArgumentParser(
        prog=f"{PROGRAM} translate",
        description="Translate text, one sentence per line; an empty line gives an empty line.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("model", metavar="MODEL", help="a folder that `export --format onnx` wrote")
    add("--input", metavar="FILE", default="-", help="UTF-8 text; default: standard input")
    add("--output", metavar="FILE", help="written when all is translated; default: standard output")
    add("--source-lang", "-s", metavar="LANG", help="for a model of several pairs")
    add("--target-lang", "-t", metavar="LANG", help="for a model of several pairs")
    threads = "threads of each pass; default: one per core"
    add("--threads", type=_positive, metavar="N", help=threads)
    tokens = "source tokens of a batch with padding; default: %(default)s"
    add("--batch-tokens", type=_positive, metavar="N", default=BATCH_TOKENS, help=tokens)
    lines = f"lines read at a time; default: {BUFFER_LINES} (1 on a terminal)"
    add("--buffer-size", type=_positive, metavar="N", help=lines)
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}; valid: an integer, at least 1")
    return int(text)


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run a command; return its exit status, 2 after an error."""
    line = list(sys.argv[1:] if argv is None else argv)
    layout = "%(asctime)s | %(levelname)s | %(name)s | %(message)s"
    logging.basicConfig(format=layout, level=logging.INFO)
    if line[:1] == ["serve"]:
        return int(importlib.import_module(f"{__package__}.serve").main(line[1:]))
    if line[:1] == ["translate"]:
        return translate(line[1:])
    sys.stderr.write(
        f"usage: {PROGRAM} translate|serve MODEL [options]; translate --help, serve --help\n"
    )
    return 0 if line[:1] in (["-h"], ["--help"]) else 2


def translate(argv: Sequence[str]) -> int:
    """Run ``translate``; return the exit status 0, or exit with status 2 and a message."""
    parser = build_parser()
    args = parser.parse_args(argv)
    try:
        if args.input != "-" and not os.path.isfile(args.input):
            raise ValueError(f"--input {args.input}: no such file")
        with _output(args.output) as output:
            work(Translator(Folder(args.model, args.threads)), args, output)
    except BrokenPipeError:  # the reader has left, as in "| head"
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, OSError) as error:
        parser.exit(2, f"{parser.prog}: error: {error}\n")
    return 0


def work(model: Translator, args: argparse.Namespace, output: IO[str]) -> None:
    """Translate the input into ``output``, buffer by buffer."""
    lines, count, start = read_lines(args.input), 0, time.monotonic()
    from_terminal = args.input == "-" and sys.stdin.isatty()
    size = args.buffer_size or (1 if from_terminal else BUFFER_LINES)
    last_report = start
    while True:
        buffer = list(islice(lines, size))
        if not buffer:
            break
        texts = model.translate(
            buffer, args.source_lang, args.target_lang, args.batch_tokens, count + 1
        )
        output.writelines(f"{text}\n" for text in texts)
        output.flush()
        count += len(buffer)
        now = time.monotonic()
        if now - last_report >= REPORT_SECONDS:
            logger.info("%s lines, %.1f lines/s", f"{count:,}", count / (now - start))
            last_report = now
    logger.info("done: %s lines in %.0f s", f"{count:,}", time.monotonic() - start)


def read_lines(path: str) -> Iterator[str]:
    """Yield the lines of a UTF-8 text.

    Args:
        path: a file, or ``-`` for standard input.

    Raises:
        ModelError: a line is not UTF-8; names its number from 1.
    """
    with open(path, "rb") if path != "-" else contextlib.nullcontext(sys.stdin.buffer) as stream:
        for number, line in enumerate(stream, start=1):
            try:
                yield line.decode("utf-8")
            except UnicodeDecodeError:
                raise ModelError(
                    f"--input {path}: line {number} is not UTF-8; valid: a UTF-8 sentence per line"
                ) from None


@contextlib.contextmanager
def _output(path: Optional[str]) -> Iterator[IO[str]]:
    """Open standard output, or a file that replaces ``path`` when it is complete.

    After an error the old file stays.
    """
    if path is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")
        yield sys.stdout
        return
    target = Path(path)
    if not target.parent.is_dir() or (target.exists() and not target.is_file()):
        raise ValueError(f"--output {target}: expected a file name in an existing folder")
    place = Path(os.path.realpath(target))
    temporary = place.with_name(f".{place.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, place)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        if isinstance(error, OSError) and error.filename in (None, str(temporary)):
            raise OSError(
                error.errno or errno.EIO, error.strerror or str(error), str(target)
            ) from error
        raise


if __name__ == "__main__":
    own_process()
    sys.exit(main())
