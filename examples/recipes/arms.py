"""Arms of studies: what is trained, in which stages, and how it is decoded."""

import itertools
from pathlib import Path
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

from .systems import RecipeError, System, read_system


class Stage(NamedTuple):
    """A training of an arm: the system with the arm's own options, the data-bin, and the limits where they are not the study's."""

    system: System
    data: str
    limits: Optional[Mapping[str, Any]]


class Languages(NamedTuple):
    """Languages that an arm translates from, each scored by itself.

    Attributes:
        trained: those that it is trained on.
        zero_shot: others.
        data: the data-bin that is decoded.
        each: whether each of the trained ones has a model of its own, with an equal share of the budget.
    """

    trained: Tuple[str, ...]
    zero_shot: Tuple[str, ...]
    data: str
    each: bool


class Arm(NamedTuple):
    """One system of a study.

    Attributes:
        name: in tables.
        stages: trainings one after another, each from the model of the one before; the last one is what is compared.
        start: the asset that the first stage starts from; None where it needs none.
        best: checkpoints that are averaged.
        outputs: file stem -> how it is decoded, in words.
        decoding: file stem -> options of fairseq-generate or fairseq-validate beside the system's.
        grid: one set of options for each point; the first is the default.
        needs: assets that its options name, beside the one that it starts from.
        directions: direction -> the last stage and the options of decoding, where they are others there.
        languages: in a study whose tests are scored by language.
        scoring: file stem -> its metric and the commands that make it, where it is not the system's own command.
        refused: direction without runs of this arm -> reason.
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
    languages: Optional[Languages]
    scoring: Mapping[str, Tuple[str, str]]
    refused: Mapping[str, str]

    @property
    def parts(self) -> Tuple[str, ...]:
        """Languages with a model of their own, the trainings of a run; none where a run has one model."""
        return self.languages.trained if self.languages and self.languages.each else ()

    def stage(self, number: int, pair: str) -> Stage:
        """A stage of a run, counted from 1."""
        last = number == len(self.stages) and pair in self.directions
        return self.directions[pair][0] if last else self.stages[number - 1]

    def options(self, stem: str, pair: str) -> Dict[str, Any]:
        """Options of decoding beside the system's; of the outputs ``TEST.LANGUAGES`` of a test the first one says them."""
        found = next(one for key, one in self.decoding.items() if stem in (key, key.partition(".")[0]))
        return {**found, **(self.directions[pair][1] if pair in self.directions else {})}


def read_arm(
    path: Path, name: str, entry: Mapping[str, Any], assets: Mapping[str, Any], milestones: Sequence[int] = ()
) -> Arm:
    """The arm of a study's file. Raises RecipeError: assets that are not there.

    After each of the ``milestones``, in updates, there is an output ``STEM@UPDATES`` beside each output ``STEM``.
    """
    if entry.get("start") not in (None, *assets):
        raise RecipeError(
            f"{path}: arms.{name}.start: {entry['start']}: valid: {', '.join(assets) or 'nothing, no assets are named'}"
        )
    for needed in entry.get("needs", ()):
        if needed not in assets:
            raise RecipeError(f"{path}: arms.{name}.needs: {needed}: valid: {', '.join(assets) or 'nothing'}")
    data = entry.get("data", "bin")
    stages = [_stage(one, one.get("data", data), one["limits"]) for one in entry.get("before", ())]
    languages = _languages(entry["languages"]) if "languages" in entry else None
    parts = len(languages.trained) if languages and languages.each else 1
    stages += [_stage(entry, data, entry.get("limits"))] * parts
    directions = {}
    for pair, other in entry.get("directions", {}).items():
        whole = {**entry, **other, "train": {**entry.get("train", {}), **other.get("train", {})}}
        directions[pair] = _stage(whole, data, entry.get("limits")), other.get("options", {})
    outputs = {str(stem): one for stem, one in entry["outputs"].items()}
    for updates, (stem, one) in itertools.product(milestones, list(outputs.items())):
        outputs[f"{stem}@{updates}"] = {**one, "title": f"{one['title']}, after {updates:,} updates"}
    return Arm(
        name,
        tuple(stages),
        entry.get("start"),
        entry.get("best", stages[-1].system.average),
        {stem: one["title"] for stem, one in outputs.items()},
        {stem: one.get("options", {}) for stem, one in outputs.items()},
        tuple(entry.get("grid", ({},))),
        tuple(entry.get("needs", ())),
        directions,
        languages,
        {stem: (one["metric"], one["run"]) for stem, one in outputs.items() if "run" in one},
        {pair: other["refused"] for pair, other in entry.get("directions", {}).items() if "refused" in other},
    )


def _languages(entry: Mapping[str, Any]) -> Languages:
    return Languages(
        tuple(entry["trained"]), tuple(entry.get("zero-shot", ())), entry.get("data", "bin"), entry.get("each", False)
    )


def _stage(entry: Mapping[str, Any], data: str, limits: Optional[Mapping[str, Any]]) -> Stage:
    system = read_system(entry["system"])
    return Stage(system._replace(train={**system.train, **entry.get("train", {})}), data, limits)
