"""Bringing the rows of an embedding to those of a dictionary or of a length, by the option that allows it."""

from typing import Optional, Sequence, Tuple

import torch
from torch import Tensor

MULTIPLE = 8  # fairseq-preprocess pads the dictionaries it makes to a multiple of this
OPTION = "--embedding-mismatch"


USE_ITS_DICTIONARY = "run fairseq-preprocess with that dict.txt as --srcdict and --tgtdict, new symbols at its end"


def check_entries(
    own: Sequence[str], found: Sequence[str], origin: str, where: str, remedy: str = USE_ITS_DICTIONARY
) -> None:
    """Compare the entries of a model with those of the data's dictionary, as far as both go.

    Args:
        own: entries of the model, in the order of its rows.
        found: entries of the data's dictionary.
        origin: option and path of the model, for the message.
        where: what says so, e.g. ``the dict.txt beside it``.
        remedy: what to do about it.

    Raises:
        ValueError: the first entry that differs.
    """
    for index in range(min(len(own), len(found))):
        if own[index] != found[index]:
            raise ValueError(
                f"{origin}: {where} has {own[index]!r} as entry {index}, the data's dictionary "
                f"{found[index]!r}; {remedy}"
            )


def fit_words(
    tensor: Tensor, target: Tensor, policy: str, origin: str, languages: Sequence[str] = ()
) -> Tuple[Tensor, str]:
    """A token embedding with as many rows as the dictionary has entries.

    Args:
        tensor: (rows, C) of the file.
        target: (V, C) of the model, at random.
        policy: ``error``, ``extend`` (rows beyond the file's keep the model's random values) or ``truncate`` (the file's last
            rows are left out).
        origin: option and path of the file, for messages.
        languages: of the file, in order, where it has them.

    Returns:
        (V, C), and what was changed.

    Raises:
        ValueError: the policy does not allow what is needed; explains where the difference may come from.
    """
    have, want = tensor.size(0), target.size(0)
    wanted = "extend" if want > have else "truncate"
    if policy != wanted:
        effect = (
            "gives random values to the rows beyond the file's" if want > have else "leaves the file's last rows out"
        )
        reason = explain(want, have, languages)
        raise ValueError(
            f"the dictionary has {want:,} entries, {origin} {have:,} rows, and {OPTION} is {policy}; valid "
            f"here: {wanted}, which {effect}. {reason + '. ' if reason else ''}Entries must mean the same: preprocess with the "
            "model's own dictionary, new symbols at its end"
        )
    if want < have:
        return tensor[:want], f"the first {want:,} of {have:,} rows ({OPTION} truncate)"
    rows = torch.cat([tensor, target[have:].to(tensor.dtype)])
    return rows, f"{want - have:,} random rows after the file's {have:,} ({OPTION} extend)"


def with_mask_row(tensor: Tensor) -> Tuple[Tensor, str]:
    """A token embedding with one row more, for a ``<mask>`` that the model never had and that understanding never reads.

    The row is the mean of all: of a usual size, and the same in every run.

    Args:
        tensor: (rows, C) of the file.

    Returns:
        (rows + 1, C), and what was changed.
    """
    mean = tensor.mean(dim=0, keepdim=True, dtype=torch.float64).to(tensor.dtype)
    change = f"a row for <mask> after the file's {tensor.size(0):,}, their mean: it is never read"
    return torch.cat([tensor, mean]), change


def fit_positions(tensor: Tensor, want: int, unused: int, origin: str, option: str) -> Tuple[Tensor, str]:
    """A position embedding cut to the length that is asked for.

    Args:
        tensor: (rows, C) of the file.
        want: rows that the model has.
        unused: rows before the first position.
        origin: option and path of the file, for messages.
        option: what sets the length.

    Raises:
        ValueError: the file has fewer.
    """
    if want > tensor.size(0):
        raise ValueError(
            f"{option} {want - unused}: {origin} has {tensor.size(0) - unused} learned positions; valid: at most that"
        )
    return tensor[:want], f"the first {want - unused} of {tensor.size(0) - unused} positions ({option})"


def explain(entries: int, rows: int, languages: Optional[Sequence[str]] = ()) -> str:
    """Where a difference between a dictionary and a file probably comes from; empty when nothing suggests itself.

    Args:
        entries: of the dictionary, with what the task adds to it.
        rows: of the file.
        languages: of the file, in order.
    """
    difference, count = abs(entries - rows), len(languages or ())
    listed = ",".join(languages or ())
    if difference == 1:
        if entries > rows:
            return "The one entry more is probably <mask>, which some tasks add and for which this file has no row"
        return "The one entry fewer is probably <mask>, which the file has as its last row"
    if count and difference in (count, count + 1):
        also = " and <mask>" if difference == count + 1 else ""
        if entries > rows:
            return f"The difference is the file's {count} languages{also}: they are probably counted twice in the dictionary"
        return (
            f"The difference is the file's {count} languages{also}, for which it has rows behind the pieces and the dictionary "
            f"no entries. Their order is {listed}; `python -m fairseq_plugins.checkpoints.dictionary` writes the whole dictionary"
        )
    padded = [f"{number:,}" for number in (entries, rows) if number % MULTIPLE == 0]
    if padded:
        return (
            f"{' and '.join(padded)} {'are multiples' if len(padded) > 1 else 'is a multiple'} of {MULTIPLE}, as of a dictionary "
            "that was padded with madeupword entries, perhaps after languages were added"
        )
    return ""
