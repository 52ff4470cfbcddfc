"""Does a lexicon look random? Mutual neighbours, margin and objective against those of a random rotation of the same vectors."""

from typing import Any, Dict, List, NamedTuple

SAMPLE_WORDS = 5000  # most frequent ones of each side
CHANCE_SEED = 1
# What is found must be so many times as large as after a random rotation. A learned map of unrelated vectors raises the margin and
# the objective too, for that is what it is learned for, but not the mutual rate: it stays near 1.0 times chance there, and was 1.5
# times and more on real pairs of languages.
LEAST_RATIO = {"mutual": 1.25, "margin": 1.5, "objective": 1.05}


class Verdict(NamedTuple):
    """How sure the partners are.

    Attributes:
        found: ``mutual`` (share of words whose partner's partner they are), ``margin`` (mean difference between the CSLS of the
            best and of the second partner), ``objective`` (mean cosine with the nearest word).
        chance: the same after a random rotation of the source.
        warnings: what looks random; none where all is well.
    """

    found: Dict[str, float]
    chance: Dict[str, float]
    warnings: List[str]

    def as_json(self) -> Dict[str, Any]:
        """For a report."""
        return {
            "found": self.found,
            "chance": self.chance,
            "looks_random": bool(self.warnings),
            "warnings": self.warnings,
        }


def look(source: Any, target: Any, neighbours: int, block: int) -> Verdict:
    """Compare mapped vectors with chance.

    Args:
        source: (M, C) mapped vectors, the most frequent word first; tensors.
        target: (N, C).
        neighbours: nearest words of CSLS.
        block: words of each side that are compared at a time.
    """
    import torch

    from fairseq_plugins.ops.csls import Csls
    from fairseq_plugins.ops.neighbours import unit_rows

    x, y = unit_rows(source[:SAMPLE_WORDS]), unit_rows(target[:SAMPLE_WORDS])
    draws = torch.randn(x.size(1), x.size(1), generator=torch.Generator().manual_seed(CHANCE_SEED))
    rotation = torch.linalg.qr(draws)[0].to(x)
    found, chance = (
        {name: round(value, 4) for name, value in Csls(side, y, neighbours, block).certainty()._asdict().items()}
        for side in (x, x @ rotation)
    )
    return Verdict(found, chance, _warnings(found, chance))


def _warnings(found: Dict[str, float], chance: Dict[str, float]) -> List[str]:
    titles = {
        "mutual": "mutual neighbours",
        "margin": "margin of the best partner",
        "objective": "mean cosine of the nearest word",
    }
    return [
        f"{titles[name]} {found[name]:.3f}, and {chance[name]:.3f} after a random rotation: the lexicon looks random"
        for name in titles
        if found[name] < LEAST_RATIO[name] * chance[name]
    ]
