"""What a toy sentence says, without any language, and the sampler that draws it."""

from __future__ import annotations

import random
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple, TypeVar

from .toy_lexicon import ADJECTIVES, ADVERBS, NOUNS, NUMERALS, PLACES, VERBS, Adjective, Adverb, Noun, Place, Verb

T = TypeVar("T")


class NounPhrase(NamedTuple):
    """A noun with its determiner: `number` 2-5 for a numeral (then plural and indefinite), else 0."""

    noun: Noun
    definite: bool
    plural: bool
    number: int = 0
    adjective: Optional[Adjective] = None


class Clause(NamedTuple):
    """Who does what to whom, when (past or present) and where."""

    subject: NounPhrase
    verb: Verb
    object: NounPhrase
    past: bool
    place: Optional[Place] = None


class Meaning(NamedTuple):
    """A main clause, the time adverb in front of it, and the clause that gives its reason."""

    clause: Clause
    adverb: Optional[Adverb] = None
    reason: Optional[Clause] = None


class Rates(NamedTuple):
    """How often each part of a sentence is there (probabilities in [0, 1])."""

    adverb: float = 0.4
    adjective: float = 0.35
    place: float = 0.3
    reason: float = 0.25
    numeral: float = 0.15
    plural: float = 0.35
    definite: float = 0.55
    past: float = 0.5
    reason_place: float = 0.15


DEFAULT_RATES = Rates()


class MeaningSampler:
    """Draws meanings from `random.Random(seed)`, using nothing but its `random()`: same draws on every Python.

    Raises: ValueError for a rate outside [0, 1].
    """

    def __init__(self, seed: int, rates: Rates = DEFAULT_RATES) -> None:
        for name, rate in zip(Rates._fields, rates):
            if not 0 <= rate <= 1:
                raise ValueError(f"rate {name} is {rate!r}; valid: 0 to 1")
        self._random = random.Random(seed).random
        self._rates = rates
        self._numbers: List[int] = sorted(NUMERALS)
        self._frames: List[Tuple[Verb, List[Noun], List[Noun]]] = [
            (verb, _nouns_with(verb.subjects), _nouns_with(verb.objects)) for verb in VERBS
        ]
        self._adjectives: Dict[str, List[Adjective]] = {
            noun.en: [adjective for adjective in ADJECTIVES if set(adjective.tags) & set(noun.tags)] for noun in NOUNS
        }
        self._adverbs: Dict[bool, List[Adverb]] = {
            past: [adverb for adverb in ADVERBS if ("<" if past else "=") in adverb.tenses] for past in (False, True)
        }

    def draw(self) -> Meaning:
        """Returns the next meaning."""
        past = self._chance(self._rates.past)
        adverb = self._pick(self._adverbs[past]) if self._chance(self._rates.adverb) else None
        clause = self._clause(past, self._rates.place)
        reason = None
        if self._chance(self._rates.reason):
            reason = self._clause(past, self._rates.reason_place)
        return Meaning(clause, adverb, reason)

    def _chance(self, rate: float) -> bool:
        return self._random() < rate

    def _pick(self, items: Sequence[T]) -> T:
        return items[int(self._random() * len(items))]

    def _clause(self, past: bool, place_rate: float) -> Clause:
        verb, subjects, objects = self._pick(self._frames)
        subject = self._pick(subjects)
        thing = self._pick(objects)
        while thing is subject:
            thing = self._pick(objects)
        place = self._pick(PLACES) if self._chance(place_rate) else None
        return Clause(self._noun_phrase(subject), verb, self._noun_phrase(thing), past, place)

    def _noun_phrase(self, noun: Noun) -> NounPhrase:
        adjective = self._pick(self._adjectives[noun.en]) if self._chance(self._rates.adjective) else None
        if self._chance(self._rates.numeral):
            return NounPhrase(noun, False, True, self._pick(self._numbers), adjective)
        plural = self._chance(self._rates.plural)
        return NounPhrase(noun, self._chance(self._rates.definite), plural, 0, adjective)


def _nouns_with(tags: str) -> List[Noun]:
    return [noun for noun in NOUNS if set(tags) & set(noun.tags)]
