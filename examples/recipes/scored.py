"""Subsets of a task that are scored or predicted, by its test files, which may lack labels."""

import csv
import json
from pathlib import Path
from typing import Any, List, Mapping, NamedTuple

LANG = "{lang}"
WHITE_SPACE = 0
"""Number of columns of files that white space separates, a word and its tag."""


class Subsets(NamedTuple):
    """Subsets for ``--valid-subset``, and a note on how they were chosen."""

    names: str
    note: str


def choose_subsets(task: str, data: Path, entry: Mapping[str, Any]) -> Subsets:
    """Return the test sets of a task if all of them have labels, else valid and test sets.

    Test sets without labels are predicted; then the valid sets are scored.

    Args:
        task: name, for the note.
        data: folder of the collection; where it has no file of the task, all languages are taken.
        entry: ``test`` and ``valid``, patterns of the files; ``languages``, those of the
            collection; ``columns``, those of a row with its label (default: two, separated by
            white space).
    """
    languages = entry["languages"].split(",")
    tests = [lang for lang in languages if _path(data, entry["test"], lang).is_file()]
    valid = [lang for lang in languages if _path(data, entry["valid"], lang).is_file()]
    if LANG not in entry["valid"]:
        valid = languages[:1]
    absent = [lang for lang in languages if lang not in tests] if tests else []
    tests, valid = tests or languages, valid or languages
    columns = entry.get("columns", WHITE_SPACE)
    labelled = [lang for lang in tests if has_labels(_path(data, entry["test"], lang), columns)]
    scored = [f"test.{lang}" for lang in tests]
    note = "scored on test"
    if len(labelled) < len(tests):
        scored = [f"valid.{lang}" for lang in valid] + scored
        note = "scored on valid, for test files have no labels and are predicted"
    note = f"{task}: {note}"
    if absent:
        note += f"; {len(tests)} of {len(languages)} languages, no file of {', '.join(absent)}"
    return Subsets(",".join(scored), note)


def _path(data: Path, pattern: str, language: str) -> Path:
    return data / pattern.replace(LANG, language)


def has_labels(path: Path, columns: int) -> bool:
    """Return True if a test file has labels: answers in JSON, else ``columns`` in its first row.

    A file that is not there counts as one with labels.
    """
    if not path.is_file():
        return True
    with open(path, encoding="utf-8", errors="replace", newline="") as file:
        if path.suffix == ".json":
            return _has_answers(json.load(file))
        first: List[str] = next(([line] for line in file if line.strip()), [""])
    if columns == WHITE_SPACE:
        separator = "\t" if "\t" in first[0] else None
        return len(first[0].split(separator)) > 1
    return len(next(csv.reader(first, delimiter="\t"), [])) >= columns


def _has_answers(content: Any) -> bool:
    paragraphs = [part for document in content["data"] for part in document["paragraphs"]]
    questions = [question for part in paragraphs for question in part["qas"]]
    answers = [answer for question in questions for answer in question.get("answers", ())]
    return any(answer["text"].strip() for answer in answers)
