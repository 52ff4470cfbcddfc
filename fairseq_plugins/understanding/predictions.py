"""``--predictions``: a file per subset of what the model predicts, in the order of the data."""

import json
import logging
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from data_prep.files import atomic_path

logger = logging.getLogger(__name__)

OPTION = "--predictions"

Cells = Tuple[Any, ...]
"""Cells of a row; in question answering the id of a question and its answer."""


class PredictionFiles:
    """Collects rows of predictions, and writes a file per subset.

    Args:
        folder: folder of the files; made if it is missing.
        ending: ``tsv``, a line per row with tabs between its cells, or ``json``, an object with a
            key and a value from each row of two cells.
    """

    def __init__(self, folder: str, ending: str = "tsv"):
        self.folder, self.ending = Path(folder), ending
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(
                f"{OPTION} {folder}: is a file; valid: a folder, which is made when it is missing"
            )
        self.begin("", 0)

    def begin(self, subset: str, items: int) -> None:
        """Start the file of a subset, which has so many ``items``."""
        self.subset, self.items = subset, items
        self.rows: Dict[int, List[Cells]] = {}

    def add(self, items: Sequence[int], rows: Sequence[List[Cells]]) -> None:
        """Add the rows of some ``items``, which are numbers in the dataset."""
        self.rows.update(zip(items, rows))

    def finish(self) -> None:
        """Write the file, if there are rows."""
        if not self.rows:
            return
        missing = self.items - len(self.rows)
        if missing:
            logger.warning(f"{self.subset}: {missing} of {self.items} items have no prediction")
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
