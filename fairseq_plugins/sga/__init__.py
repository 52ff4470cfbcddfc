"""SGA (Wu et al. 2023): a frozen masked language model as a non-autoregressive generator.

Read beside the paper, in this order::

    config.py      5.1       options, sizes, architectures, and tables of rules between options
    model.py       4.2-4.5   prompts, W_K and W_V, Eq. 1 to 6; ``forward`` is Eq. 7
    noise.py       4.4       noise on the denoiser's input
    criterion.py   4.5       Eq. 7, summed and logged
    decoding.py    4.4       the alignment's best path, then denoising until nothing changes
    state.py       5.1       the frozen model's file; what a checkpoint holds
    target_rows.py           a target dictionary with some of the masked LM's entries
    tlm_start.py             W_K and W_V that start from what TLM taught the frozen model
    tasks.py       5.1       ``sga_translation``
    many_pairs.py  5.4       the same prompts for many pairs
    variants.py    start of a run: ``SGA.build_model`` looks up the blank, reads the frozen model
                   and picks the class of --alignment; ``build_generator`` picks the decoding.
                   Variants are free.py and mask_predict.py (4.3, free generation) and
                   extensions/ (not in the paper)
"""
