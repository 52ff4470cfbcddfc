"""What the outputs of a run are worth: texts scored against a reference, or the numbers of test sets that a command wrote."""

from pathlib import Path
from typing import Any, Dict, List, Tuple

from data_prep.io import read_json, read_lines, sha256
from data_prep.score import System, score_systems

from .studies import Claim, Job, Study

GROUPS = {"trained": True, "zero-shot": False}
"""Languages of a ``score_languages`` file that an output ``STEM.GROUP`` takes; ``STEM.LANGUAGE`` takes one."""


class Scores:
    """Scores outputs as a study says.

    Args:
        study: the study.
        keep: folder of the outputs, one folder a run in it.
        names: the folders ``data`` and ``out``.
    """

    def __init__(self, study: Study, keep: Path, names: Dict[str, Path]):
        self.study, self.keep, self.names = study, keep, names

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
        paths = [self.keep / key / f"{output}.{self.study.target(pair)}" for key, output in named]
        rows = self._score({str(number): path for number, path in enumerate(paths)}, pair, seed)["systems"]
        metric = self.study.score
        return rows[1][metric] - rows[0][metric], rows[1]["p_values"][metric]

    def _texts(self, job: Job) -> Dict[str, Any]:
        """Texts are scored here; the reference is not part of the project."""
        paths = {stem: self.keep / job.key / file for stem, file in self.study.files(job).items()}
        result = self._score(paths, job.pair, job.seed)
        keys = [*result["signatures"], "length_ratio"]
        scores = {row["name"]: {key: row[key] for key in keys} for row in result["systems"]}
        return {
            stem: {**scores[stem], "sha256": sha256(path), "signature": result["signatures"]}
            for stem, path in paths.items()
        }

    def _score(self, paths: Dict[str, Path], pair: str, seed: int) -> Dict[str, Any]:
        systems = [System(name, list(read_lines(str(path), "output", strict=False))) for name, path in paths.items()]
        reference, *more = self._references(pair, seed)
        wanted = "rouge" if self.study.score.startswith("rouge") else self.study.score  # one metric gives three scores
        metrics = list(dict.fromkeys([wanted, "bleu", "chrf"]))
        return score_systems(systems, reference, metrics=metrics, more_references=more)

    def _references(self, pair: str, seed: int) -> List[List[str]]:
        """All files that the study's pattern names, sorted: the first is the reference, the others are more of them."""
        pattern = self.study.references(self.names, pair, seed)
        found = sorted(pattern.parent.glob(pattern.name))
        if not found:
            raise ValueError(f"reference: {pattern} names no file")
        return [list(read_lines(path, "reference", strict=False)) for path in found]

    def _subsets(self, job: Job) -> Dict[str, Any]:
        """The metric of the direction: subsets of a ``fairseq-validate`` log, or languages of a ``score_languages`` file."""
        from fairseq_plugins.analysis.logs import read_log  # needs torch

        outputs, metric = {}, self.study.metric(job.pair)
        for stem, file in self.study.files(job).items():
            path = self.keep / job.key / file
            if self.study.tests:
                entry = language_scores(path, stem.partition(".")[2], metric)
            else:
                numbers = read_log(str(path))
                entry = {"subsets": {subset: found[metric] for subset, found in numbers.items() if metric in found}}
            if not entry["subsets"]:
                raise ValueError(f"{path}: no {metric} for {stem}")
            outputs[stem] = {**entry, "sha256": sha256(path)}
        return outputs


def language_scores(path: Path, group: str, metric: str) -> Dict[str, Any]:
    """Language -> score of a file that ``data_prep.score_languages --json`` wrote, with the signature.

    Args:
        path: the file.
        group: one of :data:`GROUPS` or a language; empty for all languages.
        metric: name of the score.

    Raises:
        ValueError: an unknown group.
    """
    content = read_json(path)
    rows = content["languages"]
    if group in GROUPS:
        rows = [row for row in rows if row["trained"] is GROUPS[group]]
    elif group:
        known = [row["language"] for row in rows]
        if group not in known:
            raise ValueError(f"output {path.stem}.{group}: valid endings: {', '.join([*GROUPS, *known])}")
        rows = [row for row in rows if row["language"] == group]
    subsets = {row["language"]: row[metric] for row in rows if metric in row}
    return {"subsets": subsets, "signature": content["signatures"]}
