"""Mining of translation pairs as in BUCC: files, candidate pairs, the threshold found on the development set, F1."""

import itertools
from typing import Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from ..ops.neighbours import Matches
from .text import read_lines


class Mined(NamedTuple):
    """Two sentences, by their numbers, that were found to be translations of each other; a larger score is better."""

    score: float
    first: int
    second: int


class Quality(NamedTuple):
    """Of a set of pairs, each in [0, 1]; 0 where nothing was found."""

    precision: float
    recall: float
    f1: float


def read_sentences(path: str, limit: Optional[int] = None) -> Dict[str, str]:
    """Id -> sentence of a file with ``id<TAB>sentence`` lines, in their order.

    Raises ValueError: a line without a tab, or an id twice; names file and line.
    """
    found: Dict[str, str] = {}
    for number, line in enumerate(read_lines(path, limit), start=1):
        name, tab, sentence = line.partition("\t")
        if not tab or not name:
            raise ValueError(f"{path}, line {number}: {line[:60]!r}; valid: id<TAB>sentence")
        if name in found:
            raise ValueError(f"{path}, line {number}: the id {name} is there twice")
        found[name] = sentence
    return found


def read_gold(path: str, first: Sequence[str], second: Sequence[str], cut: bool = False) -> Set[Tuple[int, int]]:
    """Pairs of numbers of sentences, of a file with ``id<TAB>id`` lines.

    ``first`` and ``second`` are the ids of the two sides. With ``cut`` (``--limit``) pairs with a sentence that is not there are
    left out instead of refused.

    Raises ValueError: a line of another form, an id that no sentence has, or no pair at all.
    """
    places = [{name: number for number, name in enumerate(side)} for side in (first, second)]
    found: Set[Tuple[int, int]] = set()
    for number, line in enumerate(read_lines(path), start=1):
        names = line.split("\t")
        if len(names) != 2:
            raise ValueError(f"{path}, line {number}: {line[:60]!r}; valid: id<TAB>id")
        unknown = [name for name, side in zip(names, places) if name not in side]
        if unknown and not cut:
            raise ValueError(f"{path}, line {number}: no sentence has the id {unknown[0]}")
        if not unknown:
            found.add((places[0][names[0]], places[1][names[1]]))
    if not found:
        raise ValueError(f"{path}: no pair of sentences that are there")
    return found


def mine(matches: Matches) -> List[Mined]:
    """One-to-one pairs from the best partners in both directions, best first.

    Candidates are each sentence of either side with its best partner. From the best score down, a candidate is taken if neither
    sentence is taken yet; equal scores go by the numbers of the sentences.

    Source: Artetxe and Schwenk 2019, section 3.2 (max. score).
    """
    forward = zip(matches.forward_scores.tolist(), itertools.count(), matches.forward.tolist())
    backward = zip(matches.backward_scores.tolist(), matches.backward.tolist(), itertools.count())
    candidates = {Mined(*one) for one in itertools.chain(forward, backward)}
    taken: Tuple[Set[int], Set[int]] = (set(), set())
    found = []
    for one in sorted(candidates, key=lambda one: (-one.score, one.first, one.second)):
        if one.first not in taken[0] and one.second not in taken[1]:
            found.append(one)
            taken[0].add(one.first)
            taken[1].add(one.second)
    return found


def quality(mined: Sequence[Mined], gold: Set[Tuple[int, int]], threshold: float) -> Quality:
    """Precision, recall and F1 of the pairs whose score is not below ``threshold``."""
    kept = [one for one in mined if one.score >= threshold]
    return _quality(sum((one.first, one.second) in gold for one in kept), len(kept), len(gold))


def best_threshold(mined: Sequence[Mined], gold: Set[Tuple[int, int]]) -> float:
    """The threshold with the largest F1 on these pairs.

    It lies halfway between the worst score that is kept and the best one that is not; of equally good ones it is the highest.
    Equal scores are kept or left together. ``mined`` is from :func:`mine`, best first.

    Raises ValueError: nothing was mined.
    """
    if not mined:
        raise ValueError("no candidate pairs; valid: sentences on both sides")
    best, threshold, right = -1.0, mined[0].score, 0
    for count, one in enumerate(mined, start=1):
        right += (one.first, one.second) in gold
        following = mined[count].score if count < len(mined) else None
        if following == one.score:
            continue
        f1 = _quality(right, count, len(gold)).f1
        if f1 > best:
            best = f1
            threshold = one.score if following is None else (one.score + following) / 2
    return threshold


def _quality(right: int, kept: int, gold: int) -> Quality:
    precision, recall = right / kept if kept else 0.0, right / gold
    return Quality(precision, recall, 2 * right / (kept + gold))
