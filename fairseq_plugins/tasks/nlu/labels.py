"""Labels of an understanding task: the symbols of the classes, and the classes of rows."""

from typing import Any, List

import numpy as np
from fairseq.data import Dictionary


def labels_of(dictionary: Dictionary) -> List[str]:
    return [symbol for symbol in dictionary.symbols[dictionary.nspecial :] if not symbol.startswith("madeupword")]


def class_numbers(rows: Any, dictionary: Dictionary, origin: str) -> np.ndarray:
    """Classes counted from 0, (N,) int64, of rows of a symbol and ``</s>``; ValueError: no or several symbols, or an unknown one.

    ``dictionary`` is that of the labels, ``origin`` the subset, for messages.
    """
    numbers = np.zeros(len(rows), dtype=np.int64)
    for index in range(len(rows)):
        found = [int(token) for token in rows[index] if int(token) != dictionary.eos()]
        if len(found) != 1:
            raise ValueError(f"subset {origin}: row {index + 1} of label has {len(found)} symbols; valid: one")
        numbers[index] = found[0] - dictionary.nspecial
    unknown = int((numbers < 0).sum())
    if unknown:
        raise ValueError(
            f"subset {origin}: {unknown} rows have a label that training has not; valid: {', '.join(labels_of(dictionary))}"
        )
    return numbers
