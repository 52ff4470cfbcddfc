"""Datasets and collaters: CPU only; noise is drawn from (seed, epoch, index); they hold no model."""
