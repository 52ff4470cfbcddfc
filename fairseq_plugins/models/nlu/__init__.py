"""Understanding: a pretrained multilingual encoder of any family with heads for sentences and for tokens."""

from .config import NLUEncoderOptions
from .model import NLUEncoderModel, load_text_encoder

__all__ = ["NLUEncoderModel", "NLUEncoderOptions", "load_text_encoder"]
