"""What a model predicts of each item of a subset, written to a file when the subset is done."""

import contextlib
import json
import logging
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from torch import Tensor

from data_prep.files import atomic_path

logger = logging.getLogger(__name__)

OPTION = "--predictions"

Row = Tuple[Any, ...]
"""Cells of a line; of question answering, a question's id and its answer."""


class PredictionFiles:
    """Collects the rows of one subset after the other; they are written in the order of the dataset, whatever the batches were.

    ``folder`` is made when missing; ValueError: it is a file. ``ending``: ``tsv``, a row per line with tabs between its cells; or
    ``json``, an object of rows of two cells.
    """

    def __init__(self, folder: str, ending: str = "tsv"):
        self.folder, self.ending = Path(folder), ending
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"{OPTION} {folder}: is a file; valid: a folder, which is made when it is missing")
        self.begin("", 0)

    def begin(self, subset: str, items: int) -> None:
        """Start a subset of so many items; its name is the file's."""
        self.subset, self.items = subset, items
        self.rows: Dict[int, List[Row]] = {}

    def add(self, items: Sequence[int], rows: Sequence[List[Row]]) -> None:
        self.rows.update(zip(items, rows))

    def finish(self) -> Optional[Path]:
        """Write the file at once; returns its path, None where there is nothing to write."""
        if not self.rows:
            return None
        if len(self.rows) != self.items:
            logger.warning(f"{self.subset}: {self.items - len(self.rows)} of {self.items} items have no prediction")
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{self.subset}.{self.ending}"
        rows = [row for item in sorted(self.rows) for row in self.rows[item]]
        if self.ending == "json":
            text = json.dumps(dict(rows), ensure_ascii=False, indent=0) + "\n"
        else:
            text = "".join("\t".join(map(str, row)) + "\n" for row in rows)
        with atomic_path(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
        logger.info(f"wrote {path}: {len(rows)} rows")
        self.rows = {}
        return path


@contextlib.contextmanager
def outputs_of(model: Any) -> Iterator[List[Tensor]]:
    """What a model returned first, call by call, while the block ran: criterions keep their logits to themselves."""
    found: List[Tensor] = []
    handle = model.register_forward_hook(lambda module, inputs, output: found.append(output[0].detach()))
    try:
        yield found
    finally:
        handle.remove()
