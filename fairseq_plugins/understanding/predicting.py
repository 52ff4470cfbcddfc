"""Validation that writes predictions, of subsets with labels and of those without."""

import os
from typing import Any, Dict, List, Mapping, Optional, Tuple

import torch
from torch import Tensor

from ..common.own_run import OwnRun
from .predictions import OPTION, XTREME, Cells, PredictionFiles


class PredictingTask(OwnRun):
    """Task with ``--predictions``, which subclasses make of a batch's logits.

    Attributes:
        prediction_ending: ending of the files.
        has_submission: False if XTREME has no such task.
        head: name of the task's head, unless an option names it.
    """

    cfg: Any
    prediction_ending = "tsv"
    has_submission = True
    head = ""
    prediction_files: Optional[PredictionFiles] = None

    def open_predictions(self) -> None:
        """Read the options of predictions.

        Raises:
            ValueError: ``--predictions`` is a file, or a format that does not fit.
        """
        is_xtreme = str(self.cfg.predictions_format) == XTREME
        if is_xtreme and not (self.cfg.predictions and self.has_submission):
            reason = f"with {OPTION}" if self.has_submission else "rows; XTREME has no ranking"
            raise ValueError(f"--predictions-format {XTREME}: valid: {reason}")
        if self.cfg.predictions:
            to_lines = self.submission_lines if is_xtreme else None
            self.prediction_files = PredictionFiles(
                self.cfg.predictions, self.prediction_ending, to_lines
            )

    def check_labels(self, parts: Mapping[str, Any]) -> None:
        """Raise ValueError for subsets without labels that cannot be scored or predicted.

        Args:
            parts: subset -> its dataset; several are one subset of ``--valid-subset``.
        """
        bare = [name for name, part in parts.items() if not part.is_labelled]
        if bare and self.prediction_files is None:
            valid = f"subsets with labels, or {OPTION} FOLDER in fairseq-validate"
            raise ValueError(f"subset {bare[0]}: has no labels; valid: {valid}")
        if bare and len(parts) > 1:
            raise ValueError(
                f"subset {bare[0]}: has no labels and is predicted alone; valid: "
                f"--valid-subset {','.join(parts)}"
            )

    def has_label_file(self, name: str) -> bool:
        """Return False if a subset that is to be predicted has no file in ``label``."""
        path = os.path.join(self.cfg.data, "label", f"{name}.idx")
        return self.prediction_files is None or os.path.isfile(path)

    def valid_step(
        self, sample: Dict[str, Any], model: Any, criterion: Any
    ) -> Tuple[Any, Any, Dict[str, Any]]:
        """Run the stock step, and collect predictions; without labels the model alone runs.

        An empty batch is skipped: fairseq-validate gives them to processes with fewer batches.
        """
        if not sample:
            return 0.0, 0, {}
        if self.prediction_files is None:
            return super().valid_step(sample, model, criterion)
        if self._is_labelled():
            outputs: List[Tensor] = []

            def record(module: Any, inputs: Any, output: Any) -> None:
                outputs.append(output[0].detach())

            hook = model.register_forward_hook(record)  # criterions do not return their logits
            try:
                step = super().valid_step(sample, model, criterion)
            finally:
                hook.remove()
        else:
            step = 0.0, 0, {}
            outputs = [self._logits(sample, model)]
        rows = self.predicted(sample, outputs[-1].float(), criterion)
        self.prediction_files.add(sample["id"].tolist(), rows)
        return step

    def _is_labelled(self) -> bool:
        """Return True if the subset that is predicted has labels."""
        assert self.prediction_files is not None
        return bool(getattr(self.datasets[self.prediction_files.subset], "is_labelled", True))

    def _logits(self, sample: Dict[str, Any], model: Any) -> Tensor:
        """Run the model as the criterions do."""
        head = getattr(self.cfg, "classification_head_name", self.head)
        model.eval()
        with torch.no_grad():
            options = {"features_only": True, "classification_head_name": head}
            return model(**sample["net_input"], **options)[0]

    def predicted(self, sample: Dict[str, Any], logits: Any, criterion: Any) -> List[List[Cells]]:
        """Return the rows of the predictions file for each item of a batch.

        Args:
            sample: the batch, without ``target`` where there are no labels.
            logits: output of the model, float32.
            criterion: criterion of the task, which may turn logits into predictions.
        """
        raise NotImplementedError

    def submission_lines(self, item: int, rows: List[Cells]) -> List[str]:
        """Return the lines of an item in XTREME's format, of its rows: the second cell of each."""
        return [str(row[1]) for row in rows]

    def get_batch_iterator(self, dataset: Any, max_tokens: Any = None, **options: Any) -> Any:
        """Make the stock iterator, and begin the predictions of its dataset.

        Raises:
            ValueError: ``--predictions`` with several processes, each of which has only a part.
        """
        if self.prediction_files is not None:
            processes = options.get("num_shards", 1)
            if processes > 1:
                raise ValueError(
                    f"{OPTION} {self.cfg.predictions}: valid in one process; got {processes}"
                )
            subset = next(name for name, part in self.datasets.items() if part is dataset)
            self.prediction_files.begin(subset, len(dataset))
        return super().get_batch_iterator(dataset, max_tokens=max_tokens, **options)

    def reduce_metrics(self, logging_outputs: List[Dict[str, Any]], criterion: Any) -> None:
        """Log the metrics, and write the predictions; fairseq-validate calls it after a subset."""
        if self.prediction_files is None:
            super().reduce_metrics(logging_outputs, criterion)
            return
        if self._is_labelled():
            super().reduce_metrics(logging_outputs, criterion)
        self.prediction_files.finish()
