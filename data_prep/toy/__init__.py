"""A synthetic parallel corpus of English, German and Turkish with real words and a gold lexicon.

A sentence is drawn as an abstract `Meaning` and realised by one deterministic grammar per language:
English subject-verb-object; German verb-second with agreeing articles and adjectives, verb last after `weil`;
Turkish subject-object-verb with case suffixes and vowel harmony. `python -m data_prep.toy --help` writes the files.
"""

from .corpus import LANGUAGES, SPLITS, generate, realise, split_of, write_corpus
from .meaning import Clause, Meaning, MeaningSampler, NounPhrase, Rates

__all__ = [
    "LANGUAGES",
    "SPLITS",
    "Clause",
    "Meaning",
    "MeaningSampler",
    "NounPhrase",
    "Rates",
    "generate",
    "realise",
    "split_of",
    "write_corpus",
]
