"""The traps of the design, put in by hand: each defect replaces one function, and its tests must turn red.

    python tests/mutants/defects.py            # all
    python tests/mutants/defects.py position   # those whose name contains the text

These are what one changed operator does not make: a mask that means the opposite, an epoch that is ignored, trained frozen parts.
"""

import importlib
import io
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Callable, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads do not survive a fork
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
PACKAGE = "fairseq_plugins"
RED, GREEN = 1, 0


class Defect(NamedTuple):
    """A function of the package (``module:name`` or ``module:Class.name``), what takes its place, and tests that must fail."""

    target: str
    tests: str
    make: Callable[[Any], Any]

    @property
    def name(self):
        """What is wrong."""
        return f"{self.target}: {self.make.__name__.replace('_', ' ')}"


DEFECTS = []


def defect(target, tests):
    """Enter a function that takes the original one and returns the wrong one."""

    def enter(make):
        DEFECTS.append(Defect(target, tests, make))
        return make

    return enter


# ---- Masks, positions, prompts. ----


@defect("ops.masks:lengths_to_padding_mask", "unit/ops/test_masks.py")
def True_means_a_token(original):
    return lambda *args, **kwargs: ~original(*args, **kwargs)


@defect("ops.masks:additive_key_mask", "unit/ops/test_masks.py")
def padding_is_attended(original):
    return lambda mask, dtype: original(mask & False, dtype)


@defect("ops.answer_spans:outside_passage", "unit/ops/test_answer_spans.py")
def answers_lie_outside_the_passage(original):
    return lambda *args: ~original(*args)


@defect("modules.prefix_encoder:PrefixEncoder.token_positions", "reference/test_masked_lm_equality.py")
def positions_begin_one_later(original):
    return lambda self, tokens: original(self, tokens) + 1


@defect("modules.prompts:Prompts.forward", "reference/test_sga_forward.py")
def prompts_of_the_layers_in_another_order(original):
    return lambda self: original(self)[::-1]


@defect("models.sga.guidance:SemanticProjection.forward", "reference/test_sga_forward.py")
def keys_and_values_are_exchanged(original):
    return lambda self, hidden: original(self, hidden)[::-1]


@defect("models.sga.model:SGAModel.duplicate", "unit/models/sga")
def slots_copy_the_next_source_token(original):
    return lambda self, tokens: original(self, tokens).roll(-1, dims=1)


# ---- Frozen parts. ----


@defect("modules.frozen:Frozen.train", "unit/modules/test_frozen.py")
def dropout_in_frozen_parts(original):
    from torch import nn

    return nn.Module.train


@defect("modules.frozen:Frozen.requires_grad_", "unit/modules/test_frozen.py")
def frozen_parts_can_be_trained(original):
    from torch import nn

    return nn.Module.requires_grad_


@defect("models.veco.pretraining:VECOPretrainingModel.freeze_backbone", "unit/models/veco")
def the_first_phase_trains_everything(original):
    return lambda self, frozen: original(self, False)


# ---- Losses. ----


@defect("ops.ctc:collapse_mask", "reference/test_ctc.py")
def the_collapse_keeps_repeats(original):
    return lambda tokens, lengths, blank: original(tokens, lengths, blank) | tokens.ne(blank)


@defect("ops.ctc:alignable", "unit/ops/test_ctc.py")
def every_target_fits_its_slots(original):
    return lambda *args: original(*args) | True


@defect("ops.vocab_loss:label_smoothed", "unit/criterions/test_label_smoothed_linear_cross_entropy.py")
def labels_are_not_smoothed(original):
    return lambda nll, smooth, label_smoothing, vocab_size: nll


@defect("ops.noise:corrupt_slots", "unit/ops/test_noise.py")
def the_denoiser_sees_no_noise(original):
    return lambda tokens, *args, **kwargs: tokens


@defect("ops.mask_predict:masked_counts", "unit/ops/test_mask_predict.py")
def one_iteration_too_few_is_masked(original):
    return lambda lengths, step, iterations: original(lengths, step + 1, iterations)


@defect("models.sga.model:SGAModel.projection", "unit/generators/test_sga_generator.py")
def decoding_without_the_bias(original):
    return property(lambda self: (original.fget(self)[0], None))


# ---- Epochs, sampling, resuming. ----


@defect("ops.counter_noise:epoch_address", "unit/ops/test_counter_noise.py")
def every_epoch_has_the_same_noise(original):
    return lambda seed, epoch: original(seed, 1)


@defect("data.stream_sampling:epoch_rng", "unit/data/test_stream_sampling.py unit/data/test_span_corruption_dataset.py")
def every_epoch_draws_the_same_texts(original):
    return lambda seed, epoch, purpose: original(seed, 1, purpose)


@defect("data.stream_sampling:sampling_probabilities", "unit/tasks/test_translation_multi_temperature.py")
def the_temperature_is_ignored(original):
    return lambda sizes, temperature, *more: original(sizes, 1.0, *more)


@defect("data.epoch_dataset:EpochDataset.can_reuse_epoch_itr_across_epochs", "unit/data")
def the_first_epoch_is_repeated(original):
    return property(lambda self: True)


# ---- Pretrained files. ----


@defect("models.deltalm.deltalm_pretrained:layer_sources", "unit/models/test_deltalm_pretrained.py")
def odd_and_even_layers_are_exchanged(original):
    def exchanged(*args):
        rows = original(*args)
        return [
            (mine, rows[number ^ 1][1] if number ^ 1 < len(rows) else theirs)
            for number, (mine, theirs) in enumerate(rows)
        ]

    return exchanged


@defect("checkpoints.reading:read_checkpoint", "unit/checkpoints/test_reading.py")
def checkpoints_may_run_code(original):
    import torch

    return lambda path: torch.load(path, map_location="cpu", weights_only=False)


# ---- The run. ----


def put_in(defect):
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


def judged(defect):
    """Exit status of pytest in a process of its own; 70 where the function does not exist."""
    child = os.fork()
    if child == 0:
        status = 70
        try:
            import pytest

            tests = [f"tests/{path}" for path in defect.tests.split()]
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                put_in(defect)
                status = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests]))
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main():
    """Run the command; exit status 1 unless every defect turned a test red."""
    os.chdir(ROOT)
    chosen = [one for one in DEFECTS if not sys.argv[1:] or sys.argv[1] in one.name]
    for module in ("torch", "fairseq", "pytest"):
        importlib.import_module(module)
    bad = 0
    for one in chosen:
        status = judged(one)
        bad += status != RED
        verdict = {RED: "red", GREEN: "SURVIVED"}.get(status, f"no verdict, status {status}")
        print(f"{verdict:10} {one.name}", flush=True)
    print(f"{len(chosen) - bad} of {len(chosen)} defects turned a test red")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
