"""Hypotheses out of logs of fairseq-generate, and scores of them by sacreBLEU."""
