"""CSR (Zan et al. 2022): a code-switching restore stage between pre-training and fine-tuning.

Read beside the paper, in this order::

    config.py      III-A b, III-B, IV-B  options and their rules: 35 %, spans of 3.5 words; k
                                         neighbours; 5,000 updates of 30,000
    lexicon.py     III-B                 the translation vocabulary: its files, and whether it fits
                                         the text (``data_prep/lexicon.sh`` learns it)
    words.py       III-B a               the words in sentences of pieces
    neighbours.py  III-B                 which words have an entry (the others stay), and the k
                                         neighbours
    noise.py       III-B, III-B a        spans until 35 % of the words are replaced; one of k
                                         neighbours
    restore.py     I, Eq. 3              the dataset: source X', target X; ``describe`` prints a
                                         batch
    stages.py      III-B b               when restore ends and fine-tuning begins in one run
    task.py        III-B b               ``code_switching_restore``: reads, checks, logs

Eq. 4 (V-A), the distance of two languages: ``../analysis/language_distance.py``.

The model is a stock mBART. All of it trains, by fairseq's cross-entropy of X (Eq. 3).
Sides of unequal length are accepted here: the stage needs no pairs. Translation needs pairs, also
if both run in one (``--restore-updates``).
A checkpoint is a stock mBART's too: weights, optimizer and ``--langs``, no entry of the lexicon;
the options (its path, ratio, span) stand in the stored configuration. ``--finetune-from-model``
takes it to the second stage.
Its embedding must have the rows of dict.txt, one per language of ``--langs``, and one for
``<mask>``; fairseq refuses any other number. A lexicon line with a wrong number of columns stops
the run and is named.
"""
