"""Thin criterions: unpack the batch, call ops, log."""
