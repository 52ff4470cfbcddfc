"""Scores of a run's outputs: of texts against a reference, or the numbers in logs of test sets."""

import hashlib
from pathlib import Path
from typing import Any, Callable, Dict, Mapping, Tuple

from data_prep.io import read_lines
from data_prep.scoring.score import System, score_systems

from .studies import Claim, Job, Study


class Scores:
    """Score outputs by the metric of a study.

    Args:
        study: the study.
        read_output: returns the content of an output, by its name ``KEY/FILE``.
        data: folder of the raw files.
        out: folder of the study.
    """

    def __init__(
        self,
        study: Study,
        read_output: Callable[[str], bytes],
        data: Path = Path(),
        out: Path = Path(),
    ):
        self.study, self.read_output, self.data, self.out = study, read_output, data, out

    def of(self, job: Job) -> Dict[str, Any]:
        """Return the scores of each output, with its hash and the signatures.

        Raises:
            ValueError: an output without the metric of the study.
        """
        return self._read_logs(job) if self.study.metrics else self._score_texts(job)

    def difference(self, claim: Claim, keys: Tuple[str, str], pair: str) -> Tuple[float, float]:
        """Return the better output's score minus the worse one's, and p of the paired bootstrap.

        Args:
            claim: names the outputs.
            keys: keys of the runs of the better and of the worse arm.
            pair: direction.
        """
        target = self.study.target(pair)
        names = {
            "worse": f"{keys[1]}/{claim.worse[1]}.{target}",
            "better": f"{keys[0]}/{claim.better[1]}.{target}",
        }
        baseline, row = self._score(names, pair)["systems"]
        metric = self.study.score
        return row[metric] - baseline[metric], row["p_values"][metric]

    def _score_texts(self, job: Job) -> Dict[str, Any]:
        names = {stem: f"{job.key}/{file}" for stem, file in self.study.files(job).items()}
        report = self._score(names, job.pair)
        signatures = report["signatures"]
        scores = {}
        for row in report["systems"]:
            stem = row["name"]
            numbers = {key: row[key] for key in (*signatures, "length_ratio")}
            scores[stem] = {**numbers, "sha256": self._hash(names[stem]), "signature": signatures}
        return scores

    def _hash(self, name: str) -> str:
        return hashlib.sha256(self.read_output(name)).hexdigest()

    def _score(self, names: Mapping[str, str], pair: str) -> Dict[str, Any]:
        """Score texts; the first is the baseline of the bootstrap."""
        systems = []
        for stem, name in names.items():
            text = self.read_output(name).decode("utf-8").removesuffix("\n")
            systems.append(System(stem, text.split("\n")))
        reference = self.study.reference(pair, self.data, self.out)
        lines = list(read_lines(reference, "reference", strict=False))
        # ROUGE is one metric with three scores.
        metric = "rouge" if self.study.score.startswith("rouge") else self.study.score
        return score_systems(systems, lines, metrics=list(dict.fromkeys([metric, "bleu", "chrf"])))

    def _read_logs(self, job: Job) -> Dict[str, Any]:
        """Read the metric of each subset from logs of fairseq-validate."""
        from fairseq_plugins.analysis.logs import numbers_of_subsets  # needs torch

        scores = {}
        for stem, file in self.study.files(job).items():
            name = f"{job.key}/{file}"
            metric = self.study.metric(job.pair)
            if stem in job.arm.scoring:
                metric = job.arm.scoring[stem][0]
            log = self.read_output(name).decode("utf-8", errors="replace")
            numbers = numbers_of_subsets(log.splitlines(), name)
            subsets = {subset: row[metric] for subset, row in numbers.items() if metric in row}
            if not subsets:
                raise ValueError(f"{name}: no {metric} for {stem}")
            scores[stem] = {"subsets": subsets, "sha256": self._hash(name)}
        return scores
