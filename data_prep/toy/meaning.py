"""Meanings of toy sentences, without any language, and the sampler that draws them."""

import random
from typing import Dict, List, NamedTuple, Optional, Sequence, TypeVar

from . import words

T = TypeVar("T")
# Probability of each part of a sentence.
ADVERB, ADJECTIVE, PLACE, REASON, REASON_PLACE = 0.4, 0.35, 0.3, 0.25, 0.15
NUMERAL, PLURAL, DEFINITE, PAST = 0.15, 0.35, 0.55, 0.5


class NounPhrase(NamedTuple):
    """A noun with its determiner.

    Attributes:
        noun: the noun.
        definite: with the definite article.
        plural: in the plural.
        number: 2 to 5 for a numeral (then plural and indefinite), else 0.
        adjective: before the noun.
    """

    noun: words.Noun
    definite: bool
    plural: bool
    number: int = 0
    adjective: Optional[words.Adjective] = None


class Clause(NamedTuple):
    """A transitive clause: who does what to whom, when (past or present) and where."""

    subject: NounPhrase
    verb: words.Verb
    object: NounPhrase
    past: bool
    place: Optional[words.Place] = None


class Meaning(NamedTuple):
    """A main clause, the time adverb in front of it, and the clause that gives its reason."""

    clause: Clause
    adverb: Optional[words.Adverb] = None
    reason: Optional[Clause] = None


class _Frame(NamedTuple):
    """A verb with its possible subjects and objects."""

    verb: words.Verb
    subjects: List[words.Noun]
    objects: List[words.Noun]


class MeaningSampler:
    """Draw meanings; only ``random.Random(seed).random()`` is used, which no Python changes."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random
        self._numbers = sorted(words.NUMERALS)
        self._frames = [
            _Frame(verb, _nouns_with(verb.subjects), _nouns_with(verb.objects))
            for verb in words.VERBS
        ]
        self._adjectives: Dict[str, List[words.Adjective]] = {
            noun.en: [word for word in words.ADJECTIVES if set(word.tags) & set(noun.tags)]
            for noun in words.NOUNS
        }
        self._adverbs: Dict[bool, List[words.Adverb]] = {
            False: [adverb for adverb in words.ADVERBS if "=" in adverb.tenses],
            True: [adverb for adverb in words.ADVERBS if "<" in adverb.tenses],
        }

    def draw(self) -> Meaning:
        """Return the next meaning."""
        past = self._chance(PAST)
        adverb = self._pick(self._adverbs[past]) if self._chance(ADVERB) else None
        clause = self._clause(past, PLACE)
        reason = self._clause(past, REASON_PLACE) if self._chance(REASON) else None
        return Meaning(clause, adverb, reason)

    def _chance(self, rate: float) -> bool:
        return self._random() < rate

    def _pick(self, items: Sequence[T]) -> T:
        return items[int(self._random() * len(items))]

    def _clause(self, past: bool, place_rate: float) -> Clause:
        frame = self._pick(self._frames)
        subject = self._pick(frame.subjects)
        thing = self._pick(frame.objects)
        while thing is subject:
            thing = self._pick(frame.objects)
        place = self._pick(words.PLACES) if self._chance(place_rate) else None
        phrases = self._noun_phrase(subject), self._noun_phrase(thing)
        return Clause(phrases[0], frame.verb, phrases[1], past, place)

    def _noun_phrase(self, noun: words.Noun) -> NounPhrase:
        adjectives = self._adjectives[noun.en]
        adjective = self._pick(adjectives) if self._chance(ADJECTIVE) else None
        if self._chance(NUMERAL):
            return NounPhrase(noun, False, True, self._pick(self._numbers), adjective)
        plural = self._chance(PLURAL)
        return NounPhrase(noun, self._chance(DEFINITE), plural, 0, adjective)


def _nouns_with(tags: str) -> List[words.Noun]:
    return [noun for noun in words.NOUNS if set(tags) & set(noun.tags)]
