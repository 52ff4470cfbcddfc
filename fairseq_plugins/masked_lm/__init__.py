"""The masked LM (XLM-R) that every paper starts from, and its training.

Read ``model.py`` (sizes, layers that accept extra keys and values, head) and ``prompts.py``
(trainable keys, values and low-rank updates of a frozen model); then the training: ``dataset.py``
(MLM and TLM masking), ``tasks.py`` (``tlm_pretraining``), ``training.py`` (the architectures
``xlmr_mlm_*``).
"""
