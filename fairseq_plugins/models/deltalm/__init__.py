"""DeltaLM (Ma et al. 2021): an encoder-decoder whose interleaved decoder starts from a masked language model."""

from .config import ARCHITECTURES
from .model import DeltaLMModel, InterleavedDecoder

__all__ = ["ARCHITECTURES", "DeltaLMModel", "InterleavedDecoder"]
