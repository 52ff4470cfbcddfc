"""VECO (Luo et al. 2021): one stack of layers, pre-trained as an encoder and as a decoder at once."""

from .config import ARCHITECTURES, VECOOptions
from .model import VECOModel
from .pretraining import VECOPretrainingModel

__all__ = ["ARCHITECTURES", "VECOModel", "VECOOptions", "VECOPretrainingModel"]
