"""DeltaLM (Ma et al. 2021): an encoder-decoder whose two sides start from one masked LM.

Read beside the paper, in this order::

    config.py           2.3, 3.3  options, sizes, architectures, and the rules between options
    layer.py            2.2       the interleaved decoder layer (Figure 2b)
    model.py            2.2       a stock transformer with that layer; all of it trains
    pretrained.py       2.1, 2.2  initialisation from a masked LM (InfoXLM), or a DeltaLM file
    spans.py            2.3       which tokens are corrupted, and the sentinels that replace them
    span_corruption.py  2.3       ``span_corruption``: pre-training on texts and pairs (Figure 3)
    temperature.py      3.2       ``translation_multi_temperature``: many language pairs
    mixing.py           3.3       ``translation_mixing``: against accidental translation

The paper has no numbered equations. The loss is fairseq's label-smoothed cross-entropy, the
decoding its beam search (3.1).
A checkpoint is a whole model: it needs no pretrained file any more. Those of
``translation_multi_temperature`` also hold the languages in the order of their tags.
A pretrained file with one row too many or too few is refused, unless ``--embedding-mismatch`` says
otherwise; a masked LM's row of ``<mask>`` is dropped if the dictionary has no such entry.
"""
