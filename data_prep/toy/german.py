"""German: the verb second in main clauses and last after `weil`; articles and adjectives agree with the noun."""

from __future__ import annotations

from .meaning import Clause, Meaning, NounPhrase
from .toy_lexicon import BECAUSE, NUMERALS

# gender (m, f, n; p plural) -> form, in the nominative and in the accusative
DEFINITE = ({"m": "der", "f": "die", "n": "das", "p": "die"}, {"m": "den", "f": "die", "n": "das", "p": "die"})
INDEFINITE = ({"m": "ein", "f": "eine", "n": "ein"}, {"m": "einen", "f": "eine", "n": "ein"})
WEAK_ENDING = ({"m": "e", "f": "e", "n": "e", "p": "en"}, {"m": "en", "f": "e", "n": "e", "p": "en"})
MIXED_ENDING = ({"m": "er", "f": "e", "n": "es"}, {"m": "en", "f": "e", "n": "es"})
STRONG_PLURAL_ENDING = "e"


def sentence(meaning: Meaning) -> str:
    """Returns the German sentence of the meaning."""
    clause = meaning.clause
    subject, verb, rest = noun_phrase(clause.subject, False), _verb(clause), _object_and_place(clause)
    if meaning.adverb:
        text = f"{meaning.adverb.de} {verb} {subject} {rest}"
    else:
        text = f"{subject} {verb} {rest}"
    if meaning.reason:
        reason = meaning.reason
        subject, verb, rest = noun_phrase(reason.subject, False), _verb(reason), _object_and_place(reason)
        text = f"{text}, {BECAUSE[1]} {subject} {rest} {verb}"
    return f"{text[0].upper()}{text[1:]}."


def _verb(clause: Clause) -> str:
    verb = clause.verb
    if clause.subject.plural:
        return verb.de_past_plural if clause.past else verb.de_plural
    return verb.de_past if clause.past else verb.de


def _object_and_place(clause: Clause) -> str:
    text = noun_phrase(clause.object, True)
    return f"{text} {clause.place.de}" if clause.place else text


def noun_phrase(phrase: NounPhrase, accusative: bool) -> str:
    """Returns the noun phrase in the nominative or, if `accusative` (bool), in the accusative."""
    noun = phrase.noun
    gender = "p" if phrase.plural else noun.gender
    if phrase.plural:
        word = noun.de_plural
    else:
        word = noun.de_accusative if accusative else noun.de
    if phrase.definite:
        article, ending = DEFINITE[accusative][gender], WEAK_ENDING[accusative][gender]
    elif phrase.plural:
        article, ending = NUMERALS[phrase.number][1] if phrase.number else "", STRONG_PLURAL_ENDING
    else:
        article, ending = INDEFINITE[accusative][gender], MIXED_ENDING[accusative][gender]
    if phrase.adjective:
        word = f"{phrase.adjective.de_stem}{ending} {word}"
    return f"{article} {word}" if article else word
