"""The masked LM (XLM-R) that every paper starts from, and its training.

Read ``encoder.py`` (sizes, and layers that accept extra keys and values), ``model.py`` (head, tied
output projection), ``prompts.py`` (trainable keys, values and low-rank updates of a frozen model);
then the training: ``dataset.py`` (MLM and TLM masking), ``tasks.py`` (``tlm_pretraining``),
``training.py`` (the architectures ``xlmr_mlm_*``).
"""
