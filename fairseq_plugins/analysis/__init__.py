"""What pretrained encoders have learned: CKA, singular values, retrieval of translations. Tables, JSON and plots.

``python -m fairseq_plugins.analysis.cka``, ``… .singular_values`` and ``… .retrieval`` are the commands.
"""
