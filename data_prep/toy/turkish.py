"""Turkish: subject, place, object, verb; a definite object in the accusative; the singular after numerals.

Turkish has no definite article: a plural subject sounds the same whether English says "the dogs" or "dogs".
"""

from __future__ import annotations

from .meaning import Clause, Meaning, NounPhrase
from .toy_lexicon import BECAUSE, NUMERALS

UPPER_CASE = {"i": "İ", "ı": "I"}


def sentence(meaning: Meaning) -> str:
    """Returns the Turkish sentence of the meaning."""
    text = _clause(meaning.clause)
    if meaning.adverb:
        text = f"{meaning.adverb.tr} {text}"
    if meaning.reason:
        text = f"{text}, {BECAUSE[2]} {_clause(meaning.reason)}"
    return f"{UPPER_CASE.get(text[0], text[0].upper())}{text[1:]}."


def _clause(clause: Clause) -> str:
    place = f" {clause.place.tr}" if clause.place else ""
    verb = clause.verb.tr_past if clause.past else clause.verb.tr
    return f"{noun_phrase(clause.subject, False)}{place} {noun_phrase(clause.object, True)} {verb}"


def noun_phrase(phrase: NounPhrase, is_object: bool) -> str:
    """Returns the noun phrase; a definite one takes the accusative if `is_object` (bool)."""
    noun = phrase.noun
    before = f"{phrase.adjective.tr} " if phrase.adjective else ""
    if phrase.number:
        return f"{NUMERALS[phrase.number][2]} {before}{noun.tr}"
    accusative = is_object and phrase.definite
    if phrase.plural:
        return before + (noun.tr_plural_accusative if accusative else noun.tr_plural)
    if phrase.definite:
        return before + (noun.tr_accusative if accusative else noun.tr)
    return f"{before}bir {noun.tr}"
