"""Scorers for ``fairseq-generate --scoring``: ROUGE and METEOR on words of any script, as sacreBLEU metrics.

``rouge.Rouge`` and ``meteor.Meteor`` are sacreBLEU metrics (``corpus_score``, ``sentence_score``, signature, paired tests);
``scorers`` registers them with fairseq as ``rouge``, ``meteor_exact`` and ``meteor_stem``. fairseq's own ``chrf`` is
sacreBLEU's chrF and is used as it is. fairseq's own ``meteor`` needs nltk and WordNet files, so that name is left alone.
"""
