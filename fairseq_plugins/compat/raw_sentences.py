"""Raw sentences, of ``fairseq-interactive`` and ``translate()``: empty ones stay empty, long ones are cut, lines are named."""

import contextlib
import logging
import sys
from itertools import islice
from typing import Any, Dict, Iterator, List, Optional, Sequence

import torch
from omegaconf import OmegaConf
from torch import Tensor

from .data_files import warn_unknown
from .patch import Patch

logger = logging.getLogger(__name__)

COMMAND = "fairseq_cli.interactive"
REPLACED = (
    *("build_generator", "get_interactive_tokens_and_lengths", "build_dataset_for_inference"),
    *("filter_indices_by_size", "inference_step"),
)
LISTED = 5  # so many line numbers are written out

RAW_SENTENCES = Patch(
    name="raw_sentences",
    reason="fairseq-interactive and translate() make up a text for an empty line, do not cut with --truncate-source, and name a "
    "line that is too long by its place in the buffer, one that is not UTF-8 not at all",
    upstream="facebookresearch/fairseq#4507 (--truncate-source); no report of the others found",
)


def read_lines(path: str) -> Iterator[str]:
    """The lines of a UTF-8 text, without their ends, which are LF or CR LF. ``-`` is standard input.

    Raises ValueError: a line that is not UTF-8, by its number from 1.
    """
    with open(path, "rb") if path != "-" else contextlib.nullcontext(sys.stdin.buffer) as stream:
        for number, line in enumerate(stream, start=1):
            try:
                yield line.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError:
                raise ValueError(
                    f"--input {path}: line {number} is not UTF-8; valid: a UTF-8 sentence a line"
                ) from None


class RawSentences:
    """Stands in front of a translation task where it is handed raw sentences; what comes from a data-bin passes by.

    ``task`` has ``--truncate-source`` among its options; methods are replaced for this task alone.
    """

    def __init__(self, task: Any) -> None:
        self.task = task
        self.positions: List[Any] = []  # of the models, as their max_positions() gives them
        self.lines_read = 0  # by fairseq-interactive, before the buffer at hand
        self.buffer = 0
        self.warned = False
        self.dataset: Any = None
        self.empty: Optional[Tensor] = None  # (S,), what the task makes of an empty sentence
        self.stock: Dict[str, Any] = {}
        for name in REPLACED:
            self.stock[name] = getattr(task, name)
            setattr(task, name, getattr(self, name))

    def build_generator(self, models: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        """Note how long sources may be."""
        self.positions = [model.max_positions() for model in models]
        return self.stock["build_generator"](models, *args, **kwargs)

    def get_interactive_tokens_and_lengths(self, lines: Sequence[str], encode_fn: Any) -> Any:
        """Count the lines: fairseq-interactive asks once for each buffer, ``translate()`` never."""
        self.lines_read += self.buffer
        self.buffer = len(lines)
        return self.stock["get_interactive_tokens_and_lengths"](lines, encode_fn)

    def build_dataset_for_inference(self, src_tokens: Any, src_lengths: Any, *args: Any, **kwargs: Any) -> Any:
        """Build the stock dataset of sentences that ``--truncate-source`` has cut."""
        build = self.stock["build_dataset_for_inference"]
        eos = torch.tensor([self.task.source_dictionary.eos()])
        self.empty = build([eos], [1])[0]["source"]
        if _options(self.task).truncate_source:
            src_tokens, src_lengths = self._cut(list(src_tokens), src_lengths)
        unknown = sum(int(row.eq(self.task.source_dictionary.unk()).sum()) for row in src_tokens)
        self.warned = self.warned or warn_unknown("the text", unknown, sum(map(len, src_tokens)))
        self.dataset = build(src_tokens, src_lengths, *args, **kwargs)
        return self.dataset

    def _cut(self, rows: List[Tensor], lengths: Any) -> Any:
        """Cut to ``--max-source-positions``, as in a data-bin, and to what the models can read; ``</s>`` stays."""
        from fairseq import utils

        assert self.empty is not None
        longest = _first(utils.resolve_max_positions(self.task.max_positions(), *self.positions))
        if not isinstance(longest, (int, float)):
            return rows, lengths
        longest = max(int(longest) - (len(self.empty) - 1), 2)
        long = [number for number, row in enumerate(rows) if len(row) > longest]
        for number in long:
            rows[number] = torch.cat([rows[number][: longest - 1], rows[number][-1:]])
        if long:
            numbers = ", ".join(str(self._line(number)) for number in long[:LISTED]) + ", …" * (len(long) > LISTED)
            logger.warning("longer than %d tokens and cut: line%s %s", longest, "s" * (len(long) > 1), numbers)
        return rows, [len(row) for row in rows]

    def _line(self, number: int) -> int:
        """The number from 1 that a user would give the sentence ``number`` of the buffer at hand."""
        return self.lines_read + number + 1

    def filter_indices_by_size(
        self, indices: Any, dataset: Any, max_positions: Any = None, ignore_invalid_inputs: bool = False
    ) -> Any:
        """Refuse a sentence that is too long (ValueError), by its line."""
        if dataset is self.dataset and not ignore_invalid_inputs:
            ignored = dataset.filter_indices_by_size(indices, max_positions)[1]
            if len(ignored):
                first = int(min(ignored))
                raise ValueError(
                    f"source line {self._line(first)} has {dataset.size(first)[0]} tokens; valid: at most {_first(max_positions)}. "
                    "--truncate-source cuts such lines, --skip-invalid-size-inputs-valid-test leaves them out"
                )
        return self.stock["filter_indices_by_size"](indices, dataset, max_positions, ignore_invalid_inputs)

    def inference_step(
        self, generator: Any, models: Any, sample: Dict[str, Any], prefix_tokens: Any = None, constraints: Any = None
    ) -> Any:
        """Decode the sentences that are not empty; nothing comes of the others."""
        step = self.stock["inference_step"]
        source = sample["net_input"]["src_tokens"]
        pad, empty = self.task.source_dictionary.pad(), self.empty
        kept = [] if empty is None else [not torch.equal(row[row != pad], empty.to(row)) for row in source.cpu()]
        if all(kept):
            return step(generator, models, sample, prefix_tokens=prefix_tokens, constraints=constraints)
        chosen = torch.tensor(kept, device=source.device).nonzero()[:, 0]

        def choose(part: Any) -> Any:
            rows = torch.is_tensor(part) and part.dim() > 0 and len(part) == len(kept)
            return part[chosen.to(part.device)] if rows else part

        found: List[Any] = []
        if any(kept):
            smaller = {**sample, "net_input": {name: choose(part) for name, part in sample["net_input"].items()}}
            given = {"prefix_tokens": choose(prefix_tokens), "constraints": choose(constraints)}
            found = list(step(generator, models, smaller, **given))
        nothing = {"tokens": source.new_tensor([self.task.target_dictionary.eos()]), "score": 0.0}
        nothing.update(positional_scores=torch.zeros(1), attention=None, alignment=[])
        return [found.pop(0) if has_text else [dict(nothing)] for has_text in kept]


def cuts_sources(options: Any) -> bool:
    """True for the options of a task that translates: ``--truncate-source`` is among them."""
    return "truncate_source" in (options if OmegaConf.is_config(options) else vars(options))


def _first(positions: Any) -> Any:
    return positions[0] if isinstance(positions, (tuple, list)) else positions


def _options(task: Any) -> Any:
    return getattr(task, "args", None) or task.cfg


@RAW_SENTENCES.replace("fairseq.tasks:setup_task")
def setup_task(stock: Any, cfg: Any, **kwargs: Any) -> Any:
    """Stand in front of tasks that translate."""
    task = stock(cfg, **kwargs)
    if cuts_sources(_options(task)):
        RawSentences(task)
    return task


@RAW_SENTENCES.step
def name_lines() -> None:
    """Let a fairseq-interactive that is running name a line that is not UTF-8."""
    for name in (COMMAND, "__main__"):  # it has two names where it is run by python -m
        module: Any = sys.modules.get(name)
        if getattr(getattr(module, "__spec__", None), "name", None) == COMMAND:
            module.buffered_read = _buffered_read


def _buffered_read(input: str, buffer_size: int) -> Iterator[List[str]]:
    lines = (line.strip() for line in read_lines(input))
    try:
        yield from iter(lambda: list(islice(lines, buffer_size)), [])
    except (ValueError, OSError) as error:
        sys.exit(f"fairseq-interactive: error: {error}")
