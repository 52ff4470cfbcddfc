"""Studies as files: arms x directions x seeds with one budget and grids of one size."""

import itertools
from pathlib import Path
from string import Template
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .arms import Arm, read_arm
from .systems import HERE, RecipeError, chain, check, names

STUDIES, SETS = HERE.parent / "studies", HERE.parent / "sets"
TEXTS = ("finding", "cannot_tell", "notes")
REFUSED = "Refused:"
"""How notes on arms that do not run in a direction begin."""


class Claim(NamedTuple):
    """A difference that a study is asked about: ``better`` and ``worse`` are (arm, output)."""

    better: Tuple[str, str]
    worse: Tuple[str, str]


class Job(NamedTuple):
    """One run: a point of an arm's grid in a direction with a seed, in the phase ``tune`` or ``final``."""

    phase: str
    arm: Arm
    pair: str
    seed: int
    point: int
    limits: Mapping[str, Any]

    @property
    def key(self) -> str:
        """Identifies the run in the ledger; also the name of its folder."""
        return f"{self.phase}/{self.pair}/{slug(self.arm.name)}-{self.point}/seed{self.seed}"

    @property
    def options(self) -> List[str]:
        """The point of the grid, as words of a command line."""
        words = [
            [f"--{name}"] + [str(value)] * (value is not True) for name, value in self.arm.grid[self.point].items()
        ]
        return [word for both in words for word in both]


class Study(NamedTuple):
    """The whole study; see ``schema.yaml`` for the file."""

    name: str
    title: str
    finding: str
    cannot_tell: str
    notes: Tuple[str, ...]
    set: Mapping[str, Any]
    values: Mapping[str, Any]
    directions: Tuple[str, ...]
    seeds: Tuple[int, ...]
    milestones: Tuple[int, ...]
    budget: Mapping[str, Mapping[str, Any]]
    metrics: Optional[Mapping[str, str]]
    tests: Mapping[str, str]
    score: str
    output_languages: Tuple[str, ...]
    assets: Mapping[str, Mapping[str, Any]]
    arms: Tuple[Arm, ...]
    claims: Tuple[Claim, ...]
    code: Tuple[str, ...]

    def metric(self, pair: str) -> str:
        """What counts in validation, and in the logs of a study with metrics; texts are scored by ``score``."""
        return self.metrics[pair] if self.metrics else "bleu"

    @property
    def by_updates(self) -> bool:
        """True where updates alone limit a final run, not minutes."""
        return "minutes" not in self.budget["final"]

    @property
    def refusals(self) -> List[str]:
        """Return the notes on arms that do not run in a direction."""
        return [note for note in self.notes if note.startswith(REFUSED)]

    def each_seed(self, asset: str) -> bool:
        """True where every seed has an asset of its own."""
        return bool(self.assets[asset].get("each_seed"))

    def target(self, pair: str) -> str:
        """The language of the outputs of a direction."""
        return pair.partition("-")[2]

    def expected(self, pair: str) -> Tuple[str, ...]:
        """Languages to tell outputs of a direction by, the one that they should be in first; none where that is not asked."""
        wanted = self.target(pair).rpartition("_")[2]
        return (wanted, *(name for name in self.output_languages if name != wanted)) if self.output_languages else ()

    def files(self, job: "Job") -> Dict[str, str]:
        """Output -> its file: a text, a log of fairseq-validate, or the scores of a test by language, for several outputs."""
        if self.tests:
            return {stem: f"{stem.partition('.')[0]}.json" for stem in job.arm.outputs}
        return {stem: f"{stem}.{'log' if self.metrics else self.target(job.pair)}" for stem in job.arm.outputs}

    def limit(self, phase: str) -> str:
        """Of a training in a phase, in words: updates, minutes or both."""
        return in_words(self.budget[phase])

    def references(self, names: Mapping[str, Path], pair: str, seed: int, test: str = "") -> Path:
        """Pattern of the reference files; ``names`` has the folders ``data`` and ``out``, ``test`` is a key of ``tests``."""
        split = self.tests[test] if test else self.set.get("test")
        values = {
            "data": names["data"],
            "source": pair.partition("-")[0],
            "target": self.target(pair),
            "seed": seed,
            "test": split,
        }
        return names["out"] / Template(self.set["reference"]).substitute(values)

    def settings(self) -> Dict[str, Any]:
        """What the files give to a result: part of the code's digest. Seeds, claims and texts may change freely."""
        arms = {
            arm.name: [
                [stage._asdict() for stage in arm.stages],
                arm.start,
                arm.best,
                arm.decoding,
                arm.grid,
                arm.directions,
                arm.languages,
                arm.scoring,
            ]
            for arm in self.arms
        }
        set_ = {key: self.set[key] for key in self.set if key != "title"}
        found = {
            "arms": arms,
            "set": set_,
            "assets": self.assets,
            "values": self.values,
            "budget": self.budget,
            "metrics": self.metrics,
            "tests": self.tests,
        }
        languages = {"output_languages": self.output_languages} if self.output_languages else {}
        return {**found, "score": self.score, **languages}

    def tuning(self) -> List[Job]:
        """Every point of every grid on the first direction and seed; nothing where grids have one point."""
        arms = [arm for arm in self.arms if len(arm.grid) > 1]
        points = [(arm, point) for arm in arms for point in range(len(arm.grid))]
        return [
            Job("tune", arm, self.directions[0], self.seeds[0], point, self.budget["tune"]) for arm, point in points
        ]

    def final(self, chosen: Mapping[str, int]) -> List[Job]:
        """Every arm in every direction with every seed, seeds outermost: a study that ends early has whole rows."""
        product = itertools.product(self.seeds, self.directions, self.arms)
        runs = [(seed, pair, arm) for seed, pair, arm in product if pair not in arm.refused]
        return [Job("final", arm, pair, seed, chosen[arm.name], self.budget["final"]) for seed, pair, arm in runs]

    def job(self, key: str) -> Job:
        """The run of that key. Raises KeyError."""
        phase, pair, point, seed = key.split("/")
        for arm in self.arms:
            for number in range(len(arm.grid)):
                if f"{slug(arm.name)}-{number}" == point:
                    return Job(phase, arm, pair, int(seed[len("seed") :]), number, self.budget[phase])
        raise KeyError(key)


def in_words(limits: Mapping[str, Any]) -> str:
    """Return the limits of a training: epochs, updates, minutes or several."""
    return " or ".join(f"{limits[unit]:,} {unit}" for unit in ("epochs", "updates", "minutes") if unit in limits)


def slug(name: str) -> str:
    """A name as part of a path."""
    return "".join(letter if letter.isalnum() else "_" for letter in name.lower()).strip("_")


def read_study(path: Path) -> Study:
    """Read and check the study of that name in that folder, a file or a variant in one.

    Raises:
        RecipeError: keys, systems, sets, grids of different size, claims about what is not there.
    """
    content = _merged(path)
    own = path.resolve().parent.parent / "sets"
    try:
        set_ = read_set(content["set"], own if content["set"] in names(own) else SETS, content["directions"])
    except RecipeError as error:
        raise RecipeError(f"{path}: {error}") from error
    assets, milestones = content.get("assets", {}), tuple(content.get("milestones", ()))
    _check_assets(path, assets)
    arms = tuple(read_arm(path, name, entry, assets, milestones) for name, entry in content["arms"].items())
    sizes = {arm.name: len(arm.grid) for arm in arms}
    if len(set(sizes.values())) != 1:
        raise RecipeError(f"{path}: arms: every one must be tuned as hard, grids of one size; got {sizes}")
    if max(sizes.values()) > 1 and "tune" not in content["budget"]:
        raise RecipeError(f"{path}: budget: grids of several points need tune as well")
    metrics, tests = content.get("metrics"), content.get("tests", {})
    _check_scoring(path, content, set_, arms)
    _check_milestones(path, milestones, content["budget"]["final"], arms)
    sides = {(arm.name, stem) for arm in arms for stem in arm.outputs}
    claims = [Claim(*((one[side][0], str(one[side][1])) for side in ("better", "worse"))) for one in content["claims"]]
    for side in (side for claim in claims for side in claim):
        if side not in sides:
            raise RecipeError(f"{path}: claims: {list(side)}: valid: {', '.join(map(str, sorted(map(list, sides))))}")
    unknown = set(content.get("values", {})) - set(set_.get("values", {}))
    if unknown:
        raise RecipeError(f"{path}: values: {', '.join(unknown)}: valid: {', '.join(set_.get('values', {})) or 'none'}")
    return Study(
        path.stem,
        content["title"],
        content.get("finding", ""),
        content.get("cannot_tell", ""),
        (*content.get("notes", ()), *_refusals(arms, content["directions"])),
        set_,
        {**set_.get("values", {}), **content.get("values", {})},
        tuple(content["directions"]),
        tuple(content["seeds"]),
        milestones,
        content["budget"],
        metrics,
        tests,
        content.get("score", "bleu"),
        tuple(content.get("output_languages", ())),
        assets,
        arms,
        tuple(claims),
        tuple(content.get("code", ())),
    )


def _refusals(arms: Sequence[Arm], directions: Sequence[str]) -> List[str]:
    """Return a note for each reason why an arm does not run in some directions."""
    notes = []
    for arm in arms:
        refused = {pair: arm.refused[pair] for pair in directions if pair in arm.refused}
        for reason in dict.fromkeys(refused.values()):
            pairs = [pair for pair in refused if refused[pair] == reason]
            notes.append(f"{REFUSED} {arm.name} of {', '.join(pairs)}: {reason}.")
    return notes


def _check_scoring(path: Path, content: Mapping[str, Any], set_: Mapping[str, Any], arms: Sequence[Arm]) -> None:
    """Raise RecipeError where metrics, tests, languages, outputs and the reference do not belong together."""
    metrics, tests = content.get("metrics"), content.get("tests", {})
    if metrics is not None and set(metrics) != set(content["directions"]):
        raise RecipeError(f"{path}: metrics: {metrics}: valid: one for each of {content['directions']}")
    for arm in arms:
        if bool(tests) != bool(arm.languages):
            raise RecipeError(f"{path}: arms.{arm.name}.languages: valid: with tests, and only with them")
        unknown = {stem.partition(".")[0] for stem in arm.outputs} - set(tests)
        if tests and unknown:
            raise RecipeError(
                f"{path}: arms.{arm.name}.outputs: {', '.join(sorted(unknown))}: valid: {', '.join(tests)}"
            )
        if arm.scoring and (tests or metrics is None):
            raise RecipeError(f"{path}: arms.{arm.name}.outputs: run: valid in a study with metrics and without tests")
    languages = content.get("output_languages", ())
    wanted = {direction.rpartition("-")[2].rpartition("_")[2] for direction in content["directions"]}
    if languages and (metrics is not None or wanted - set(languages)):
        raise RecipeError(
            f"{path}: output_languages: {', '.join(languages)}: valid: where texts are scored, with "
            f"{', '.join(sorted(wanted))} among them"
        )
    if metrics is not None and not tests and "score" in content:
        raise RecipeError(f"{path}: score: valid where texts are scored, not beside metrics")
    if tests and metrics is None:
        raise RecipeError(f"{path}: tests: need metrics: the score of the languages in each of {content['directions']}")
    if (tests or metrics is None) and "reference" not in set_:
        raise RecipeError(f"{path}: set {content['set']}: has no reference; valid: one, where texts are scored")


def _check_assets(path: Path, assets: Mapping[str, Any]) -> None:
    """Raise RecipeError where one asset for all seeds would be made of one that every seed has."""
    for name, entry in assets.items():
        for other in (entry.get("start"), *entry.get("needs", ())):
            if assets.get(other, {}).get("each_seed") and not entry.get("each_seed"):
                valid = f"valid: each_seed for {name} too"
                raise RecipeError(f"{path}: assets.{name}: {other} is one of each seed; {valid}")


def _check_milestones(path: Path, milestones: Sequence[int], limits: Mapping[str, Any], arms: Sequence[Arm]) -> None:
    """Raise RecipeError where checkpoints after so many updates would not be written or kept."""
    interval, updates = limits.get("interval"), limits.get("updates")
    for milestone in milestones:
        if not interval or not updates or milestone % interval or milestone > updates:
            raise RecipeError(
                f"{path}: milestones: {milestone}: valid: multiples of budget.final.interval ({interval}), at most "
                f"budget.final.updates ({updates})"
            )
    if milestones and any(arm.languages or arm.scoring or len(arm.stages) > 1 for arm in arms):
        raise RecipeError(f"{path}: milestones: valid where every arm is one training whose outputs are translations")


def _merged(path: Path) -> Dict[str, Any]:
    """A study's file on top of the one that it is like, whose texts are not its own."""
    merged: Dict[str, Any] = {}
    for own in chain(path.stem, path.parent, "study"):
        merged = {**{key: value for key, value in merged.items() if key not in TEXTS}, **own}
    check(merged, "study", path)
    return merged


def read_set(name: str, folder: Path, directions: Sequence[str]) -> Dict[str, Any]:
    """The set of that name, on top of the one that it is like. Raises RecipeError: no such set, or one without steps.

    Languages and pairs are those of the directions where the set names none.
    """
    merged: Dict[str, Any] = {"steps": []}
    for own in chain(name, folder, "set"):
        steps = [*own.get("steps", merged["steps"]), *own.get("then", ())]
        merged = {**merged, **{key: value for key, value in own.items() if key != "then"}, "steps": steps}
    if not merged["steps"]:
        raise RecipeError(f"set {name}: has no steps, nor has a set that it is like; valid: one at least")
    pairs = [direction for direction in directions if "-" in direction]
    languages = dict.fromkeys(language for pair in pairs for language in pair.split("-"))
    once = {frozenset(pair.split("-")): pair for pair in reversed(pairs)}
    return {"languages": list(languages), "pairs": list(reversed(once.values())), **merged}
