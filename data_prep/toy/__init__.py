"""A synthetic parallel corpus of English, German and Turkish with real words and gold lexicons.

In order of reading::

    words.py      one table per part of speech; every irregular form is spelled out
    meaning.py    a sentence without any language, and the sampler that draws it
    grammars.py   one deterministic grammar per language
    corpus.py     splits that never meet, files, lexicons, manifest; the verb `toy`
"""
