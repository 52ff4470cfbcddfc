"""Translate an empty line of ``fairseq-interactive`` or ``translate()`` to an empty line."""

import functools
from typing import Any, Callable, Dict, List, Optional

import torch
from omegaconf import OmegaConf
from torch import Tensor

from .patch import Harm, Patch

EMPTY_SENTENCES = Patch(
    name="empty_sentences",
    harm=Harm.WRONG_RESULT,
    defect="fairseq-interactive and translate() make up a text for an empty line",
)


class EmptySentences:
    """Keep empty sentences of raw text from the models, and return empty translations for them.

    fairseq-interactive and ``translate()`` build a dataset by ``build_dataset_for_inference`` and
    decode its batches by ``inference_step``. Both methods of the task are replaced here. Sentences
    of a data-bin do not pass the former method and are decoded as they are.

    Args:
        task: a task that translates; changed.
    """

    def __init__(self, task: Any) -> None:
        self.task = task
        self.empty: Optional[Tensor] = None  # (S,) row of an empty sentence, as the task writes it
        self.build_stock_dataset: Callable[..., Any] = task.build_dataset_for_inference
        self.stock_step: Callable[..., Any] = task.inference_step
        task.build_dataset_for_inference = self.build_dataset_for_inference
        task.inference_step = self.inference_step

    def build_dataset_for_inference(self, *args: Any, **kwargs: Any) -> Any:
        """Build the stock dataset, and store the row that the task makes of an empty sentence."""
        eos = torch.tensor([self.task.source_dictionary.eos()])
        self.empty = self.build_stock_dataset([eos], [1])[0]["source"]
        return self.build_stock_dataset(*args, **kwargs)

    def inference_step(
        self,
        generator: Any,
        models: Any,
        sample: Dict[str, Any],
        prefix_tokens: Any = None,
        constraints: Any = None,
    ) -> List[List[Dict[str, Any]]]:
        """Decode the sentences that have text; an empty sentence gets an empty hypothesis."""
        source = sample["net_input"]["src_tokens"]  # (B, S)
        has_text = self._rows_with_text(source)
        step = functools.partial(self.stock_step, generator, models)
        if all(has_text):
            return step(sample, prefix_tokens=prefix_tokens, constraints=constraints)
        decoded: List[List[Dict[str, Any]]] = []
        if any(has_text):
            rows = torch.tensor(has_text).nonzero()[:, 0]
            select = functools.partial(_select, rows=rows, batch_size=len(source))
            net_input = {name: select(part) for name, part in sample["net_input"].items()}
            text_sample = {**sample, "net_input": net_input}
            prefix_tokens, constraints = select(prefix_tokens), select(constraints)
            decoded = list(step(text_sample, prefix_tokens=prefix_tokens, constraints=constraints))
        hypotheses = [[self._empty_hypothesis(source)] for _ in has_text]
        rows_with_text = [row for row, text in enumerate(has_text) if text]
        for row, row_hypotheses in zip(rows_with_text, decoded):
            hypotheses[row] = row_hypotheses
        return hypotheses

    def _rows_with_text(self, source: Tensor) -> List[bool]:
        """Compare each row of ``source`` (B, S) with an empty sentence; True = it has text."""
        if self.empty is None:
            return [True] * len(source)
        pad, empty = self.task.source_dictionary.pad(), self.empty
        return [not torch.equal(row[row != pad], empty.to(row)) for row in source.cpu()]

    def _empty_hypothesis(self, source: Tensor) -> Dict[str, Any]:
        return {
            "tokens": source.new_tensor([self.task.target_dictionary.eos()]),
            "score": 0.0,
            "positional_scores": torch.zeros(1),
            "attention": None,
            "alignment": [],
        }


def _select(part: Any, rows: Tensor, batch_size: int) -> Any:
    """Select rows of a tensor that has a row per sentence; return anything else as it is."""
    if torch.is_tensor(part) and part.dim() > 0 and len(part) == batch_size:
        return part[rows.to(part.device)]
    return part


def translates(options: Any) -> bool:
    """Return True for the options of a task that translates: those have ``--truncate-source``."""
    return "truncate_source" in (options if OmegaConf.is_config(options) else vars(options))


@EMPTY_SENTENCES.replace("fairseq.tasks:setup_task")
def setup_task(stock: Any, cfg: Any, **kwargs: Any) -> Any:
    """Set up the task, with :class:`EmptySentences` if it translates."""
    task = stock(cfg, **kwargs)
    if translates(getattr(task, "args", None) or task.cfg):
        EmptySentences(task)
    return task
