"""Turn text into text: cleaning, splitting, pieces, dictionaries, corpora, the toy corpus.

`files` (writing, locking, hashing) and `progress` are shared with fairseq_plugins.
"""
