"""Runs models that ``python -m fairseq_plugins export --format onnx`` wrote, with onnxruntime, sentencepiece and numpy alone."""

from .model_json import ModelError
from .translator import Translation, Translator, load
from .version import VERSION as __version__

__all__ = ["ModelError", "Translation", "Translator", "__version__", "load"]
