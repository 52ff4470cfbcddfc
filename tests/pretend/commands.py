"""Stock commands on the pretend GPU: without ``--cpu``, each training again in half precision."""

import json
import math
import os

from .cuda import WAITS

HALF = """--fp16 --update-freq 2 --disable-validation --max-update 3 --max-epoch 9
    --save-interval 99 --save-interval-updates 0 --no-epoch-checkpoints --log-format json
    --log-interval 1"""
EMA = "--store-ema --ema-decay 0.9"
"""Not used with --finetune-from-model or --restore-file: fairseq deletes the model's state before
EMA starts from it."""

TABLE = "PRETEND_TABLE"
"""Environment variable: file that gets a line of JSON for each kind of training, with the waits of
its worst batch."""

KIND_OPTIONS = ("--denoise-unroll",)
"""Options that make a training another kind, besides task, architecture and criterion."""

AT_MOST = 3
"""Limit of waits at lines of the package in the forward and backward pass of a batch."""


def on_gpu(module, arguments):
    """Return the arguments without ``--cpu``."""
    arguments = [argument for argument in arguments if argument != "--cpu"]
    return [*arguments, "common.cpu=false"] if module.endswith("hydra_train") else arguments


class HalfPrecision:
    """Repeats each kind of training for three updates in half precision and counts its waits.

    The repetition has gradient accumulation and, where possible, EMA.
    """

    def __init__(self, run, make_folder, package):
        self.run, self.make_folder, self.package = run, make_folder, str(package)
        self.kinds = set()

    def __call__(self, arguments, **options):
        """Repeat a successful training, unless its kind was repeated before."""
        split = [text.split("=", 1) if text.startswith("--") else [text] for text in arguments]
        arguments = [part for parts in split for part in parts if part != "--bf16"]
        kind = training_kind(arguments)
        if kind in self.kinds or "--fp16" in arguments:
            return
        self.kinds.add(kind)
        folder = self.make_folder("half")
        options["env"] = {**(options.get("env") or {}), WAITS: str(folder / "waits")}
        has_start = "--finetune-from-model" in arguments or "--restore-file" in arguments
        more = HALF if has_start else f"{HALF} {EMA}"
        line = [*arguments, *more.split(), "--save-dir", folder]
        process = self.run("train", *line, **options)
        lines = [text for text in process.stdout.splitlines() if '"loss": "' in text]
        losses = [float(json.loads(text[text.index("{") :])["loss"]) for text in lines]
        assert losses, kind
        assert all(math.isfinite(loss) for loss in losses), (kind, losses)
        assert (folder / "checkpoint_last.pt").is_file()
        self.check_waits(kind, list(self.read_waits(folder / "waits")))

    def check_waits(self, kind, batches):
        """Log the waits of the worst batch; AssertionError if there are more than the limit."""
        waits = max(batches, key=len)
        if TABLE in os.environ:
            with open(os.environ[TABLE], "a", encoding="utf-8") as table:
                table.write(json.dumps({"training": " ".join(kind), "waits": waits}) + "\n")
        message = f"{kind}: a batch waits for the device {len(waits)} times"
        assert len(waits) <= AT_MOST, "\n".join([message, *waits])

    def read_waits(self, file):
        """Yield the waits of the package, for each batch but the first and the last.

        These are waits at lines of the package or in a backward pass.
        """
        for line in file.read_text(encoding="utf-8").splitlines()[2:]:
            waits = []
            for kind, name, number, _ in json.loads(line):
                if not name:
                    waits.append(f"backward:{number} {kind}")
                elif name.startswith(self.package):
                    waits.append(f"{os.path.relpath(name, self.package)}:{number} {kind}")
            yield waits


def training_kind(arguments):
    """Return task, architecture, criterion and options that change the kind."""
    options = dict(zip(arguments, arguments[1:]))  # the last occurrence of an option wins
    names = ("--task", "--arch", "--criterion")
    kind = [options[name] for name in names if name in options]
    return (*kind, *(f"{name} {options[name]}" for name in KIND_OPTIONS if name in options))
