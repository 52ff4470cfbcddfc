"""What the rows of an embedding mean, and where the files are that tell it."""

import os
from pathlib import Path
from typing import Any, List, Mapping, Optional

from ..checkpoints.opening import find_settings
from ..checkpoints.vocabulary import (
    LIST_NAME,
    MASK,
    find_dictionary,
    read_dictionary,
    read_languages,
    stock_languages,
    task_options,
)


def places_of(state: Mapping[str, Any], folder: Path, data: Optional[Any] = None) -> List[Path]:
    """Folders that may have the dictionary and the pieces: ``data`` alone if given, else a checkpoint's own, and its run's data."""
    stated = task_options(state).get("data") or find_settings(state).get("data")
    trained = [str(stated).split(os.pathsep)[0]] if stated else []
    roots = [Path(data)] if data is not None else [folder, *map(Path, trained)]
    return [place for root in roots for place in (root, root / "input0")]


def entries_of(state: Mapping[str, Any], rows: int, places: List[Path], origin: str) -> List[str]:
    """Entries of the rows: the dictionary's, the languages' and ``<mask>``; empty where there is no dictionary.

    Raises ValueError: a dictionary with more entries than there are rows, or with fewer by some that nothing names.
    """
    file = next(filter(None, (find_dictionary(place, {}) for place in places)), None)
    if file is None:
        return []
    entries, settings = read_dictionary(file), find_settings(state)
    style = {**settings, **task_options(state)}.get("language_template")
    says = stock_languages(state, settings, str(style or "[{}]"))
    lists = [place / name for place in places for name in (says.file, LIST_NAME) if name]
    listed = says.listed or next((read_languages(one) for one in lists if one.is_file()), None)
    for symbol in [*says.symbols(listed), MASK] if len(entries) < rows else ():
        if symbol not in entries and len(entries) < rows:
            entries.append(symbol)
    if len(entries) != rows:
        raise ValueError(
            f"{origin}: has {rows:,} rows, {file} with its languages {len(entries):,} entries; give --data"
        )
    return entries
