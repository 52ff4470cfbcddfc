"""Validation of stock tasks: BLEU of the text alone, also of an empty one, and a log that says how far a long one is."""

import copy
import logging
import time
from functools import partial
from typing import Any, Dict, Iterator, List

import numpy as np

from .patch import Patch, source_has

logger = logging.getLogger(__name__)

REPORT_SECONDS = 20.0
ORDER = 4
BLEU_SUMS = ("sys_len", "ref_len", *(f"{kind}_{n}" for kind in ("counts", "totals") for n in range(ORDER)))
"""What a validation batch of ``--eval-bleu`` logs, each with ``_bleu_`` before it."""

VALIDATION_TEXT = Patch(
    name="validation_text",
    reason="--eval-bleu scores what fairseq-generate strips: mBART's [en] at the end of both sides (10 points), <mask>, <pad>",
)
VALIDATION_BLEU = Patch(
    name="validation_bleu",
    reason="no BLEU is logged where a validation produced no word, and --best-checkpoint-metric bleu is a KeyError",
)
VALIDATION_PROGRESS = Patch(
    name="validation_progress",
    reason="fairseq-train logs nothing during a validation with --log-format simple or json: minutes with --eval-bleu",
)


@VALIDATION_TEXT.probe
def _scores_symbols() -> bool:
    from fairseq.tasks.translation import TranslationTask

    return not source_has(TranslationTask._inference_with_bleu, "extra_symbols_to_ignore")


@VALIDATION_TEXT.replace("fairseq.tasks.translation:TranslationTask._inference_with_bleu")
def inference_with_bleu(stock: Any, task: Any, generator: Any, sample: Any, model: Any) -> Any:
    """Let the task's dictionary leave out what is no text: what fairseq-generate strips, padding and ``<mask>``.

    ``<unk>`` is part of the text, also where it stands for a language's tag at the end of a row.
    """
    dictionary = task.tgt_dict
    ignored = {*getattr(generator, "symbols_to_strip_from_output", ()), dictionary.pad(), dictionary.index("<mask>")}
    ignored.discard(dictionary.unk())  # what a dictionary without <mask> has in its place

    def string(tokens: Any, *args: Any, **kwargs: Any) -> str:
        if len(tokens) and int(tokens[-1]) == getattr(generator, "eos", None):
            tokens = tokens[:-1]
        return str(dictionary.string(tokens, *args, extra_symbols_to_ignore=ignored, **kwargs))

    texts = copy.copy(dictionary)
    texts.string = string
    task.tgt_dict = texts
    try:
        return stock(task, generator, sample, model)
    finally:
        task.tgt_dict = dictionary


@VALIDATION_BLEU.replace("fairseq.tasks.translation:TranslationTask.reduce_metrics")
def reduce_metrics(stock: Any, task: Any, logs: List[Dict[str, Any]], criterion: Any) -> None:
    """Log BLEU also of batches without a word, as young models make them; stock leaves them out of the brevity penalty too."""
    validated = [log for log in logs if "_bleu_sys_len" in log]
    if validated and not any(log.get("_bleu_totals_0", 0) for log in validated):
        log_bleu(validated, "_bleu", "bleu")
    stock(task, logs, criterion)


def log_bleu(logs: List[Dict[str, Any]], prefix: str, name: str) -> None:
    """Log the sums that BLEU needs, summed over ``logs`` under ``prefix``, and BLEU itself as ``name``."""
    from fairseq.logging import metrics

    sums = {key: sum(float(log.get(f"{prefix}_{key}", 0)) for log in logs) for key in BLEU_SUMS}
    for kind in ("counts", "totals"):
        metrics.log_scalar(f"{prefix}_{kind}", np.array([sums[f"{kind}_{n}"] for n in range(ORDER)]))
    for kind in ("sys_len", "ref_len"):
        metrics.log_scalar(f"{prefix}_{kind}", sums[kind])
    metrics.log_derived(name, partial(bleu_of, prefix=prefix))


def bleu_of(meters: Any, prefix: str) -> float:
    """BLEU of the sums that :func:`log_bleu` has logged, 0 without a single token."""
    from sacrebleu.metrics import BLEU

    counts, totals, sys_len, ref_len = (
        meters[f"{prefix}_{name}"].sum for name in ("counts", "totals", "sys_len", "ref_len")
    )
    score = BLEU.compute_bleu(counts.tolist(), totals.tolist(), int(sys_len), int(ref_len), smooth_method="exp").score
    return round(float(score), 2)


@VALIDATION_PROGRESS.replace(  # the other bars draw, or shall be silent
    "fairseq.logging.progress_bar:SimpleProgressBar.__iter__",
    "fairseq.logging.progress_bar:JsonProgressBar.__iter__",
)
def iterate(stock: Any, bar: Any) -> Iterator[Any]:
    """Log the batches of a validation set every ``REPORT_SECONDS``. Stock logs what it has in the end."""
    subset = bar.prefix.rpartition("valid on ")[2] if "valid on " in bar.prefix else None
    start = reported = time.monotonic()
    for number, batch in enumerate(stock(bar)):
        now = time.monotonic()
        if subset and now - reported >= REPORT_SECONDS:
            logger.info("%s: %d of %d batches in %.0f s", subset, number, bar.size, now - start)
            reported = now
        yield batch
