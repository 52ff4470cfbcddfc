"""Decoding loops that return fairseq hypotheses."""
