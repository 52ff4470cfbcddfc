"""Comparison systems of the papers, each a model that stock tasks or SGA's train.

They stand in Table 1 of SGA (Wu et al. 2023, sections 5.2 and 5.3)::

    nat_ctc.py         Transformer (NAT) + CTC (Libovicky and Helcl 2018)
    adapters.py        mTransformer + adapter (Bapna and Firat 2019): adapter_layers.py has the
                       layers, language_tags.py finds the language of each sentence
    gpt_msp.py         mGPT + MSP (Tan et al. 2022), over the frozen model of prefix_decoder.py
    from_masked_lm.py  XLM-R with AT initialization

examples/studies compare them with SGA, and tests/learning on tasks that take minutes.
"""
