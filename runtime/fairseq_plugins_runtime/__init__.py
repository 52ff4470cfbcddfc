"""Run models that ``fairseq-plugins export --format onnx`` wrote.

Needs onnxruntime, sentencepiece and numpy.
"""

from .answers import Answer
from .encoder import Classified, Encoder
from .loading import load
from .model_json import ModelError
from .translator import Translation, Translator
from .version import VERSION as __version__

__all__ = [
    "Answer",
    "Classified",
    "Encoder",
    "ModelError",
    "Translation",
    "Translator",
    "__version__",
    "load",
]
