"""Comparison systems of the papers."""

from .gpt_msp import GPTMSPConfig, GPTMSPModel
from .nat_ctc import NATCTCConfig, NATCTCModel
from .transformer_adapter import TransformerAdapterModel, TransformerAdapterOptions
from .transformer_from_xlmr import FromXLMROptions, TransformerFromXLMRModel

__all__ = [
    "FromXLMROptions",
    "GPTMSPConfig",
    "GPTMSPModel",
    "NATCTCConfig",
    "NATCTCModel",
    "TransformerAdapterModel",
    "TransformerAdapterOptions",
    "TransformerFromXLMRModel",
]
