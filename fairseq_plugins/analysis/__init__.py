"""Analyses of pretrained encoders: CKA, singular values, retrieval of translations, and more.

``fairseq-plugins VERB`` runs each; its options are in ``commands/analysis.py``, and its module has
the verb's name with underscores. A module's ``work`` takes the parsed options, prints tables, and
writes JSON and plots.
"""
