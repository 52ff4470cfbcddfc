"""What the understanding tasks share."""

from .understanding import NLUConfig, NLUTask

__all__ = ["NLUConfig", "NLUTask"]
