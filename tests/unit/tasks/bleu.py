"""What validation batches log for BLEU, and what an SGA task shows of it."""

from fairseq.logging import metrics
from sacrebleu.metrics import BLEU

from fairseq_plugins.criterions.sga_ctc import SGACTCConfig, SGACTCCriterion

REFERENCE = "a b c d e f"


def score_of(*hypotheses):
    """Against one reference for all."""
    return BLEU().corpus_score(list(hypotheses), [[REFERENCE] * len(hypotheses)])


def log_of(*hypotheses):
    score = score_of(*hypotheses)
    log = {"_bleu_sys_len": score.sys_len, "_bleu_ref_len": score.ref_len}
    for order in range(4):
        log.update({f"_bleu_counts_{order}": score.counts[order], f"_bleu_totals_{order}": score.totals[order]})
    return log


def reduced(task, logs):
    """After a step for each of the logs."""
    criterion = SGACTCCriterion(task, SGACTCConfig(sentence_avg=False))
    with metrics.aggregate(new_root=True) as found:
        for log in logs:
            task.reduce_metrics([{"sample_size": 1, "nsentences": 1, "ntokens": 1, **log}], criterion)
    return found.get_smoothed_values()
