"""SGA (Wu et al. 2023): a frozen masked language model as a non-autoregressive generator."""

from .config import ARCHITECTURES, SGAConfig
from .model import Guidance, SGAModel

__all__ = ["ARCHITECTURES", "Guidance", "SGAConfig", "SGAModel"]
