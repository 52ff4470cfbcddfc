"""Queries with all their documents."""

from typing import Any, Dict, List, Sequence

import numpy as np

from .nlu_dataset import LabelledDataset, RowGroups


class QueryDataset(RowGroups, LabelledDataset):
    """An item is a query with its documents, each an input of query and document with its class.

    ``queries`` (rows,) has the query's id of each document; those of one query are adjacent. The base has a row per document.
    """

    def __init__(self, *others: Any, queries: Sequence[str], **more: Any):
        super().__init__(*others, **more)
        if len(queries) != len(self.sizes):
            raise ValueError(f"group has {len(queries)} lines, input0 {len(self.sizes)} rows; valid: as many")
        self.starts = _query_starts(queries)
        self.ends: List[int] = [*self.starts[1:], len(queries)]
        counts = np.subtract(self.ends, self.starts)
        self.set_rows(counts, np.maximum.reduceat(self.sizes, self.starts) if len(queries) else self.sizes)
        self.lengths = self.sizes // np.maximum(counts, 1)

    def __getitem__(self, index: int) -> Dict[str, Any]:
        rows = range(self.starts[int(index)], self.ends[int(index)])
        return {"id": int(index), "rows": [LabelledDataset.__getitem__(self, row) for row in rows]}

    def ordered_indices(self) -> np.ndarray:
        """By the longest document, then by size: little padding, and a batch stays near what its queries' sizes say. (N,)."""
        return np.lexsort((self.sizes, self.lengths))


def _query_starts(queries: Sequence[str]) -> List[int]:
    """The first row of each query; ValueError where one comes back after another one."""
    starts: List[int] = []
    seen = set()
    for row, query in enumerate(queries):
        if row and query == queries[row - 1]:
            continue
        if query in seen:
            raise ValueError(f"line {row + 1} of group: query {query} again; valid: its rows are adjacent")
        seen.add(query)
        starts.append(row)
    return starts
