"""Understanding: fine-tune an encoder in one language, test it in others.

Ji et al. 2024 evaluate MT as continued pre-training in this way; VECO and CSR their classification.
Read beside the first paper, in this order::

    encoder.py, config.py        2.1  the encoder of a pretrained file, pooling, token head; options
    model.py, pretrained.py      2.1  ``nlu_encoder``: which layer feeds which head; its start
    inputs.py, languages.py      2.2  symbols around texts, batches; several languages in one run
    task.py        2.2  options, folders and checkpoints that all tasks share
    sentences.py   2.2  XNLI, PAWS-X, NC, QAM, QADSM: classes, accuracy
    tags.py, entities.py         2.2  NER, POS: tags of words; accuracy, F1 of entities
    groups.py, ranking.py        2.2  WPR: queries with their documents; nDCG
    questions.py, answers.py     XQuAD, MLQA, TyDiQA (VECO): windows; answers, F1 and exact match
    predicting.py, predictions.py    sets with labels and without, files of ``--predictions``

Each kind of task holds its dataset, its task, its criterion and its metric.
"""
