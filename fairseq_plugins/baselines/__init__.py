"""Comparison systems of the papers, each a model that stock tasks or SGA's train.

They are systems of Table 1 of SGA (Wu et al. 2023, section 5.2)::

    nat_ctc.py         Transformer (NAT) + CTC (Libovicky and Helcl 2018)
    adapters.py        mTransformer + adapter (Bapna and Firat 2019): adapter_layers.py has the
                       layers, language_tags.py finds the language of each sentence
    gpt_msp.py         mGPT + MSP (Tan et al. 2022), over the frozen model of prefix_decoder.py
    from_masked_lm.py  XLM-R with AT initialization

``examples/systems`` (nat, mtransformer, msp, at) has their commands; the study ``sga_plateau``
compares the first and the last with SGA.
"""
