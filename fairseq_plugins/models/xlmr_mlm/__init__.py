"""Masked LMs of XLM-R's shape, trainable with the stock ``masked_lm`` criterion: the frozen models of small experiments."""

from .model import XLMRMaskedLMConfig, XLMRMaskedLMModel

__all__ = ["XLMRMaskedLMConfig", "XLMRMaskedLMModel"]
