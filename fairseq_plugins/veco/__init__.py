"""VECO (Luo et al. 2021): one stack of layers, pre-trained as an encoder and as a decoder at once.

Read beside the paper, in this order::

    config.py          3, 5.1, 5.2  options, sizes, architectures, rules between options
    model.py           2.1, 2.2     the variable blocks, and both objectives: Eq. 4 to 7
    criterion.py       2.2          their sum: Eq. 8
    segments.py        2.2          segments x and y: translation pairs, adjacent text
    data.py            2.2, 3       masking, and batches of both kinds in turn
    pretraining.py     3            ``veco_pretraining``: languages, what trains and when
    state.py           2.3          what a checkpoint is, and how it becomes an encoder-decoder
    from_masked_lm.py  3            the start of both models from XLM-R
    dictionary_map.py  release      rows of a cut vocabulary; which of them is ``<mask>``
    translation.py     2.3, 5.1     fine-tuning and decoding in the authors' conventions

Documents are the files of ``fairseq-preprocess --only-source`` (docs/methods/veco.md), or a side of
a pair; an empty line ends each.
Everything trains; with ``--freeze-backbone-updates`` only cross-attention does at first.
A checkpoint of pre-training holds the whole model, its head and the row of ``<mask>``; one of
translation holds the encoder-decoder with the layers and rows that it chose.
A pretrained row of ``<mask>`` is dropped if the dictionary has no such entry. Other differences of
rows are refused, unless ``--resized-dict-map`` or ``--embedding-mismatch`` says what to do.
Pre-training takes no other number of rows of its own checkpoints, whatever these say.
"""
