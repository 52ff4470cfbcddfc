"""Options of VECO's pre-training task. The data-bins of this table have no documents: unit tests show what needs some."""

from typing import Any, List

from tests.contract.effects import BASES, Run, flips, seen_by

UNIT = "tests/unit/tasks/test_veco_"
BASES["task veco_pretraining"] = [
    *("{data}", "--task", "veco_pretraining", "--arch", "transformer", "--pairs", "en-de"),
    *("--criterion", "cross_sequence_mlm"),
]


def _items(run: Run) -> List[Any]:
    """Tokens and targets of every item."""
    return [[item["tokens"].tolist(), item["target"].tolist()] for item in run.dataset]


flips("task veco_pretraining: data", [("{data}", "{other_data}")], lambda run: len(run.dataset))
flips("task veco_pretraining: pairs", ["--pairs", "en-de,en-fr"], lambda run: len(run.dataset))
flips("task veco_pretraining: mask_prob", ["--mask-prob", "0.5"], _items)
flips("task veco_pretraining: tokens_per_sample", ["--tokens-per-sample", "16"], lambda run: run.task.max_positions())
for _name, _test in (
    ("monolingual", "pretraining.py::test_validation_has_every_text_once"),
    ("sampling_alpha", "pretraining.py::test_training_is_sampled_within_each_kind"),
    (
        "freeze_backbone_updates",
        "freezing.py::test_only_cross_attention_moves_in_the_frozen_phase_and_everything_after_it",
    ),
):
    seen_by(f"task veco_pretraining: {_name}", UNIT + _test)
