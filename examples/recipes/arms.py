"""Arms of studies: what is trained, in which stages, and how it is decoded."""

from pathlib import Path
from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple

from .systems import FOLDER, SMALL, RecipeError, System, read_limits, read_system


class Stage(NamedTuple):
    """A training of an arm.

    Attributes:
        system: the system, with the arm's options of the training.
        data: path of the data-bin.
        limits: budget of the stage; None = the study's.
    """

    system: System
    data: str
    limits: Optional[Mapping[str, Any]]


class Arm(NamedTuple):
    """A system of a study.

    Attributes:
        name: in tables.
        stages: trainings in order, each from the model before it; the last model is compared.
        start: the asset that the first stage starts from; None if it needs none.
        best: number of checkpoints that are averaged.
        outputs: file stem -> title of its column, which says how it is decoded.
        decoding: file stem -> more options of fairseq-generate or fairseq-validate.
        grid: one set of options per point; the first is the default.
        needs: assets that its options name, beside ``start``.
        directions: direction -> its own last stage and options of decoding, if it has any.
        scoring: file stem -> metric, and commands that take the place of fairseq-validate.
        refused: direction in which this arm is not run -> reason.
    """

    name: str
    stages: Tuple[Stage, ...]
    start: Optional[str]
    best: int
    outputs: Mapping[str, str]
    decoding: Mapping[str, Mapping[str, Any]]
    grid: Tuple[Mapping[str, Any], ...]
    needs: Tuple[str, ...]
    directions: Mapping[str, Tuple[Stage, Mapping[str, Any]]]
    scoring: Mapping[str, Tuple[str, str]]
    refused: Mapping[str, str]

    def stage(self, number: int, pair: str) -> Stage:
        """Return a stage of a run in a direction, counted from 1."""
        if number == len(self.stages) and pair in self.directions:
            return self.directions[pair][0]
        return self.stages[number - 1]

    def options(self, stem: str, pair: str) -> Dict[str, Any]:
        """Return the options of decoding an output, beside the system's."""
        own_options = self.directions[pair][1] if pair in self.directions else {}
        return {**self.decoding[stem], **own_options}


def read_arm(
    path: Path,
    name: str,
    entry: Mapping[str, Any],
    assets: Mapping[str, Any],
    size: str = SMALL,
) -> Arm:
    """Make an arm of its entry in a study's file, with systems of that size.

    Raises:
        RecipeError: the entry names an asset that the study does not have.
    """
    _check_assets(path, name, entry, assets)
    data = entry.get("data", "bin")
    before = entry.get("before", ())
    earlier = [make_stage(stage, stage.get("data", data), size) for stage in before]
    stages = (*earlier, make_stage(entry, data, size))
    outputs = {str(stem): output for stem, output in entry["outputs"].items()}
    scored = [stem for stem, output in outputs.items() if "run" in output]
    changes = entry.get("directions", {})
    return Arm(
        name=name,
        stages=stages,
        start=entry.get("start"),
        best=entry.get("best", stages[-1].system.average),
        outputs={stem: output["title"] for stem, output in outputs.items()},
        decoding={stem: output.get("options", {}) for stem, output in outputs.items()},
        grid=tuple(entry.get("grid", ({},))),
        needs=tuple(entry.get("needs", ())),
        directions={pair: _change_stage(entry, data, changes[pair], size) for pair in changes},
        scoring={stem: (outputs[stem]["metric"], outputs[stem]["run"]) for stem in scored},
        refused={pair: changes[pair]["refused"] for pair in changes if "refused" in changes[pair]},
    )


def _check_assets(
    path: Path,
    name: str,
    entry: Mapping[str, Any],
    assets: Mapping[str, Any],
) -> None:
    valid = ", ".join(assets) or "nothing, the study names no assets"
    if entry.get("start") not in (None, *assets):
        raise RecipeError(f"{path}: arms.{name}.start: {entry['start']}: valid: {valid}")
    for asset in entry.get("needs", ()):
        if asset not in assets:
            raise RecipeError(f"{path}: arms.{name}.needs: {asset}: valid: {valid}")


def make_stage(entry: Mapping[str, Any], data: str, size: str) -> Stage:
    """Make a training of its entry: a system of that size, with options and limits of the entry."""
    name = entry["system"]
    system = read_system(name, size=size)
    options = {**system.train, **entry.get("train", {})}
    limits = entry.get("limits", read_limits(name, FOLDER, size))
    return Stage(system._replace(train=options), data, limits)


def _change_stage(
    entry: Mapping[str, Any],
    data: str,
    change: Mapping[str, Any],
    size: str,
) -> Tuple[Stage, Mapping[str, Any]]:
    """Return the last stage in a direction, and the options of decoding there."""
    train = {**entry.get("train", {}), **change.get("train", {})}
    return make_stage({**entry, **change, "train": train}, data, size), change.get("options", {})
