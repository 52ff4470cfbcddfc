"""Stock commands on the pretend GPU: as given but for ``--cpu``; each kind of training once more, in half precision."""

import json
import math
import os

from .cuda import WAITS

HALF = """--fp16 --update-freq 2 --disable-validation --max-update 3 --max-epoch 9 --save-interval 99 --save-interval-updates 0
    --no-epoch-checkpoints --log-format json --log-interval 1"""
EMA = "--store-ema --ema-decay 0.9"
"""Not with --finetune-from-model or --restore-file: fairseq deletes the model's state before EMA starts from it."""
TABLE = "PRETEND_TABLE"
"""Environment variable: the file that gets a line of JSON for each kind of training, with the waits of its worst batch."""

MORE_WAITS = ("--denoise-unroll",)  # options that make it another kind of training
AT_MOST = 3
"""How often the forward and backward pass of a batch may wait for the device at lines of the package."""


def on_gpu(module, arguments):
    """The arguments without ``--cpu``."""
    return [
        *(argument for argument in arguments if argument != "--cpu"),
        *["common.cpu=false"] * module.endswith("hydra_train"),
    ]


class HalfPrecision:
    """Runs each kind of training for three updates in half precision, with accumulation and EMA, and counts waits."""

    def __init__(self, run, make_folder, package):
        self.run, self.make_folder, self.package, self.seen = run, make_folder, str(package), set()

    def __call__(self, arguments, **options):
        """``arguments``: of a training that has ended well."""
        split = [text.split("=", 1) if text.startswith("--") else [text] for text in arguments]
        arguments = [part for parts in split for part in parts]
        given = dict(zip(arguments, arguments[1:]))  # of an option that stands twice, the last
        kind = tuple(given[name] for name in ("--task", "--arch", "--criterion") if name in given)
        kind += tuple(f"{name} {given[name]}" for name in MORE_WAITS if name in given)
        if kind in self.seen or "--fp16" in arguments:
            return
        self.seen.add(kind)
        folder = self.make_folder("half")
        kept = [argument for argument in arguments if argument != "--bf16"]
        options["env"] = {**(options.get("env") or {}), WAITS: str(folder / "waits")}
        started = "--finetune-from-model" in kept or "--restore-file" in kept
        more = HALF if started else f"{HALF} {EMA}"
        done = self.run("train", *kept, *more.split(), "--save-dir", folder, **options)
        losses = [
            json.loads(line[line.index("{") :])["loss"] for line in done.stdout.splitlines() if '"loss": "' in line
        ]
        assert losses and all(math.isfinite(float(loss)) for loss in losses), (kind, losses)
        assert (folder / "checkpoint_last.pt").is_file()
        self.count(kind, list(self.waits(folder / "waits")))

    def count(self, kind, batches):
        """Log the waits of the worst batch; AssertionError: it waits more often than it may."""
        waits = max(batches, key=len)
        if TABLE in os.environ:
            with open(os.environ[TABLE], "a", encoding="utf-8") as table:
                table.write(json.dumps({"training": " ".join(kind), "waits": waits}) + "\n")
        assert len(waits) <= AT_MOST, "\n".join([f"{kind}: a batch waits for the device {len(waits)} times", *waits])

    def waits(self, file):
        """The waits at lines of the package, or in a backward pass, for each batch but the first and the last."""
        for line in file.read_text(encoding="utf-8").splitlines()[2:]:
            yield [
                f"{os.path.relpath(name, self.package) if name else 'backward'}:{at} {kind}"
                for kind, name, at, _ in json.loads(line)
                if not name or name.startswith(self.package)
            ]
