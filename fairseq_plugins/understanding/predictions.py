"""``--predictions``: a file per subset of what the model predicts, in the order of the data.

Subsets without labels are predicted, too. ``--predictions-format xtreme`` writes the files that
XTREME's evaluation reads from a folder per task: ``test-LANG.tsv`` and ``test-LANG.json``.
"""

import json
import logging
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from fairseq.dataclass import ChoiceEnum

from data_prep.files import atomic_path

logger = logging.getLogger(__name__)

OPTION = "--predictions"
ROWS, XTREME = "rows", "xtreme"
PREDICTION_FORMATS: Any = ChoiceEnum([ROWS, XTREME])

Cells = Tuple[Any, ...]
"""Cells of a row; in question answering the id of a question and its answer."""
ToLines = Callable[[int, List[Cells]], List[str]]
"""Makes the lines of XTREME's file of an item and its rows."""


class PredictionFiles:
    """Collects rows of predictions, and writes a file per subset.

    Args:
        folder: folder of the files; made if it is missing.
        ending: ``tsv``, a line per row with tabs between its cells, or ``json``, an object with a
            key and a value from each row of two cells.
        to_lines: makes the lines of an item in XTREME's ``tsv`` files, which have XTREME's names,
            ``test-de.tsv`` for ``test.de``; None: a line per row, in files with the subset's name.
    """

    def __init__(
        self,
        folder: str,
        ending: str = "tsv",
        to_lines: Optional[ToLines] = None,
    ):
        self.folder, self.ending = Path(folder), ending
        self.to_lines = to_lines
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
        name = self.subset.replace(".", "-", 1) if self.to_lines is not None else self.subset
        path = self.folder / f"{name}.{self.ending}"
        rows = [row for item in sorted(self.rows) for row in self.rows[item]]
        if self.ending == "json":
            text = json.dumps(dict(rows), ensure_ascii=False, indent=0) + "\n"
        else:
            text = "".join(f"{line}\n" for line in self._lines())
        with atomic_path(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
        logger.info(f"wrote {path}: {len(rows)} rows")
        self.rows = {}

    def _lines(self) -> List[str]:
        items = sorted(self.rows)
        if self.to_lines is not None:
            return [line for item in items for line in self.to_lines(item, self.rows[item])]
        return ["\t".join(map(str, row)) for item in items for row in self.rows[item]]
