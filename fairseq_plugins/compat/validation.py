"""Compute validation BLEU of stock translation on the text alone, and log it also if it is 0."""

import copy
from functools import partial
from typing import Any, Dict, List

import numpy as np

from .patch import Harm, Patch, source_has

ORDER = 4
BLEU_SUMS = (
    "sys_len",
    "ref_len",
    *(f"{kind}_{n}" for kind in ("counts", "totals") for n in range(ORDER)),
)
"""Sums that a validation batch of ``--eval-bleu`` logs; their keys begin with ``_bleu_``."""

VALIDATION_TEXT = Patch(
    name="validation_text",
    harm=Harm.WRONG_RESULT,
    defect="--eval-bleu scores symbols that fairseq-generate strips: mBART's [en] at the end of "
    "both sides (10 BLEU), <mask>, <pad>",
)
VALIDATION_BLEU = Patch(
    name="validation_bleu",
    harm=Harm.WRONG_RESULT,
    defect="a validation that produced no word logs no BLEU, and --best-checkpoint-metric bleu "
    "ends the training with a KeyError",
)


@VALIDATION_TEXT.probe
def _scores_symbols() -> bool:
    """Return True if fairseq turns ids into text without naming the symbols to leave out."""
    from fairseq.tasks.translation import TranslationTask

    return not source_has(TranslationTask._inference_with_bleu, "extra_symbols_to_ignore")


@VALIDATION_TEXT.replace("fairseq.tasks.translation:TranslationTask._inference_with_bleu")
def inference_with_bleu(stock: Any, task: Any, generator: Any, sample: Any, model: Any) -> Any:
    """Score a batch, without the symbols that are no text.

    Stock turns ids into text by ``task.tgt_dict.string``. While it runs, the task has a copy of the
    dictionary whose ``string`` leaves out the symbols that fairseq-generate strips, ``<pad>`` and
    ``<mask>``. ``<unk>`` is text, even if it stands for a language tag at the end of a row.
    """
    dictionary = task.tgt_dict
    ignored = {*getattr(generator, "symbols_to_strip_from_output", ()), dictionary.pad()}
    ignored.add(dictionary.index("<mask>"))
    ignored.discard(dictionary.unk())  # what index("<mask>") returns if there is no <mask>

    def join_text(tokens: Any, *args: Any, **kwargs: Any) -> str:
        """Join the pieces of a row, without the generator's end symbol."""
        if len(tokens) and int(tokens[-1]) == getattr(generator, "eos", None):
            tokens = tokens[:-1]
        return str(dictionary.string(tokens, *args, extra_symbols_to_ignore=ignored, **kwargs))

    text_dictionary = copy.copy(dictionary)
    text_dictionary.string = join_text
    task.tgt_dict = text_dictionary
    try:
        return stock(task, generator, sample, model)
    finally:
        task.tgt_dict = dictionary


@VALIDATION_BLEU.replace("fairseq.tasks.translation:TranslationTask.reduce_metrics")
def reduce_metrics(stock: Any, task: Any, logs: List[Dict[str, Any]], criterion: Any) -> None:
    """Log the metrics, and BLEU also if no hypothesis has a word, where stock logs none."""
    validated = [log for log in logs if "_bleu_sys_len" in log]
    if validated and not any(log.get("_bleu_totals_0", 0) for log in validated):
        log_bleu(validated, "_bleu", "bleu")
    stock(task, logs, criterion)


def log_bleu(logs: List[Dict[str, Any]], prefix: str, name: str) -> None:
    """Log the sums of BLEU and BLEU itself.

    Args:
        logs: one dictionary per batch, with the sums under ``prefix``.
        prefix: prefix of the keys in ``logs`` and of the logged sums.
        name: name of the logged BLEU.
    """
    from fairseq.logging import metrics

    sums = {key: sum(float(log.get(f"{prefix}_{key}", 0)) for log in logs) for key in BLEU_SUMS}
    for kind in ("counts", "totals"):
        orders = np.array([sums[f"{kind}_{n}"] for n in range(ORDER)])
        metrics.log_scalar(f"{prefix}_{kind}", orders)
    for kind in ("sys_len", "ref_len"):
        metrics.log_scalar(f"{prefix}_{kind}", sums[kind])
    metrics.log_derived(name, partial(bleu_of, prefix=prefix))


def bleu_of(meters: Any, prefix: str) -> float:
    """Compute BLEU from the sums that :func:`log_bleu` has logged; 0 if there is no token."""
    from sacrebleu.metrics import BLEU

    counts, totals, sys_len, ref_len = (
        meters[f"{prefix}_{name}"].sum for name in ("counts", "totals", "sys_len", "ref_len")
    )
    sums = counts.tolist(), totals.tolist(), int(sys_len), int(ref_len)
    return round(float(BLEU.compute_bleu(*sums, smooth_method="exp").score), 2)
