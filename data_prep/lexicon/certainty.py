"""Compare a lexicon with chance: numbers after a random rotation, words that both sides have."""

from typing import Any, Dict, List, NamedTuple, Sequence

from .. import cli

SAMPLE_WORDS = 5000  # most frequent words of each side
CHANCE_SEED = 1
# Least ratio to the same number after a random rotation. A learned map of unrelated vectors raises
# the margin and the objective too, for that is what it is learned for, but not the mutual rate: it
# stays near 1.0 times chance there, and was 1.5 times and more on real pairs of languages.
MIN_RATIOS = {"mutual": 1.25, "margin": 1.5, "objective": 1.05}
TITLES = {
    "mutual": "mutual neighbours",
    "margin": "margin of the best partner",
    "objective": "mean cosine of the nearest word",
}
# Names, numerals and loans: in right lexicons, 39 and 49 of 100 words that both sides have were
# their own partner; in wrong ones whose other numbers were all good, 1.
MIN_ALIKE_SHARE, MIN_ALIKE_WORDS = 0.1, 20


class Verdict(NamedTuple):
    """Certainty of the partners.

    Attributes:
        actual: ``mutual`` (share of words whose partner's partner they are), ``margin`` (mean
            difference between the CSLS of the best and of the second partner), ``objective``
            (mean cosine with the nearest word).
        chance: the same after a random rotation of the source.
        alike: ``words`` that both sides have, and the share of them that are their own partner,
            ``found``.
        warnings: numbers that look random.
        not_checked: numbers that could not be computed, and why: no warning means nothing there.
    """

    actual: Dict[str, float]
    chance: Dict[str, float]
    alike: Dict[str, float]
    warnings: List[str]
    not_checked: List[str]

    def is_unaligned(self) -> bool:
        """Return True if nothing is above chance: the sides were never brought into one space."""
        return all(_is_random(self.actual, self.chance, name) for name in MIN_RATIOS)

    def as_json(self) -> Dict[str, Any]:
        """Return the verdict for a report."""
        return {
            "found": self.actual,
            "chance": self.chance,
            "alike": self.alike,
            "looks_random": bool(self.warnings),
            "warnings": self.warnings,
            "not_checked": self.not_checked,
        }


def report(verb: str, warnings: Sequence[str], not_checked: Sequence[str]) -> None:
    """Print warnings and what was not checked on standard error."""
    for text in warnings:
        cli.say(f"{verb}: warning: {text}")
    for text in not_checked:
        cli.say(f"{verb}: not checked: {text}")


def judge(
    source: Any, target: Any, words: Sequence[Sequence[str]], neighbours: int, block: int
) -> Verdict:
    """Compare mapped vectors with chance, and check the words that both sides have.

    Args:
        source: (M, C) mapped vectors, the most frequent word first; tensor.
        target: (N, C) tensor.
        words: words of both sides.
        neighbours: nearest words of CSLS.
        block: words of each side that are compared at a time.
    """
    import torch

    from fairseq_plugins.ops.csls import Csls
    from fairseq_plugins.ops.neighbours import unit_rows

    x, y = unit_rows(source[:SAMPLE_WORDS]), unit_rows(target[:SAMPLE_WORDS])
    draws = torch.randn(x.size(1), x.size(1), generator=torch.Generator().manual_seed(CHANCE_SEED))
    rotation = torch.linalg.qr(draws)[0].to(x)
    csls = Csls(x, y, neighbours, block)
    actual = _round(csls.certainty())
    chance = _round(Csls(x @ rotation, y, neighbours, block).certainty())
    alike = _count_alike(csls.partners()[0].tolist(), words)
    warnings = _list_warnings(actual, chance, alike)
    return Verdict(actual, chance, alike, warnings, _list_unchecked(alike))


def _round(certainty: Any) -> Dict[str, float]:
    return {name: round(number, 4) for name, number in certainty._asdict().items()}


def _count_alike(partners: List[int], words: Sequence[Sequence[str]]) -> Dict[str, float]:
    rows = {word: row for row, word in enumerate(words[1][:SAMPLE_WORDS])}
    count = matches = 0
    for word, partner in zip(words[0], partners):
        if word in rows:
            count += 1
            matches += partner == rows[word]
    return {"words": count, "found": round(matches / count, 4) if count else 0.0}


def _is_random(actual: Dict[str, float], chance: Dict[str, float], name: str) -> bool:
    return actual[name] < MIN_RATIOS[name] * chance[name]


def _list_warnings(
    actual: Dict[str, float], chance: Dict[str, float], alike: Dict[str, float]
) -> List[str]:
    warnings = []
    for name, title in TITLES.items():
        if _is_random(actual, chance, name):
            numbers = f"{actual[name]:.3f}, and {chance[name]:.3f} after a random rotation"
            warnings.append(f"{title} {numbers}: the lexicon looks random")
    if alike["words"] >= MIN_ALIKE_WORDS and alike["found"] < MIN_ALIKE_SHARE:
        warnings.append(
            f"of {alike['words']} words that both sides have, {alike['found']:.1%} are their own "
            "partner: the lexicon looks random, or the two only look alike; "
            "try --seed-from identical"
        )
    return warnings


def _list_unchecked(alike: Dict[str, float]) -> List[str]:
    if alike["words"] >= MIN_ALIKE_WORDS:
        return []
    return [
        f"identical words: both sides have {alike['words']} among their {SAMPLE_WORDS:,} most "
        f"frequent ones, and {MIN_ALIKE_WORDS} are needed; a map that is consistent but wrong "
        "would not be noticed"
    ]
