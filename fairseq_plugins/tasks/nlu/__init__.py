"""What the understanding tasks share."""

from .base import NLUConfig, NLUTask

__all__ = ["NLUConfig", "NLUTask"]
