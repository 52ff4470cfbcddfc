"""Comparison systems of the papers."""

from .nat_ctc import NATCTCConfig, NATCTCModel

__all__ = ["NATCTCConfig", "NATCTCModel"]
