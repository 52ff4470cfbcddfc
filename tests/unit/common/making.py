"""Tasks by their names, their datasets, and what an SGA task shows of the BLEU that validation batches log."""

from fairseq import tasks
from fairseq.logging import metrics
from sacrebleu.metrics import BLEU

from fairseq_plugins.sga.config import SGACTCConfig
from fairseq_plugins.sga.criterion import SGACTCCriterion

REFERENCE = "a b c d e f"


def maker(name, **defaults):
    """A function that makes the task for a folder, with these options unless others are given."""

    def setup(folder, **options):
        cfg = tasks.TASK_DATACLASS_REGISTRY[name](**{"data": str(folder), "seed": 1, **defaults, **options})
        return tasks.TASK_REGISTRY[name].setup_task(cfg)

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
        log.update({f"_bleu_counts_{order}": score.counts[order], f"_bleu_totals_{order}": score.totals[order]})
    return log


def reduced(task, logs):
    criterion = SGACTCCriterion(task, SGACTCConfig(sentence_avg=False))
    with metrics.aggregate(new_root=True) as found:
        for log in logs:
            task.reduce_metrics([{"sample_size": 1, "nsentences": 1, "ntokens": 1, **log}], criterion)
    return found.get_smoothed_values()
