"""Shared pure tensor functions; nothing here imports fairseq."""
