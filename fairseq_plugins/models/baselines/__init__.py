"""Comparison systems of the papers."""

from .gpt_msp import GPTMSPConfig, GPTMSPModel
from .nat_ctc import NATCTCConfig, NATCTCModel
from .transformer_adapter import TransformerAdapterModel
from .transformer_from_xlmr import TransformerFromXLMRModel

__all__ = [
    "GPTMSPConfig",
    "GPTMSPModel",
    "NATCTCConfig",
    "NATCTCModel",
    "TransformerAdapterModel",
    "TransformerFromXLMRModel",
]
