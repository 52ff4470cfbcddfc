"""Word alignment of METEOR: as many matches as possible, in as few chunks as possible."""

from collections import Counter
from typing import Dict, Iterable, List, NamedTuple, Sequence, Tuple

# A state of the search: which reference places are taken, as bits, and the place that would prolong the last chunk.
State = Tuple[int, int]
# What the search minimises: chunks, then the sum of distances between the places of matched words.
Cost = Tuple[int, int]
NO_CHUNK = -1


class Alignment(NamedTuple):
    """Size of the best alignment."""

    matches: int  # matched words, a word of the hypothesis with an equal word of the reference, each used once
    chunks: int  # runs of matches that are adjacent and in the same order on both sides
    exact: bool  # False if the beam cut the search, so that there may be an alignment with fewer chunks


def align(hypothesis: Sequence[str], reference: Sequence[str], beam: int) -> Alignment:
    """Align equal words, with the most matches and among these the fewest chunks.

    Goes through the hypothesis and keeps the cheapest way to every state; two ways that leave the same choices for the rest
    are one state. So the search is exact as long as no more than ``beam`` states are alive at once, and keeps the
    cheapest ``beam`` of them otherwise.

    Source: Denkowski and Lavie 2011 (Meteor 1.3), the order of criteria for the final alignment: matches, chunks, distances.
    """
    common = Counter(hypothesis) & Counter(reference)
    search = _Search(hypothesis, reference, common)
    states: Dict[State, Cost] = {(0, NO_CHUNK): (0, 0)}
    exact = True
    for place in range(len(hypothesis)):
        states = search.step(place, states)
        if len(states) > beam:
            exact = False
            states = dict(sorted(states.items(), key=lambda item: (item[1], item[0]))[:beam])
    return Alignment(sum(common.values()), min(states.values())[0], exact)


class _Search:
    def __init__(self, hypothesis: Sequence[str], reference: Sequence[str], common: Dict[str, int]):
        self.hypothesis = hypothesis
        self.reference = reference
        self.places: Dict[str, List[int]] = {word: [] for word in common}
        for place, word in enumerate(reference):
            if word in self.places:
                self.places[word].append(place)
        self.taken = {word: sum(1 << place for place in places) for word, places in self.places.items()}
        self.last = {word: place for place, word in enumerate(hypothesis)}
        occurrences = Counter(hypothesis)
        self.spare = {word: occurrences[word] - number for word, number in common.items()}
        self.seen: Dict[str, int] = dict.fromkeys(common, 0)

    def step(self, place: int, states: Dict[State, Cost]) -> Dict[State, Cost]:
        """Every state after the hypothesis word at ``place``: matched in each possible way, or left out."""
        word = self.hypothesis[place]
        if word not in self.places:
            return _cheapest(((taken, NO_CHUNK), cost) for (taken, _), cost in states.items())
        seen, last = self.seen[word], self.last[word] == place
        self.seen[word] += 1
        found = []
        for (taken, next_place), (chunks, distance) in states.items():
            # Once a word does not come again, its places need not be told apart any more.
            keep = ~self.taken[word] if last else -1
            if seen - bin(taken & self.taken[word]).count("1") < self.spare[word]:
                found.append(((taken & keep, NO_CHUNK), (chunks, distance)))
            for match in self.places[word]:
                if taken >> match & 1:
                    continue
                cost = chunks + (match != next_place), distance + abs(match - place)
                now = taken | 1 << match
                found.append(((now & keep, self._next(place, match, now)), cost))
        return _cheapest(found)

    def _next(self, place: int, match: int, taken: int) -> int:
        """The reference place that prolongs the chunk with the next word, or NO_CHUNK where it must end here."""
        if place + 1 == len(self.hypothesis) or match + 1 == len(self.reference) or taken >> match + 1 & 1:
            return NO_CHUNK
        return match + 1 if self.hypothesis[place + 1] == self.reference[match + 1] else NO_CHUNK


def _cheapest(found: Iterable[Tuple[State, Cost]]) -> Dict[State, Cost]:
    states: Dict[State, Cost] = {}
    for state, cost in found:
        if state not in states or cost < states[state]:
            states[state] = cost
    return states
