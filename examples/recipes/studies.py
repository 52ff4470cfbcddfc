"""Studies as files: arms x directions x seeds with one budget and grids of one size."""

import itertools
from pathlib import Path
from string import Template
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .arms import Arm, make_stage, read_arm
from .systems import HERE, PAPER, SMALL, RecipeError, check, check_size, list_names, read_chain

STUDIES, SETS = HERE.parent / "studies", HERE.parent / "sets"
TEXTS = ("finding", "cannot_tell", "notes")
"""Keys that a study does not take over from the one it is like."""
REFUSED = "Refused:"
"""First word of the notes on arms that do not run in a direction."""


class Claim(NamedTuple):
    """A hypothesis: one output scores better than another; each is an (arm, output)."""

    better: Tuple[str, str]
    worse: Tuple[str, str]


class Job(NamedTuple):
    """A run: a point of an arm's grid, in a direction, with a seed.

    Attributes:
        phase: ``tune`` or ``final``.
        arm: what is trained.
        pair: the direction.
        seed: of the trainings.
        point: index into the arm's grid.
        limits: the study's budget in this phase.
    """

    phase: str
    arm: Arm
    pair: str
    seed: int
    point: int
    limits: Mapping[str, Any]

    @property
    def key(self) -> str:
        """Return the run's key in the ledger, which is also the name of its folder."""
        return f"{self.phase}/{self.pair}/{slug(self.arm.name)}-{self.point}/seed{self.seed}"

    @property
    def options(self) -> List[str]:
        """Return the point of the grid as words of a command line."""
        words: List[str] = []
        for name, option in self.arm.grid[self.point].items():
            words += [f"--{name}"] if option is True else [f"--{name}", str(option)]
        return words


class Study(NamedTuple):
    """A study; ``schema.yaml`` explains the keys of its file."""

    name: str
    title: str
    finding: str
    cannot_tell: str
    notes: Tuple[str, ...]
    set: Mapping[str, Any]
    values: Mapping[str, Any]
    directions: Tuple[str, ...]
    seeds: Tuple[int, ...]
    budget: Mapping[str, Mapping[str, Any]]
    metrics: Optional[Mapping[str, str]]
    score: str
    assets: Mapping[str, Mapping[str, Any]]
    arms: Tuple[Arm, ...]
    claims: Tuple[Claim, ...]
    code: Tuple[str, ...]
    size: str = SMALL

    def metric(self, pair: str) -> str:
        """Return the validation metric of a direction; of translations it is BLEU."""
        return self.metrics[pair] if self.metrics else "bleu"

    @property
    def by_updates(self) -> bool:
        """Return True if a final run is limited by updates or epochs alone, not by minutes."""
        return "minutes" not in self.budget["final"]

    @property
    def refusals(self) -> List[str]:
        """Return the notes on arms that do not run in a direction."""
        return [note for note in self.notes if note.startswith(REFUSED)]

    def each_seed(self, asset: str) -> bool:
        """Return True if each seed has this asset of its own."""
        return bool(self.assets[asset].get("each_seed"))

    def target(self, pair: str) -> str:
        """Return the language of the outputs of a direction."""
        return pair.partition("-")[2]

    def files(self, job: Job) -> Dict[str, str]:
        """Map each output of a run to its file: a text, or a log of fairseq-validate."""
        ending = "log" if self.metrics else self.target(job.pair)
        return {stem: f"{stem}.{ending}" for stem in job.arm.outputs}

    def limit(self, phase: str) -> str:
        """Describe the limits of a training in a phase: updates, minutes or both."""
        return describe_limits(self.budget[phase])

    def reference(self, pair: str, data: Path, out: Path) -> Path:
        """Return the reference file of the test set.

        Args:
            pair: the direction.
            data: folder of the raw files.
            out: folder of the study, where the set may have made the file.
        """
        source, _, target = pair.partition("-")
        values = {"data": data, "source": source, "target": target}
        return out / Template(self.set["reference"]).substitute(values)

    def settings(self) -> Dict[str, Any]:
        """Return the part of the study that results depend on; it enters the digest of the code.

        Seeds, claims and texts are no part of it. The constants None and ``tests`` stay from an
        earlier format: without them the digests of published runs would change.
        """
        arms = {}
        for arm in self.arms:
            stages = [stage._asdict() for stage in arm.stages]
            decoding = [arm.decoding, arm.grid, arm.directions, None, arm.scoring]
            arms[arm.name] = [stages, arm.start, arm.best, *decoding]
        sized = {} if self.size == SMALL else {"size": self.size}
        return {
            **sized,
            "arms": arms,
            "set": {key: entry for key, entry in self.set.items() if key != "title"},
            "assets": self.assets,
            "values": self.values,
            "budget": self.budget,
            "metrics": self.metrics,
            "tests": {},
            "score": self.score,
        }

    def tuning(self) -> List[Job]:
        """List the tuning runs: all points of grids, on the first direction and seed.

        A grid of one point needs no run.
        """
        pair, seed = self.directions[0], self.seeds[0]
        jobs = []
        for arm in self.arms:
            for point in range(len(arm.grid)) if len(arm.grid) > 1 else ():
                jobs.append(Job("tune", arm, pair, seed, point, self.budget["tune"]))
        return jobs

    def final(self, points: Optional[Mapping[str, int]] = None) -> List[Job]:
        """List the final runs: every arm in every direction with every seed.

        Seeds are outermost, so that a study that ends early has whole rows.

        Args:
            points: arm -> point of its grid (default: the first one of each).
        """
        jobs = []
        for seed, pair, arm in itertools.product(self.seeds, self.directions, self.arms):
            if pair not in arm.refused:
                point = points[arm.name] if points else 0
                jobs.append(Job("final", arm, pair, seed, point, self.budget["final"]))
        return jobs

    def job(self, key: str) -> Job:
        """Return the run of that key. Raises KeyError."""
        phase, pair, point, seed = key.split("/")
        for arm in self.arms:
            for number in range(len(arm.grid)):
                if f"{slug(arm.name)}-{number}" == point:
                    limits = self.budget[phase]
                    return Job(phase, arm, pair, int(seed.removeprefix("seed")), number, limits)
        raise KeyError(key)


def describe_limits(limits: Mapping[str, Any]) -> str:
    """Describe the limits of a training: epochs, updates, minutes or several."""
    units = [unit for unit in ("epochs", "updates", "minutes") if unit in limits]
    return " or ".join(f"{limits[unit]:,} {unit}" for unit in units)


def slug(name: str) -> str:
    """Turn a name into a part of a path."""
    return "".join(letter if letter.isalnum() else "_" for letter in name.lower()).strip("_")


def read_study(path: Path, size: str = SMALL) -> Study:
    """Read and check a study.

    Args:
        path: FOLDER/NAME.yaml, where NAME is a file of the folder or a variant in one.
        size: one of ``systems.SIZES``.

    Raises:
        RecipeError: an unknown key, system, set or size, grids of different sizes, or a claim
            about an output that no arm has.
    """
    content = _merge_chain(path, size)
    own_sets = path.resolve().parent.parent / "sets"
    folder = own_sets if content["set"] in list_names(own_sets) else SETS
    try:
        set_content = read_set(content["set"], folder, content["directions"])
    except RecipeError as error:
        raise RecipeError(f"{path}: {error}") from error
    assets = content.get("assets", {})
    _check_assets(path, assets, size)
    entries = content["arms"].items()
    arms = tuple(read_arm(path, name, entry, assets, size) for name, entry in entries)
    _check_grids(path, content, arms)
    _check_scoring(path, content, set_content, arms)
    _check_values(path, content, set_content)
    return Study(
        name=path.stem,
        title=content["title"],
        finding=content.get("finding", ""),
        cannot_tell=content.get("cannot_tell", ""),
        notes=(*content.get("notes", ()), *_list_refusals(arms, content["directions"])),
        set=set_content,
        values={**set_content.get("values", {}), **content.get("values", {})},
        directions=tuple(content["directions"]),
        seeds=tuple(content["seeds"]),
        budget=content["budget"],
        metrics=content.get("metrics"),
        score=content.get("score", "bleu"),
        assets=assets,
        arms=arms,
        claims=_read_claims(path, content["claims"], arms),
        code=tuple(content.get("code", ())),
        size=size,
    )


def _read_claims(path: Path, entries: Sequence[Any], arms: Sequence[Arm]) -> Tuple[Claim, ...]:
    """Read the claims. Raises RecipeError if a claim names no output of an arm."""
    valid = sorted([arm.name, stem] for arm in arms for stem in arm.outputs)
    claims = []
    for entry in entries:
        sides = [[entry[name][0], str(entry[name][1])] for name in ("better", "worse")]
        for side in sides:
            if side not in valid:
                raise RecipeError(f"{path}: claims: {side}: valid: {', '.join(map(str, valid))}")
        claims.append(Claim(*map(tuple, sides)))
    return tuple(claims)


def _list_refusals(arms: Sequence[Arm], directions: Sequence[str]) -> List[str]:
    """Return a note for each reason why an arm does not run in some directions."""
    notes = []
    for arm in arms:
        reasons = {pair: arm.refused[pair] for pair in directions if pair in arm.refused}
        for reason in dict.fromkeys(reasons.values()):
            pairs = [pair for pair in reasons if reasons[pair] == reason]
            notes.append(f"{REFUSED} {arm.name} of {', '.join(pairs)}: {reason}.")
    return notes


def _check_grids(path: Path, content: Mapping[str, Any], arms: Sequence[Arm]) -> None:
    """Raise RecipeError unless all grids have one size, and a budget if they are tuned."""
    sizes = {arm.name: len(arm.grid) for arm in arms}
    if len(set(sizes.values())) != 1:
        raise RecipeError(f"{path}: arms: valid: grids of one size, got {sizes}")
    if max(sizes.values()) > 1 and "tune" not in content["budget"]:
        raise RecipeError(f"{path}: budget: grids of several points need tune as well")


def _check_scoring(
    path: Path,
    content: Mapping[str, Any],
    set_content: Mapping[str, Any],
    arms: Sequence[Arm],
) -> None:
    """Raise RecipeError unless metrics, outputs and the set's reference fit together."""
    metrics, directions = content.get("metrics"), content["directions"]
    if metrics is None and "reference" not in set_content:
        name = content["set"]
        raise RecipeError(f"{path}: set {name}: has no reference, which scores of texts need")
    if metrics is not None and set(metrics) != set(directions):
        raise RecipeError(f"{path}: metrics: {metrics}: valid: one for each of {directions}")
    if metrics is not None and "score" in content:
        raise RecipeError(f"{path}: score: valid where texts are scored, not beside metrics")
    for arm in arms:
        if arm.scoring and metrics is None:
            key = f"arms.{arm.name}.outputs: run"
            raise RecipeError(f"{path}: {key}: valid in a study with metrics")


def _check_values(
    path: Path,
    content: Mapping[str, Any],
    set_content: Mapping[str, Any],
) -> None:
    """Raise RecipeError if a study sets values that its set does not have."""
    valid = set_content.get("values", {})
    unknown = ", ".join(sorted(set(content.get("values", {})) - set(valid)))
    if unknown:
        raise RecipeError(f"{path}: values: {unknown}: valid: {', '.join(valid) or 'none'}")


def _check_assets(path: Path, assets: Mapping[str, Any], size: str) -> None:
    """Check the assets one by one.

    Raises:
        RecipeError: an asset for all seeds would be made of an asset of each seed, or a training
            has no limits.
    """
    for name, entry in assets.items():
        if "system" in entry and not make_stage(entry, "", size).limits:
            raise RecipeError(f"{path}: assets.{name}: limits: missing; a training needs them")
        for origin in (entry.get("start"), *entry.get("needs", ())):
            if assets.get(origin, {}).get("each_seed") and not entry.get("each_seed"):
                valid = f"valid: each_seed for {name} too"
                raise RecipeError(f"{path}: assets.{name}: {origin} is one of each seed; {valid}")


def _merge_chain(path: Path, size: str) -> Dict[str, Any]:
    """Merge a study with those it is like; of their :data:`TEXTS` nothing is taken over.

    At paper size the section ``paper`` of the last one that has it comes on top, with the claims
    and texts that it states itself. Its values replace some of the study's, unless it has a set.
    """
    check_size(size)
    merged: Dict[str, Any] = {}
    paper: Optional[Dict[str, Any]] = None
    for entry in read_chain(path.stem, path.parent, "study"):
        paper = entry.pop("paper", paper)
        merged = {key: merged[key] for key in merged if key not in TEXTS}
        merged.update(entry)
    if size == PAPER:
        if paper is None:
            raise RecipeError(f"{path}: SIZE {PAPER}: has no section paper; valid: {SMALL}")
        merged = {key: merged[key] for key in merged if key not in TEXTS}
        values = {} if "set" in paper else merged.get("values", {})
        values = {**values, **paper.get("values", {})}
        merged.update({"claims": [], **paper, **({"values": values} if values else {})})
    check(merged, "study", path)
    return merged


def read_set(name: str, folder: Path, directions: Sequence[str]) -> Dict[str, Any]:
    """Read the set of that name, merged with those it is like.

    Languages and pairs are those of the directions where the set names none.

    Raises:
        RecipeError: no such set, or one without steps.
    """
    content: Dict[str, Any] = {}
    for entry in read_chain(name, folder, "set"):
        content.update(entry)
    if not content.get("steps"):
        raise RecipeError(f"set {name}: has no steps, nor has a set that it is like")
    pairs = [direction for direction in directions if "-" in direction]
    languages = dict.fromkeys(language for pair in pairs for language in pair.split("-"))
    unordered = {frozenset(pair.split("-")): pair for pair in reversed(pairs)}
    defaults = {"languages": list(languages), "pairs": list(reversed(unordered.values()))}
    return {**defaults, **content}
