"""A sweep as written in YAML: arms x directions x seeds, an equal tuning grid and an equal wall time for every arm."""

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from omegaconf import OmegaConf

from data_prep.score import TITLES

KEYS = {"name", "title", "prepare", "assets", "code", "reference", "directions", "seeds", "minutes", "arms", "claims"}
OPTIONAL_KEYS = {"metrics", "score", "notes"}
ARM_KEYS = {"train", "evaluate", "outputs", "grid"}


@dataclass(frozen=True)
class Arm:
    """One system.

    Attributes:
        name: shown in tables.
        train: command; ``{out} {run} {hours} {seed} {pair} {options}`` are filled in.
        evaluate: command that writes the outputs; ``{out} {run} {keep} {seed} {pair}`` are filled in.
        outputs: file stem that ``evaluate`` writes -> how it is decoded, for the table.
        grid: one tuple of options a point, in order; the first one is the default.
    """

    name: str
    train: str
    evaluate: str
    outputs: Dict[str, str]
    grid: Tuple[Tuple[str, ...], ...]


@dataclass(frozen=True)
class Claim:
    """A difference that the sweep is asked about: ``better`` and ``worse`` are (arm, output)."""

    better: Tuple[str, str]
    worse: Tuple[str, str]


@dataclass(frozen=True)
class Job:
    """One training run.

    Attributes:
        phase: ``tune`` or ``final``.
        arm: see :class:`Arm`.
        pair: SOURCE-TARGET, or the task where the plan has metrics.
        seed: of the training.
        options: the point of the grid.
        minutes: wall time of the training.
    """

    phase: str
    arm: Arm
    pair: str
    seed: int
    options: Tuple[str, ...]
    minutes: float

    @property
    def key(self) -> str:
        """Identifies the run in the ledger; also the name of its folder."""
        point = self.arm.grid.index(self.options)
        return f"{self.phase}/{self.pair}/{slug(self.arm.name)}-{point}/seed{self.seed}"


@dataclass(frozen=True)
class Plan:
    """The whole sweep; see ``README.md`` for the YAML."""

    name: str
    title: str
    prepare: Tuple[str, ...]
    assets: Tuple[str, ...]
    code: Tuple[str, ...]
    reference: str
    directions: Tuple[str, ...]
    seeds: Tuple[int, ...]
    minutes: Dict[str, float]
    arms: Tuple[Arm, ...]
    claims: Tuple[Claim, ...]
    metrics: Optional[Dict[str, str]] = None
    score: str = "bleu"
    notes: Tuple[str, ...] = ()

    def metric(self, pair: str) -> str:
        """What counts in validation, and in the logs of a plan with metrics; texts are scored by ``score``."""
        return self.metrics[pair] if self.metrics else "bleu"

    def limit(self, phase: str) -> str:
        """Of a training in a phase, in words."""
        return f"{self.minutes[phase]:g} minutes"

    def references(self, names: Dict[str, Path], pair: str, seed: int) -> Path:
        """Pattern of the reference files."""
        return Path(self.reference.format(**names, seed=seed, target=self.target(pair)))

    def target(self, pair: str) -> str:
        """Ending of the output files."""
        return "log" if self.metrics else pair.split("-")[1]

    def settings(self) -> Dict[str, Any]:
        """What the plan itself gives to a result: part of the code's digest. Seeds, claims and texts may change freely."""
        commands = {arm.name: [arm.train, arm.evaluate, arm.grid] for arm in self.arms}
        settings = {"arms": commands, "prepare": self.prepare, "reference": self.reference, "minutes": self.minutes}
        more = {"metrics": self.metrics} if self.metrics else {}
        return {**settings, **more, **({"score": self.score} if self.score != "bleu" else {})}

    def tuning(self) -> List[Job]:
        """Every point of every arm's grid, on the first direction and seed; nothing where there is only one point."""
        pair, seed, minutes = self.directions[0], self.seeds[0], self.minutes["tune"]
        arms = [arm for arm in self.arms if len(arm.grid) > 1]
        return [Job("tune", arm, pair, seed, point, minutes) for arm in arms for point in arm.grid]

    def final(self, chosen: Dict[str, int]) -> List[Job]:
        """Every arm in every direction with every seed, seeds outermost: a sweep that ends early has whole rows.

        Args:
            chosen: arm -> number of the point of its grid.
        """
        minutes = self.minutes["final"]
        product = itertools.product(self.seeds, self.directions, self.arms)
        return [Job("final", arm, pair, seed, arm.grid[chosen[arm.name]], minutes) for seed, pair, arm in product]


def slug(name: str) -> str:
    """A name as part of a path."""
    return "".join(letter if letter.isalnum() else "_" for letter in name.lower()).strip("_")


def read_plan(path: Path) -> Plan:
    """Read and check a sweep.

    Raises:
        ValueError: unknown or missing keys, grids of different size, claims about arms that are not there.
    """
    raw: Any = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
    _check_keys(path, "", raw, KEYS | (OPTIONAL_KEYS & set(raw)))
    metrics = raw.get("metrics")
    if metrics is not None and set(metrics) != set(raw["directions"]):
        raise ValueError(f"{path}: metrics must name one of each of the directions {raw['directions']}; got {metrics}")
    if metrics is not None and "score" in raw:
        raise ValueError(f"{path}: score is for texts, metrics for logs and scores of languages; valid: one of them")
    if raw.get("score", "bleu") not in TITLES:
        raise ValueError(f"{path}: score must be one of {', '.join(TITLES)}; got {raw['score']}")
    if set(raw["minutes"]) != {"tune", "final"} or min(raw["minutes"].values()) <= 0:
        raise ValueError(f"{path}: minutes must give tune and final, both above 0; got {raw['minutes']}")
    arms = tuple(_arm(path, name, entry) for name, entry in raw["arms"].items())
    sizes = {arm.name: len(arm.grid) for arm in arms}
    if len(set(sizes.values())) != 1:
        raise ValueError(f"{path}: every arm must be tuned as hard, grids of one size; got {sizes}")
    known = {(arm.name, output) for arm in arms for output in arm.outputs}
    claims = []
    for claim in raw["claims"]:
        _check_keys(path, " claim", claim, {"better", "worse"})
        sides = {side: tuple(str(part) for part in claim[side]) for side in ("better", "worse")}
        for side, named in sides.items():
            if named not in known:
                raise ValueError(f"{path}: a claim's {side} is {list(named)}; valid: {sorted(map(list, known))}")
        claims.append(Claim(**sides))
    lists = {key: tuple(raw[key]) for key in ("prepare", "assets", "code", "directions", "seeds")}
    return Plan(
        raw["name"],
        raw["title"],
        reference=raw["reference"],
        minutes=raw["minutes"],
        arms=arms,
        claims=tuple(claims),
        metrics=metrics,
        score=raw.get("score", "bleu"),
        notes=tuple(raw.get("notes", ())),
        **lists,
    )


def _arm(path: Path, name: str, entry: Dict[str, Any]) -> Arm:
    _check_keys(path, f" arm {name}", entry, ARM_KEYS)
    outputs = {str(stem): text for stem, text in entry["outputs"].items()}
    grid = tuple(tuple(str(option) for option in point) for point in entry["grid"])
    return Arm(name, entry["train"], entry["evaluate"], outputs, grid)


def _check_keys(path: Path, where: str, entry: Dict[str, Any], valid: set) -> None:
    if set(entry) != valid:
        raise ValueError(
            f"{path}{where}: missing {sorted(valid - set(entry))}, unknown {sorted(set(entry) - valid)}; "
            f"valid: {', '.join(sorted(valid))}"
        )
