"""Runs models that ``python -m fairseq_plugins export --format onnx`` wrote, with onnxruntime, sentencepiece and numpy alone."""
