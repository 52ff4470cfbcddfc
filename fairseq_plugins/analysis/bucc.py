"""Mining of translation pairs as in BUCC: files, candidates, threshold, F1."""

from typing import Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from ..ops.neighbours import Matches
from .text import read_lines

Gold = Set[Tuple[int, int]]
"""True translation pairs: number of a first sentence, number of its second sentence."""


class Mined(NamedTuple):
    """A candidate translation: the numbers of two sentences; a larger score is better."""

    score: float
    first: int
    second: int


class Quality(NamedTuple):
    """Quality of a set of pairs, each number in [0, 1]; 0 if the set is empty."""

    precision: float
    recall: float
    f1: float


def read_sentences(path: str, limit: Optional[int] = None) -> Dict[str, str]:
    """Read ``id<TAB>sentence`` lines, in their order.

    Raises:
        ValueError: a line without a tab, or an id twice; names file and line.
    """
    sentences: Dict[str, str] = {}
    for number, line in enumerate(read_lines(path, limit), start=1):
        name, tab, sentence = line.partition("\t")
        if not tab or not name:
            raise ValueError(f"{path}, line {number}: {line[:60]!r}; valid: id<TAB>sentence")
        if name in sentences:
            raise ValueError(f"{path}, line {number}: the id {name} is there twice")
        sentences[name] = sentence
    return sentences


def read_gold(
    path: str, first: Sequence[str], second: Sequence[str], skip_unknown: bool = False
) -> Gold:
    """Read the true pairs, ``id<TAB>id`` lines.

    Args:
        first, second: ids of the two sides.
        skip_unknown: leave out pairs with an unknown id, as ``--limit`` makes them; else they are
            an error.

    Raises:
        ValueError: a malformed line, an id that no sentence has, or no pair at all.
    """
    first_numbers = {name: number for number, name in enumerate(first)}
    second_numbers = {name: number for number, name in enumerate(second)}
    gold: Gold = set()
    for number, line in enumerate(read_lines(path), start=1):
        names = line.split("\t")
        if len(names) != 2:
            raise ValueError(f"{path}, line {number}: {line[:60]!r}; valid: id<TAB>id")
        x, y = first_numbers.get(names[0]), second_numbers.get(names[1])
        if x is not None and y is not None:
            gold.add((x, y))
        elif not skip_unknown:
            unknown = names[0] if x is None else names[1]
            raise ValueError(f"{path}, line {number}: no sentence has the id {unknown}")
    if not gold:
        raise ValueError(f"{path}: no pair of sentences that are there")
    return gold


def mine(matches: Matches) -> List[Mined]:
    """Choose one-to-one pairs from the best partners in both directions, best first.

    The candidates are each sentence of either side with its best partner. They are taken by score,
    best first, and a candidate becomes a pair if neither sentence has a partner yet. Ties are
    broken by the numbers of the sentences.

    Source: Artetxe and Schwenk 2019, section 3.2 (max. score).
    """
    forward, backward = matches.forward.tolist(), matches.backward.tolist()
    candidates = set()
    for first, (second, score) in enumerate(zip(forward, matches.forward_scores.tolist())):
        candidates.add(Mined(score, first, second))
    for second, (first, score) in enumerate(zip(backward, matches.backward_scores.tolist())):
        candidates.add(Mined(score, first, second))
    firsts: Set[int] = set()
    seconds: Set[int] = set()
    pairs = []
    for pair in sorted(candidates, key=lambda pair: (-pair.score, pair.first, pair.second)):
        if pair.first not in firsts and pair.second not in seconds:
            pairs.append(pair)
            firsts.add(pair.first)
            seconds.add(pair.second)
    return pairs


def quality(mined: Sequence[Mined], gold: Gold, threshold: float) -> Quality:
    """Score the pairs whose score is not below ``threshold``."""
    pairs = [pair for pair in mined if pair.score >= threshold]
    return _quality(sum((pair.first, pair.second) in gold for pair in pairs), len(pairs), len(gold))


def best_threshold(mined: Sequence[Mined], gold: Gold) -> float:
    """Find the threshold with the largest F1 on these pairs, the highest one if several tie.

    It lies halfway between two neighbouring scores, or at the lowest score if all pairs count.

    Args:
        mined: pairs of :func:`mine`, best first.

    Raises:
        ValueError: there are no pairs.
    """
    if not mined:
        raise ValueError("no candidate pairs; valid: sentences on both sides")
    best, threshold, correct = -1.0, mined[0].score, 0
    for count, pair in enumerate(mined, start=1):
        correct += (pair.first, pair.second) in gold
        following = mined[count].score if count < len(mined) else None
        if following == pair.score:
            continue
        f1 = _quality(correct, count, len(gold)).f1
        if f1 > best:
            best = f1
            threshold = pair.score if following is None else (pair.score + following) / 2
    return threshold


def _quality(correct: int, count: int, gold: int) -> Quality:
    """Score ``count`` mined pairs, of which ``correct`` are among the ``gold`` true pairs."""
    precision = correct / count if count else 0.0
    return Quality(precision, correct / gold, 2 * correct / (count + gold))
