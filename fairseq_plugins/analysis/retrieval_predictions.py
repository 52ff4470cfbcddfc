"""Files of retrieval as XTREME's evaluation reads them: TASK/test-LANG.tsv."""

import os
from typing import List, Sequence

from data_prep.files import atomic_path

from .report import say


def tatoeba_lines(partners: Sequence[int], english: Sequence[str], is_sorted: bool) -> List[str]:
    """Return for each English line, sorted, the number of the best line of the other language.

    XTREME's labels are the numbers of the lines before it sorts the English ones, so that English
    sentences look for those of the other language.

    Args:
        partners: number (from 0) of the best line of the other language, per English line.
        english: the English lines.
        is_sorted: True if XTREME's script has sorted them.

    Source: google-research/xtreme 838c13b: ``tatoeba_preprocess`` in utils_preprocess.py,
    ``similarity_search`` in third_party/utils_retrieve.py, mock_test_data/labels/tatoeba.
    """
    order = list(range(len(english)))
    if not is_sorted:
        order.sort(key=lambda number: english[number].strip())
    return [str(partners[number]) for number in order]


def write_predictions(folder: str, task: str, pair: str, lines: Sequence[str]) -> None:
    """Write ``folder``/``task``/test-LANG.tsv, of the first language of a pair; say so."""
    path = os.path.join(folder, task, f"test-{pair.partition('-')[0]}.tsv")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with atomic_path(path) as temporary:
        temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    say(f"wrote {path}: {len(lines):,} lines")
