"""What the probes share: a tiny translation set, and the stock commands run in this process. Used by ``probes.py``."""

import argparse
import io
import os
import random
import sys
import traceback
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Callable

import fairseq_cli.preprocess
import fairseq_cli.train
import torch

USER_DIR = os.environ["PROBES_USER_DIR"]
SENTENCES = 20
WORDS = "abcdefghij"
TINY = (
    "--encoder-layers 1 --decoder-layers 1 --encoder-embed-dim 8 --decoder-embed-dim 8 --encoder-ffn-embed-dim 8 "
    "--decoder-ffn-embed-dim 8 --encoder-attention-heads 1 --decoder-attention-heads 1"
).split()
RUN = "--optimizer adam --lr 0.01 --batch-size 4 --num-workers 0 --log-format none --seed 1 --cpu".split()


def at(name: str) -> Path:
    """A path in the probe's own folder, which is the current one."""
    return Path.cwd() / name


def command(main: Callable[[], None], *arguments: Any) -> str:
    """Run a stock command in this process. Returns its standard output."""
    output, sys.argv = io.StringIO(), ["command", *map(str, arguments)]
    with redirect_stdout(output):
        main()
    return output.getvalue()


def train(save_dir: Path, *arguments: Any, data: str = "bin") -> dict:
    """``fairseq-train`` on the tiny set. Returns the checkpoint ``checkpoint_last.pt``."""
    command(
        fairseq_cli.train.cli_main,
        *(at(data), "--user-dir", USER_DIR, "--save-dir", save_dir, *RUN),
        *("--arch", "transformer", "--source-lang", "de", "--target-lang", "en", *TINY, *arguments),
    )
    return read(save_dir / "checkpoint_last.pt")


def read(path: Path) -> dict:
    """A checkpoint that this script has just written."""
    return torch.load(path, weights_only=False)


def load_user_dir() -> None:
    from fairseq.utils import import_user_module

    import_user_module(argparse.Namespace(user_dir=USER_DIR))


def prepare() -> dict:
    """The tiny translation set (letters to their capitals reversed) and a checkpoint trained on it."""
    rng = random.Random(1)
    for split in ("train", "valid"):
        lines = [" ".join(rng.choices(WORDS, k=rng.randint(2, 9))) for _ in range(SENTENCES)]
        (at(f"{split}.de")).write_text("\n".join(lines) + "\n")
        (at(f"{split}.en")).write_text("\n".join(line[::-1].upper() for line in lines) + "\n")
    pairs = ["--source-lang", "de", "--target-lang", "en", "--trainpref", at("train"), "--validpref"]
    command(fairseq_cli.preprocess.cli_main, *pairs, at("valid"), "--destdir", at("bin"))
    mono = ["--only-source", "--trainpref", at("train.de"), "--validpref", at("valid.de")]
    command(fairseq_cli.preprocess.cli_main, *mono, "--destdir", at("mono"))
    state = train(at("model"), "--max-epoch", 1)
    return {"updates": state["optimizer_history"][-1]["num_updates"]}


def is_off(patch: str) -> bool:
    return os.environ["FAIRSEQ_PLUGINS_DISABLE_PATCHES"] == patch


def attempt(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def start(function: Callable[[], Any]) -> int:
    """Run ``function`` in a forked child. Returns its process id."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        function()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)
