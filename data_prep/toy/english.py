"""English: subject, verb, object, place; `a` or `an`; nothing before an indefinite plural."""

from __future__ import annotations

from .meaning import Clause, Meaning, NounPhrase
from .toy_lexicon import BECAUSE, NUMERALS

VOWELS = "aeiou"


def sentence(meaning: Meaning) -> str:
    """Returns the English sentence of the meaning."""
    text = _clause(meaning.clause)
    if meaning.adverb:
        text = f"{meaning.adverb.en} {text}"
    if meaning.reason:
        text = f"{text} {BECAUSE[0]} {_clause(meaning.reason)}"
    return f"{text[0].upper()}{text[1:]}."


def _clause(clause: Clause) -> str:
    subject, verb = clause.subject, clause.verb
    if clause.past:
        form = verb.en_past
    else:
        form = verb.en_plural if subject.plural else verb.en
    text = f"{noun_phrase(subject)} {form} {noun_phrase(clause.object)}"
    return f"{text} {clause.place.en}" if clause.place else text


def noun_phrase(phrase: NounPhrase) -> str:
    """Returns the noun phrase in lower case (English nouns do not show the case of the phrase)."""
    text = phrase.noun.en_plural if phrase.plural else phrase.noun.en
    if phrase.adjective:
        text = f"{phrase.adjective.en} {text}"
    if phrase.number:
        return f"{NUMERALS[phrase.number][0]} {text}"
    if phrase.definite:
        return f"the {text}"
    if phrase.plural:
        return text
    return f"an {text}" if text[0] in VOWELS else f"a {text}"
