"""Grammars, one per language: from a meaning to its only sentence.

English is subject-verb-object. German puts the verb second in main clauses and last after `weil`;
its articles and adjectives agree with the noun. Turkish is subject-object-verb with case suffixes,
has no definite article, and takes the singular after numerals.
"""

from typing import Callable, Dict

from .meaning import Clause, Meaning, NounPhrase
from .words import BECAUSE, NUMERALS

ENGLISH_VOWELS = "aeiou"
# German: gender (m, f, n; p plural) -> form, in the nominative and in the accusative.
DEFINITE = (
    {"m": "der", "f": "die", "n": "das", "p": "die"},
    {"m": "den", "f": "die", "n": "das", "p": "die"},
)
INDEFINITE = ({"m": "ein", "f": "eine", "n": "ein"}, {"m": "einen", "f": "eine", "n": "ein"})
WEAK_ENDING = (
    {"m": "e", "f": "e", "n": "e", "p": "en"},
    {"m": "en", "f": "e", "n": "e", "p": "en"},
)
MIXED_ENDING = ({"m": "er", "f": "e", "n": "es"}, {"m": "en", "f": "e", "n": "es"})
STRONG_PLURAL_ENDING = "e"
TURKISH_UPPER_CASE = {"i": "İ", "ı": "I"}


# ---- English. ----


def english_sentence(meaning: Meaning) -> str:
    """Return the English sentence of a meaning."""
    text = _english_clause(meaning.clause)
    if meaning.adverb:
        text = f"{meaning.adverb.en} {text}"
    if meaning.reason:
        text = f"{text} {BECAUSE[0]} {_english_clause(meaning.reason)}"
    return f"{text[0].upper()}{text[1:]}."


def _english_clause(clause: Clause) -> str:
    subject, verb = clause.subject, clause.verb
    if clause.past:
        form = verb.en_past
    else:
        form = verb.en_plural if subject.plural else verb.en
    text = f"{_english_phrase(subject)} {form} {_english_phrase(clause.object)}"
    return f"{text} {clause.place.en}" if clause.place else text


def _english_phrase(phrase: NounPhrase) -> str:
    text = phrase.noun.en_plural if phrase.plural else phrase.noun.en
    if phrase.adjective:
        text = f"{phrase.adjective.en} {text}"
    if phrase.number:
        return f"{NUMERALS[phrase.number][0]} {text}"
    if phrase.definite:
        return f"the {text}"
    if phrase.plural:
        return text
    return f"an {text}" if text[0] in ENGLISH_VOWELS else f"a {text}"


# ---- German. ----


def german_sentence(meaning: Meaning) -> str:
    """Return the German sentence of a meaning."""
    clause = meaning.clause
    subject, verb = _german_phrase(clause.subject, False), _german_verb(clause)
    complement = _german_object_and_place(clause)
    if meaning.adverb:
        text = f"{meaning.adverb.de} {verb} {subject} {complement}"
    else:
        text = f"{subject} {verb} {complement}"
    if meaning.reason:
        reason = meaning.reason
        subject, verb = _german_phrase(reason.subject, False), _german_verb(reason)
        text = f"{text}, {BECAUSE[1]} {subject} {_german_object_and_place(reason)} {verb}"
    return f"{text[0].upper()}{text[1:]}."


def _german_verb(clause: Clause) -> str:
    verb = clause.verb
    if clause.subject.plural:
        return verb.de_past_plural if clause.past else verb.de_plural
    return verb.de_past if clause.past else verb.de


def _german_object_and_place(clause: Clause) -> str:
    text = _german_phrase(clause.object, True)
    return f"{text} {clause.place.de}" if clause.place else text


def _german_phrase(phrase: NounPhrase, accusative: bool) -> str:
    noun = phrase.noun
    gender = "p" if phrase.plural else noun.gender
    if phrase.plural:
        word = noun.de_plural
    else:
        word = noun.de_accusative if accusative else noun.de
    if phrase.definite:
        article, ending = DEFINITE[accusative][gender], WEAK_ENDING[accusative][gender]
    elif phrase.plural:
        article = NUMERALS[phrase.number][1] if phrase.number else ""
        ending = STRONG_PLURAL_ENDING
    else:
        article, ending = INDEFINITE[accusative][gender], MIXED_ENDING[accusative][gender]
    if phrase.adjective:
        word = f"{phrase.adjective.de_stem}{ending} {word}"
    return f"{article} {word}" if article else word


# ---- Turkish. ----


def turkish_sentence(meaning: Meaning) -> str:
    """Return the Turkish sentence of a meaning."""
    text = _turkish_clause(meaning.clause)
    if meaning.adverb:
        text = f"{meaning.adverb.tr} {text}"
    if meaning.reason:
        text = f"{text}, {BECAUSE[2]} {_turkish_clause(meaning.reason)}"
    return f"{TURKISH_UPPER_CASE.get(text[0], text[0].upper())}{text[1:]}."


def _turkish_clause(clause: Clause) -> str:
    place = f" {clause.place.tr}" if clause.place else ""
    verb = clause.verb.tr_past if clause.past else clause.verb.tr
    subject = _turkish_phrase(clause.subject, False)
    return f"{subject}{place} {_turkish_phrase(clause.object, True)} {verb}"


def _turkish_phrase(phrase: NounPhrase, is_object: bool) -> str:
    noun = phrase.noun
    adjective = f"{phrase.adjective.tr} " if phrase.adjective else ""
    if phrase.number:
        return f"{NUMERALS[phrase.number][2]} {adjective}{noun.tr}"
    accusative = is_object and phrase.definite
    if phrase.plural:
        return adjective + (noun.tr_plural_accusative if accusative else noun.tr_plural)
    if phrase.definite:
        return adjective + (noun.tr_accusative if accusative else noun.tr)
    return f"{adjective}bir {noun.tr}"


GRAMMARS: Dict[str, Callable[[Meaning], str]] = {
    "en": english_sentence,
    "de": german_sentence,
    "tr": turkish_sentence,
}
