"""Scorers for ``fairseq-generate --scoring``: ROUGE and METEOR on words of any script.

They are sacreBLEU metrics. fairseq's ``meteor`` needs nltk and WordNet files, so that these are
called ``meteor_exact`` and ``meteor_stem``.
"""
