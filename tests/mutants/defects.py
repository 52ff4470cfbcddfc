"""Put the traps of the design in by hand: each defect replaces a function, and a test must fail.

    python tests/mutants/defects.py            # all
    python tests/mutants/defects.py position   # those whose name contains the text

A changed operator does not make such defects: a mask that means the opposite, an epoch that is
ignored, frozen parts that are trained.
"""

import importlib
import io
import os
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Callable, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads do not survive a fork
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402 after the number of threads

PACKAGE = "fairseq_plugins"
RED, GREEN = 1, 0


class Defect(NamedTuple):
    """A defect of a function.

    Attributes:
        name: description of the defect.
        target: function of the package, as ``module:name`` or ``module:Class.name``.
        make: makes the wrong function of the original one.
        tests: files of which a test must fail; by default that of the module.
    """

    name: str
    target: str
    make: Callable[[Any], Any]
    tests: str = ""


def exchanged_layers(original):
    def wrong(*args):
        names = original(*args)
        return {
            name: re.sub(r"(?<=layers\.)\d+", lambda match: str(int(match[0]) ^ 1), names[name])
            for name in names
        }

    return wrong


def any_pickle(original):
    return lambda path: torch.load(path, map_location="cpu", weights_only=False)


def prefix_match(original):
    def wrong(name, patterns):
        matches = ((re.match(pattern, name), entry) for pattern, entry in patterns.items())
        return next((pair for pair in matches if pair[0]), None)

    return wrong


def cut_rows_unasked(original):
    return lambda tensor, target, *args: (tensor[: target.size(0)], "cut")


FORWARD, PREFIX = "reference/test_sga_forward.py", "reference/test_masked_lm_equality.py"
SMOOTHED = "unit/common/test_label_smoothed_linear_cross_entropy.py"
RENAMING = "unit/checkpoints/test_renaming.py"
DELTALM, TEMPERATURE = "unit/deltalm/test_pretrained.py", "unit/deltalm/test_temperature.py"
DEFECTS = [
    # Masks, positions, prompts.
    Defect(
        "True means a token",
        "ops.masks:lengths_to_padding_mask",
        lambda f: lambda *args, **kw: ~f(*args, **kw),
    ),
    Defect(
        "padding is attended",
        "ops.masks:additive_key_mask",
        lambda f: lambda mask, dtype: f(mask & False, dtype),
    ),
    Defect(
        "answers outside the passage",
        "understanding.answers:outside_passage",
        lambda f: lambda *args: ~f(*args),
    ),
    Defect(
        "positions begin one later",
        "masked_lm.model:PrefixEncoder.token_positions",
        lambda f: lambda *args: f(*args) + 1,
        PREFIX,
    ),
    Defect(
        "layers in another order",
        "masked_lm.prompts:Prompts.forward",
        lambda f: lambda self: f(self)[::-1],
        FORWARD,
    ),
    Defect(
        "keys and values are exchanged",
        "sga.model:SemanticProjection.forward",
        lambda f: lambda *x: f(*x)[::-1],
        FORWARD,
    ),
    Defect(
        "slots copy the next source token",
        "sga.free:TokenAlignmentModel.duplicate",
        lambda f: lambda *args: f(*args).roll(-1, dims=1),
        "reference/test_mask_predict.py",
    ),
    # Frozen parts.
    Defect("dropout in training", "common.frozen:Frozen.train", lambda f: torch.nn.Module.train),
    Defect(
        "can be trained",
        "common.frozen:Frozen.requires_grad_",
        lambda f: torch.nn.Module.requires_grad_,
    ),
    Defect(
        "the first phase trains everything",
        "veco.model:VECOPretrainingModel.freeze_backbone",
        lambda f: lambda self, frozen: f(self, False),
    ),
    Defect(
        "a checkpoint is what the command line says",
        "veco.state:decide_kind",
        lambda f: lambda task, options, choice: f("", {}, choice),
        "unit/veco/test_checkpoint_kind.py",
    ),
    # Losses.
    Defect(
        "the collapse keeps repeats",
        "ops.ctc:collapse_mask",
        lambda f: lambda tokens, lengths, blank: f(tokens, lengths, blank) | tokens.ne(blank),
        "reference/test_ctc.py",
    ),
    Defect(
        "every target fits its slots", "ops.ctc:alignable", lambda f: lambda *args: f(*args) | True
    ),
    Defect(
        "labels are not smoothed",
        "ops.vocab_loss:label_smoothed",
        lambda f: lambda nll, *more: nll,
        SMOOTHED,
    ),
    Defect(
        "the denoiser sees no noise",
        "sga.noise:corrupt_slots",
        lambda f: lambda tokens, *args, **more: tokens,
    ),
    Defect(
        "one iteration too few",
        "sga.mask_predict:masked_counts",
        lambda f: lambda lengths, at, all: f(lengths, at + 1, all),
    ),
    Defect(
        "decoding without the bias",
        "sga.model:SGAModel.projection",
        lambda f: property(lambda self: (f.fget(self)[0], None)),
        "unit/sga/test_decoding.py",
    ),
    # Epochs, sampling, resuming.
    Defect("the same noise", "csr.noise:epoch_address", lambda f: lambda seed, epoch: f(seed, 1)),
    Defect(
        "every epoch draws the same texts",
        "common.sampling:epoch_rng",
        lambda f: lambda seed, epoch, purpose: f(seed, 1, purpose),
        "unit/common/test_sampling.py unit/deltalm/test_span_corruption.py",
    ),
    Defect(
        "the temperature is ignored",
        "common.sampling:sampling_probabilities",
        lambda f: lambda sizes, temperature, *more: f(sizes, 1.0, *more),
        TEMPERATURE,
    ),
    Defect(
        "the first epoch is repeated",
        "common.epoch_dataset:EpochDataset.can_reuse_epoch_itr_across_epochs",
        lambda f: property(lambda self: True),
        "unit/common",
    ),
    # Pretrained files.
    Defect("odd for even", "deltalm.pretrained:from_masked_lm", exchanged_layers, DELTALM),
    Defect("checkpoints may run code", "checkpoints.reading:read_checkpoint", any_pickle),
    Defect("half a name is enough", "checkpoints.renaming:_first_match", prefix_match, RENAMING),
    Defect(
        "surplus tensors in silence", "checkpoints.loading:mismatches", lambda f: lambda *args: []
    ),
    Defect("the last row is cut unasked", "checkpoints.fitting:fit_rows", cut_rows_unasked),
    Defect(
        "retired things are read",
        "checkpoints.metadata:check_retired",
        lambda f: lambda *args: None,
        "unit/checkpoints/test_metadata_versions.py",
    ),
]


def insert(defect):
    """Replace the function wherever the package has bound its name."""
    importlib.import_module(PACKAGE)
    place, _, name = defect.target.partition(":")
    owner = importlib.import_module(f"{PACKAGE}.{place}")
    *classes, last = name.split(".")
    for part in classes:
        owner = getattr(owner, part)
    original = vars(owner)[last]
    wrong = defect.make(original)
    setattr(owner, last, wrong)
    for module in [module for key, module in sys.modules.items() if key.startswith(PACKAGE)]:
        for key, value in list(vars(module).items()):
            if value is original:
                setattr(module, key, wrong)


def run_tests(defect):
    """Return the exit status of pytest in another process; 70 if the function does not exist."""
    child = os.fork()
    if child == 0:
        status = 70
        try:
            import pytest

            *folder, module = defect.target.partition(":")[0].split(".")
            default = "/".join(["unit", *folder, f"test_{module}.py"])
            tests = [f"tests/{path}" for path in (defect.tests or default).split()]
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                insert(defect)
                status = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests]))
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main():
    """Run the command; exit status 1 unless every defect turned a test red."""
    os.chdir(ROOT)
    pattern = sys.argv[1] if sys.argv[1:] else ""
    defects = [defect for defect in DEFECTS if pattern in str(defect[:2])]
    for module in ("fairseq", "pytest"):
        importlib.import_module(module)
    bad = 0
    for defect in defects:
        status = run_tests(defect)
        bad += status != RED
        verdict = {RED: "red", GREEN: "SURVIVED"}.get(status, f"no verdict, status {status}")
        print(f"{verdict:10} {defect.target}: {defect.name}", flush=True)
    print(f"{len(defects) - bad} of {len(defects)} defects turned a test red")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
