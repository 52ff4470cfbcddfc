"""Scorers for ``fairseq-generate --scoring``: ROUGE and METEOR on words of any script, as sacreBLEU metrics.

fairseq's own ``meteor`` needs nltk and WordNet files, so ours are ``meteor_exact`` and ``meteor_stem``.
"""
