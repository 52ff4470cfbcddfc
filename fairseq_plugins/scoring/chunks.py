"""Word alignment of METEOR: as many matches as possible, in as few chunks as possible."""

from collections import Counter
from typing import Dict, Iterable, List, NamedTuple, Sequence, Tuple

State = Tuple[int, int]
"""Reference places that are matched, as bits, and the place that would extend the last chunk."""
Cost = Tuple[int, int]
"""Minimised by the search: chunks, then the sum of distances between matched places."""
NO_CHUNK = -1


class Alignment(NamedTuple):
    """Size of the best alignment."""

    matches: int  # pairs of equal words, one of each side; a word is in one pair at most
    chunks: int  # runs of matches that are adjacent and in the same order on both sides
    exact: bool  # False if the beam cut the search: another alignment may have fewer chunks


def align(hypothesis: Sequence[str], reference: Sequence[str], beam: int) -> Alignment:
    """Align equal words, with the most matches and among these the fewest chunks.

    A search over the words of the hypothesis keeps the cheapest partial alignment of each state.
    Partial alignments with the same choices for the remaining words are one state, so the search is
    exact while there are at most ``beam`` states. Otherwise it keeps the cheapest ``beam`` of them.

    Source: Denkowski and Lavie 2011 (Meteor 1.3), criteria of the final alignment in this order:
    matches, chunks, distances.
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
    """Search through the words of a hypothesis.

    Args:
        common: word of both sides -> number of its matches.
    """

    def __init__(self, hypothesis: Sequence[str], reference: Sequence[str], common: Dict[str, int]):
        self.hypothesis = hypothesis
        self.reference = reference
        self.places: Dict[str, List[int]] = {word: [] for word in common}
        for place, word in enumerate(reference):
            if word in self.places:
                self.places[word].append(place)
        # Places of each word, as bits.
        self.bits = {
            word: sum(1 << place for place in places) for word, places in self.places.items()
        }
        self.last = {word: place for place, word in enumerate(hypothesis)}
        occurrences = Counter(hypothesis)
        # Occurrences in the hypothesis: how many stay unmatched, and how many were passed so far.
        self.spare = {word: occurrences[word] - number for word, number in common.items()}
        self.passed_counts: Dict[str, int] = dict.fromkeys(common, 0)

    def step(self, place: int, states: Dict[State, Cost]) -> Dict[State, Cost]:
        """Match the hypothesis word at ``place`` in each possible way, or leave it out."""
        word = self.hypothesis[place]
        if word not in self.places:
            return _cheapest(((used, NO_CHUNK), cost) for (used, _), cost in states.items())
        count, is_last = self.passed_counts[word], self.last[word] == place
        self.passed_counts[word] += 1
        # After the last occurrence of a word its places offer no choice, so the state drops them.
        mask = ~self.bits[word] if is_last else -1
        candidates = []
        for (used, next_place), (chunks, distance) in states.items():
            left_out = count - bin(used & self.bits[word]).count("1")
            if left_out < self.spare[word]:
                candidates.append(((used & mask, NO_CHUNK), (chunks, distance)))
            for match in self.places[word]:
                if used >> match & 1:
                    continue
                cost = chunks + (match != next_place), distance + abs(match - place)
                used_now = used | 1 << match
                extending = self._find_next(place, match, used_now)
                candidates.append(((used_now & mask, extending), cost))
        return _cheapest(candidates)

    def _find_next(self, place: int, match: int, used: int) -> int:
        """Find the reference place that extends the chunk; NO_CHUNK if the chunk must end here."""
        is_end = place + 1 == len(self.hypothesis) or match + 1 == len(self.reference)
        if is_end or used >> match + 1 & 1:
            return NO_CHUNK
        return match + 1 if self.hypothesis[place + 1] == self.reference[match + 1] else NO_CHUNK


def _cheapest(candidates: Iterable[Tuple[State, Cost]]) -> Dict[State, Cost]:
    """Keep the cheapest candidate of each state, the first of equally cheap ones."""
    states: Dict[State, Cost] = {}
    for state, cost in candidates:
        if state not in states or cost < states[state]:
            states[state] = cost
    return states
