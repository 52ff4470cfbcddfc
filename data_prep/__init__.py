"""Turn text into what fairseq trains on, and score what it writes.

Each room holds the verbs of one subject::

    text/           check, clean and split parallel text
    pieces/         sentencepiece and BPE, dictionaries, data-bin folders, smaller vocabularies
    corpora/        public corpora as text: translation, summaries, questions, data-to-text
    understanding/  public sets of classes, tags and questions as data-bin folders
    lexicon/        word vectors and lexicons without translations
    scoring/        hypotheses out of logs, and their scores
    toy/            a synthetic parallel corpus

What they share lies beside them. `files` and `progress` serve fairseq_plugins too.
Nothing here imports torch or fairseq before a verb needs it.
"""

from . import verbs  # noqa: F401  makes `python -m data_prep.VERB` find the verb
