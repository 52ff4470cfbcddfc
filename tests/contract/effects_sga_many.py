"""Options of decoding SGA with a beam, of the reranker, and of the task over several pairs."""

import argparse
from typing import Any, List

from fairseq_plugins.generators.sga_generator import SGAGenerator
from tests.contract import effects_training  # noqa: F401 - fills BASES
from tests.contract.effects import BASES, Run, flips, outcome, seen_by
from tests.contract.effects_sga_free import FREE, decoding


def _generator(run: Run, **options: Any) -> SGAGenerator:
    return run.task.build_generator([run.model], argparse.Namespace(iter_decode_max_iter=1, **options))


def _scores(run: Run) -> List[str]:
    """What the hypotheses of a batch carry."""
    sentences = _generator(run).generate([run.model], run.sample())
    return [f"{sorted(sentence[0])} {float(sentence[0]['score']):.4f}" for sentence in sentences]


def _lists(run: Run) -> List[List[int]]:
    """Twelve hypotheses of each sentence of a batch."""
    sentences = _generator(run, nbest=12).generate([run.model], run.sample())
    return [hypothesis["tokens"].tolist() for sentence in sentences for hypothesis in sentence]


def _packs(run: Run) -> int:
    """How often a model that is decoded is asked to pack its weights."""
    asked: List[int] = []
    model = run.task.build_model(run.model_options(), from_checkpoint=True)
    model.pack_weights = lambda: asked.append(1) or 0
    run.task.build_generator([model], argparse.Namespace())
    return len(asked)


BASES["task sga_translation_multi"] = [
    *("{data}", "--task", "sga_translation_multi", "--lang-pairs", "en-de,en-fr", "--criterion", "sga_ctc"),
    *("--arch", "sga_tiny", "--prompt-length", "3", "--pretrained-mlm", "{mlm}"),
]
for _task in ("sga_translation", "sga_translation_multi"):
    flips(f"task {_task}: iter_decode_ctc_beam", ["--iter-decode-ctc-beam", "4"], _scores)
    flips(f"task {_task}: pack_weights", ["--pack-weights"], _packs)
    flips(
        f"task {_task}: iter_decode_ctc_candidates",
        ["--iter-decode-ctc-candidates", "1"],
        _lists,
        base=["--iter-decode-ctc-beam", "12"],
    )
    flips(
        f"task {_task}: rerank_at",
        ["--rerank-at", "nowhere.pt"],
        lambda run: outcome(lambda: _generator(run)),
        base=["--iter-decode-ctc-beam", "2"],
    )
    seen_by(
        f"task {_task}: rerank_at_weight",
        "tests/cli/test_sga_many.py::test_one_model_for_many_pairs_from_training_to_n_best_lists",
    )
flips("task sga_translation_multi: left_pad_source", ["--left-pad-source"], lambda run: outcome(lambda: run.task))
for _name, _value in (("mask_predict_iterations", "2"), ("length_beam", "3")):
    _flag = f"--{_name.replace('_', '-')}"
    flips(f"task sga_translation_multi: {_name}", [_flag, _value], decoding, base=FREE)
flips("task sga_translation_multi: lang_pairs", ["--lang-pairs", "en-de"], lambda run: len(run.dataset))
seen_by(
    "task sga_translation_multi: sampling_temperature",
    "tests/unit/tasks/test_sga_translation_multi.py::test_pairs_are_drawn_by_temperature",
)
