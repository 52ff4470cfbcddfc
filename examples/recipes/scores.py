"""What the outputs of a run are worth: texts scored against a reference, or the numbers of test sets that a command wrote."""

import hashlib
import json
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

from data_prep.io import read_lines
from data_prep.score import System, score_systems

from .studies import Claim, Job, Study

GROUPS = {"trained": True, "zero-shot": False}
"""Languages of a ``score_languages`` file that an output ``STEM.GROUP`` takes; ``STEM.LANGUAGE`` takes one."""


class Scores:
    """Scores outputs as a study says.

    Args:
        study: the study.
        read: content of an output, by ``KEY/FILE``: from a folder or an archive.
        names: the folders ``data`` and ``out``.
    """

    def __init__(self, study: Study, read: Callable[[str], bytes], names: Dict[str, Path]):
        self.study, self.read, self.names = study, read, names

    def of(self, job: Job) -> Dict[str, Any]:
        """Output -> its scores, hash and signature.

        Raises:
            ValueError: an output without the metric of the study.
        """
        return self._subsets(job) if self.study.metrics else self._texts(job)

    def difference(self, claim: Claim, keys: Tuple[str, str], pair: str, seed: int) -> Tuple[float, float]:
        """Score of the better output minus that of the worse one, and p of the paired bootstrap.

        Args:
            claim: names the outputs.
            keys: runs of the better and of the worse arm.
            pair: direction.
            seed: of both runs.
        """
        named = [(keys[1], claim.worse[1]), (keys[0], claim.better[1])]
        names = [f"{key}/{output}.{self.study.target(pair)}" for key, output in named]
        rows = self._score({str(number): name for number, name in enumerate(names)}, pair, seed)["systems"]
        metric = self.study.score
        return rows[1][metric] - rows[0][metric], rows[1]["p_values"][metric]

    def _texts(self, job: Job) -> Dict[str, Any]:
        """Texts are scored here; the reference is not part of the project."""
        names = {stem: f"{job.key}/{file}" for stem, file in self.study.files(job).items()}
        result = self._score(names, job.pair, job.seed)
        keys = [*result["signatures"], "length_ratio"]
        scores = {row["name"]: {key: row[key] for key in keys} for row in result["systems"]}
        return {
            stem: {**scores[stem], "sha256": self._hash(name), "signature": result["signatures"]}
            for stem, name in names.items()
        }

    def _hash(self, name: str) -> str:
        return hashlib.sha256(self.read(name)).hexdigest()

    def _score(self, names: Dict[str, str], pair: str, seed: int) -> Dict[str, Any]:
        systems = [
            System(stem, self.read(name).decode("utf-8").removesuffix("\n").split("\n")) for stem, name in names.items()
        ]
        reference, *more = self._references(pair, seed)
        wanted = "rouge" if self.study.score.startswith("rouge") else self.study.score  # one metric gives three scores
        metrics = list(dict.fromkeys([wanted, "bleu", "chrf"]))
        languages = self.study.expected(pair)
        return score_systems(systems, reference, metrics=metrics, more_references=more, languages=languages)

    def _references(self, pair: str, seed: int) -> List[List[str]]:
        """All files that the study's pattern names, sorted: the first is the reference, the others are more of them."""
        pattern = self.study.references(self.names, pair, seed)
        found = sorted(pattern.parent.glob(pattern.name))
        if not found:
            raise ValueError(f"reference: {pattern} names no file")
        return [list(read_lines(path, "reference", strict=False)) for path in found]

    def _subsets(self, job: Job) -> Dict[str, Any]:
        """The metric of the direction: subsets of a ``fairseq-validate`` log, or languages of a ``score_languages`` file."""
        from fairseq_plugins.analysis.logs import numbers_of_subsets  # needs torch

        outputs = {}
        for stem, file in self.study.files(job).items():
            metric = job.arm.scoring[stem][0] if stem in job.arm.scoring else self.study.metric(job.pair)
            name = f"{job.key}/{file}"
            text = self.read(name).decode("utf-8", errors="replace")
            if self.study.tests:
                entry = language_scores(name, text, stem.partition(".")[2], metric)
            else:
                numbers = numbers_of_subsets(text.splitlines(), name)
                entry = {"subsets": {subset: found[metric] for subset, found in numbers.items() if metric in found}}
            if not entry["subsets"]:
                raise ValueError(f"{name}: no {metric} for {stem}")
            outputs[stem] = {**entry, "sha256": self._hash(name)}
        return outputs


def language_scores(name: str, text: str, group: str, metric: str) -> Dict[str, Any]:
    """Language -> score of what ``data_prep.score_languages --json`` wrote, with the signature.

    Args:
        name: of the file, for errors.
        text: its content.
        group: one of :data:`GROUPS` or a language; empty for all languages.
        metric: name of the score.

    Raises:
        ValueError: an unknown group.
    """
    content = json.loads(text)
    rows = content["languages"]
    if group in GROUPS:
        rows = [row for row in rows if row["trained"] is GROUPS[group]]
    elif group:
        known = [row["language"] for row in rows]
        if group not in known:
            raise ValueError(f"output {name}, {group}: valid: {', '.join([*GROUPS, *known])}")
        rows = [row for row in rows if row["language"] == group]
    subsets = {row["language"]: row[metric] for row in rows if metric in row}
    return {"subsets": subsets, "signature": content["signatures"]}
