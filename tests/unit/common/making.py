"""Set up tasks by name, load their datasets, and reduce the BLEU logs of validation batches."""

from fairseq import tasks
from fairseq.logging import metrics
from sacrebleu.metrics import BLEU

from fairseq_plugins.sga.config import SGACTCConfig
from fairseq_plugins.sga.criterion import SGACTCCriterion

REFERENCE = "a b c d e f"


def maker(name, **defaults):
    """Return a function that sets up a task for a folder, with ``defaults`` and more options."""

    def setup(folder, **options):
        cfg = {"data": str(folder), "seed": 1, **defaults, **options}
        return tasks.TASK_REGISTRY[name].setup_task(tasks.TASK_DATACLASS_REGISTRY[name](**cfg))

    return setup


def load(task, split="train", **options):
    task.load_dataset(split, **options)
    return task.dataset(split)


def bleu(*hypotheses):
    return BLEU().corpus_score(list(hypotheses), [[REFERENCE] * len(hypotheses)])


def bleu_log(*hypotheses):
    score = bleu(*hypotheses)
    log = {"_bleu_sys_len": score.sys_len, "_bleu_ref_len": score.ref_len}
    for order in range(4):
        log[f"_bleu_counts_{order}"] = score.counts[order]
        log[f"_bleu_totals_{order}"] = score.totals[order]
    return log


def reduced(task, logs):
    """Return the metrics that an SGA task logs for the logs of several batches."""
    criterion = SGACTCCriterion(task, SGACTCConfig(sentence_avg=False))
    with metrics.aggregate(new_root=True) as aggregated:
        for log in logs:
            task.reduce_metrics(
                [{"sample_size": 1, "nsentences": 1, "ntokens": 1, **log}], criterion
            )
    return aggregated.get_smoothed_values()
