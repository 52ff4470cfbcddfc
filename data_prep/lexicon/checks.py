"""Does a lexicon look random? Mutual neighbours, margin and objective against a random rotation; words that both sides have."""

from typing import Any, Dict, List, NamedTuple, Sequence

SAMPLE_WORDS = 5000  # most frequent ones of each side
CHANCE_SEED = 1
# What is found must be so many times as large as after a random rotation. A learned map of unrelated vectors raises the margin and
# the objective too, for that is what it is learned for, but not the mutual rate: it stays near 1.0 times chance there, and was 1.5
# times and more on real pairs of languages.
LEAST_RATIO = {"mutual": 1.25, "margin": 1.5, "objective": 1.05}
# Names, numerals and loans: in lexicons that were right, 39 and 49 of 100 words that both sides have were their own partner; in
# wrong ones whose other numbers were all good, 1.
LEAST_ALIKE, FEWEST_ALIKE = 0.1, 20


class Verdict(NamedTuple):
    """How sure the partners are.

    Attributes:
        found: ``mutual`` (share of words whose partner's partner they are), ``margin`` (mean difference between the CSLS of the
            best and of the second partner), ``objective`` (mean cosine with the nearest word).
        chance: the same after a random rotation of the source.
        alike: ``words`` that both sides have, and the share of them that are their own partner, ``found``.
        warnings: what looks random; none where all is well.
        not_checked: what could not be looked at, and why: there, no warning means nothing.
    """

    found: Dict[str, float]
    chance: Dict[str, float]
    alike: Dict[str, float]
    warnings: List[str]
    not_checked: List[str]

    @property
    def unaligned(self) -> bool:
        """Nothing is above chance: the two sides were never brought into one space. A learned map, even of unrelated sides, is."""
        return all(
            self.found[name] < ratio * self.chance[name] for name, ratio in LEAST_RATIO.items()
        )

    def as_json(self) -> Dict[str, Any]:
        """For a report."""
        return {
            "found": self.found,
            "chance": self.chance,
            "alike": self.alike,
            "looks_random": bool(self.warnings),
            "warnings": self.warnings,
            "not_checked": self.not_checked,
        }


def look(
    source: Any, target: Any, words: Sequence[Sequence[str]], neighbours: int, block: int
) -> Verdict:
    """Compare mapped vectors with chance, and look at the words that both sides have.

    Args:
        source: (M, C) mapped vectors, the most frequent word first; tensors.
        target: (N, C).
        words: those of both sides.
        neighbours: nearest words of CSLS.
        block: words of each side that are compared at a time.
    """
    import torch

    from fairseq_plugins.ops.csls import Csls
    from fairseq_plugins.ops.neighbours import unit_rows

    x, y = unit_rows(source[:SAMPLE_WORDS]), unit_rows(target[:SAMPLE_WORDS])
    draws = torch.randn(x.size(1), x.size(1), generator=torch.Generator().manual_seed(CHANCE_SEED))
    rotation = torch.linalg.qr(draws)[0].to(x)
    near = Csls(x, y, neighbours, block), Csls(x @ rotation, y, neighbours, block)
    found, chance = (
        {name: round(value, 4) for name, value in each.certainty()._asdict().items()}
        for each in near
    )
    alike = _alike(near[0].partners()[0].tolist(), words)
    return Verdict(found, chance, alike, _warnings(found, chance, alike), _not_checked(alike))


def _alike(partners: List[int], words: Sequence[Sequence[str]]) -> Dict[str, float]:
    rows = {word: row for row, word in enumerate(words[1][:SAMPLE_WORDS])}
    own = [partner == rows[word] for word, partner in zip(words[0], partners) if word in rows]
    return {"words": len(own), "found": round(sum(own) / len(own), 4) if own else 0.0}


def _warnings(
    found: Dict[str, float], chance: Dict[str, float], alike: Dict[str, float]
) -> List[str]:
    titles = {
        "mutual": "mutual neighbours",
        "margin": "margin of the best partner",
        "objective": "mean cosine of the nearest word",
    }
    random = [
        f"{titles[name]} {found[name]:.3f}, and {chance[name]:.3f} after a random rotation: the lexicon looks random"
        for name in titles
        if found[name] < LEAST_RATIO[name] * chance[name]
    ]
    if alike["words"] >= FEWEST_ALIKE and alike["found"] < LEAST_ALIKE:
        random.append(
            f"of {alike['words']} words that both sides have, {alike['found']:.1%} are their own partner: the lexicon looks "
            "random, or the two only look alike; try --seed-from identical"
        )
    return random


def _not_checked(alike: Dict[str, float]) -> List[str]:
    if alike["words"] >= FEWEST_ALIKE:
        return []
    return [
        f"identical words: both sides have {alike['words']} among their {SAMPLE_WORDS:,} most frequent ones, and {FEWEST_ALIKE} "
        "are needed; a map that is consistent but wrong would not be noticed"
    ]
